//! What running foms costs in memory. In a binary of its own: the allocator counts for the whole process.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::{Duration, Instant},
};

use fom_runtime::{Clock, prelude::*};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above; and the pointer came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[derive(Debug)]
struct Oops;

enum Event {
    Tick(u64),
}

/// Counts its runs.
struct Counts(Arc<AtomicUsize>);

#[fom(operation(Counts), error(Oops), transient)]
enum Counted {
    #[phase(start, to(Never))]
    Count,
    #[phase(end)]
    Never,
}

impl CountedTransitions for Counts {
    async fn count(&mut self, _: &mut Cx<'_>) -> Result<(), Oops> {
        poll_fn(|_| {
            self.0.fetch_add(1, Ordering::SeqCst);
            Poll::Pending
        })
        .await
    }
}

/// Adds up what it is sent, in a plain function, and goes through two phases each time.
struct Adds {
    sum: u64,
    runs: Arc<AtomicUsize>,
}

#[fom(operation(Adds), error(Oops), event(Event), transient)]
enum Adding {
    #[phase(start, to(Told), sync, on(Tick))]
    Wait,
    #[phase(to(Wait, Never), sync)]
    Told,
    #[phase(end)]
    Never,
}

impl AddingTransitions for Adds {
    fn wait(&mut self, _: &mut Cx<'_, Event>, event: Event) -> Result<AddingAfterWait, Oops> {
        let Event::Tick(tick) = event;
        self.sum += tick;
        Ok(AddingAfterWait::Told)
    }
    fn told(&mut self, _: &mut Cx<'_, Event>) -> Result<AddingAfterTold, Oops> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        Ok(if self.sum == u64::MAX {
            AddingAfterTold::Never
        } else {
            AddingAfterTold::Wait
        })
    }
}

/// Waits for a count without allocating.
fn until(counter: &AtomicUsize, count: usize) {
    let limit = Instant::now() + Duration::from_secs(30);
    while counter.load(Ordering::SeqCst) < count {
        assert!(Instant::now() < limit, "the test hangs");
        std::thread::yield_now();
    }
}

/// The allocations of 1,000 rounds, after some to warm up.
fn allocations(mut round: impl FnMut()) -> usize {
    (0..200).for_each(|_| round());
    let before = ALLOCATIONS.load(Ordering::SeqCst);
    (0..1_000).for_each(|_| round());
    ALLOCATIONS.load(Ordering::SeqCst) - before
}

/// FL-13: in the steady state nothing is allocated: not by a wake from another thread, nor by the run that follows, nor
/// by an event and the two transitions that it causes. And the size of a fom is published.
/// WK-01: a wake does not allocate.
#[test]
fn waking_and_running_allocate_nothing() {
    let runtime = Runtime::builder()
        .localities(1)
        .pin(false)
        .clock(Clock::system())
        .build()
        .unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let fom = runtime.submit(Counts(Arc::clone(&runs))).start().unwrap();
    until(&runs, 1);
    let mut expected = 1;
    // Until it has run and, most times, sleeps again.
    let woken = allocations(|| {
        expected += 1;
        fom.wake();
        until(&runs, expected);
    });
    assert_eq!(woken, 0, "allocations in 1,000 wakes");

    let runs = Arc::new(AtomicUsize::new(0));
    let adds = runtime
        .submit(Adds {
            sum: 0,
            runs: Arc::clone(&runs),
        })
        .start()
        .unwrap();
    let mut expected = 0;
    let sent = allocations(|| {
        expected += 1;
        adds.send(Event::Tick(1)).unwrap();
        until(&runs, expected);
    });
    assert_eq!(
        sent, 0,
        "allocations in 1,000 events with 2,000 transitions"
    );

    for fom in runtime.operations().foms {
        let least = if fom.operation == "Adds" {
            size_of::<Adds>()
        } else {
            size_of::<Counts>()
        };
        assert!(
            (least..=768).contains(&fom.bytes),
            "{}: {} bytes",
            fom.operation,
            fom.bytes
        );
    }

    // A submission is the fom itself, its outcome, and what grows now and then: the mailbox, the registry, the queues.
    let fast = allocations(|| {
        let before = runs.load(Ordering::SeqCst);
        let fom = runtime
            .submit(Adds {
                sum: u64::MAX,
                runs: Arc::clone(&runs),
            })
            .start()
            .unwrap();
        fom.send(Event::Tick(0)).unwrap();
        until(&runs, before + 1);
        assert!(fom.wait().is_ok());
    });
    assert!(fast <= 4 * 1_000, "{fast} allocations for 1,000 foms");
}
