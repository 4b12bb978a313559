//! Active objects: a cancel cancels the work, wherever the request is; so does a deadline.
#![allow(
    unreachable_pub,
    reason = "the proxy has what is `pub`, here as in a library"
)]

use std::{sync::mpsc, thread};

use fom_patterns::{
    active::{ActiveCallError, is_cancelled},
    prelude::*,
};
use fom_runtime::time::{Instant, TestClock};

use crate::kit::{Gate, Log, limited, one, poll_once, secs};

struct Worker {
    log: Log,
    open: bool,
}

/// Logs its drop.
struct Bell(Log);

impl Drop for Bell {
    fn drop(&mut self) {
        self.0.put("dropped");
    }
}

#[active]
impl Worker {
    pub fn note(&mut self, what: &'static str) -> usize {
        self.log.put(what);
        self.log.lines().len()
    }

    #[when(self.open)]
    pub fn enter(&mut self) {
        self.log.put("entered");
    }

    /// Spins until it is told to stop.
    pub fn spin(&mut self, begun: mpsc::Sender<()>) -> &'static str {
        begun.send(()).unwrap();
        while !is_cancelled() {
            thread::yield_now();
        }
        "stopped early"
    }

    pub fn was_told(&self) -> bool {
        is_cancelled()
    }

    pub async fn forever(&mut self) -> u64 {
        let _bell = Bell(self.log.clone());
        self.log.put("begun");
        std::future::pending().await
    }
}

fn worker(runtime: &Runtime) -> (WorkerProxy, Log) {
    let log = Log::default();
    let worker = Worker {
        log: log.clone(),
        open: false,
    };
    (worker.activate(runtime).unwrap(), log)
}

/// AO-02, trap 29: a call that is cancelled in the queue leaves the list, is answered at once, and never runs.
#[test]
fn a_queued_call_is_taken_out() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let (worker, log) = worker(&runtime);
        let gate = Gate::close(&runtime, 0);
        let kept = worker.note("kept");
        let gone = worker.note("gone");
        assert_eq!(worker.queued(), 2);
        gone.cancel();
        assert!(gone.is_ready());
        assert_eq!(worker.queued(), 1);
        gate.open();
        assert!(matches!(gone.await, Err(ActiveCallError::Cancelled)));
        assert_eq!(kept.await.unwrap(), 1);
        assert_eq!(log.lines(), ["kept"]);
    });
}

/// AO-02: so does a call with a false guard. Cancelling an answered call does nothing.
#[test]
fn a_blocked_call_is_taken_out() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let (worker, log) = worker(&runtime);
        let blocked = worker.enter();
        runtime.quiet().await;
        blocked.cancel();
        assert!(matches!(blocked.await, Err(ActiveCallError::Cancelled)));
        assert_eq!(worker.queued(), 0);
        let answered = worker.note("one");
        runtime.quiet().await;
        answered.cancel();
        assert_eq!(answered.await.unwrap(), 1);
        assert_eq!(log.lines(), ["one"]);
    });
}

/// AO-02: a plain method that runs is told, and what it returns counts. The next method is not told. The cancel comes
/// from another thread than the thread that waits.
#[test]
fn a_running_method_is_told() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let (worker, _) = worker(&runtime);
        let (begun, has_begun) = mpsc::channel();
        let call = worker.spin(begun);
        let canceller = call.canceller();
        let waits = thread::spawn(move || call.wait());
        has_begun.recv().unwrap();
        canceller.cancel();
        assert_eq!(waits.join().unwrap().unwrap(), "stopped early");
        assert!(!worker.was_told().await.unwrap());
    });
}

/// AO-02: an async method that waits is dropped, and the object continues.
#[test]
fn an_async_method_is_dropped_at_its_next_wait() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let (worker, log) = worker(&runtime);
        let call = worker.forever();
        let after = worker.note("after");
        runtime.quiet().await;
        assert!(!after.is_ready());
        call.cancel();
        assert!(matches!(call.await, Err(ActiveCallError::Cancelled)));
        assert_eq!(after.await.unwrap(), 3);
        assert_eq!(log.lines(), ["begun", "dropped", "after"]);
    });
}

/// Dropping a call does not cancel it.
#[test]
fn a_dropped_call_runs_nevertheless() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let (worker, log) = worker(&runtime);
        drop(worker.note("not asked"));
        assert_eq!(worker.note("last").await.unwrap(), 2);
        assert_eq!(log.lines(), ["not asked", "last"]);
    });
}

/// AO-01, SM-18: a request waits until the deadline for a guard that stays false, on the runtime's clock. Then the
/// request is gone.
#[test]
fn a_deadline_takes_the_request_back() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let (worker, log) = worker(&runtime);
        let mut relative = Box::pin(worker.enter().within(secs(5)));
        let mut absolute = Box::pin(worker.enter().until(Instant::START + secs(7)));
        assert!(poll_once(relative.as_mut()).await.is_pending());
        assert!(poll_once(absolute.as_mut()).await.is_pending());
        runtime.quiet().await;
        clock.advance(secs(5));
        assert!(matches!(relative.await, Err(ActiveCallError::TimedOut(time)) if time == secs(5)));
        assert!(poll_once(absolute.as_mut()).await.is_pending());
        assert_eq!(worker.queued(), 1);
        clock.advance(secs(2));
        assert!(matches!(absolute.await, Err(ActiveCallError::TimedOut(time)) if time == secs(7)));
        assert_eq!(worker.queued(), 0);
        assert_eq!(log.lines(), [""; 0]);
        // Within the time, the deadline has no effect.
        assert_eq!(worker.note("in time").within(secs(1)).await.unwrap(), 1);
    });
}
