//! What running foms costs in memory. In a binary of its own, since there is one allocator for the whole process.
//!
//! Each thread counts what it allocates itself: threads of the crew that are still starting, and those of the test
//! harness, are no part of what is measured.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
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

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

fn count() {
    // An error is a thread that is being taken down.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

/// What this thread has allocated so far.
fn allocated() -> usize {
    ALLOCATIONS.with(Cell::get)
}

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: asks of its caller what `System` asks.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: asks of its caller what `System` asks.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above; and the pointer came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }

    // SAFETY: asks of its caller what `System` asks.
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
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

/// What a fom tells of its runs: how many, and what the thread that runs it has allocated so far.
#[derive(Default)]
struct Runs {
    count: AtomicUsize,
    allocated: AtomicUsize,
}

impl Runs {
    fn one_more(&self) {
        self.allocated.store(allocated(), Ordering::SeqCst);
        self.count.fetch_add(1, Ordering::SeqCst);
    }
}

/// Counts its runs.
struct Counts(Arc<Runs>);

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
            self.0.one_more();
            Poll::Pending
        })
        .await
    }
}

/// Adds up what it is sent, in a plain function, and goes through two phases each time.
struct Adds {
    sum: u64,
    runs: Arc<Runs>,
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
        self.runs.one_more();
        Ok(if self.sum == u64::MAX {
            AddingAfterTold::Never
        } else {
            AddingAfterTold::Wait
        })
    }
}

/// Waits for a count without allocating.
fn until(runs: &Runs, count: usize) {
    let limit = Instant::now() + Duration::from_secs(30);
    while runs.count.load(Ordering::SeqCst) < count {
        assert!(Instant::now() < limit, "the test hangs");
        std::thread::yield_now();
    }
}

const ROUNDS: usize = 1_000;

/// What 1,000 rounds allocate, after some to warm up: on this thread, and on the one that runs the fom.
fn allocations(runs: &Runs, mut round: impl FnMut()) -> (usize, usize) {
    (0..200).for_each(|_| round());
    let before = (allocated(), runs.allocated.load(Ordering::SeqCst));
    (0..ROUNDS).for_each(|_| round());
    (
        allocated() - before.0,
        runs.allocated.load(Ordering::SeqCst) - before.1,
    )
}

/// The locality looks at its sockets at the latest every so many runs, and tokio makes a list for each such look.
const RUNS_A_TURN: usize = 61;

/// FL-13: in the steady state a wake allocates nothing in the thread that wakes, and neither does an event; the run that
/// follows, with its transitions, allocates nothing of ours. What is left is tokio's: one small list for each turn of a
/// reactor that did not sleep, at most one in 61 runs. And the size of a fom is published.
/// WK-01: a wake does not allocate.
#[test]
fn waking_and_running_allocate_nothing() {
    let runtime = Runtime::builder()
        .localities(1)
        .pin(false)
        .clock(Clock::system())
        .build()
        .unwrap();
    let runs = Arc::<Runs>::default();
    let fom = runtime.submit(Counts(Arc::clone(&runs))).start().unwrap();
    until(&runs, 1);
    let mut expected = 1;
    let (waker, handler) = allocations(&runs, || {
        expected += 1;
        fom.wake();
        until(&runs, expected);
    });
    assert_eq!(waker, 0, "allocations by 1,000 wakes");
    assert!(
        handler <= ROUNDS / RUNS_A_TURN + 1,
        "{handler} allocations in 1,000 runs"
    );

    let runs = Arc::<Runs>::default();
    let adds = runtime
        .submit(Adds {
            sum: 0,
            runs: Arc::clone(&runs),
        })
        .start()
        .unwrap();
    let mut expected = 0;
    let (sender, handler) = allocations(&runs, || {
        expected += 1;
        adds.send(Event::Tick(1)).unwrap();
        until(&runs, expected);
    });
    assert_eq!(sender, 0, "allocations by 1,000 events");
    // A run may find its event taken already by the one before: two runs an event at most.
    assert!(
        handler <= 2 * ROUNDS / RUNS_A_TURN + 1,
        "{handler} allocations in 1,000 events with 2,000 transitions"
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

    // Who submits allocates the fom and its first event's place in the mailbox; the registry and the queues grow now and
    // then.
    let (submitter, _) = allocations(&runs, || {
        let before = runs.count.load(Ordering::SeqCst);
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
    assert!(
        submitter <= 3 * ROUNDS,
        "{submitter} allocations for 1,000 foms"
    );
}
