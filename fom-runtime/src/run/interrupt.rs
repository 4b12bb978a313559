//! The interrupts of a fom: a shutdown, a cancel, a deadline that has passed.

use std::task::Poll;

use crate::{
    fom::{Cause, Entry, Interrupt, WaitingFor, durability::Answer, reference},
    operation::Operation,
    run::{
        next::{Next, Step, next_cold},
        run_loop::{Decided, Run},
    },
};

impl<O: Operation> Run<'_, O> {
    /// Decides after the fom was told to end, or its visit became late. `held`: the fom held its gate before a
    /// restart, and the gate is not open again.
    #[cold]
    pub(super) fn interrupted(&mut self, by: Interrupt, held: bool) -> Decided<O> {
        let fom = self.fom;
        if !fom.flags.has_begun()
            && let Some(kept) = fom.journaled()
            && let Some(answer @ (Answer::Pending | Answer::Failed(_))) = kept.take_answer()
        {
            // It is being written down that the fom waits. First the fom must know how that ended.
            return self.instance.answered(fom, kept, answer);
        }
        let decided = next_cold(Step::Interrupted {
            by,
            late: self.instance.visited(fom).deadline().is_late(),
            held: const { O::GRAPH.needs().gates() } && held,
            way_out: self.instance.has_way_out(fom) && self.is_handled(by),
        });
        if decided == Next::OpenAgain {
            return Ok(decided);
        }
        if const { O::GRAPH.needs().gates() } {
            fom.gate().stop();
        }
        match by {
            Interrupt::Shutdown => {
                let cause = fom.env().end_cause();
                self.instance.fails_unless(fom, decided, cause)
            }
            Interrupt::Cancelled => {
                if decided != Next::Fail {
                    fom.hear_cancel();
                    if let Some(kept) = fom.journaled() {
                        kept.hear_cancel();
                    }
                }
                self.instance.fails_unless(fom, decided, Cause::Cancelled)
            }
            Interrupt::Late => {
                let armed_in = self.leave_late();
                if decided != Next::Call(Entry::Late) {
                    return self
                        .instance
                        .fails_unless(fom, decided, Cause::Late { armed_in });
                }
                if let Some(failed) = self.resume_again(Entry::Late) {
                    return failed;
                }
                if let Some(kept) = fom.journaled() {
                    kept.enter(Entry::Late);
                }
                Ok(decided)
            }
        }
    }

    /// Returns whether the way out of the phase is one for this interrupt.
    fn is_handled(&self, by: Interrupt) -> bool {
        let fom = self.fom;
        let hears = self.instance.visited(fom).hears_cancel();
        by != Interrupt::Cancelled || hears && fom.flags.has_begun() && !fom.token.is_aborted()
    }

    /// Acknowledges that the visit is late. Returns the phase with the deadline that passed.
    fn leave_late(&self) -> &'static str {
        let fom = self.fom;
        let Some(timing) = fom.timing() else {
            unreachable!("late without a deadline")
        };
        let armed_in = timing.late_of(fom);
        timing.clear_late(fom, fom.env().clock.nanos());
        // The phase function did not return, so its outbox is dropped. The late function has an outbox of its own.
        fom.outbox().discard();
        if !self.instance.visited(fom).takes().is_empty() {
            // After a restart the fom is late at once, and takes no event before.
            fom.visit().leave_event();
        }
        armed_in
    }

    /// Waits for the gate again for a late fom that held its gate when the runtime ended. The late function runs when
    /// the gate is open, as it does without a restart.
    #[cold]
    pub(super) fn open_again(&mut self) -> Decided<O> {
        let fom = self.fom;
        // The fom may know its gate only after its resume.
        if let Some(failed) = self.resume_again(Entry::Late) {
            return failed;
        }
        fom.waiting.set(WaitingFor::Nothing);
        match reference::with_waker(fom, |waker| self.instance.poll_gate(fom, waker)) {
            Poll::Ready(Ok(())) => self.interrupted(Interrupt::Late, false),
            Poll::Ready(Err(cause)) => self.instance.fails(fom, cause),
            // The fom is still late when it wakes, and reaches this place again.
            Poll::Pending => Ok(Next::Wait(fom.waiting.get())),
        }
    }
}
