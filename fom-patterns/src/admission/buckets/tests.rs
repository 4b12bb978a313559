//! Tests what is not visible from outside: how many buckets are kept.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use fom_runtime::{
    Cx, Runtime,
    error::BoxError,
    fom,
    time::{Instant, TestClock},
};

use super::{MOST_IDLE, Rate, TokenBuckets};
use crate::admission::{Admission, Next, Policy, Request, Tags};

struct Nothing;

#[fom(operation(Nothing), transient)]
enum NothingPhase {
    #[phase(start, sync, to(Done))]
    Serve,
    #[phase(end)]
    Done,
}

impl NothingPhaseTransitions for Nothing {
    fn serve(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// Counts the buckets.
struct Counted(TokenBuckets, Arc<AtomicUsize>);

impl Policy for Counted {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn enqueue(&mut self, request: Request, now: Instant) -> Result<(), Request> {
        self.0.enqueue(request, now)
    }
    fn get(&mut self, now: Instant, force: bool) -> Next {
        let next = self.0.get(now, force);
        self.1.store(self.0.buckets.len(), Relaxed);
        next
    }
    fn remove(&mut self, request: &Tags) -> Option<Request> {
        self.0.remove(request)
    }
    fn visit(&self, visitor: &mut dyn FnMut(&Tags)) {
        self.0.visit(visitor);
    }
}

/// NR-07, 77s: buckets are forgotten when they are full again, and when there are too many. No request is lost.
#[test]
fn buckets_are_forgotten() {
    let clock = TestClock::new();
    let runtime = Runtime::builder()
        .localities(1)
        .pin(false)
        .clock(&clock)
        .build()
        .unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let rate = Rate::per_second(1).unwrap().burst(2).unwrap();
    let intake = Admission::builder(&runtime)
        .policy(Counted(TokenBuckets::per_client(rate), Arc::clone(&count)))
        .build()
        .unwrap();
    let serve = |clients: std::ops::Range<u64>| {
        for client in clients {
            let queued = intake.submit(Nothing).client(client).start().unwrap();
            assert!(queued.wait().is_ok());
        }
        count.load(Relaxed)
    };
    assert_eq!(serve(0..100), 100);
    // Full again: each new bucket makes the policy forget two old ones.
    clock.advance(Duration::from_secs(1));
    assert!(serve(200..300) <= 101);
    for thousand in 0..20 {
        assert!(serve(thousand * 1000..(thousand + 1) * 1000) <= MOST_IDLE + 1);
        clock.advance(Duration::from_millis(1));
    }
    // Remembered buckets get no credit: the last ones have one token left.
    let last = intake.submit(Nothing).client(19_999_u64);
    assert!(last.start().unwrap().wait().is_ok());
    let last = intake.submit(Nothing).client(19_999_u64).start().unwrap();
    assert_eq!(intake.queued(), 1);
    clock.advance(Duration::from_secs(1));
    assert!(last.wait().is_ok());
}
