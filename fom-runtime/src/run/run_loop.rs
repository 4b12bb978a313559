//! The run loop of a fom: carries out the decisions of [`next`], until a function of the phase must run or the run
//! stops.

use std::{
    ops::ControlFlow,
    task::{Poll, Waker},
};

use crate::{
    fom::{
        Cause, Entry, Function, MayBegin, Progress, RefusedReason, Rejected, Then, TransitionCause,
        WaitingFor, reference,
    },
    operation::Operation,
    run::{
        next::{Next, Step, Visit, next, next_cold},
        transition::{Instance, cause_of, transition_cause},
    },
    typed::Typed,
};

/// The cause of a failure. Boxed because failures are rare, which keeps results small.
pub(super) type Failed<O> = Box<Cause<<O as Operation>::Error>>;

/// The next action, or why the fom fails.
pub(super) type Decided<O> = Result<Next, Failed<O>>;

/// The next function of the phase, or the end of the run.
pub(super) type Flow<O> = ControlFlow<Result<Progress, Failed<O>>, Function>;

impl<O: Operation> Instance<O> {
    /// The run loop: carries actions out until a function of the phase must run, or the run stops.
    ///
    /// It is the same for all bodies. They differ only in how they call the function: a sync body calls it, an async
    /// body polls it.
    #[inline(always)]
    pub(super) fn run_on(&mut self, fom: &Typed<O>, decided: Decided<O>) -> Flow<O> {
        match decided {
            decided if Self::calls(&decided) => ControlFlow::Continue(Entry::Enter),
            // The usual end of a run in a journal.
            Ok(Next::Wait(what)) => waits(fom, what),
            decided => self.run_loop(fom, decided),
        }
    }

    /// Returns whether the phase's own function comes next, and nothing before it. This is the most frequent decision,
    /// which needs no turn of the run loop. A body that asks this itself spends fewer instructions on it.
    #[inline(always)]
    pub(super) fn calls(decided: &Decided<O>) -> bool {
        !const { O::GRAPH.has_gates() } && matches!(decided, Ok(Next::Call(Entry::Enter)))
    }

    #[inline(never)]
    fn run_loop(&mut self, fom: &Typed<O>, mut decided: Decided<O>) -> Flow<O> {
        loop {
            let next = match decided {
                Ok(next) => next,
                Err(cause) => return ControlFlow::Break(Err(cause)),
            };
            decided = match next {
                Next::Commit(then) => self.commit(fom, then),
                Next::Proceed(then) => self.proceed(fom, then),
                Next::Interrupt(by) => {
                    let held_gate = fom.cold().is_some_and(|cold| cold.back.held_gate());
                    self.interrupted(fom, by, held_gate)
                }
                Next::OpenAgain => self.open_again(fom),
                Next::Pause(until) => self.pause(fom, until),
                Next::Call(Entry::Enter) if const { O::GRAPH.has_gates() } => {
                    match reference::with_waker(fom, |waker| self.poll_gate(fom, waker)) {
                        Poll::Ready(Ok(())) => return ControlFlow::Continue(Entry::Enter),
                        Poll::Ready(Err(cause)) => self.fails(fom, cause),
                        Poll::Pending => Ok(Next::Wait(fom.waiting.get())),
                    }
                }
                Next::Call(function) => return ControlFlow::Continue(function),
                // `start_run` begins a fom, and a failure comes with its cause.
                Next::Begin | Next::Fail => unreachable!("carried out where it is decided"),
                Next::Wait(what) => return waits(fom, what),
                Next::Again => return ControlFlow::Break(Ok(Progress::Again)),
                Next::Finish => return ControlFlow::Break(Ok(Progress::Finished)),
            }
        }
    }

    /// Decides after a step of this kind, and carries out the usual decisions. So a step in a runtime with a journal or
    /// with listeners does not go round the run loop.
    #[inline(always)]
    pub(super) fn after_step(&mut self, fom: &Typed<O>, step: Step) -> Decided<O> {
        match next(step) {
            Next::Commit(then) => self.commit(fom, then),
            Next::Proceed(then) => self.proceed(fom, then),
            next => Ok(next),
        }
    }

    /// Begins a run, the first or a later one.
    #[inline(always)]
    pub(super) fn start_run(&mut self, fom: &Typed<O>) -> Decided<O> {
        fom.waiting.set(WaitingFor::Nothing);
        let interrupt;
        if fom.flags.has_begun() {
            if let Some(kept) = fom.journaled()
                && let Some(answer) = kept.take_answer()
            {
                return self.answered(fom, kept, answer);
            }
            interrupt = fom.interrupt();
            return Ok(next(Step::Visit(Visit {
                end: false,
                interrupt,
                failed: interrupt.is_none() && Self::takes_way_out(fom),
                retry: fom.timing().and_then(|timing| timing.retry_at()),
                ..self.visit()
            })));
        }
        // A shutdown may have looked for foms to wake before this fom was in any list. Then it has closed the runtime
        // before.
        interrupt = fom.interrupt();
        let may_begin = match interrupt {
            None if fom.cold().is_some() => fom.turn().may_begin(),
            _ => MayBegin::Now,
        };
        match next(Step::New {
            interrupt,
            may_begin,
        }) {
            Next::Begin => self.begin(fom),
            Next::Fail => Err(rejection(may_begin)),
            next => Ok(next),
        }
    }

    /// Begins the first visit.
    #[inline(always)]
    fn begin(&mut self, fom: &Typed<O>) -> Decided<O> {
        fom.flags.set_begun();
        let then = Then::Begin {
            resumed: fom.flags.is_resumed(),
        };
        let durable = self.is_begin_durable(fom);
        match next(Step::Made { then, durable }) {
            Next::Proceed(Then::Begin { resumed: false }) => {
                self.enter(fom, None, TransitionCause::Started, None);
                Ok(next(Step::Visit(self.visit())))
            }
            next => Ok(next),
        }
    }

    /// Goes on after a step that is committed, or that needs no commit.
    #[inline(never)]
    fn proceed(&mut self, fom: &Typed<O>, then: Then) -> Decided<O> {
        let journaled = fom.is_journaled();
        let (mut retry, mut looks) = (None, journaled);
        match then {
            Then::Begin { resumed: false } => self.enter(fom, None, TransitionCause::Started, None),
            Then::Begin { resumed: true } => {
                retry = self.resume(fom);
                if let Some(failed) = self.call_resumed(fom, Entry::Enter) {
                    return failed;
                }
                looks = true;
            }
            Then::Enter { from, by } => {
                let cause = transition_cause(by, fom);
                self.enter(fom, Some(usize::from(from)), cause, None);
            }
            Then::Stay if journaled => fom.outbox().send(),
            Then::Stay => _ = self.stay(fom),
            Then::Retry(until) => {
                if !journaled && !self.info().takes().is_empty() {
                    // The next attempt takes another event.
                    fom.visit().leave_event();
                }
                retry = Some(until);
            }
            Then::Fail => {}
        }
        Ok(next(Step::Visit(Visit {
            // The fom may have been told to end while it waited for the commit.
            interrupt: looks.then(|| fom.interrupt()).flatten(),
            retry,
            ..self.visit()
        })))
    }

    /// Restores the saved visit. Returns when the next attempt is due, if the fom waits for one.
    #[cold]
    fn resume(&mut self, fom: &Typed<O>) -> Option<u64> {
        let saved = fom.cold().and_then(|cold| cold.saved.as_deref());
        let (left, tries, kept) = saved.map_or((None, 0, None), |saved| {
            (saved.left, saved.tries, saved.kept_deadline)
        });
        self.enter(fom, None, TransitionCause::Resumed, left);
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
    fn call_resumed(&mut self, fom: &Typed<O>, before: Function) -> Option<Decided<O>> {
        if self.info().is_end() {
            return None;
        }
        let failed = match self.resumed(fom) {
            Ok(Ok(())) => return None,
            Ok(Err(error)) => self.erred(fom, error, before),
            Err(panic) => self.fails(fom, cause_of(panic)),
        };
        // It is now unknown when the fom asks for its gate.
        fom.env().has_asked(fom.id());
        Some(failed)
    }

    /// Like [`call_resumed`](Self::call_resumed), if the fom still owes that call.
    pub(super) fn resume_again(&mut self, fom: &Typed<O>, before: Function) -> Option<Decided<O>> {
        if fom.cold().is_some_and(|cold| cold.retry.owes_resume()) {
            self.call_resumed(fom, before)
        } else {
            None
        }
    }

    /// Waits until the next attempt is due.
    #[cold]
    fn pause(&mut self, fom: &Typed<O>, until: u64) -> Decided<O> {
        match reference::with_waker(fom, |waker| self.poll_pause(fom, until, waker)) {
            Poll::Pending => return Ok(Next::Wait(fom.waiting.get())),
            Poll::Ready(Err(cause)) => return self.fails(fom, cause),
            Poll::Ready(Ok(())) => {}
        }
        if let Some(failed) = self.resume_again(fom, Entry::Enter) {
            return failed;
        }
        Ok(next_cold(Step::Visit(self.visit())))
    }

    /// Becomes ready when the next attempt is due. Uses the fom's own timer.
    fn poll_pause(
        &mut self,
        fom: &Typed<O>,
        until: u64,
        waker: &Waker,
    ) -> Poll<Result<(), Cause<O::Error>>> {
        let Some(timing) = fom.timing() else {
            unreachable!("a retry without a timer")
        };
        if fom.env().clock.nanos() >= until {
            timing.retried(fom);
            return Poll::Ready(Ok(()));
        }
        timing.await_retry(fom, until);
        // A fom that came back holds its gate during the pause. It may know the gate only after `resume`.
        if const { O::GRAPH.has_gates() }
            && !fom.cold().is_some_and(|cold| cold.retry.owes_resume())
        {
            match self.poll_gate(fom, waker) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(cause)) => {
                    timing.retried(fom);
                    return Poll::Ready(Err(cause));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        fom.waiting.set(WaitingFor::Retry);
        Poll::Pending
    }
}

/// Stops the run until a wake.
#[inline(always)]
fn waits<O: Operation>(fom: &Typed<O>, what: WaitingFor) -> Flow<O> {
    fom.waiting.set(what);
    ControlFlow::Break(Ok(Progress::Waiting))
}

/// Returns why the fom must not begin.
#[cold]
fn rejection<E>(may_begin: MayBegin) -> Box<Cause<E>> {
    Box::new(match may_begin {
        MayBegin::Rejected(Rejected::Shed) => Cause::Shed,
        MayBegin::Rejected(Rejected::Stuck) => Cause::Stuck,
        MayBegin::Rejected(Rejected::Full) => Cause::Refused(RefusedReason::KeyFull),
        MayBegin::Now | MayBegin::Waits(_) => {
            unreachable!("only a rejected fom fails before it begins")
        }
    })
}
