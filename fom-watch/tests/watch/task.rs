//! An operation that hangs as a test wants.

use std::{
    future::{Future, poll_fn},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver},
    },
    task::Poll,
    time::Duration,
};

use fom_patterns::lock::LongLock;
use fom_runtime::{machine::Retry, observe::WaitsFor, prelude::*, time::TestClock};
use fom_watch::{Warned, Warning, WarningKind, Watch, WatchExt};

use crate::kit::{many, secs};

const PATIENT: Retry = Retry::new(90, Duration::from_secs(10), Duration::from_secs(10));

pub(crate) enum Task {
    /// Waits for an event in a phase that may hang for five minutes.
    Hear,
    /// Waits for an event in a phase that may hang for ever.
    Rest,
    /// Sleeps for ten seconds, or waits for an event.
    Nap {
        long: bool,
    },
    /// Computes until the flag is set.
    Spin(Arc<AtomicBool>),
    /// Blocks a thread, and has announced it or not.
    Block(Receiver<()>),
    Freeze(Receiver<()>),
    Retry,
    /// Wakes itself without end, until the flag is set.
    Storm(Arc<AtomicBool>),
    /// Takes both locks, after it has heard an event that lets it take the second one.
    Lock(LongLock, LongLock),
    /// Has ten seconds for an event.
    Hurry,
}

#[derive(Debug)]
pub(crate) enum Word {
    Go,
}

#[fom(operation(Task), event(Word), transient)]
pub(crate) enum Doing {
    #[phase(
        start,
        sync,
        to(
            Hearing, Resting, Napping, Spinning, Blocking, Freezing, Retrying, Storming, Locking,
            Hurrying
        )
    )]
    Choosing,
    #[phase(to(Done), on(Go), hung = "5m")]
    Hearing,
    #[phase(to(Done), on(Go), hung = "never")]
    Resting,
    #[phase(to(Done), on(Go))]
    Napping,
    #[phase(sync, to(Done), hung = "1m")]
    Spinning,
    #[phase(blocking, to(Done), hung = "1m")]
    Blocking,
    #[phase(sync, to(Done))]
    Freezing,
    #[phase(to(Done), retry(PATIENT), hung = "1m")]
    Retrying,
    #[phase(to(Done))]
    Storming,
    #[phase(to(Done), on(Go))]
    Locking,
    #[phase(to(Done), on(Go), within = "10s", late)]
    Hurrying,
    #[phase(end)]
    Done,
}

impl DoingTransitions for Task {
    fn choosing(&mut self, _: &mut Cx<'_, Word>) -> Result<DoingAfterChoosing, BoxError> {
        Ok(match self {
            Self::Hear => DoingAfterChoosing::Hearing,
            Self::Rest => DoingAfterChoosing::Resting,
            Self::Nap { .. } => DoingAfterChoosing::Napping,
            Self::Spin(_) => DoingAfterChoosing::Spinning,
            Self::Block(_) => DoingAfterChoosing::Blocking,
            Self::Freeze(_) => DoingAfterChoosing::Freezing,
            Self::Retry => DoingAfterChoosing::Retrying,
            Self::Storm(_) => DoingAfterChoosing::Storming,
            Self::Lock(..) => DoingAfterChoosing::Locking,
            Self::Hurry => DoingAfterChoosing::Hurrying,
        })
    }

    async fn hearing(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        let Word::Go = cx.event().await;
        Ok(())
    }

    async fn resting(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        let Word::Go = cx.event().await;
        Ok(())
    }

    async fn napping(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        if let Self::Nap { long: true } = self {
            let Word::Go = cx.event().await;
        } else {
            cx.sleep(secs(10)).await;
        }
        Ok(())
    }

    fn spinning(&mut self, _: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        if let Self::Spin(over) = self {
            while !over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        }
        Ok(())
    }

    fn blocking(&mut self, _: &mut BlockingCx<'_>) -> Result<(), BoxError> {
        if let Self::Block(over) = self {
            // The test drops the sender.
            let _ = over.recv();
        }
        Ok(())
    }

    fn freezing(&mut self, _: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        if let Self::Freeze(over) = self {
            let _ = over.recv();
        }
        Ok(())
    }

    async fn retrying(&mut self, _: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        Err("the provider is down".into())
    }

    fn storming(
        &mut self,
        _: &mut Cx<'_, Word>,
    ) -> impl Future<Output = Result<(), BoxError>> + Send {
        let over = match self {
            Self::Storm(over) => Arc::clone(over),
            _ => Arc::default(),
        };
        poll_fn(move |cx| {
            if over.load(Ordering::Relaxed) {
                return Poll::Ready(Ok(()));
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
    }

    async fn locking(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        let Self::Lock(first, second) = self else {
            return Ok(());
        };
        let _first = first.write(cx).await?;
        let Word::Go = cx.event().await;
        let _second = second.write(cx).await?;
        Ok(())
    }

    async fn hurrying(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        let Word::Go = cx.event().await;
        Ok(())
    }

    async fn hurrying_late(&mut self, _: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// A watched runtime of one locality on the clock of a test.
pub(crate) fn watched(clock: &TestClock) -> Runtime {
    many(1, clock).watch(Watch::default()).build().unwrap()
}

pub(crate) fn submit(runtime: &Runtime, task: Task) -> Handle<Task> {
    runtime.submit(task).start().unwrap()
}

/// Returns the warnings of this kind that stand.
pub(crate) fn warned(runtime: &Runtime, kind: WarningKind) -> Vec<Warning> {
    let mut all = runtime.inspect().warnings().warnings;
    all.retain(|warning| warning.kind == kind);
    all
}

/// Returns the only warning of this kind.
#[track_caller]
pub(crate) fn only(runtime: &Runtime, kind: WarningKind) -> Warning {
    let [warning] = &*warned(runtime, kind) else {
        panic!("one {kind} in {}", runtime.inspect().warnings());
    };
    warning.clone()
}

/// Waits until a fom runs, is blocked, or whatever the closure finds.
pub(crate) fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}

/// Returns a sender, and the receiver of a task that blocks until the sender is dropped.
pub(crate) fn held() -> (mpsc::Sender<()>, Receiver<()>) {
    mpsc::channel()
}

/// Waits until the fom with this handle waits for something.
pub(crate) fn until_waits(
    runtime: &Runtime,
    fom: &Handle<Task>,
    is_so: impl Fn(&WaitsFor) -> bool,
) {
    until(|| {
        let info = runtime.operation(fom.id());
        info.is_some_and(|info| info.waits.iter().any(|wait| is_so(&wait.on)))
    });
}
