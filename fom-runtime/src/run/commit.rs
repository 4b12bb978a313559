//! The transitions of a fom that the journal keeps. Listeners hear of a transition only after its commit, and the fom
//! enters the next phase only then.

use std::{
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
};

use crate::{
    fom::{
        Cause, Cold, DurabilityError, Entry, Header, Then,
        durability::{Answer, Content, KeptFom, KeptStep, SavedTiming, Written},
        flight::{Kind, record_commit},
        hand,
    },
    operation::{Durability, Operation, kept_codec},
    run::{
        next::{Next, Step, Visit, next_cold},
        run_loop::Decided,
        transition::Instance,
    },
    snapshot::{Snapshot, SnapshotError},
    typed::Typed,
};

/// Hands the last step over, so that the fom releases its key without waiting for that step. If the next fom with
/// the key runs in another locality, its steps enter the journal after that step.
#[cold]
pub(super) fn hand_over_end(fom: &Header) {
    if fom.turn().is_kept() && fom.env().homes.len() > 1 {
        crate::locality::with_core(|core| core.pause_before_others());
    }
}

/// Operation and phase of a fom, to be written.
struct Body<'a, O: Operation> {
    instance: &'a Instance<O>,
    fom: &'a Typed<O>,
}

impl<O: Operation> Content for Body<'_, O> {
    fn write(&self, out: &mut Vec<u8>) -> Result<(), SnapshotError> {
        let Some(codec) = kept_codec::<O>() else {
            return Ok(());
        };
        let begin = out.len();
        let Instance { operation, phase } = self.instance;
        (codec.save_body)(operation, phase, out)?;
        if const { O::KEEPS_UNKNOWN } {
            self.fom.put_back_unread(out, begin);
        }
        Ok(())
    }

    fn snapshot(&self) -> Result<Snapshot, String> {
        self.fom
            .saved(&self.instance.operation, &self.instance.phase)
    }
}

/// Operation and phase in saved form, as they were when the function of the phase took its data.
struct Given<'a>(&'a [u8]);

impl Content for Given<'_> {
    fn write(&self, out: &mut Vec<u8>) -> Result<(), SnapshotError> {
        out.extend_from_slice(self.0);
        Ok(())
    }

    fn snapshot(&self) -> Result<Snapshot, String> {
        Err("the function of its phase has taken the data".to_owned())
    }
}

/// Returns whether the fom must be committed before its first phase, because it is kept in the journal. A fom that came
/// through an outbox is in the journal already. It begins at once, unless another fom with its key may precede it after
/// a restart.
#[inline]
pub(super) fn is_begin_durable<O: Operation>(fom: &Typed<O>) -> bool {
    fom.journaled().is_some_and(|kept| kept.begin(fom))
}

/// Goes back to the phase that the fom has left: it has failed.
#[cold]
fn statement_failed<O: Operation>(
    instance: &mut Instance<O>,
    fom: &Typed<O>,
    then: Then,
    error: DurabilityError,
) -> Decided<O> {
    let left = fom.outbox().with(|outbox| outbox.take_phase()).flatten();
    if let Some(left) = left.and_then(|left| left.downcast().ok()) {
        instance.phase = *left;
    }
    let function = match then {
        Then::Enter { by, .. } => by,
        _ => Entry::Enter,
    };
    instance.erred(fom, Cause::Statement(error), function)
}

/// Returns whether the fom still holds a gate after this step. `None` if no phase of its machine has a gate.
fn keeps_gate<O: Operation>(fom: &Typed<O>, kept: &dyn KeptFom, then: Then) -> Option<bool> {
    if !const { O::GRAPH.needs().gates() } {
        return None;
    }
    let retries = matches!(then, Then::Retry(_));
    // A fom that held its gate before a restart, and failed before the gate was open again, must still go first.
    let held = fom.gate().is_held() || retries && kept.held_gate();
    if !retries && let Some(cold) = fom.cold() {
        cold.back.forget_held_gate();
    }
    Some(held)
}

impl<O: Operation> Instance<O> {
    /// Called before a function of the phase runs. The phase's own function may take the data of a fom that is kept. The
    /// saved form then stays beside the fom, so that the journal can keep a failure with its data.
    #[inline(always)]
    pub(super) fn give_data(&self, fom: &Typed<O>, is_own: bool) {
        if const { O::GRAPH.needs().taken_data() && O::CODEC.is_some() && O::KEEPS_FAILED }
            && is_own
            && self.info().saved.taken
            && fom.is_journaled()
        {
            self.keep_given(fom);
        }
    }

    #[cold]
    fn keep_given(&self, fom: &Typed<O>) {
        let mut given = Vec::new();
        let body = Body {
            instance: self,
            fom,
        };
        let written = catch_unwind(AssertUnwindSafe(|| body.write(&mut given)));
        if !matches!(written, Ok(Ok(()))) {
            // The entry that keeps a failure then says that the data are gone.
            given.clear();
        }
        *fom.cold_made().rare_made().given.lock() = given;
    }

    /// Writes down that the fom fails.
    #[cold]
    pub(super) fn commit_failure(&self, fom: &Typed<O>, cause: &Cause<O::Error>) {
        let phase = self.visited(fom);
        let name = phase.name();
        if !phase.saved.taken || self.index() == self.visited_index(fom) {
            let body = Body {
                instance: self,
                fom,
            };
            return fom.commit_failure(name, cause, Some(&body));
        }
        let rare = fom.cold().and_then(|cold| cold.rare());
        let given = rare.map_or_else(Vec::new, |rare| mem::take(&mut *rare.given.lock()));
        let content = Given(&given);
        let content: &dyn Content = &content;
        fom.commit_failure(name, cause, Some(content).filter(|_| !given.is_empty()));
    }

    /// Writes down the current state of the fom, to be committed.
    #[inline(never)]
    pub(super) fn commit(&mut self, fom: &Typed<O>, then: Then) -> Decided<O> {
        let Some(kept) = fom.journaled() else {
            return Ok(Next::Proceed(then));
        };
        let ends = self.info().is_end();
        if ends && !kept.is_recorded() {
            // The journal has no record of it.
            return Ok(Next::Proceed(then));
        }
        if const { O::KEEPS_UNKNOWN } && matches!(then, Then::Enter { .. }) {
            fom.leave_unread_phase();
        }
        let was_there = matches!(then, Then::Begin { .. }) && kept.is_recorded();
        let mut timing = self.timing_after(fom, then);
        let mut step = KeptStep {
            then,
            waits: O::DURABILITY == Durability::Sync || was_there,
            holds_gate: keeps_gate(fom, kept, then).map(|held| held && self.info().is_gated()),
            timing: timing.as_mut(),
            since: match then {
                Then::Enter { .. } | Then::Begin { resumed: false } | Then::Wait => {
                    hand::now(fom.env())
                }
                _ => fom.visit().since(),
            },
            ends,
            content: &Body {
                instance: self,
                fom,
            },
        };
        let waits = match kept.step(fom, &mut step) {
            Written::Now => false,
            Written::Later => true,
            Written::Refused(error) => {
                fom.outbox().discard();
                return Err(Box::new(Cause::NotSaved(error)));
            }
        };
        if fom.env().hooks.are_recorded() {
            record_commit(fom, Kind::CommitBegins);
        }
        self.run(fom).after_step(Step::Written { then, waits })
    }

    /// Returns the attempts and deadlines after this step.
    fn timing_after(&self, fom: &Typed<O>, then: Then) -> Option<SavedTiming> {
        let timing = fom.timing()?;
        let (attempt, tried, deadlines) = match then {
            Then::Begin { .. } | Then::Enter { .. } => {
                let resumed = matches!(then, Then::Begin { resumed: true });
                let saved = fom.cold().and_then(Cold::saved);
                let left = saved.and_then(|saved| saved.left).filter(|_| resumed);
                let left = left.or_else(|| self.asked_time(fom));
                let now = fom.env().clock.nanos();
                let deadlines = timing.preview(fom, self.index(), now, left);
                (0, Vec::new(), deadlines)
            }
            Then::Wait | Then::Stay | Then::Retry(_) | Then::Fail => {
                (timing.attempt(), fom.visit().tried(), timing.deadlines())
            }
        };
        Some(SavedTiming {
            attempt,
            tried,
            due: deadlines.own,
            kept: deadlines
                .kept
                .map(|(at, owner)| (at, O::GRAPH.phases()[owner].name())),
        })
    }

    /// Decides after a step that was written down to be committed.
    pub(super) fn answered(
        &mut self,
        fom: &Typed<O>,
        kept: &dyn KeptFom,
        answer: Answer,
    ) -> Decided<O> {
        if fom.env().hooks.are_recorded() && !matches!(answer, Answer::Pending) {
            record_commit(fom, Kind::CommitEnds);
        }
        match answer {
            Answer::Pending => Ok(next_cold(Step::Visit(Visit {
                committing: true,
                ..Visit::CALM
            }))),
            Answer::Committed(then) => self
                .run(fom)
                .after_step(Step::Written { then, waits: false }),
            Answer::StatementFailed(then, error) => statement_failed(self, fom, then, error),
            Answer::Failed(error) => {
                let body = Body {
                    instance: self,
                    fom,
                };
                kept.keep_step(fom, &error, self.info().is_end(), &body);
                Err(Box::new(fom.not_committed(error)))
            }
        }
    }
}
