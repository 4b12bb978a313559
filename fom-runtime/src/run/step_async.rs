//! The body of a machine with async phases: one future for the whole run, as large as the largest phase needs.

use std::{
    future::Future,
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
    thread,
};

use pin_project_lite::pin_project;

use crate::{
    fom::{Entry, Function, Interrupt, Progress, RunningFom, WaitingFor, reference},
    operation::{AsyncOperation, At, Operation},
    run::{
        body::Body,
        launch::SelfRef,
        next::Next,
        run_loop::Decided,
        transition::{Instance, cause_of},
    },
    typed::{Failure, Outcome, Typed},
};

pin_project! {
    /// A future in place of operation and phase, and later its outcome.
    #[project = Projected]
    #[project_replace = Replaced]
    pub(super) enum AsyncBody<O: Operation, F> {
        Future { #[pin] future: F },
        Ended { outcome: Outcome<O> },
        Gone,
    }
}

impl<O: Operation, F> AsyncBody<O, F> {
    pub(super) fn new(future: F) -> Self {
        Self::Future { future }
    }
}

impl<O: Operation, F> AsyncBody<O, F> {
    /// Finishes when the end is committed.
    fn ended_in_journal(self: Pin<&mut Self>, fom: &Typed<O>) -> Progress {
        if fom.awaits_journal() {
            return Progress::Waiting;
        }
        if let Projected::Ended {
            outcome: Err(failure),
        } = self.project()
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
            Projected::Future { future } => future,
            Projected::Ended { .. } => return self.ended_in_journal(fom),
            Projected::Gone => return Progress::Waiting,
        };
        match reference::with_waker(fom, |waker| future.poll(&mut Context::from_waker(waker))) {
            Poll::Pending => Progress::Waiting,
            Poll::Ready(outcome) => {
                self.as_mut().project_replace(Self::Ended { outcome });
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
        // inside the operation. The operation is gone.
        let (cause, phase) = (cause_of(fom, panic), fom.phase_name());
        fom.commit_failure(phase, &cause, None);
        self.as_mut()
            .fail(Failure::new(cause, fom.phase_kind(), None));
        self.ended_in_journal(fom)
    }

    fn fail(self: Pin<&mut Self>, failure: Failure<O>) {
        self.project_replace(Self::Ended {
            outcome: Err(failure),
        });
    }

    fn settle(self: Pin<&mut Self>, outcome: Outcome<O>) {
        self.project_replace(Self::Ended { outcome });
    }

    fn at_end(&self) -> Option<(&O, &O::Phase)> {
        match self {
            Self::Ended { outcome: Ok(ended) } => Some((&ended.operation, &ended.phase)),
            _ => None,
        }
    }

    fn ended(&self) -> Result<usize, &Failure<O>> {
        match self {
            Self::Ended { outcome: Ok(ended) } => Ok(O::index(O::kind(&ended.phase))),
            Self::Ended {
                outcome: Err(failure),
            } => Err(failure),
            _ => unreachable!("the outcome is taken once"),
        }
    }

    fn take(self: Pin<&mut Self>) -> Outcome<O> {
        match self.project_replace(Self::Gone) {
            Replaced::Ended { outcome } => outcome,
            _ => unreachable!("the outcome is taken once"),
        }
    }

    fn clear(mut self: Pin<&mut Self>) {
        // In place: `project_replace` would copy all of it.
        self.set(Self::Gone);
    }

    fn is_gone(&self) -> bool {
        matches!(self, Self::Gone)
    }
}

/// Begins a run. Not inlined, because the loop does it in several places.
#[inline(never)]
fn start_run<O: AsyncOperation>(instance: &mut Instance<O>, fom: &Typed<O>) -> Decided<O> {
    instance.run(fom).start()
}

/// Returns the entry for this function: the event, if the phase waits for one. Returns `None` if there is no event yet.
#[inline(always)]
fn enter<O: AsyncOperation>(
    instance: &Instance<O>,
    fom: &Typed<O>,
    function: Function,
) -> Option<Entry<O::Event>> {
    if function != Entry::Enter || !instance.info().waits() {
        return Some(function.without_event());
    }
    let event = fom.take_event();
    if event.is_none() {
        fom.waiting.set(WaitingFor::Event);
    }
    event.map(Entry::Event)
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
        let mut decided = start_run(&mut instance, me.get());
        'run: loop {
            let function = match instance.run(me.get()).carry_out(decided) {
                ControlFlow::Continue(function) => function,
                ControlFlow::Break(Ok(Progress::Finished)) => return instance.ended(),
                ControlFlow::Break(Ok(progress)) => {
                    Stop(me.get(), progress).await;
                    decided = start_run(&mut instance, me.get());
                    continue;
                }
                ControlFlow::Break(Err(cause)) => {
                    instance.commit_failure(me.get(), &cause);
                    return Err(instance.failed(me.get(), *cause));
                }
            };
            loop {
                let Some(entry) = enter(&instance, me.get(), function) else {
                    Stop(me.get(), Progress::Waiting).await;
                    decided = start_run(&mut instance, me.get());
                    continue 'run;
                };
                // A way out runs without the interposers, because one of them may have caused the failure.
                if function != Entry::Failed
                    && let Some(returned) = instance.before(me.get())
                {
                    decided = instance.settle(me.get(), returned, function);
                    continue 'run;
                }
                instance.give_data(me.get(), function == Entry::Enter);
                let at = At {
                    phase: &mut instance.phase,
                    fom: RunningFom::new(me.get()),
                    entry,
                };
                decided = match Fence::new(me.get(), instance.operation.step(at)).await {
                    Ok(Ok(Ok(Some(next))))
                        if function == Entry::Enter && !me.get().env().hooks.extras().are_any() =>
                    {
                        match instance.go_on(me.get(), next) {
                            // The most frequent case.
                            Next::Call(Entry::Enter) if !const { O::GRAPH.needs().gates() } => {
                                continue;
                            }
                            next => Ok(next),
                        }
                    }
                    Ok(Ok(stepped)) if function == Entry::Enter => {
                        let extras = me.get().env().hooks.extras();
                        match instance.go_on_heard(me.get(), stepped, extras) {
                            Ok(Next::Call(Entry::Enter)) if !const { O::GRAPH.needs().gates() } => {
                                continue;
                            }
                            decided => decided,
                        }
                    }
                    Ok(returned) => instance.settle(me.get(), returned, function),
                    Err(interrupt) => Ok(Next::Interrupt(interrupt)),
                };
                continue 'run;
            }
        }
    }
}

pin_project! {
    /// Checks for cancel and deadline before each poll but the first, and catches panics.
    struct Fence<'a, O: Operation, F> {
        fom: &'a Typed<O>,
        waited: bool,
        #[pin]
        inner: F,
    }
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
    type Output = Result<thread::Result<F::Output>, Interrupt>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let header = this.fom;
        if *this.waited
            && let Some(interrupt) = header.interrupt()
        {
            return Poll::Ready(Err(interrupt));
        }
        header.waiting.set(WaitingFor::Nothing);
        match catch_unwind(AssertUnwindSafe(|| this.inner.poll(cx))) {
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(Ok(output))),
            Ok(Poll::Pending) => {
                *this.waited = true;
                if header.waiting.get() == WaitingFor::Nothing {
                    header.waiting.set(WaitingFor::Future);
                }
                Poll::Pending
            }
            Err(panic) => Poll::Ready(Ok(Err(panic))),
        }
    }
}

/// Stops the run with this progress. Pending once, and ready in the next run.
struct Stop<'a, O: Operation>(&'a Typed<O>, Progress);

impl<O: Operation> Future for Stop<'_, O> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        match std::mem::replace(&mut self.1, Progress::Finished) {
            Progress::Finished => return Poll::Ready(()),
            Progress::Waiting => {}
            // Goes to the tail of the queue: a wake of a running fom makes it ready again when it stops.
            Progress::Again => self.0.wake(),
        }
        Poll::Pending
    }
}
