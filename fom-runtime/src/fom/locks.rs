//! The locks that phases declare. They are granted before the phase function runs, and kept as long as later phases
//! name them.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    task::{Poll, Waker},
};

use crate::{
    cx::Cx,
    fom::{
        Cause, Header, Interrupt, Typed, WaitingFor,
        next::Next,
        reference,
        run::Decided,
        transition::{Instance, cause_of},
    },
    operation::{Entry, Operation},
};

impl<O: Operation> Instance<O> {
    /// Takes the locks of the current phase, unless the fom has them. The phase function runs only when this is
    /// ready. Any other wake leads back to this function.
    pub(super) fn poll_locks(
        &mut self,
        fom: &Typed<O>,
        waker: &Waker,
    ) -> Poll<Result<(), Cause<O::Error>>> {
        if !self.info().holds_locks() {
            return Poll::Ready(Ok(()));
        }
        let mut declared = fom.take_declared();
        if declared.is_new() {
            let name = || self.operation.locks(&self.phase, &Cx::new(fom));
            match catch_unwind(AssertUnwindSafe(name)) {
                Ok(set) => declared.begin(&set, fom),
                Err(panic) => {
                    fom.put_declared(declared);
                    return Poll::Ready(Err(cause_of(panic)));
                }
            }
        }
        let polled = declared.poll(waker);
        fom.put_declared(declared);
        fom.shared().env.has_asked(fom.id());
        polled.map_err(Cause::Locks)
    }

    /// Takes the locks again for a late fom that held them when the runtime ended. The late function runs when the
    /// fom has its locks, as it does without a restart.
    #[cold]
    pub(super) fn lock_again(&mut self, fom: &Typed<O>) -> Decided<O> {
        // The fom may know its locks only after its resume.
        if let Some(failed) = self.resume_again(fom, Entry::Late) {
            return failed;
        }
        match reference::with_waker(fom, |waker| self.poll_locks(fom, waker)) {
            Poll::Ready(Ok(())) => self.interrupted(fom, Interrupt::Late, false),
            Poll::Ready(Err(cause)) => self.fails(fom, cause),
            // The fom is still late when it wakes, and reaches this place again.
            Poll::Pending => Ok(Next::Wait(WaitingFor::Lock)),
        }
    }

    /// Enters a phase. Locks held for the last phase are kept at most until the locks of this phase are taken.
    pub(super) fn leave_locks(&self, fom: &Typed<O>) {
        if self.info().holds_locks() {
            let mut declared = fom.take_declared();
            declared.renew();
            fom.put_declared(declared);
        } else {
            fom.give_back_locks();
        }
    }
}

impl Header {
    /// Leaves the queue of the fom's next lock and gives back locks granted on the way, because the phase function
    /// does not run.
    pub(super) fn stop_taking_locks(&self) {
        let mut declared = self.take_declared();
        declared.stop();
        self.put_declared(declared);
        self.shared().env.has_asked(self.id());
    }

    /// Gives back all locks that the fom holds because a phase declares them.
    pub(super) fn give_back_locks(&self) {
        // The drop may wake any task, so it runs without a lock.
        drop(self.take_declared());
    }
}
