//! What running foms costs in memory.
//!
//! Each thread counts its own allocations. Threads of a locality that are still starting, threads of other tests, and
//! threads of the test harness are not measured.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    future::poll_fn,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::{Duration, Instant},
};

use fom_runtime::{
    error::BoxError,
    prelude::*,
    time::{Clock, TestClock},
};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

fn count() {
    // An error means that the thread is being taken down.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

/// Returns the number of this thread's allocations so far.
fn allocated() -> usize {
    ALLOCATIONS.with(Cell::get)
}

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: requires of its caller what `System` requires.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are the promises that `System` requires.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: requires of its caller what `System` requires.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above; and the pointer came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }

    // SAFETY: requires of its caller what `System` requires.
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

/// What a fom reports of its runs: their number, and the allocations so far of the thread that runs the fom.
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

/// Adds up its events in a plain function, and goes through two phases for each event.
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

/// Sleeps again and again.
struct Sleeps(Arc<Runs>);

#[fom(operation(Sleeps), error(Oops), transient)]
enum Sleeping {
    #[phase(start, to(Never))]
    Sleep,
    #[phase(end)]
    Never,
}

impl SleepingTransitions for Sleeps {
    async fn sleep(&mut self, cx: &mut Cx<'_>) -> Result<(), Oops> {
        loop {
            cx.sleep(Duration::from_secs(1)).await;
            self.0.one_more();
        }
    }
}

/// Keeps the request of [`Calls`].
#[derive(Clone, Default)]
struct Desk(Arc<Mutex<Option<Reply<u64>>>>);

impl Desk {
    /// Waits for a request without allocating.
    fn next(&self) -> Reply<u64> {
        let mut reply = None;
        so(|| {
            reply = self.0.lock().unwrap().take();
            reply.is_some()
        });
        reply.unwrap()
    }
}

/// Makes one request after the other.
struct Calls(Arc<Runs>);

#[fom(operation(Calls), transient)]
enum Calling {
    #[phase(start, to(Never))]
    Call,
    #[phase(end)]
    Never,
}

impl CallingTransitions for Calls {
    async fn call(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        loop {
            cx.call(|desk: &Desk, reply| *desk.0.lock().unwrap() = Some(reply))
                .await?;
            self.0.one_more();
        }
    }
}

/// Waits for a count without allocating.
fn until(runs: &Runs, count: usize) {
    so(|| runs.count.load(Ordering::SeqCst) >= count);
}

/// Waits without allocating.
fn so(mut so: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(30);
    while !so() {
        assert!(Instant::now() < limit, "the test hangs");
        std::thread::yield_now();
    }
}

const ROUNDS: usize = 1_000;

/// Returns the allocations of 1,000 rounds, after a warm-up: on this thread, and on the thread that runs the fom.
fn allocations(runs: &Runs, mut round: impl FnMut()) -> (usize, usize) {
    (0..200).for_each(|_| round());
    let before = (allocated(), runs.allocated.load(Ordering::SeqCst));
    (0..ROUNDS).for_each(|_| round());
    (
        allocated() - before.0,
        runs.allocated.load(Ordering::SeqCst) - before.1,
    )
}

/// The locality looks at its sockets at least once in this many runs, and tokio makes a list for each such look.
const RUNS_A_TURN: usize = 61;

/// FL-13: in the steady state, neither a wake nor an event allocates in the sending thread. The run that follows, with
/// its transitions, allocates nothing of ours. What is left is tokio's: one small list for each turn of a reactor that
/// did not sleep, at most one in 61 runs. The size of a fom is published.
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
    // A run may find its event already taken by the run before: at most two runs for each event.
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
            (least..=768).contains(&fom.home.bytes),
            "{}: {} bytes",
            fom.operation,
            fom.home.bytes
        );
    }

    // A submission allocates the fom and the place of its first event in the mailbox. The registry and the queues grow
    // now and then.
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

/// A sleep that ends after the one before needs no allocation.
#[test]
fn sleeping_allocates_nothing() {
    let clock = TestClock::new();
    let runtime = Runtime::builder()
        .localities(1)
        .pin(false)
        .clock(&clock)
        .build()
        .unwrap();
    let runs = Arc::<Runs>::default();
    let _fom = runtime.submit(Sleeps(Arc::clone(&runs))).start().unwrap();
    let (_, handler) = allocations(&runs, || {
        let before = runs.count.load(Ordering::SeqCst);
        // An advance that comes before the sleep is armed ends nothing.
        so(|| {
            clock.advance(Duration::from_secs(1));
            runs.count.load(Ordering::SeqCst) > before
        });
    });
    assert!(
        handler <= 2 * ROUNDS / RUNS_A_TURN + 1,
        "{handler} allocations in 1,000 sleeps"
    );
}

/// A request and its answer from another thread allocate nothing, once the thread that runs the fom has done it before.
#[test]
fn asking_allocates_nothing() {
    let desk = Desk::default();
    let runtime = Runtime::builder()
        .localities(1)
        .pin(false)
        .clock(Clock::system())
        .resource(desk.clone())
        .build()
        .unwrap();
    let runs = Arc::<Runs>::default();
    let _fom = runtime.submit(Calls(Arc::clone(&runs))).start().unwrap();
    let mut expected = 0;
    let (sender, handler) = allocations(&runs, || {
        expected += 1;
        assert_eq!(desk.next().send(1), Ok(()));
        until(&runs, expected);
    });
    assert_eq!(sender, 0, "allocations by 1,000 answers");
    // An answer may come while the fom still runs, and its wake then causes a run without an answer.
    assert!(
        handler <= 2 * ROUNDS / RUNS_A_TURN + 1,
        "{handler} allocations in 1,000 requests"
    );
}
