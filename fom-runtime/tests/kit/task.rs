//! What the tests of localities share: a fom made of one closure, and a limit for tests that could hang.
use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    time::{Duration, Instant},
};

use fom_runtime::{observe::LocalityInfo, prelude::*};

/// The limit for every test here, however loaded the machine is; a slower test counts as hung.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Aborts the process when it is not dropped within [`LIMIT`]: a hang fails, also one that blocks the test's own
/// thread.
pub(crate) struct Limit(Option<Sender<()>>);

pub(crate) fn limit() -> Limit {
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    let (done, over) = channel();
    std::thread::spawn(move || {
        if over.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{name} hangs");
            std::process::abort();
        }
    });
    Limit(Some(done))
}

impl Drop for Limit {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}

type Body =
    Box<dyn for<'a> FnOnce(&'a mut Cx<'_>) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> + Send>;

/// A fom of one phase, which is the given closure.
pub(crate) struct Task(Option<Body>);

#[fom(operation(Task), transient)]
pub(crate) enum TaskPhase {
    #[phase(start, to(Done))]
    Work,
    #[phase(end)]
    Done,
}

impl TaskPhaseTransitions for Task {
    async fn work(&mut self, cx: &mut Cx<'_>) -> Result<(), fom_runtime::error::BoxError> {
        let body = self.0.take().expect("it runs once");
        body(cx).await;
        Ok(())
    }
}

pub(crate) fn task<F>(body: F) -> Task
where
    F: for<'a> FnOnce(&'a mut Cx<'_>) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>
        + Send
        + 'static,
{
    Task(Some(Box::new(body)))
}

/// A fom that does not wait.
pub(crate) fn quick(body: impl FnOnce(&mut Cx<'_>) + Send + 'static) -> Task {
    task(move |cx| {
        body(cx);
        Box::pin(async {})
    })
}

/// Yields once: the fom goes to the tail of the run queue.
pub(crate) async fn pause() {
    let mut paused = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut paused, true) {
            return std::task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

/// A door at which plain threads and blocking sections wait until it opens. It may open before they wait.
#[derive(Clone, Default)]
pub(crate) struct Door(Arc<(std::sync::Mutex<bool>, std::sync::Condvar)>);

impl Door {
    pub(crate) fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    pub(crate) fn pass(&self) {
        let open = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(open, |open| !*open).unwrap());
    }
}

/// Polls until `so` holds, for events that no channel reports. The limit of the test is the limit.
pub(crate) fn until(what: &str, mut so: impl FnMut() -> bool) {
    found(what, || so().then_some(()));
}

/// Polls until `look` finds a value, for events that no channel reports. The limit of the test is the limit.
pub(crate) fn found<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < LIMIT, "it never came about: {what}");
        std::thread::yield_now();
    }
}

/// Polls a future once, with a waker that does nothing.
pub(crate) fn poll_once<F: Future>(future: Pin<&mut F>) -> std::task::Poll<F::Output> {
    future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
}

pub(crate) fn locality(runtime: &Runtime, index: usize) -> LocalityInfo {
    runtime.operations().localities.swap_remove(index)
}

pub(crate) fn one() -> Runtime {
    Runtime::builder().localities(1).pin(false).build().unwrap()
}

/// Adds one when it is dropped.
pub(crate) struct Drops(pub(crate) Arc<std::sync::atomic::AtomicUsize>);

impl Drop for Drops {
    fn drop(&mut self) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
}
