//! Runs an operation at once, on the thread that holds the core, in the turn of a part.
//!
//! Most such foms end there: they are in no inbox and in no run queue. The part hears of the others twice, when they
//! leave the turn and when they end.

use std::time::Duration;

use crate::{
    fom::{Cold, Header, Launch, NewFom, PartTicket, Priority, Progress, Resident, Seed},
    locality::{AnyPart, Core, Home, PartId, context},
    operation::Operation,
};

/// What became of an operation that a part ran at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Ran {
    /// The fom has ended, after this time.
    Ended(Duration),
    /// The fom waits, has used up its budget, or was in a blocking section while the part had another turn. The part
    /// was told so by [`goes_on`](crate::extension::Part::goes_on).
    GoesOn,
}

/// Tells the part of a fom that has left its turn.
#[cold]
fn goes_on<P: AnyPart>(core: &mut Core, id: PartId<P>, fom: &Header, took: Duration) {
    let home = core.home.clone();
    home.fenced("a part of", || {
        if let Some(part) = core.parts.get(id) {
            let number = part.goes_on(took);
            let part = id.place();
            fom.set_part(PartTicket { part, number });
        }
    });
}

/// Tells the part of a fom of its turn that is in a blocking section, if there is one.
#[inline]
pub(crate) fn tell_away<P: AnyPart>(core: &mut Core, id: PartId<P>) {
    let runs = core.parts.runs(id.place());
    if let Some(fom) = runs.and_then(|runs| runs.running.take()) {
        // SAFETY: a fom that is noted as running has not ended.
        goes_on(core, id, unsafe { fom.as_ref() }, Duration::ZERO);
    }
}

/// Makes a fom of the operation, and runs it once. `counted` says whether the fom is already counted as in flight.
#[inline]
pub(crate) fn run_here<O: Operation, P: AnyPart>(
    held: &mut Option<Box<Core>>,
    id: PartId<P>,
    operation: O,
    counted: bool,
    cold: impl FnOnce(&Home) -> Option<Box<Cold>>,
) -> Ran {
    let mut core = held.take().expect("a turn has the core");
    core.begin_run();
    let before = core.now();
    let phase = O::start();
    let fom_id = if counted {
        core.one_numbered()
    } else {
        core.one_born().0
    };
    let birth = NewFom {
        id: fom_id,
        home: core.home.index,
        priority: Priority::Normal,
        now: before,
        phase: O::index(O::kind(&phase)),
        settled: true,
        resumed: false,
        cold: if core.home.shared().is_plain() {
            None
        } else {
            cold(&core.home)
        },
        wanted: false,
        ready: true,
    };
    let inside = &mut *core;
    let launched = O::Form::launch(Seed {
        stocks: &mut inside.stocks,
        shared: inside.home.shared(),
        birth,
        operation,
        phase,
    });
    let fom = launched.0;
    if let Some(runs) = core.parts.runs(id.place()) {
        runs.running = Some(fom);
    }
    // SAFETY: the fom was just made and is ready. `around` puts it into Running and lays the core down.
    let (mut core, served) = context::around(core, fom, || unsafe { O::Form::serve(&launched) });
    let took = Duration::from_nanos(core.now().saturating_sub(before));
    let mut stayed = false;
    match core.parts.runs(id.place()) {
        Some(runs) => {
            runs.uncounted += u64::from(served.uncounted);
            stayed = runs.running.take_if(|running| *running == fom).is_some();
        }
        None => core.home.counts.given_away(served.uncounted.into()),
    }
    let ended = served.progress == Progress::Finished;
    if !ended {
        // SAFETY: the fom has not ended, and this is the one resident reference.
        let fom = unsafe { Resident::new(fom) };
        if stayed {
            goes_on(&mut core, id, &fom, took);
        }
        core.after_run(Some(fom), served.progress);
    }
    // Another thread may have run a fom of this part that is in a blocking section now.
    tell_away(&mut core, id);
    core.pause_when_asked();
    *held = Some(core);
    if ended && stayed {
        Ran::Ended(took)
    } else {
        Ran::GoesOn
    }
}
