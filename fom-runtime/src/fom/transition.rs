//! The transition protocol: what happens to a fom after a step. It is the same with and without a future.
//!
//! The order of one transition: The phase function has returned (the exit of the old phase). The deadlines of the old
//! visit are removed, and the deadlines of the new visit armed. Phase and time are stored. Listeners are told, then
//! waiters for the phase. Then the function of the new phase is entered.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    task::{Poll, Waker},
};

use crate::{
    cx::Cx,
    fom::{
        BlockError, Cause, Ended, Failure, Header, Interrupt, Outcome, RefusedReason, Rejected,
        Transition, TransitionCause, Typed, WaitingFor,
        durability::{Function, Then},
        key_wait::Gate,
    },
    graph::PhaseInfo,
    operation::{At, Entry, Next, Operation, Resumed, Stepped},
};
use fom_protocol::{nanos, panic_message};

/// The operation and phase of a fom between two steps.
pub(super) struct Instance<O: Operation> {
    pub(super) operation: O,
    pub(super) phase: O::Phase,
}

/// The result of a step.
pub(super) enum Verdict<O: Operation> {
    Stepped(Stepped<O>),
    Panicked(Box<dyn Any + Send>),
    Interrupted(Interrupt),
}

/// The state of a fom after a transition without hooks.
pub(super) enum Onward {
    Enter,
    /// The budget is used up.
    Spent,
    Ended,
}

/// The next action of a fom.
pub(super) enum After<O: Operation> {
    Enter,
    Late,
    /// The last attempt has failed.
    Exhausted,
    /// Wait for the next event in this visit.
    Stay,
    /// Wait until this time, and enter the phase again.
    Retry(u64),
    /// Wait until this step is committed.
    Commit,
    /// Wait until the fom may begin.
    Queue(WaitingFor),
    /// The phase has failed, and declares where to go then.
    WayOut,
    Ended,
    /// Boxed because failures are rare, which keeps the other variants at two words.
    Failed(Box<Cause<O::Error>>),
}

impl<O: Operation> After<O> {
    #[cold]
    pub(super) fn failed(cause: Cause<O::Error>) -> Self {
        Self::Failed(Box::new(cause))
    }
}

impl<O: Operation> Instance<O> {
    pub(super) fn new(operation: O, phase: O::Phase) -> Self {
        Self { operation, phase }
    }

    #[inline]
    pub(super) fn index(&self) -> usize {
        O::index(O::kind(&self.phase))
    }

    #[inline]
    pub(super) fn info(&self) -> &'static PhaseInfo {
        &O::GRAPH.phases()[self.index()]
    }

    /// Begins the first visit. A fom that was cancelled in the queue never begins it.
    #[inline]
    pub(super) fn begin(&mut self, fom: &Typed<O>) -> After<O> {
        // A shutdown may have looked for foms to wake before this fom was in any list. Then it has closed the runtime
        // before.
        if let Some(interrupt) = fom.interrupt() {
            return self.settle(fom, Verdict::Interrupted(interrupt));
        }
        if fom.cold().is_some()
            && let Some(after) = Self::gated(fom)
        {
            return after;
        }
        fom.set_begun();
        if let Some(first) = self.first_commit(fom) {
            return first;
        }
        if fom.is_resumed() {
            let then = self.resume(fom);
            if let Some(after) = self.call_resumed(fom, TransitionCause::Returned) {
                return after;
            }
            if !self.info().is_end() {
                return self.interrupted_or(fom, then);
            }
        } else {
            self.enter(fom, None, TransitionCause::Started, None);
        }
        if self.info().is_end() {
            After::Ended
        } else {
            After::Enter
        }
    }

    /// Returns the next action if the fom may not enter its first phase yet.
    #[cold]
    fn gated(fom: &Typed<O>) -> Option<After<O>> {
        match fom.gate() {
            Gate::Open => None,
            Gate::Waits(what) => Some(After::Queue(what)),
            Gate::Rejected(why) => Some(After::failed(match why {
                Rejected::Shed => Cause::Shed,
                Rejected::Stuck => Cause::Stuck,
                Rejected::Full => Cause::Refused(RefusedReason::KeyFull),
            })),
        }
    }

    /// Begins the first visit, in a runtime that keeps nothing and has no listeners.
    #[inline(always)]
    pub(super) fn begin_unheard(&mut self, fom: &Typed<O>) {
        fom.set_begun();
        let now = crate::locality::first_step(fom.shared());
        fom.enter(self.index(), now);
    }

    /// Restores the saved visit. Returns the next action: the phase, or the rest of the pause before it.
    #[cold]
    pub(super) fn resume(&mut self, fom: &Typed<O>) -> After<O> {
        let saved = fom.cold().and_then(|cold| cold.saved.as_deref());
        let (left, tries, kept) = saved.map_or((None, 0, None), |saved| {
            (saved.left, saved.tries, saved.kept_deadline)
        });
        self.enter(fom, None, TransitionCause::Resumed, left);
        if let Some(timing) = fom.timing() {
            timing.set_attempt(tries);
            if let Some((at, owner)) = kept {
                timing.keep_again(fom, at, owner);
            }
            // An overdue fom is late at once, before any function of the phase runs again.
            let now = fom.shared().env.clock.nanos();
            timing.fired(fom, now);
            if let Some(until) = fom.journaled().and_then(|kept| kept.retry_at(fom)) {
                return After::Retry(until);
            }
        }
        After::Enter
    }

    /// Calls the user's function for an operation that came back, before the function that has this cause. Returns
    /// `Some` if the call failed.
    #[cold]
    pub(super) fn call_resumed(
        &mut self,
        fom: &Typed<O>,
        before: TransitionCause,
    ) -> Option<After<O>> {
        if self.info().is_end() {
            return None;
        }
        let failed = match self.resumed(fom) {
            Ok(Ok(())) => return None,
            Ok(Err(error)) => self.erred(fom, error, before),
            Err(panic) => self.fails(fom, cause_of(panic)),
        };
        // It is now unknown when the fom asks for its gate.
        fom.shared().env.has_asked(fom.id());
        Some(failed)
    }

    /// Like [`call_resumed`](Self::call_resumed), if the fom still owes that call.
    pub(super) fn resume_again(
        &mut self,
        fom: &Typed<O>,
        before: TransitionCause,
    ) -> Option<After<O>> {
        if fom.owes_resume() {
            self.call_resumed(fom, before)
        } else {
            None
        }
    }

    /// Becomes ready when the next attempt is due. Uses the fom's own timer.
    #[cold]
    pub(super) fn poll_pause(
        &mut self,
        fom: &Typed<O>,
        until: u64,
        waker: &Waker,
    ) -> Poll<Result<(), Cause<O::Error>>> {
        let Some(timing) = fom.timing() else {
            unreachable!("a retry without a timer")
        };
        if fom.shared().env.clock.nanos() >= until {
            timing.retried(fom);
            return Poll::Ready(Ok(()));
        }
        timing.await_retry(fom, until);
        // A fom that came back holds its gate during the pause. It may know the gate only after `resume`.
        if const { O::GRAPH.has_gates() } && !fom.owes_resume() {
            match self.poll_gate(fom, waker) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(cause)) => {
                    timing.retried(fom);
                    return Poll::Ready(Err(cause));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        fom.set_waiting_for(WaitingFor::Retry);
        Poll::Pending
    }

    fn resumed(&mut self, fom: &Typed<O>) -> Result<Resumed<O>, Box<dyn Any + Send>> {
        let mut cx = Cx::new(fom);
        let at = At {
            phase: &mut self.phase,
            cx: &mut cx,
            entry: Entry::Enter,
        };
        let operation = &mut self.operation;
        let done = catch_unwind(AssertUnwindSafe(|| operation.resumed(at)));
        // A call that failed is due again before the next attempt.
        fom.set_owes_resume(matches!(done, Ok(Err(_))));
        done
    }

    /// Goes to the next phase. The caller has checked, after the step, that there are no hooks.
    #[inline(always)]
    pub(super) fn go_on(&mut self, fom: &Typed<O>, next: O::Phase) -> Onward {
        let from = self.index();
        self.phase = next;
        if const { O::GRAPH.has_gates() } {
            self.leave_gate(fom);
        }
        let (now, spent) = crate::locality::step(fom.shared());
        self.take_events(fom);
        if fom.is_noted() {
            self.go_on_noted(fom, from, now);
        } else {
            self.enter_unheard(fom, None, now);
        }
        if self.info().is_end() {
            Onward::Ended
        } else if spent {
            Onward::Spent
        } else {
            Onward::Enter
        }
    }

    #[cold]
    #[inline(never)]
    fn go_on_noted(&mut self, fom: &Typed<O>, from: usize, now: u64) {
        self.enter_noted(fom, Some(from), TransitionCause::Returned, None, now);
    }

    /// Waits for the next event in this visit, if there are no hooks. Returns `true` if the budget is used up.
    #[inline(always)]
    pub(super) fn stay(&mut self, fom: &Typed<O>) -> bool {
        // A step counts like a phase, so that a flood of events does not occupy the locality.
        let (_, spent) = crate::locality::step(fom.shared());
        if fom.is_noted() {
            fom.leave_event();
            fom.send_outbox();
        }
        spent
    }

    /// Enters the phase that the fom is in now.
    #[inline(always)]
    pub(super) fn enter(
        &mut self,
        fom: &Typed<O>,
        from: Option<usize>,
        cause: TransitionCause,
        left: Option<u64>,
    ) {
        if const { O::GRAPH.has_gates() } {
            self.leave_gate(fom);
        }
        let shared = fom.shared();
        let now = match from {
            Some(_) => crate::locality::step(shared).0,
            None => crate::locality::first_step(shared),
        };
        self.take_events(fom);
        if shared.env.hooks.is_any() || fom.is_noted() {
            self.enter_noted(fom, from, cause, left, now);
        } else {
            self.enter_unheard(fom, left, now);
        }
    }

    /// Begins to take the events of this phase.
    #[inline(always)]
    fn take_events(&self, fom: &Typed<O>) {
        if const { O::GRAPH.takes_events() } {
            fom.set_takes((!self.info().takes().is_empty()).then(|| O::kind(&self.phase)));
        }
    }

    /// Enters the phase without telling a listener. Most transitions have no listener and no deadline.
    #[inline(always)]
    fn enter_unheard(&self, fom: &Typed<O>, left: Option<u64>, now: u64) {
        if const { O::GRAPH.has_deadlines() } {
            self.enter_timed(fom, left, now);
        } else {
            fom.enter(self.index(), now);
        }
    }

    /// Enters the phase and arms its deadlines, without telling a listener. Returns the time of the transition.
    #[inline(never)]
    fn enter_timed(&self, fom: &Typed<O>, left: Option<u64>, mut now: u64) -> u64 {
        let index = self.index();
        if let Some(timing) = fom.timing()
            && (self.info().within().is_some() || left.is_some() || !timing.is_calm())
        {
            // Deadlines use the current time. Other uses get the time as of a few steps ago.
            now = crate::locality::look(fom.shared());
            timing.enter(fom, index, now, left);
        }
        fom.enter(index, now);
        now
    }

    #[inline(never)]
    fn enter_noted(
        &mut self,
        fom: &Typed<O>,
        from: Option<usize>,
        cause: TransitionCause,
        left: Option<u64>,
        mut now: u64,
    ) {
        let shared = fom.shared();
        let hooks = shared.env.hooks.active();
        let index = self.index();
        let info = self.info();
        let (before, tried) = (fom.since(), fom.attempt());
        // Listeners get the current time.
        if hooks.is_some() {
            now = crate::locality::look(shared);
        }
        now = self.enter_timed(fom, left, now);
        let has_more = fom.cold().is_some();
        if has_more {
            fom.remember(index, now);
            if cause != TransitionCause::Resumed {
                fom.forget_attempts();
            }
        }
        if let Some(hooks) = hooks {
            let from = from.map(|from| O::GRAPH.phases()[from].name());
            let stayed = now.saturating_sub(before);
            let transition =
                Transition::new(fom, from, Some(info.name()), cause, now, stayed).tried(tried);
            hooks.tell(&shared.env, &transition, &self.operation, Some(&self.phase));
        }
        if fom.marks.is_observed() {
            fom.arrived(index);
        }
        if has_more {
            fom.send_outbox();
        }
    }

    /// Returns the result of an interposer that replaces the step.
    #[inline]
    pub(super) fn before(&mut self, fom: &Typed<O>) -> Option<Verdict<O>> {
        if fom.shared().env.hooks.is_any() {
            self.interposed(fom)
        } else {
            None
        }
    }

    #[cold]
    fn interposed(&mut self, fom: &Typed<O>) -> Option<Verdict<O>> {
        let hooks = fom.shared().env.hooks.active()?;
        match hooks.before::<O>(&mut self.operation, &mut self.phase) {
            Ok(None) => None,
            Ok(Some(Ok(next))) => Some(Verdict::Stepped(Ok(Next::Go(next)))),
            Ok(Some(Err(error))) => Some(Verdict::Stepped(Err(error))),
            Err(panic) => Some(Verdict::Panicked(panic)),
        }
    }

    #[cold]
    fn after(
        &mut self,
        fom: &Typed<O>,
        stepped: Stepped<O>,
    ) -> Result<Stepped<O>, Cause<O::Error>> {
        let Some(hooks) = fom
            .shared()
            .env
            .hooks
            .active()
            .filter(|hooks| hooks.interposes::<O>())
        else {
            return Ok(stepped);
        };
        let result = match stepped {
            Ok(Next::Stay) => return Ok(stepped),
            Ok(Next::Go(next)) => Ok(next),
            Err(error) => Err(error),
        };
        let result = hooks
            .after::<O>(&mut self.operation, &mut self.phase, result)
            .map_err(|panic| Cause::Panicked(panic_message(panic)))?;
        // Only interposers can name a phase that is not a declared exit. All other exits are checked by their types.
        if let Ok(next) = &result {
            let to = O::index(O::kind(next));
            if !self
                .info()
                .exit_indexes()
                .iter()
                .any(|exit| usize::from(*exit) == to)
            {
                return Err(Cause::UndeclaredExit {
                    to: O::GRAPH.phases()[to].name(),
                });
            }
        }
        Ok(result.map(Next::Go))
    }

    pub(super) fn settle(&mut self, fom: &Typed<O>, verdict: Verdict<O>) -> After<O> {
        self.settle_as(fom, verdict, TransitionCause::Returned)
    }

    /// Like [`settle`](Self::settle), for the result of the function that ran for this reason.
    pub(super) fn settle_why(&mut self, fom: &Typed<O>, verdict: Verdict<O>, why: Why) -> After<O> {
        self.settle_as(fom, verdict, why.cause(fom))
    }

    #[inline]
    fn settle_as(
        &mut self,
        fom: &Typed<O>,
        verdict: Verdict<O>,
        cause: TransitionCause,
    ) -> After<O> {
        let stepped = match verdict {
            Verdict::Stepped(stepped) if !fom.shared().env.hooks.is_any() => stepped,
            Verdict::Stepped(stepped) if matches!(cause, TransitionCause::Failed(_)) => stepped,
            Verdict::Stepped(stepped) => match self.after(fom, stepped) {
                Ok(stepped) => stepped,
                Err(cause) => return self.fails(fom, cause),
            },
            Verdict::Panicked(panic) => return self.fails(fom, cause_of(panic)),
            Verdict::Interrupted(interrupt) => return self.interrupted(fom, interrupt),
        };
        match stepped {
            Ok(Next::Go(next)) => {
                let from = Some(self.index());
                self.phase = next;
                if fom.journaled().is_some() {
                    let from = from.map(|from| from as u8);
                    return self.commit(fom, Then::Enter { from, cause });
                }
                self.enter(fom, from, cause, None);
                if self.info().is_end() {
                    After::Ended
                } else {
                    After::Enter
                }
            }
            Ok(Next::Stay) => {
                if fom.journaled().is_some() {
                    crate::locality::step(fom.shared());
                    return self.commit(fom, Then::Stay);
                }
                self.stay(fom);
                After::Stay
            }
            Err(error) => self.erred(fom, error, cause),
        }
    }

    #[cold]
    fn interrupted(&mut self, fom: &Typed<O>, interrupt: Interrupt) -> After<O> {
        if const { O::GRAPH.has_gates() } {
            if matches!(interrupt, Interrupt::Late)
                && let Some(waits) = self.open_again(fom)
            {
                return waits;
            }
            fom.stop_gate();
        }
        match interrupt {
            Interrupt::Shutdown => After::failed(Cause::Shutdown),
            Interrupt::Cancelled => After::failed(Cause::Cancelled),
            Interrupt::Late => {
                let Some(timing) = fom.timing() else {
                    unreachable!("late without a deadline")
                };
                let armed_in = timing.late_of(fom);
                timing.clear_late(fom, fom.shared().env.clock.nanos());
                // The phase function did not return, so its outbox is dropped. The late function has an outbox of its
                // own.
                fom.drop_outbox();
                if !self.info().takes().is_empty() {
                    // After a restart the fom is late at once, and takes no event before.
                    fom.leave_event();
                }
                if self.info().is_late() {
                    if let Some(after) = self.resume_again(fom, TransitionCause::Late) {
                        return after;
                    }
                    if let Some(kept) = fom.journaled() {
                        kept.enter(Function::Late);
                    }
                    After::Late
                } else {
                    self.fails(fom, Cause::Late { armed_in })
                }
            }
        }
    }

    #[cold]
    pub(super) fn erred(
        &mut self,
        fom: &Typed<O>,
        error: O::Error,
        cause: TransitionCause,
    ) -> After<O> {
        fom.drop_outbox();
        // Another attempt of the late function would be one more visit without a deadline, so the visit fails at once.
        let own = cause == TransitionCause::Returned;
        match (self.info().retries(), fom.timing()) {
            (Some(retry), Some(timing)) if timing.attempt() < retry.times && own => {
                fom.failed_attempt(O::DESCRIBE, &error);
                let tries = timing.attempt();
                // The wait doubles from the shortest to the longest.
                let wait = nanos(retry.min)
                    .saturating_mul(1 << tries.min(32))
                    .min(nanos(retry.max));
                timing.set_attempt(tries + 1);
                let until = fom.shared().env.clock.nanos().saturating_add(wait);
                if fom.journaled().is_some() {
                    return self.commit(fom, Then::Retry(until));
                }
                if !self.info().takes().is_empty() {
                    // The next attempt takes another event.
                    fom.leave_event();
                }
                After::Retry(until)
            }
            (Some(_), _) if own && self.info().is_exhausted() => {
                fom.failed_attempt(O::DESCRIBE, &error);
                if let Some(kept) = fom.journaled() {
                    kept.enter(Function::Exhausted);
                }
                After::Exhausted
            }
            _ => self.fails(fom, Cause::Error(error)),
        }
    }

    pub(super) fn ended(self) -> Outcome<O> {
        Ok(Ended {
            phase: self.phase,
            operation: self.operation,
            untaken: Vec::new(),
        })
    }

    pub(super) fn failed(self, fom: &Typed<O>, cause: Cause<O::Error>) -> Failure<O> {
        let mut failure = Failure::new(cause, self.info().name(), Some(self.operation));
        failure.attempts = fom.causes();
        failure
    }
}

/// Returns the cause for a panic of the user's function.
pub(super) fn cause_of<E>(panic: Box<dyn Any + Send>) -> Cause<E> {
    match panic.downcast::<BlockError>() {
        // A blocking phase that found no thread leaves the user's function by this panic.
        Ok(error) => Cause::NoThread(*error),
        Err(panic) => Cause::Panicked(panic_message(panic)),
    }
}

/// The function of the phase that runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// The phase's own function.
    Own,
    /// The function for a late visit.
    Late,
    /// The function for a visit that has used up its attempts.
    Exhausted,
    /// A function for a failed visit.
    Failed,
}

impl Why {
    fn cause(self, fom: &Header) -> TransitionCause {
        match self {
            Self::Own => TransitionCause::Returned,
            Self::Late => TransitionCause::Late,
            Self::Exhausted => TransitionCause::Exhausted,
            Self::Failed => TransitionCause::Failed(fom.failed_with()),
        }
    }

    /// Returns the matching entry.
    pub(super) fn entry<E>(self) -> Entry<E> {
        match self {
            Self::Own => Entry::Enter,
            Self::Late => Entry::Late,
            Self::Exhausted => Entry::Exhausted,
            Self::Failed => Entry::Failed,
        }
    }
}

/// Tells the last transition of a failed fom: into the standard failed outcome.
pub(super) fn tell_failure<O: Operation>(fom: &Typed<O>, failure: &Failure<O>) {
    let shared = fom.shared();
    let Some(hooks) = shared.env.hooks.active() else {
        return;
    };
    let now = shared.env.clock.nanos();
    let stayed = now.saturating_sub(fom.since());
    let cause = TransitionCause::Failed(failure.cause.name());
    let transition = Transition::new(fom, Some(failure.phase), None, cause, now, stayed);
    match &failure.operation {
        Some(operation) => hooks.tell::<O>(&shared.env, &transition, operation, None),
        None => hooks.tell_untyped(&shared.env, &transition),
    }
}
