//! The run loop of a fom: carries out the decisions of [`next`], until a function of the phase must run or the run
//! stops.

use std::{
    ops::ControlFlow,
    task::{Poll, Waker},
};

use crate::{
    fom::{
        Cause, Entry, Function, Interrupt, MayBegin, Progress, RefusedReason, Rejected, Then,
        Timing, TransitionCause, WaitingFor, hand, reference,
    },
    graph::OnCancel,
    operation::Operation,
    run::{
        commit::is_begin_durable,
        failure::takes_way_out,
        next::{Next, Step, Visit, next, next_cold},
        transition::{Instance, transition_cause},
    },
    typed::Typed,
};

/// The cause of a failure. Boxed because failures are rare, which keeps results small.
pub(super) type Failed<O> = Box<Cause<<O as Operation>::Error>>;

/// The next action, or why the fom fails.
pub(super) type Decided<O> = Result<Next, Failed<O>>;

/// The next function of the phase, or the end of the run.
pub(super) type Flow<O> = ControlFlow<Result<Progress, Failed<O>>, Function>;

/// Returns whether the phase's own function comes next, and nothing before it. This is the most frequent decision,
/// which needs no turn of the run loop. A body that asks this itself spends fewer instructions on it.
#[inline(always)]
pub(super) fn calls<O: Operation>(decided: &Decided<O>) -> bool {
    !const { O::GRAPH.needs().gates() } && matches!(decided, Ok(Next::Call(Entry::Enter)))
}

/// One run of a fom: the operation in its phase, and the fom.
pub(super) struct Run<'a, O: Operation> {
    pub(super) instance: &'a mut Instance<O>,
    pub(super) fom: &'a Typed<O>,
}

impl<O: Operation> Instance<O> {
    /// Returns a run of the fom that has this instance.
    #[inline(always)]
    pub(super) fn run<'a>(&'a mut self, fom: &'a Typed<O>) -> Run<'a, O> {
        Run {
            instance: self,
            fom,
        }
    }
}

impl<O: Operation> Run<'_, O> {
    /// The run loop: carries actions out until a function of the phase must run, or the run stops.
    ///
    /// It is the same for all bodies. They differ only in how they call the function: a sync body calls it, an async
    /// body polls it.
    #[inline(always)]
    pub(super) fn carry_out(self, decided: Decided<O>) -> Flow<O> {
        match decided {
            decided if calls::<O>(&decided) => ControlFlow::Continue(Entry::Enter),
            // The usual end of a run in a journal.
            Ok(Next::Wait(what)) => waits(self.fom, what),
            decided => self.run_loop(decided),
        }
    }

    #[inline(never)]
    fn run_loop(mut self, mut decided: Decided<O>) -> Flow<O> {
        let fom = self.fom;
        loop {
            let next = match decided {
                Ok(next) => next,
                Err(cause) => return ControlFlow::Break(Err(cause)),
            };
            decided = match next {
                Next::Commit(then) => self.instance.commit(fom, then),
                Next::Proceed(then) => self.proceed(then),
                Next::Interrupt(by) => {
                    let held_gate = fom.cold().is_some_and(|cold| cold.back.held_gate());
                    self.interrupted(by, held_gate)
                }
                Next::AwaitTurn(what) => self.wait_for_turn(what),
                Next::OpenAgain => self.open_again(),
                Next::Pause(until) => self.pause(until),
                Next::Call(Entry::Enter) if const { O::GRAPH.needs().gates() } => {
                    match reference::with_waker(fom, |waker| self.instance.poll_gate(fom, waker)) {
                        Poll::Ready(Ok(())) => return ControlFlow::Continue(Entry::Enter),
                        Poll::Ready(Err(cause)) => self.instance.fails(fom, cause),
                        Poll::Pending => Ok(Next::Wait(fom.waiting.get())),
                    }
                }
                Next::Call(function) => return ControlFlow::Continue(function),
                // `start` begins a fom, and a failure comes with its cause.
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
    pub(super) fn after_step(mut self, step: Step) -> Decided<O> {
        match next(step) {
            Next::Commit(then) => self.instance.commit(self.fom, then),
            Next::Proceed(then) => self.proceed(then),
            next => Ok(next),
        }
    }

    /// Begins a run, the first or a later one.
    #[inline(always)]
    pub(super) fn start(mut self) -> Decided<O> {
        let fom = self.fom;
        fom.waiting.set(WaitingFor::Nothing);
        let interrupt;
        if fom.flags.has_begun() {
            if let Some(kept) = fom.journaled()
                && let Some(answer) = kept.take_answer()
            {
                return self.instance.answered(fom, kept, answer);
            }
            interrupt = fom.interrupt();
            return Ok(next(Step::Visit(Visit {
                end: false,
                interrupt,
                failed: interrupt.is_none() && takes_way_out(fom),
                retry: fom.timing().and_then(|timing| timing.retry_at()),
                ..self.instance.visit(hand::spent())
            })));
        }
        // A shutdown may have looked for foms to wake before this fom was in any list. Then it has closed the runtime
        // before.
        interrupt = match fom.interrupt() {
            Some(Interrupt::Cancelled) if self.goes_on_cancelled() => None,
            by => by,
        };
        let may_begin = match interrupt {
            None if fom.cold().is_some() => fom.turn().may_begin(),
            _ => MayBegin::Now,
        };
        match next(Step::New {
            interrupt,
            may_begin,
        }) {
            Next::Begin => self.begin(),
            Next::Fail => Err(rejection(may_begin)),
            next => Ok(next),
        }
    }

    /// Returns whether a cancelled fom that has not begun in this process goes on in its phase, as the phase declares
    /// for a cancel.
    #[cold]
    fn goes_on_cancelled(&self) -> bool {
        let fom = self.fom;
        let declares = self.instance.info().exits.on_cancel != OnCancel::Ends;
        fom.flags.is_resumed()
            && declares
            && !fom.token.is_aborted()
            && fom.turn().may_begin() == MayBegin::Now
    }

    /// Waits until the fom may begin. A fom that is kept writes that down first.
    #[cold]
    fn wait_for_turn(&mut self, what: WaitingFor) -> Decided<O> {
        let fom = self.fom;
        let kept = fom.journaled();
        if let Some(kept) = kept
            && let Some(answer) = kept.take_answer()
        {
            return self.instance.answered(fom, kept, answer);
        }
        let records = kept.is_some_and(|kept| kept.records_wait(fom));
        match next_cold(Step::Turn { what, records }) {
            Next::Commit(then) => self.instance.commit(fom, then),
            next => Ok(next),
        }
    }

    /// Begins the first visit.
    #[inline(always)]
    fn begin(&mut self) -> Decided<O> {
        let fom = self.fom;
        let resumed = fom.flags.begin();
        let then = Then::Begin { resumed };
        let durable = is_begin_durable(fom);
        match next(Step::Made { then, durable }) {
            Next::Proceed(Then::Begin { resumed: false }) => {
                self.instance
                    .enter(fom, None, TransitionCause::Started, None);
                // The first step is free, so the budget does not matter.
                Ok(next(Step::Visit(Visit::CALM)))
            }
            next => Ok(next),
        }
    }

    /// Goes on after a step that is committed, or that needs no commit.
    #[inline(never)]
    fn proceed(&mut self, then: Then) -> Decided<O> {
        let fom = self.fom;
        let journaled = fom.is_journaled();
        let (mut retry, mut looks) = (None, journaled);
        match then {
            Then::Begin { resumed: false } => {
                self.instance
                    .enter(fom, None, TransitionCause::Started, None)
            }
            Then::Begin { resumed: true } => {
                retry = self.resume();
                if let Some(failed) = self.call_resumed(Entry::Enter) {
                    return failed;
                }
                looks = true;
            }
            Then::Enter { from, by } => {
                let cause = transition_cause(by, fom);
                self.instance
                    .enter(fom, Some(usize::from(from)), cause, None);
            }
            Then::Stay if journaled => fom.outbox().send(),
            Then::Stay => _ = self.instance.stay(fom),
            Then::Retry(until) => {
                if !journaled && !self.instance.info().takes().is_empty() {
                    // The next attempt takes another event.
                    fom.visit().leave_event();
                }
                retry = Some(until);
            }
            // It looks again whether it may begin.
            Then::Wait => return Ok(Next::Again),
            Then::Fail => {}
        }
        Ok(next(Step::Visit(Visit {
            // The fom may have been told to end while it waited for the commit.
            interrupt: looks.then(|| fom.interrupt()).flatten(),
            retry,
            ..self.instance.visit(hand::spent())
        })))
    }

    /// Waits until the next attempt is due.
    #[cold]
    fn pause(&mut self, until: u64) -> Decided<O> {
        let fom = self.fom;
        match reference::with_waker(fom, |waker| self.poll_pause(until, waker)) {
            Poll::Pending => return Ok(Next::Wait(fom.waiting.get())),
            Poll::Ready(Err(cause)) => return self.instance.fails(fom, cause),
            Poll::Ready(Ok(())) => {}
        }
        if let Some(failed) = self.resume_again(Entry::Enter) {
            return failed;
        }
        Ok(next_cold(Step::Visit(self.instance.visit(hand::spent()))))
    }

    /// Becomes ready when the next attempt is due. Uses the fom's own timer.
    fn poll_pause(&mut self, until: u64, waker: &Waker) -> Poll<Result<(), Cause<O::Error>>> {
        let fom = self.fom;
        let Some(timing) = fom.timing() else {
            unreachable!("a retry without a timer")
        };
        if Timing::is_due(until, fom.env().clock.nanos()) {
            timing.retried(fom);
            return Poll::Ready(Ok(()));
        }
        timing.await_retry(fom, until);
        // A fom that came back holds its gate during the pause. It may know the gate only after `resume`.
        if const { O::GRAPH.needs().gates() }
            && !fom.cold().is_some_and(|cold| cold.retry.owes_resume())
        {
            match self.instance.poll_gate(fom, waker) {
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
