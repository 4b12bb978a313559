//! The decisions of the transition protocol, without their effects.
//!
//! [`next`] is a pure function. Its input is what happened to a fom, with all that matters for the decision. Its output
//! is the next action. `run_loop.rs` carries the action out, and asks again with what happened then. So the table of all
//! cases is the `match` in [`next`], and its tests need no runtime.
//!
//! | after | comes |
//! | --- | --- |
//! | [`Step::New`]: the fom has not begun | `Begin`, or `AwaitTurn`, or `Interrupt`, or `Fail` |
//! | [`Step::Turn`]: it must wait for its turn | `Commit` if the wait must be durable, else `Wait` |
//! | [`Step::Made`]: a function chose what comes | `Commit` if the step must be durable, else `Proceed` |
//! | [`Step::Written`]: the step is in the journal's batch | `Wait` for the commit, or `Proceed` |
//! | [`Step::Visit`]: between two functions | `Call`, or first `Wait`, `Interrupt`, `Pause`, `Again` or `Finish` |
//! | [`Step::Error`]: a function returned an error | another attempt (`Commit` or `Proceed`), `Call` of another function, or `Fail` |
//! | [`Step::Failure`]: the phase cannot go on | `Call` of the way out, or `Fail` |
//! | [`Step::Interrupted`]: the visit is late, or the fom must end | `Call` of another function, `OpenAgain`, or `Fail` |
//!
//! A usual transition is `Call`, `Made`, `Proceed`, `Visit`, and the next `Call`. In a journal it is `Call`, `Made`,
//! `Commit`, `Written`, `Wait`; and after the commit `Written`, `Proceed`, `Visit`, `Call`.

use crate::fom::{Entry, Function, Interrupt, MayBegin, Then, WaitingFor};

/// What happened to a fom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A run begins, and the fom has not begun.
    New {
        interrupt: Option<Interrupt>,
        may_begin: MayBegin,
    },
    /// The fom must wait for this before it begins. `records`: the wait must be written down.
    Turn { what: WaitingFor, records: bool },
    /// The fom begins, or a function of its phase returned. `durable`: the step must be committed.
    Made { then: Then, durable: bool },
    /// The step is written. `waits`: the fom must wait until the step is committed.
    Written { then: Then, waits: bool },
    /// The fom is in a phase, and no function runs.
    Visit(Visit),
    /// A function returned an error.
    Error {
        function: Function,
        /// When the next attempt is due. `None` if the phase has no attempts left.
        retry: Option<u64>,
        /// Whether the phase has a function for the case that no attempts are left.
        exhausted: bool,
        /// Whether the phase has a function for its failure that has not run yet.
        way_out: bool,
        durable: bool,
    },
    /// The fom cannot go on in its phase. `of_phase`: the phase itself failed.
    Failure { of_phase: bool, way_out: bool },
    /// The fom must end, or its visit is late.
    Interrupted {
        by: Interrupt,
        /// Whether the phase has a function for late visits.
        late: bool,
        /// Whether the fom held its gate before a restart, and the gate is not open again.
        held: bool,
        /// Whether the phase has a function for its failure that has not run yet, and that handles this interrupt.
        way_out: bool,
    },
}

/// A fom in a phase, between two functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Visit {
    /// The last step is not committed yet.
    pub(super) committing: bool,
    /// The phase is an end.
    pub(super) end: bool,
    pub(super) interrupt: Option<Interrupt>,
    /// The phase failed outside the run loop, and has a function for that.
    pub(super) failed: bool,
    /// When the next attempt is due, if the fom waits for one.
    pub(super) retry: Option<u64>,
    /// The budget of the run is used up.
    pub(super) spent: bool,
}

impl Visit {
    /// A visit where the phase's own function comes next.
    pub(super) const CALM: Self = Self {
        committing: false,
        end: false,
        interrupt: None,
        failed: false,
        retry: None,
        spent: false,
    };
}

/// The next action of a fom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Begin the first visit.
    Begin,
    /// Write the step to the journal.
    Commit(Then),
    /// Go on after a step: enter the phase, or stay in it.
    Proceed(Then),
    /// End the wait of the function that was interrupted.
    Interrupt(Interrupt),
    /// Wait for this before it begins, in the journal if need be.
    AwaitTurn(WaitingFor),
    /// Wait again for the gate that the fom held before a restart.
    OpenAgain,
    /// Wait until the next attempt is due.
    Pause(u64),
    /// Call this function of the phase.
    Call(Function),
    /// The fom fails. The caller of [`next`] has the cause.
    Fail,
    /// Wait until a wake.
    Wait(WaitingFor),
    /// Go to the tail of the run queue.
    Again,
    /// The fom has ended in an end phase.
    Finish,
}

/// Decides what a fom does next.
///
/// The fast paths inline this function. Each of them knows the kind of step, so the optimizer removes most of the
/// function. A build without optimization would keep all of it in each operation, so such a build calls it.
#[cfg_attr(not(debug_assertions), inline(always))]
#[rustfmt::skip] // One line for each row of the table.
pub(super) fn next(step: Step) -> Next {
    use Entry::{Enter, Exhausted, Failed, Late};
    use Interrupt::{Cancelled, Shutdown};

    match step {
        // A cancelled fom never begins, even if it is its turn.
        Step::New { interrupt: Some(by), .. } => Next::Interrupt(by),
        Step::New { may_begin: MayBegin::Waits(what), .. } => Next::AwaitTurn(what),
        Step::New { may_begin: MayBegin::Rejected(_), .. } => Next::Fail,
        Step::New { may_begin: MayBegin::Now, .. } => Next::Begin,
        Step::Turn { records: true, .. } => Next::Commit(Then::Wait),
        Step::Turn { what, .. } => Next::Wait(what),

        Step::Made { then, durable: true } => Next::Commit(then),
        Step::Made { then, durable: false } => Next::Proceed(then),
        Step::Written { waits: true, .. } => Next::Wait(WaitingFor::Journal),
        Step::Written { then, waits: false } => Next::Proceed(then),

        // Nothing interrupts a commit: the fom must know first how its step ended. After an end phase is entered, a
        // cancel comes too late.
        Step::Visit(Visit { committing: true, .. }) => Next::Wait(WaitingFor::Journal),
        Step::Visit(Visit { end: true, .. }) => Next::Finish,
        Step::Visit(Visit { interrupt: Some(by), .. }) => Next::Interrupt(by),
        Step::Visit(Visit { failed: true, .. }) => Next::Call(Failed),
        Step::Visit(Visit { retry: Some(until), .. }) => Next::Pause(until),
        Step::Visit(Visit { spent: true, .. }) => Next::Again,
        Step::Visit(_) => Next::Call(Enter),

        // Only the phase's own function is tried again. Another attempt of the late function would be one more visit
        // without a deadline.
        Step::Error { function: Enter, retry: Some(until), durable: true, .. } => Next::Commit(Then::Retry(until)),
        Step::Error { function: Enter, retry: Some(until), .. } => Next::Proceed(Then::Retry(until)),
        Step::Error { function: Enter, exhausted: true, .. } => Next::Call(Exhausted),
        Step::Error { way_out: true, .. } => Next::Call(Failed),
        Step::Error { .. } => Next::Fail,

        Step::Failure { of_phase: true, way_out: true } => Next::Call(Failed),
        Step::Failure { .. } => Next::Fail,

        Step::Interrupted { by: Shutdown, .. } => Next::Fail,
        Step::Interrupted { by: Cancelled, way_out: true, .. } => Next::Call(Failed),
        Step::Interrupted { by: Cancelled, .. } => Next::Fail,
        // First the gate is open again, as it would be without a restart.
        Step::Interrupted { late: true, held: true, .. } => Next::OpenAgain,
        Step::Interrupted { late: true, .. } => Next::Call(Late),
        Step::Interrupted { way_out: true, .. } => Next::Call(Failed),
        Step::Interrupted { .. } => Next::Fail,
    }
}

/// Like [`next`], for steps that are rare. It is compiled once, and not with each operation.
#[inline(never)]
pub(super) fn next_cold(step: Step) -> Next {
    next(step)
}

#[cfg(all(test, not(fom_shuttle)))]
mod tests;
