//! The whole runtime under shuttle: threads, locks and atomics are its own, one thread runs at a time, and which one is
//! next is drawn at every step. Thousands of runs differ in their order alone.
//!
//! ```sh
//! RUSTFLAGS="--cfg fom_shuttle" cargo test --release -p fom-runtime --test shuttle
//! ```
//!
//! A wake that is lost, or a thread that does not end, is a deadlock, which shuttle reports with the order that led
//! there. There is no time: what waits with a limit waits for ever. Sockets and tokio's own timers are not modelled.
//!
//! What was broken on purpose to see that a model notices stands at the model as `seeded`.
#![cfg(fom_shuttle)]

#[path = "shuttle/active.rs"]
mod active;
#[path = "shuttle/keys.rs"]
mod keys;
#[path = "shuttle/locks.rs"]
mod locks;
#[path = "shuttle/moving.rs"]
mod moving;

use std::{sync::Arc, time::Duration};

use fom_runtime::{
    Builder, Followers, FomRef, FomState, Handle, RefusedReason, TestClock, balance::Balance,
    prelude::*, topology::Machine,
};
use shuttle::{
    Config, Runner,
    future::block_on,
    scheduler::{PctScheduler, RandomScheduler, Scheduler},
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

/// Runs `f` in that many orders drawn evenly, and in that many with few but well-placed switches (PCT), which find what
/// needs one thread to be held back for long.
fn check(orders: usize, f: impl Fn() + Send + Sync + 'static) {
    fn run(scheduler: impl Scheduler + 'static, f: Arc<impl Fn() + Send + Sync + 'static>) {
        let mut config = Config::new();
        // A phase function with its panic machinery needs more than the 32 KiB that shuttle gives.
        config.stack_size = 0x2_0000;
        // That every ordering is taken for SeqCst: what weaker ones allow is looked at by loom.
        config.silence_warnings = true;
        Runner::new(scheduler, config).run(move || f());
    }
    // `SHUTTLE_ORDERS=20` tries twenty times as many.
    let times = std::env::var("SHUTTLE_ORDERS").map_or(1, |times| times.parse().unwrap());
    let f = Arc::new(f);
    run(RandomScheduler::new(orders * times), Arc::clone(&f));
    run(PctScheduler::new(3, orders * times), f);
}

/// A time that never comes: shuttle has no clock.
const NEVER: Duration = Duration::from_secs(3600);

/// A runtime whose threads are joined in the end: one that does not end is a deadlock.
struct Bench {
    runtime: Runtime,
    threads: Arc<std::sync::Mutex<Vec<thread::JoinHandle<()>>>>,
    watch: Arc<Watch>,
}

/// What the foms of one runtime look after together.
struct Watch {
    /// Somebody runs in this locality.
    inside: [AtomicBool; 2],
    /// Foms in a blocking section, and how many at most.
    sections: AtomicUsize,
    most: usize,
}

/// Visits of phases in one locality. No atomic: that is what is checked.
#[derive(Default)]
struct Visits(usize);

const MOST: Followers = Followers {
    least: 1,
    most: 8,
    idle: NEVER,
};

impl Bench {
    fn new(localities: usize, followers: Followers) -> Self {
        Self::balanced(localities, followers, Balance::Off, &TestClock::new())
    }

    fn balanced(
        localities: usize,
        followers: Followers,
        balance: Balance,
        clock: &TestClock,
    ) -> Self {
        Self::made(localities, followers, clock, |builder| {
            builder.balance(balance)
        })
    }

    fn with(
        localities: usize,
        followers: Followers,
        change: impl FnOnce(Builder) -> Builder,
    ) -> Self {
        Self::made(localities, followers, &TestClock::new(), change)
    }

    fn made(
        localities: usize,
        followers: Followers,
        clock: &TestClock,
        change: impl FnOnce(Builder) -> Builder,
    ) -> Self {
        let threads = Arc::new(std::sync::Mutex::new(Vec::new()));
        let watch = Arc::new(Watch {
            inside: [AtomicBool::new(false), AtomicBool::new(false)],
            sections: AtomicUsize::new(0),
            most: followers.most,
        });
        let runtime = change(Runtime::builder())
            .localities(localities)
            .machine(Machine::synthetic(1, 1, localities, 1))
            .pin(false)
            .clock(clock)
            .followers(followers)
            .resource(Arc::clone(&watch))
            .locality_data(|_| Ok::<_, std::io::Error>(Visits::default()))
            .spawn_with({
                let threads = Arc::clone(&threads);
                move |_, main| {
                    let thread = thread::spawn(main);
                    threads.lock().unwrap().push(thread);
                    Ok(())
                }
            })
            .build()
            .unwrap();
        Self {
            runtime,
            threads,
            watch,
        }
    }

    fn visits(&self) -> usize {
        block_on(self.runtime.each(|local| local.data::<Visits>().0))
            .unwrap()
            .into_iter()
            .sum()
    }

    /// Joins every thread that was ever made.
    fn end(self, how: Option<Shutdown>) {
        self.end_with(how, || {});
    }

    /// The same, with what must be over before its threads can end.
    fn end_with(self, how: Option<Shutdown>, before: impl FnOnce()) {
        let runtime = self.runtime;
        if let Some(how) = how {
            let report = runtime.shutdown_blocking(how, NEVER);
            assert!(report.remained.is_empty());
            before();
            assert_eq!(runtime.in_flight(), 0);
        } else {
            drop(runtime);
            before();
        }
        loop {
            let Some(thread) = self.threads.lock().unwrap().pop() else {
                break;
            };
            thread.join().unwrap();
        }
        assert_eq!(self.watch.sections.load(Ordering::Relaxed), 0);
    }
}

/// A place where threads wait for a word, outside of the runtime.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    fn wait(&self) {
        let mut open = self.open.lock().unwrap();
        while !*open {
            open = self.opened.wait(open).unwrap();
        }
    }
}

/// Is alone in its locality, and counts.
fn visit<E>(cx: &mut Cx<'_, E>) {
    let here = cx.locality();
    let watch = Arc::clone(cx.resource::<Arc<Watch>>());
    assert!(
        !watch.inside[here].swap(true, Ordering::AcqRel),
        "two foms in one locality"
    );
    cx.local(|visits: &mut Visits| {
        let before = visits.0;
        thread::yield_now();
        visits.0 = before + 1;
    });
    watch.inside[here].store(false, Ordering::Release);
}

/// Blocks while `f` runs.
fn section<E>(cx: &mut Cx<'_, E>, f: impl FnOnce()) -> Result<(), BoxError> {
    let watch = Arc::clone(cx.resource::<Arc<Watch>>());
    let guard = cx.enter_block()?;
    let others = watch.sections.fetch_add(1, Ordering::AcqRel);
    assert!(others < watch.most, "more sections than may be");
    f();
    watch.sections.fetch_sub(1, Ordering::AcqRel);
    drop(guard);
    Ok(())
}

/// Visits, and blocks in between, so often.
struct Work {
    sections: usize,
}

#[fom(operation(Work), transient)]
enum Working {
    #[phase(start, sync, to(Step, Done))]
    Step,
    #[phase(end)]
    Done,
}

impl WorkingTransitions for Work {
    fn step(&mut self, cx: &mut Cx<'_>) -> Result<WorkingAfterStep, BoxError> {
        visit(cx);
        if self.sections == 0 {
            return Ok(WorkingAfterStep::Done);
        }
        self.sections -= 1;
        section(cx, thread::yield_now)?;
        visit(cx);
        Ok(WorkingAfterStep::Step)
    }
}

/// Foms that block beside foms that do not: all end, and nobody is ever in a locality with another.
///
/// Seeded: a handler that never gives the core to who returns, or sleeps although somebody returns; `regain` without its
/// poke; a call for a follower that is only a notification, and is lost when none is idle yet (all of them: deadlock).
fn hand_over(localities: usize) {
    check(4000, move || {
        let bench = Bench::new(localities, MOST);
        let foms =
            [2, 0, 1].map(|sections| bench.runtime.submit(Work { sections }).start().unwrap());
        for fom in foms {
            fom.wait().unwrap();
        }
        assert_eq!(bench.visits(), 5 + 1 + 3);
        bench.end(Some(Shutdown::Drain));
    });
}

#[test]
fn hand_over_in_one_locality() {
    hand_over(1);
}

#[test]
fn hand_over_in_two_localities() {
    hand_over(2);
}

/// Blocks so often, with nothing in between.
struct Blocks(usize);

#[fom(operation(Blocks), transient)]
enum Blocking {
    #[phase(start, sync, to(Done))]
    Block,
    #[phase(end)]
    Done,
}

impl BlockingTransitions for Blocks {
    fn block(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        for _ in 0..self.0 {
            section(cx, thread::yield_now)?;
        }
        visit(cx);
        Ok(())
    }
}

/// At most one thread may stand beside the handler: who blocks waits until the one before is back, and gives it the core.
/// There is never a second one in a section, for then nobody would serve the locality.
#[test]
fn at_the_most_enter_waits() {
    check(8000, || {
        let bench = Bench::new(1, Followers { most: 1, ..MOST });
        let foms = [2, 1].map(|sections| bench.runtime.submit(Blocks(sections)).start().unwrap());
        for fom in foms {
            fom.wait().unwrap();
        }
        assert_eq!(bench.visits(), 2);
        bench.end(Some(Shutdown::Drain));
    });
}

#[derive(Debug, PartialEq)]
enum Word {
    Go,
}

/// Blocks, then waits for a word.
struct Task {
    in_section: Arc<dyn Fn() + Send + Sync>,
}

fn task(in_section: impl Fn() + Send + Sync + 'static) -> Task {
    Task {
        in_section: Arc::new(in_section),
    }
}

#[fom(operation(Task), event(Word), transient)]
enum Tasking {
    #[phase(start, sync, to(Wait))]
    Block,
    #[phase(sync, on(Go), to(Done))]
    Wait,
    #[phase(end)]
    Done,
}

impl TaskingTransitions for Task {
    fn block(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        visit(cx);
        section(cx, || (self.in_section)())?;
        visit(cx);
        Ok(())
    }

    fn wait(&mut self, cx: &mut Cx<'_, Word>, _: Word) -> Result<TaskingAfterWait, BoxError> {
        visit(cx);
        Ok(TaskingAfterWait::Done)
    }
}

/// The same with async phases: the word, and an answer from another thread.
struct AsyncTask;

#[fom(operation(AsyncTask), event(Word), transient)]
enum AsyncTasking {
    #[phase(start, to(Wait))]
    Block,
    #[phase(on(Go), to(Ask))]
    Wait,
    #[phase(to(Done))]
    Ask,
    #[phase(end)]
    Done,
}

impl AsyncTaskingTransitions for AsyncTask {
    async fn block(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        visit(cx);
        section(cx, thread::yield_now)?;
        visit(cx);
        Ok(())
    }

    async fn wait(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        visit(cx);
        assert_eq!(cx.event().await, Word::Go);
        visit(cx);
        Ok(())
    }

    async fn ask(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        let answer = cx
            .call(|_: &Arc<Watch>, reply: Reply<u8>| {
                thread::spawn(move || reply.send(7));
            })
            .await?;
        assert_eq!(answer, 7);
        visit(cx);
        Ok(())
    }
}

/// A word that comes while the fom is queued, runs, blocks, comes back or waits: it is never lost.
#[test]
fn a_wake_against_leave_block() {
    check(5000, || {
        let bench = Bench::new(1, MOST);
        let fom = bench
            .runtime
            .submit(task(thread::yield_now))
            .start()
            .unwrap();
        let other = bench.runtime.submit(Work { sections: 1 }).start().unwrap();
        let sender = thread::spawn({
            let fom = FomRef::clone(&fom);
            move || fom.send(Word::Go).unwrap()
        });
        fom.wait().unwrap();
        other.wait().unwrap();
        sender.join().unwrap();
        assert_eq!(bench.visits(), 3 + 3);
        bench.end(Some(Shutdown::Drain));
    });
}

#[test]
fn an_async_fom_that_blocks_waits_and_asks() {
    check(3000, || {
        let bench = Bench::new(1, MOST);
        let foms = [(), ()].map(|()| bench.runtime.submit(AsyncTask).start().unwrap());
        for fom in &foms {
            fom.send(Word::Go).unwrap();
        }
        for fom in foms {
            fom.wait().unwrap();
        }
        assert_eq!(bench.visits(), 2 * 5);
        bench.end(Some(Shutdown::Drain));
    });
}

/// The only handler blocks until a fom has run that is submitted later: a follower is there for it.
///
/// Seeded: a push to a locality without a handler that calls nobody; `vacate` before the core is in the slot; a
/// sender that wakes before it puts the word in (deadlock).
#[test]
fn submitted_while_the_handler_blocks() {
    check(5000, || {
        let bench = Bench::new(1, MOST);
        let gate = Arc::new(Gate::default());
        let blocks = {
            let gate = Arc::clone(&gate);
            task(move || gate.wait())
        };
        let blocked = bench.runtime.submit(blocks).start().unwrap();
        let opens = task(move || gate.open());
        let opener = bench.runtime.submit(opens).start().unwrap();
        for fom in [blocked, opener] {
            fom.send(Word::Go).unwrap();
            fom.wait().unwrap();
        }
        bench.end(Some(Shutdown::Drain));
    });
}

/// Waits for another fom with its thread: a blocking section by itself.
struct Parent(Placement);

#[fom(operation(Parent), transient)]
enum Parenting {
    #[phase(start, sync, to(Done))]
    Wait,
    #[phase(end)]
    Done,
}

impl ParentingTransitions for Parent {
    fn wait(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        visit(cx);
        let child = cx.submit(Work { sections: 1 });
        let child = child.place(self.0).start()?;
        child.wait()?;
        visit(cx);
        Ok(())
    }
}

/// Foms that block until others have run: there is always a thread left.
///
/// Seeded: `reserve` that makes no thread (deadlock).
#[test]
fn a_fom_waits_for_another_with_its_thread() {
    check(4000, || {
        let bench = Bench::new(1, MOST);
        let parents = [(), ()].map(|()| {
            bench
                .runtime
                .submit(Parent(Placement::Here))
                .start()
                .unwrap()
        });
        for parent in parents {
            parent.wait().unwrap();
        }
        assert_eq!(bench.visits(), 2 * (2 + 3));
        bench.end(Some(Shutdown::Drain));
    });
}

/// `quiet` answers when every fom waits and none blocks.
///
/// Seeded: `quiet` that is answered while somebody is in a section.
#[test]
fn quiet_against_a_section() {
    check(3000, || {
        let bench = Bench::new(2, MOST);
        let foms = [(), ()].map(|()| {
            bench
                .runtime
                .submit(task(thread::yield_now))
                .start()
                .unwrap()
        });
        block_on(bench.runtime.quiet());
        for fom in foms {
            assert_eq!((fom.state(), fom.phase()), (FomState::Waiting, "Wait"));
            fom.send(Word::Go).unwrap();
            fom.wait().unwrap();
        }
        bench.end(Some(Shutdown::Drain));
    });
}

/// A shutdown meets foms that are queued, run, block and wait: each handle gets an answer, and every thread ends.
fn shutdown(how: Shutdown) {
    check(3000, move || {
        let bench = Bench::new(2, MOST);
        let words = [(), ()].map(|()| {
            bench
                .runtime
                .submit(task(thread::yield_now))
                .start()
                .unwrap()
        });
        let works = [1, 0].map(|sections| bench.runtime.submit(Work { sections }).start().unwrap());
        let sender = thread::spawn({
            let words = words.each_ref().map(|fom| FomRef::clone(fom));
            move || {
                // One may have ended already, by the shutdown.
                words.map(|fom| fom.send(Word::Go).is_ok())
            }
        });
        let late = thread::spawn({
            let runtime = bench.runtime.clone();
            move || match how {
                Shutdown::Drain => answer(how, runtime.submit(Work { sections: 0 }).start()),
                // It waits for a word that never comes.
                Shutdown::Now => answer(how, runtime.submit(task(|| {})).start()),
            }
        });
        let report = bench.runtime.shutdown_blocking(how, NEVER);
        assert!(report.remained.is_empty());
        for fom in words {
            answer(how, Ok(fom));
        }
        for fom in works {
            answer(how, Ok(fom));
        }
        let sent = sender.join().unwrap();
        assert!(how == Shutdown::Now || sent == [true; 2]);
        late.join().unwrap();
        bench.end(None);
    });

    fn answer<O>(how: Shutdown, started: Result<Handle<O>, Refused<O>>)
    where
        O: Operation<Error = BoxError>,
    {
        match started.map(Handle::wait) {
            Ok(Ok(_)) => {}
            Ok(Err(failure)) => match failure.cause {
                Cause::Shutdown => assert_eq!(how, Shutdown::Now),
                cause => panic!("{cause:?}"),
            },
            Err(refused) => assert_eq!(refused.reason(), RefusedReason::ShuttingDown),
        }
    }
}

#[test]
fn shutdown_drain() {
    shutdown(Shutdown::Drain);
}

/// Seeded: a fom that begins in a runtime that is closed (nobody tells it: deadlock); the reason of an end read before the
/// cancel (it said "cancelled").
#[test]
fn shutdown_now() {
    shutdown(Shutdown::Now);
}

/// The last handle goes while foms run, block, wait, and submit others: each gets some answer, and every thread ends.
#[test]
fn the_last_handle_goes() {
    check(4000, || {
        let bench = Bench::new(2, MOST);
        let parents = [Placement::Here, Placement::RoundRobin]
            .map(|place| bench.runtime.submit(Parent(place)).start().unwrap());
        let waiting = bench.runtime.submit(task(|| {})).start().unwrap();
        bench.end(None);
        for parent in parents {
            drop(parent.wait());
        }
        let cause = waiting.wait().unwrap_err().cause;
        assert!(matches!(cause, Cause::Shutdown), "{cause:?}");
    });
}

/// A fom submits another to a locality that ends at that moment: it is refused, or runs, or is told that it came too late.
///
/// Seeded: a parcel that is rejected without an answer (deadlock).
#[test]
fn submitted_to_a_locality_that_ends() {
    check(8000, || {
        let bench = Bench::new(2, MOST);
        let parent = Parent(Placement::Locality(1));
        let parent = bench.runtime.submit(parent).place(Placement::Locality(0));
        let parent = parent.start().unwrap();
        bench.end(None);
        drop(parent.wait());
    });
}

/// A cancel in whatever state the fom is: it ends as cancelled, or had ended before.
///
/// Seeded: the end of the last fom told without the lock under which the shutdown that follows looks (deadlock).
#[test]
fn cancel_against_everything() {
    check(5000, || {
        let bench = Bench::new(1, MOST);
        let foms = [(), ()].map(|()| {
            bench
                .runtime
                .submit(task(thread::yield_now))
                .start()
                .unwrap()
        });
        let cancellers = foms.each_ref().map(|fom| {
            let fom = FomRef::clone(fom);
            thread::spawn(move || fom.cancel())
        });
        for fom in &foms {
            // It may have been cancelled already.
            let _ = fom.send(Word::Go);
        }
        for fom in foms {
            match fom.wait() {
                Ok(_)
                | Err(Failure {
                    cause: Cause::Cancelled,
                    ..
                }) => {}
                Err(failure) => panic!("{failure:?}"),
            }
        }
        for canceller in cancellers {
            canceller.join().unwrap();
        }
        bench.end(Some(Shutdown::Drain));
    });
}

/// Two threads that want the fom of one key: one starts it, the other is shown that very one.
#[test]
fn two_threads_start_one_key() {
    check(5000, || {
        let bench = Bench::new(2, MOST);
        let starters = [(), ()].map(|()| {
            let runtime = bench.runtime.clone();
            thread::spawn(
                move || match runtime.submit(task(|| {})).key("one").start() {
                    Ok(fom) => (fom.id(), Some(fom)),
                    Err(refused) => (refused.live().unwrap().id(), None),
                },
            )
        });
        let started = starters.map(|starter| starter.join().unwrap());
        assert_eq!(started[0].0, started[1].0);
        let mut foms = started.into_iter().filter_map(|started| started.1);
        let fom = foms.next().unwrap();
        assert!(foms.next().is_none());
        assert_eq!(bench.runtime.find::<Task>("one").unwrap().id(), fom.id());
        fom.send(Word::Go).unwrap();
        fom.wait().unwrap();
        assert!(bench.runtime.find::<Task>("one").is_none());
        bench.end(Some(Shutdown::Drain));
    });
}

/// Operations that have been made, and that have been dropped.
#[derive(Default)]
struct Census {
    made: AtomicUsize,
    gone: AtomicUsize,
}

/// Has so many children of each kind: one whose handle it drops, one without a handle, and one whose handle goes outside.
struct Parental {
    census: Arc<Census>,
    generations: usize,
    handles: Arc<Mutex<Vec<Handle<Parental>>>>,
}

impl Parental {
    fn new(
        census: &Arc<Census>,
        generations: usize,
        handles: &Arc<Mutex<Vec<Handle<Self>>>>,
    ) -> Self {
        census.made.fetch_add(1, Ordering::Relaxed);
        Self {
            census: Arc::clone(census),
            generations,
            handles: Arc::clone(handles),
        }
    }

    fn child(&self) -> Self {
        Self::new(&self.census, self.generations - 1, &self.handles)
    }
}

impl Drop for Parental {
    fn drop(&mut self) {
        self.census.gone.fetch_add(1, Ordering::Relaxed);
    }
}

#[fom(operation(Parental), transient)]
enum Parenthood {
    #[phase(start, sync, to(Rest))]
    Bear,
    #[phase(sync, to(Done))]
    Rest,
    #[phase(end)]
    Done,
}

impl ParenthoodTransitions for Parental {
    fn bear(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        visit(cx);
        if self.generations > 0 {
            // While the runtime ends, each of them may be refused; the operation comes back then and is dropped.
            drop(cx.submit(self.child()).start());
            drop(cx.submit(self.child()).detach());
            let elsewhere = cx.submit(self.child()).place(Placement::RoundRobin);
            if let Ok(handle) = elsewhere.start() {
                self.handles.lock().unwrap().push(handle);
            }
        }
        Ok(())
    }

    fn rest(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        visit(cx);
        Ok(())
    }
}

/// Handles are dropped at once, awaited by other threads, or kept beyond the end of the runtime, while it ends in one way or
/// another: each one is answered, and in the end no operation, no fom's memory and no runtime is left.
///
/// Seeded: a refused submission that does not wake the locality that took it for a fom in flight (deadlock); a locality that keeps
/// its pools, or a pool that is not given up by who brings the last slot back (a runtime was left).
fn nothing_is_left(how: Option<Shutdown>) {
    check(3000, move || {
        let bench = Bench::new(2, MOST);
        let watch = Arc::clone(&bench.watch);
        let census = Arc::new(Census::default());
        let handles = Arc::new(Mutex::new(Vec::new()));
        let new = |generations| Parental::new(&census, generations, &handles);
        let kept = bench.runtime.submit(new(1)).start().unwrap();
        let address = FomRef::clone(&kept);
        let awaited = bench.runtime.submit(new(0)).start().unwrap();
        let awaits = thread::spawn(move || drop(awaited.wait()));
        drop(bench.runtime.submit(new(0)).start().unwrap());
        let late = thread::spawn({
            let (runtime, operation) = (bench.runtime.clone(), new(0));
            move || {
                // Refused, or started and answered.
                if let Ok(handle) = runtime.submit(operation).start() {
                    drop(runtime);
                    drop(handle.wait());
                }
            }
        });
        bench.runtime.submit(new(0)).detach().unwrap();
        bench.end_with(how, || late.join().unwrap());
        awaits.join().unwrap();
        drop(kept.wait());
        let handles = std::mem::take(&mut *handles.lock().unwrap());
        for (n, handle) in handles.into_iter().enumerate() {
            if n % 2 == 0 {
                drop(handle.wait());
            }
        }
        assert_eq!(address.state(), FomState::Finished);
        drop(address);
        let (made, gone) = (&census.made, &census.gone);
        assert_eq!(made.load(Ordering::Relaxed), gone.load(Ordering::Relaxed));
        assert_eq!(Arc::strong_count(&watch), 1, "a runtime is left");
    });
}

#[test]
fn nothing_is_left_by_a_drain() {
    nothing_is_left(Some(Shutdown::Drain));
}

#[test]
fn nothing_is_left_by_an_end_at_once() {
    nothing_is_left(Some(Shutdown::Now));
}

#[test]
fn nothing_is_left_by_the_last_handle() {
    nothing_is_left(None);
}
