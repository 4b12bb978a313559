//! The body of a machine with async phases: one future for the whole run, as large as the largest phase needs.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll, Waker},
};

use pin_project::pin_project;

use crate::{
    Cx,
    fom::{
        AnyFom, Body, Progress, SelfRef, TypedFom, WaitingFor,
        course::{After, Course, Verdict, entry},
        typed::Outcome,
    },
    operation::{AsyncOperation, At, Entry, Operation},
};

/// A future in place of operation and phase.
#[pin_project]
pub(super) struct Driven<F> {
    #[pin]
    future: Option<F>,
}

impl<F> Driven<F> {
    pub(super) fn new(future: F) -> Self {
        Self {
            future: Some(future),
        }
    }
}

impl<O: Operation, F: Future<Output = Outcome<O>> + Send> Body<O> for Driven<F> {
    fn run(
        self: Pin<&mut Self>,
        _: &dyn TypedFom<O>,
        waker: &mut dyn FnMut() -> Waker,
    ) -> Result<Progress, Outcome<O>> {
        let Some(future) = self.project().future.as_pin_mut() else {
            return Ok(Progress::Waiting);
        };
        match future.poll(&mut Context::from_waker(&waker())) {
            Poll::Pending => Ok(Progress::Waiting),
            Poll::Ready(outcome) => Err(outcome),
        }
    }

    fn clear(self: Pin<&mut Self>) {
        self.project().future.set(None);
    }
}

/// The run of one fom from phase to phase.
pub(super) async fn drive<O: AsyncOperation>(me: SelfRef<O>, mut course: Course<O>) -> Outcome<O> {
    let fom = me.get();
    let mut cx = Cx::new(fom);
    let mut after = course.begin(fom);
    loop {
        let late = match after {
            After::Late => true,
            After::Enter | After::Stay if crate::locality::spent() => {
                // To the tail: a wake while it runs makes it ready again when it stops.
                fom.header().token.wake();
                Yield(false).await;
                after = match fom.header().interrupt() {
                    Some(interrupt) => course.settle(fom, Verdict::Interrupted(interrupt)),
                    None => After::Enter,
                };
                continue;
            }
            After::Enter | After::Stay => false,
            After::Retry(until) => {
                let wait = Until {
                    fom: fom.as_any(),
                    at: until,
                };
                match Fence::new(fom, wait).await {
                    Ok(()) => false,
                    Err(verdict) => {
                        after = course.settle(fom, verdict);
                        continue;
                    }
                }
            }
            After::Ended => return course.ended(),
            After::Failed(cause) => return course.failed(cause),
        };
        let entry = if !late && course.info().waits() {
            match Fence::new(fom, cx.event()).await {
                Ok(event) => Entry::Event(event),
                Err(verdict) => {
                    after = course.settle(fom, verdict);
                    continue;
                }
            }
        } else {
            entry(late)
        };
        let verdict = match course.before(fom) {
            Some(verdict) => verdict,
            None => {
                let at = At {
                    phase: &mut course.phase,
                    cx: &mut cx,
                    entry,
                };
                match Fence::new(fom, course.operation.step(at)).await {
                    Ok(stepped) => Verdict::Stepped(stepped),
                    Err(verdict) => verdict,
                }
            }
        };
        after = if late {
            course.settle_late(fom, verdict)
        } else {
            course.settle(fom, verdict)
        };
    }
}

/// Looks at cancel and deadline before each poll but the first, and catches panics.
#[pin_project]
struct Fence<'a, O: Operation, F> {
    fom: &'a dyn TypedFom<O>,
    waited: bool,
    #[pin]
    inner: F,
}

impl<'a, O: Operation, F: Future> Fence<'a, O, F> {
    fn new(fom: &'a dyn TypedFom<O>, inner: F) -> Self {
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
        let header = this.fom.header();
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

/// Pending once.
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

/// Ready at a time of the fom's clock; uses the fom's own timer.
struct Until<'a> {
    fom: &'a dyn AnyFom,
    at: u64,
}

impl Future for Until<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let header = self.fom.header();
        if header.world().clock.nanos() >= self.at {
            header.arm_deadline();
            return Poll::Ready(());
        }
        header.arm_until(self.at);
        header.set_waiting_for(WaitingFor::Retry);
        Poll::Pending
    }
}
