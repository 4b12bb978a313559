//! The resume of a fom that came back: the saved visit, and the user's function for an operation that came back.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use crate::{
    fom::{Cause, Cold, Entry, Function, RunningFom, TransitionCause},
    operation::{At, Operation, Resumed},
    run::{
        run_loop::{Decided, Run},
        transition::cause_of,
    },
};

impl<O: Operation> Run<'_, O> {
    /// Restores the saved visit. Returns when the next attempt is due, if the fom waits for one.
    #[cold]
    pub(super) fn resume(&mut self) -> Option<u64> {
        let fom = self.fom;
        let saved = fom.cold().and_then(Cold::saved);
        let (left, tries, kept) = saved.map_or((None, 0, None), |saved| {
            (saved.left, saved.tries, saved.kept_deadline)
        });
        let since = fom.visit().since();
        self.instance
            .enter(fom, None, TransitionCause::Resumed, left);
        // The estimates of an adaptive phase must not count the time in which the program did not run.
        let came_back = fom.cold().is_some_and(|cold| cold.back.came_back);
        if came_back && self.instance.info().deadline().adaptive().is_none() {
            fom.visit().began(since);
        }
        let timing = fom.timing()?;
        timing.set_attempt(tries);
        if let Some((at, owner)) = kept {
            timing.keep_again(fom, at, owner);
        }
        // An overdue fom is late at once, before any function of the phase runs again.
        let now = fom.env().clock.nanos();
        timing.fired(fom, now);
        fom.journaled()?.retry_at(fom)
    }

    /// Calls the user's function for an operation that came back, before this function. Returns `Some` if the call
    /// failed.
    #[cold]
    pub(super) fn call_resumed(&mut self, before: Function) -> Option<Decided<O>> {
        let fom = self.fom;
        if self.instance.info().is_end() {
            return None;
        }
        let failed = match self.resumed() {
            Ok(Ok(())) => return None,
            Ok(Err(error)) => self.instance.erred(fom, Cause::Error(error), before),
            Err(panic) => self.instance.fails(fom, cause_of(fom, panic)),
        };
        // It is now unknown when the fom asks for its gate.
        fom.env().has_asked(fom.id());
        Some(failed)
    }

    /// Like [`call_resumed`](Self::call_resumed), if the fom still owes that call.
    pub(super) fn resume_again(&mut self, before: Function) -> Option<Decided<O>> {
        if self.fom.cold().is_some_and(|cold| cold.retry.owes_resume()) {
            self.call_resumed(before)
        } else {
            None
        }
    }

    /// Calls the user's function for an operation that came back.
    fn resumed(&mut self) -> Result<Resumed<O>, Box<dyn Any + Send>> {
        let Self { instance, fom } = self;
        let at = At {
            phase: &mut instance.phase,
            fom: RunningFom::new(fom),
            entry: Entry::Enter,
        };
        let operation = &mut instance.operation;
        let done = catch_unwind(AssertUnwindSafe(|| operation.resumed(at)));
        // A call that failed is due again before the next attempt.
        if let Some(cold) = fom.cold() {
            cold.retry.set_owes_resume(matches!(done, Ok(Err(_))));
        }
        done
    }
}
