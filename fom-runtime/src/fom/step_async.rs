//! The body of a machine with async phases: one future for the whole run, as large as the largest phase needs.

use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
};

use pin_project::pin_project;

use crate::{
    cx::Cx,
    fom::{
        Body, Failure, Outcome, Progress, TransitionCause, Typed, WaitingFor,
        launch::SelfRef,
        reference,
        transition::{After, Instance, Onward, Verdict, Why, cause_of},
    },
    operation::{AsyncOperation, At, Entry, Next, Operation},
};

/// A future in place of operation and phase, and later its outcome.
#[pin_project(project = Projected, project_replace = Replaced)]
pub(super) enum AsyncBody<O: Operation, F> {
    Future(#[pin] F),
    Ended(Outcome<O>),
    Gone,
}

impl<O: Operation, F> AsyncBody<O, F> {
    pub(super) fn new(future: F) -> Self {
        Self::Future(future)
    }
}

impl<O: Operation, F> AsyncBody<O, F> {
    /// Finishes when the end is committed.
    fn ended_in_journal(self: Pin<&mut Self>, fom: &Typed<O>) -> Progress {
        if fom.awaits_journal() {
            return Progress::Waiting;
        }
        if let Projected::Ended(Err(failure)) = self.project()
            && let Some(cause) = fom.end_answered()
        {
            failure.cause = cause;
        }
        Progress::Finished
    }
}

impl<O: Operation, F: Future<Output = Outcome<O>> + Send> Body<O> for AsyncBody<O, F> {
    fn run(mut self: Pin<&mut Self>, fom: &Typed<O>) -> Progress {
        let future = match self.as_mut().project() {
            Projected::Future(future) => future,
            Projected::Ended(_) => return self.ended_in_journal(fom),
            Projected::Gone => return Progress::Waiting,
        };
        match reference::with_waker(fom, |waker| future.poll(&mut Context::from_waker(waker))) {
            Poll::Pending => Progress::Waiting,
            Poll::Ready(outcome) => {
                self.as_mut().project_replace(Self::Ended(outcome));
                self.ended_in_journal(fom)
            }
        }
    }

    fn panicked(
        mut self: Pin<&mut Self>,
        fom: &Typed<O>,
        panic: Box<dyn std::any::Any + Send>,
    ) -> Progress {
        // Each phase function has its own fence. This panic came from other code of the user's, such as a `Drop`
        // inside the operation. The operation is gone, and its record in the journal goes too.
        let (cause, phase) = (cause_of(panic), fom.phase_name());
        fom.commit_failure(phase, &cause);
        self.as_mut().fail(Failure::new(cause, phase, None));
        self.ended_in_journal(fom)
    }

    fn fail(self: Pin<&mut Self>, failure: Failure<O>) {
        self.project_replace(Self::Ended(Err(failure)));
    }

    fn settle(self: Pin<&mut Self>, outcome: Outcome<O>) {
        self.project_replace(Self::Ended(outcome));
    }

    fn at_end(&self) -> Option<(&O, &O::Phase)> {
        match self {
            Self::Ended(Ok(ended)) => Some((&ended.operation, &ended.phase)),
            _ => None,
        }
    }

    fn ended(&self) -> Result<usize, &Failure<O>> {
        match self {
            Self::Ended(Ok(ended)) => Ok(O::index(O::kind(&ended.phase))),
            Self::Ended(Err(failure)) => Err(failure),
            _ => unreachable!("the outcome is taken once"),
        }
    }

    fn take(self: Pin<&mut Self>) -> Outcome<O> {
        match self.project_replace(Self::Gone) {
            Replaced::Ended(outcome) => outcome,
            _ => unreachable!("the outcome is taken once"),
        }
    }

    fn clear(self: Pin<&mut Self>) {
        self.project_replace(Self::Gone);
    }

    fn is_gone(&self) -> bool {
        matches!(self, Self::Gone)
    }
}

/// The next action, for the actions that can wait.
#[derive(Clone, Copy)]
enum Act {
    Step(Why),
    Yield,
    Retry(u64),
    Commit,
    Queue(WaitingFor),
}

/// Runs one fom from phase to phase.
///
/// Every value that lives while a phase waits takes memory in each parked fom. So this is a block: an `async fn` would
/// keep its argument (operation and phase) twice. And the result of a step is used up before the next step begins.
#[allow(clippy::manual_async_fn, reason = "said above")]
pub(super) fn drive<O: AsyncOperation>(
    me: SelfRef<O>,
    mut instance: Instance<O>,
) -> impl Future<Output = Outcome<O>> + Send {
    async move {
        let mut after = instance.begin(me.get());
        loop {
            let act = {
                let after = after;
                match after {
                    After::Late => Act::Step(Why::Late),
                    After::Exhausted => Act::Step(Why::Exhausted),
                    After::WayOut => Act::Step(Why::Failed),
                    After::Enter | After::Stay if crate::locality::spent() => Act::Yield,
                    After::Enter | After::Stay => Act::Step(Why::Own),
                    After::Retry(until) => Act::Retry(until),
                    After::Commit => Act::Commit,
                    After::Queue(what) => Act::Queue(what),
                    After::Ended => return instance.ended(),
                    After::Failed(cause) => {
                        me.get().commit_failure(instance.info().name(), &cause);
                        return Err(instance.failed(me.get(), *cause));
                    }
                }
            };
            let why = match act {
                Act::Step(why) => why,
                Act::Yield => {
                    // Goes to the tail of the queue: a wake of a running fom makes it ready again when it stops.
                    me.get().wake();
                    Yield(false).await;
                    after = match me.get().interrupt() {
                        Some(interrupt) => {
                            instance.settle(me.get(), Verdict::Interrupted(interrupt))
                        }
                        None => After::Enter,
                    };
                    continue;
                }
                Act::Commit => {
                    Committed(me.get()).await;
                    after = instance.committed(me.get()).unwrap_or(After::Enter);
                    continue;
                }
                Act::Queue(what) => {
                    me.get().set_waiting_for(what);
                    Yield(false).await;
                    after = instance.begin(me.get());
                    continue;
                }
                Act::Retry(at) => {
                    let fom = me.get();
                    let pause = poll_fn(|cx| instance.poll_pause(fom, at, cx.waker()));
                    match Fence::new(fom, pause).await {
                        Ok(Ok(())) => {}
                        Ok(Err(cause)) => {
                            after = instance.fails(me.get(), cause);
                            continue;
                        }
                        Err(verdict) => {
                            after = instance.settle(me.get(), verdict);
                            continue;
                        }
                    }
                    let again = instance.resume_again(me.get(), TransitionCause::Returned);
                    if let Some(again) = again {
                        after = again;
                        continue;
                    }
                    Why::Own
                }
            };
            if const { O::GRAPH.has_gates() } && why == Why::Own {
                let fom = me.get();
                let gate = poll_fn(|cx| instance.poll_gate(fom, cx.waker()));
                match Fence::new(fom, gate).await {
                    Ok(Ok(())) => {}
                    Ok(Err(cause)) => {
                        after = instance.fails(me.get(), cause);
                        continue;
                    }
                    Err(verdict) => {
                        after = instance.settle(me.get(), verdict);
                        continue;
                    }
                }
            }
            let entry = if why == Why::Own && instance.info().waits() {
                let cx = Cx::new(me.get());
                match Fence::new(me.get(), cx.event()).await {
                    Ok(event) => Entry::Event(event),
                    Err(verdict) => {
                        after = instance.settle(me.get(), verdict);
                        continue;
                    }
                }
            } else {
                why.entry()
            };
            // A way out runs without the interposers, because one of them may have caused the failure.
            if why != Why::Failed
                && let Some(verdict) = instance.before(me.get())
            {
                after = instance.settle_why(me.get(), verdict, why);
                continue;
            }
            let mut cx = Cx::new(me.get());
            let at = At {
                phase: &mut instance.phase,
                cx: &mut cx,
                entry,
            };
            after = match Fence::new(me.get(), instance.operation.step(at)).await {
                Ok(Ok(Next::Go(next)))
                    if why == Why::Own && !me.get().shared().env.hooks.is_any() =>
                {
                    match instance.go_on(me.get(), next) {
                        Onward::Ended => After::Ended,
                        Onward::Enter | Onward::Spent => After::Enter,
                    }
                }
                stepped => {
                    let verdict = stepped.map_or_else(|verdict| verdict, Verdict::Stepped);
                    instance.settle_why(me.get(), verdict, why)
                }
            };
        }
    }
}

/// Checks for cancel and deadline before each poll but the first, and catches panics.
#[pin_project]
struct Fence<'a, O: Operation, F> {
    fom: &'a Typed<O>,
    waited: bool,
    #[pin]
    inner: F,
}

impl<'a, O: Operation, F: Future> Fence<'a, O, F> {
    fn new(fom: &'a Typed<O>, inner: F) -> Self {
        Self {
            fom,
            waited: false,
            inner,
        }
    }
}

impl<O: Operation, F: Future> Future for Fence<'_, O, F> {
    type Output = Result<F::Output, Verdict<O>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let header = this.fom;
        if *this.waited
            && let Some(interrupt) = header.interrupt()
        {
            return Poll::Ready(Err(Verdict::Interrupted(interrupt)));
        }
        header.set_waiting_for(WaitingFor::Nothing);
        match catch_unwind(AssertUnwindSafe(|| this.inner.poll(cx))) {
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Ok(Poll::Pending) => {
                *this.waited = true;
                if header.waiting_for() == WaitingFor::Nothing {
                    header.set_waiting_for(WaitingFor::Future);
                }
                Poll::Pending
            }
            Err(panic) => Poll::Ready(Err(Verdict::Panicked(panic))),
        }
    }
}

/// Pending once, then ready.
struct Yield(bool);

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

/// Becomes ready when the last step is committed, or could not be. No cancel interrupts this.
struct Committed<'a, O: Operation>(&'a Typed<O>);

impl<O: Operation> Future for Committed<'_, O> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.0.awaits_journal() {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    }
}
