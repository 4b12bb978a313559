//! What is observed of foms in one life, and what must hold from one life to the next.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use fom_journal::EntryId;

use crate::{
    entry::entry_of,
    testing::boundaries::{Compare, End},
};
use fom_protocol::{panic_message, sync::Mutex};
use fom_runtime::{
    __durability::{self as seam, Registered, Restorer},
    FomId, Key, Operation,
    machine::{Durability, Graph, PhaseInfo},
    observe::{Interpose, Transition, TransitionCause, TransitionOf},
};

#[derive(Debug)]
pub(super) struct Seen {
    foms: BTreeMap<FomId, Fom>,
    /// For each phase of the trial's operation, how often its function was entered.
    entered: Vec<u32>,
    graph: &'static Graph,
    /// The fom of the trial.
    main: Option<FomId>,
    /// The outcome of the trial's fom.
    end: Option<Ended>,
}

/// What was observed of one fom.
#[derive(Debug)]
struct Fom {
    operation: &'static str,
    /// The phase that the fom came back in.
    resumed: Option<&'static str>,
    /// The current phase.
    phase: &'static str,
    ended: bool,
    /// Impossible transitions that were observed.
    wrong: Vec<String>,
}

#[derive(Debug)]
struct Ended {
    phase: String,
    compared: String,
    panicked: Option<String>,
}

impl Seen {
    pub(super) fn new(graph: &'static Graph) -> Self {
        Self {
            foms: BTreeMap::new(),
            entered: vec![0; graph.phases().len()],
            graph,
            main: None,
            end: None,
        }
    }

    fn hear(&mut self, transition: &Transition<'_>) {
        if let TransitionCause::Failed("shutdown" | "journal") = transition.cause() {
            // The runtime is abandoned, and the journal does not have this transition.
            return;
        }
        let to = transition.to().unwrap_or("the failed outcome");
        let ended = transition.to().is_none();
        let fom = self.foms.entry(transition.id()).or_insert_with(|| Fom {
            operation: transition.operation_type(),
            resumed: None,
            phase: to,
            ended,
            wrong: Vec::new(),
        });
        match transition.cause() {
            TransitionCause::Resumed => fom.resumed = Some(to),
            TransitionCause::Started => {}
            _ => {
                let from = transition.from().unwrap_or("nowhere");
                if from != fom.phase || fom.ended {
                    fom.wrong.push(format!(
                        "it left `{from}` for `{to}`, and was last heard of in `{}`",
                        fom.phase
                    ));
                }
            }
        }
        fom.phase = to;
        fom.ended = ended;
    }

    /// Returns the foms that were in flight, and their phases.
    pub(super) fn in_flight(&self) -> String {
        let foms: Vec<_> = self
            .foms
            .iter()
            .filter(|(_, fom)| !fom.ended && !self.is_end(fom))
            .map(|(id, fom)| format!("{} {id} in `{}`", fom.operation, fom.phase))
            .collect();
        if foms.is_empty() {
            "nothing in flight".to_owned()
        } else {
            foms.join(", ")
        }
    }

    fn is_end(&self, fom: &Fom) -> bool {
        let is = |phase: &&PhaseInfo| phase.name() == fom.phase;
        let graph = match fom.operation == self.graph.operation() {
            true => Some(self.graph),
            false => known(fom.operation).map(Restorer::graph),
        };
        graph
            .and_then(|graph| graph.phases().iter().find(is))
            .is_some_and(fom_runtime::machine::PhaseInfo::is_end)
    }

    /// Returns the foms that came back although all had ended, except for foms that need not end.
    pub(super) fn came_back(&self, staying: &[&str]) -> Vec<String> {
        let back = |(id, fom): (&FomId, &Fom)| {
            format!(
                "all had ended, and {} {id} came back in `{}`",
                fom.operation, fom.phase
            )
        };
        let left = |(_, fom): &(&FomId, &Fom)| !staying.contains(&fom.operation);
        self.foms.iter().filter(left).map(back).collect()
    }
}

/// Returns the differences of the life after the crash to the life before it, and to the life without a crash.
pub(super) fn differs(
    graph: &'static Graph,
    first: &Seen,
    unheard: &BTreeSet<EntryId>,
    second: &Seen,
    undisturbed: &Seen,
) -> Vec<String> {
    let mut found = Vec::new();
    for (id, fom) in &first.foms {
        let name = format!("{} {id}", fom.operation);
        found.extend(fom.wrong.iter().map(|wrong| format!("{name}: {wrong}")));
        let over = fom.ended || first.is_end(fom);
        // A lazy fom may lose its last steps, and make them again.
        let strict = !is_lazy(fom.operation);
        match second.foms.get(id) {
            Some(_) if over && strict => found.push(format!("{name} had ended, and came back")),
            Some(back) => {
                found.extend(back.wrong.iter().map(|wrong| format!("{name}: {wrong}")));
                if strict && back.resumed != Some(fom.phase) && !unheard.contains(&entry_of(*id)) {
                    found.push(format!(
                        "{name} had committed `{}`, and came back in {}",
                        fom.phase,
                        back.resumed
                            .map_or("its start".to_owned(), |at| format!("`{at}`"))
                    ));
                }
            }
            // It is unknown here which foms of other types are kept.
            None if fom.operation == graph.operation()
                && !over
                && strict
                && !unheard.contains(&entry_of(*id)) =>
            {
                found.push(format!(
                    "{name} had committed `{}`, and did not come back",
                    fom.phase
                ));
            }
            None => {}
        }
    }
    for (index, phase) in graph.phases().iter().enumerate() {
        let here = |fom: &&Fom| {
            fom.operation == graph.operation() && !fom.ended && fom.phase == phase.name()
        };
        let again = first.foms.values().filter(here).count() as u32;
        // The late function counts as one more, and a fom that comes back late enters both functions.
        let again = again * (1 + u32::from(phase.deadline().is_late()));
        let most = undisturbed.entered[index] + again;
        let entered = first.entered[index] + second.entered[index];
        // An event that is sent again is taken again.
        if entered > most && phase.takes().is_empty() && !is_lazy(graph.operation()) {
            found.push(format!(
                "the function of `{}` was entered {entered} times, undisturbed {} times",
                phase.name(),
                undisturbed.entered[index]
            ));
        }
    }
    found
}

/// Whether a step of a lazy fom was lost. The fom makes the step again, and what it sends in the step is new.
pub(super) fn was_undone(first: &Seen, second: &Seen) -> bool {
    let undone = |(id, fom): (&FomId, &Fom)| match second.foms.get(id) {
        Some(back) => back.resumed != Some(fom.phase),
        None => !fom.ended && !first.is_end(fom),
    };
    let mut lazy = first.foms.iter().filter(|(_, fom)| is_lazy(fom.operation));
    lazy.any(undone)
}

fn is_lazy(operation: &str) -> bool {
    known(operation).is_some_and(|of| of.durability() == Durability::Lazy)
}

/// Returns the operation type with this name, unless it is generic.
fn known(operation: &str) -> Option<&'static dyn Restorer> {
    let mut all = seam::registered().map(Registered::restorer);
    all.find(|of| of.graph().operation() == operation)
}

/// Returns how the outcome differs from the outcome without a crash.
pub(super) fn ends_differ(
    first: &Seen,
    unheard: &BTreeSet<EntryId>,
    second: &Seen,
    undisturbed: &Seen,
) -> Vec<String> {
    let over = |id: FomId| unheard.contains(&entry_of(id)) && !second.foms.contains_key(&id);
    // The last end that was observed counts: a lazy fom may end again.
    let end = second.end.as_ref().or(first.end.as_ref());
    match (end, &undisturbed.end) {
        // The crash came between the commit of the end and the first listener.
        (None, _) if first.main.is_some_and(over) => Vec::new(),
        (None, _) => vec!["no caller heard of its end".to_owned()],
        (Some(_), None) => vec!["it ended, which it did not undisturbed".to_owned()],
        (Some(end), Some(undisturbed)) => end.differs(undisturbed),
    }
}

impl Ended {
    fn differs(&self, undisturbed: &Self) -> Vec<String> {
        if self.phase != undisturbed.phase {
            return vec![format!(
                "it ended in {}, undisturbed in {}",
                self.phase, undisturbed.phase
            )];
        }
        match &self.panicked {
            Some(message) => vec![format!("comparing panicked: {message}")],
            None if self.compared != undisturbed.compared => vec![format!(
                "it ended with {}, undisturbed with {}",
                self.compared, undisturbed.compared
            )],
            None => Vec::new(),
        }
    }
}

pub(super) type Hear = Box<dyn Fn(&Transition<'_>) + Send + Sync>;
pub(super) type HearEnd<O> = Box<dyn for<'a> Fn(&TransitionOf<'a, O>) + Send + Sync>;

pub(super) fn hear(seen: Arc<Mutex<Seen>>) -> Hear {
    Box::new(move |transition| seen.lock().hear(transition))
}

/// Records the outcome of the fom with this key.
pub(super) fn hear_end<O: Operation>(
    seen: Arc<Mutex<Seen>>,
    key: Key,
    compare: Compare<O>,
) -> HearEnd<O> {
    Box::new(move |transition| {
        let phase = transition.phase();
        let ends = |phase: &O::Phase| O::GRAPH.phases()[O::index(O::kind(phase))].is_end();
        let cause = transition.cause();
        let abandoned = matches!(cause, TransitionCause::Failed("shutdown" | "journal"));
        if transition.key() != Some(&key) || abandoned {
            return;
        }
        seen.lock().main = Some(transition.id());
        if phase.is_some_and(|at| !ends(at)) {
            return;
        }
        let end = End {
            operation: transition.operation(),
            phase,
        };
        let compared = catch_unwind(AssertUnwindSafe(|| compare(&end)));
        let (compared, panicked) = match compared {
            Ok(compared) => (compared, None),
            Err(panic) => (String::new(), Some(panic_message(panic))),
        };
        let phase = match transition.to() {
            Some(phase) => format!("`{phase}`"),
            None => format!("the failed outcome ({cause})"),
        };
        seen.lock().end = Some(Ended {
            phase,
            compared,
            panicked,
        });
    })
}

/// Counts how often the function of each phase is entered.
pub(super) struct Counting(pub(super) Arc<Mutex<Seen>>);

impl<O: Operation> Interpose<O> for Counting {
    fn before(&self, _: &mut O, phase: &mut O::Phase) -> Option<Result<O::Phase, O::Error>> {
        self.0.lock().entered[O::index(O::kind(phase))] += 1;
        None
    }
}
