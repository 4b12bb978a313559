//! Runs an operation at once, on the thread that holds the core, in the turn of a part.
//!
//! Most such foms end there: they are in no inbox and in no run queue. The part hears of the others twice, when they
//! leave the turn and when they end.

use crate::{
    fom::{Cold, NewFom, PartTicket, Priority, Progress},
    locality::{AnyPart, Core, Home, PartId, context, parts::Running},
    operation::{Form, Operation},
    typed::{FirstRun, Seed},
};

/// What became of an operation that a part ran at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Ran {
    /// The fom has ended, in its turn.
    Ended {
        /// The time that it took, in nanoseconds.
        nanos: u64,
    },
    /// The fom waits, has used up its budget, or was in a blocking section while another thread had the locality. The
    /// part was told so by [`goes_on`](crate::extension::Part::goes_on). The fom may have ended since.
    GoesOn,
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
    let home = &held.as_ref().expect("a turn has the core").home;
    // These functions are user code if the operation is written by hand. So they run while the turn has the core.
    let phase = O::start();
    let phase_index = O::index(O::kind(&phase));
    let cold = if home.env().is_plain() {
        None
    } else {
        cold(home)
    };
    let mut core = held.take().expect("a turn has the core");
    core.begin_run();
    let before = core.now();
    if !counted {
        core.home.counts.one_born();
    }
    let birth = NewFom {
        id: core.one_numbered(),
        home: core.home.index,
        priority: Priority::Normal,
        now: before,
        phase: phase_index,
        settled: true,
        resumed: false,
        cold,
        wanted: false,
        ready: true,
    };
    let inside = &mut *core;
    let launched = O::Form::build(Seed {
        stocks: &mut inside.hand.stocks,
        env: inside.home.env(),
        birth,
        operation: || operation,
        phase,
    });
    let resident = launched.resident;
    let fom = resident.as_ptr();
    core.parts.running = Some(Running {
        fom,
        part: id.place(),
    });
    // SAFETY: the fom of `O` was just made and is ready. `around` puts it into Running and lays the core down.
    let first = unsafe { FirstRun::<O>::new(&resident) };
    let end = core.record_run(&resident);
    let (mut core, served) = context::around(core, fom, || O::Form::build(first));
    core.record_run_end(end);
    let nanos = core.now().saturating_sub(before);
    core.parts.uncounted += u64::from(served.uncounted);
    let stayed = (core.parts.running).is_some_and(|running| running.fom == fom);
    core.parts.running = None;
    let ended = served.progress == Progress::Finished;
    if !ended {
        core.after_run(Some(resident), served.progress);
    }
    core.pause_when_asked();
    let core = held.insert(core);
    if ended && stayed {
        return Ran::Ended { nanos };
    }
    // After the core is back in its turn: the part may panic.
    if stayed && let Some(part) = core.parts.get(id) {
        let (part, number) = (id.place(), part.goes_on(nanos));
        // SAFETY: the fom has not ended, because only a thread that has the core of its home ends it.
        unsafe { fom.as_ref() }
            .ticket()
            .set_part(PartTicket { part, number });
    }
    Ran::GoesOn
}
