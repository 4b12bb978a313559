//! What the behaviour tests share: a limit for every test, a log that keeps order, and a gate that holds a locality.
#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "each program of tests uses its own part of it"
)]

pub(crate) mod alone;
#[cfg(target_os = "linux")]
pub(crate) mod bursts;
pub(crate) mod foms;
pub(crate) mod gate;
pub(crate) mod held;
pub(crate) mod leased;
pub(crate) mod release;
pub(crate) mod task;
pub(crate) mod trips;

use std::{
    fmt::Display,
    future::{Future, poll_fn},
    panic::{self, resume_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex, Once, PoisonError,
        mpsc::{self, RecvTimeoutError},
    },
    task::Poll,
    thread,
    time::Duration,
};

use fom_runtime::{Builder, Runtime, time::TestClock};

/// The real time after which a test counts as hung. `FOM_TEST_PATIENCE=4` multiplies it by four, for tools that slow a
/// program down.
fn limit() -> Duration {
    let times = std::env::var("FOM_TEST_PATIENCE").map_or(1, |times| times.parse().unwrap());
    Duration::from_secs(120) * times
}

/// Runs the test in its own thread with a tokio runtime, and fails it when it hangs, also in code that blocks the
/// thread.
pub(crate) fn limited<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let thread = thread::spawn(move || {
        // Dropped last, and also when the test panics: the limit waits for the end of this thread.
        let _done: mpsc::Sender<()> = done;
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(test());
    });
    if ended.recv_timeout(limit()) == Err(RecvTimeoutError::Timeout) {
        panic!("the test hangs: not done after {:?}", limit());
    }
    if let Err(panic) = thread.join() {
        resume_unwind(panic);
    }
}

/// Prints no panic of a locality's thread any more. A failed assertion of a test is printed as before.
pub(crate) fn hush_localities() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let thread = thread::current();
            if !thread.name().is_some_and(|name| name.starts_with("fom-")) {
                print(info);
            }
        }));
    });
}

/// A log that any thread writes to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn put(&self, line: impl Display) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(line.to_string());
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A runtime of one locality, unbound, on a test's clock, before it is built.
pub(crate) fn one(clock: &TestClock) -> Builder {
    many(1, clock)
}

pub(crate) fn many(localities: usize, clock: &TestClock) -> Builder {
    Runtime::builder()
        .localities(localities)
        .pin(false)
        .clock(clock)
}

/// Holds the handler of a locality: foms submitted or woken there stay in the queue until the gate opens.
pub(crate) struct Gate {
    open: mpsc::Sender<()>,
}

impl Gate {
    /// Closes the gate. Returns when the handler stands at it.
    pub(crate) fn close(runtime: &Runtime, locality: usize) -> Self {
        let (open, opened) = mpsc::channel::<()>();
        let (stand, stands) = mpsc::channel();
        runtime
            .post(locality, move |_| {
                stand.send(()).unwrap();
                // An error means that the gate is dropped, which opens it too.
                let _ = opened.recv();
            })
            .unwrap();
        stands.recv().unwrap();
        Self { open }
    }

    pub(crate) fn open(self) {
        drop(self.open);
    }
}

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Polls once. Wakes of the future go to the waker of this task.
pub(crate) async fn poll_once<F: Future + ?Sized>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}
