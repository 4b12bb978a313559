//! Locks that phases declare. They are granted before the phase's function runs, kept while the following phases name
//! them, and released however the last of these phases ends. The same with a future and without.

use fom_patterns::{
    lock::{LockError, LockMode, LockSet, LongLock},
    prelude::*,
};
use fom_runtime::{Operation, config::Shutdown, time::TestClock};

use crate::kit::{Log, limited, one, secs};

/// What the test tells a fom.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Word {
    Go,
    Fail,
    Panic,
    Stay,
}

/// What the two machines do.
struct Work {
    name: &'static str,
    first: LockSet,
    second: LockSet,
    log: Log,
}

impl Work {
    fn hears(&self, phase: &str, word: Word) -> Result<bool, String> {
        self.log.put(format_args!("{} {phase} {word:?}", self.name));
        match word {
            Word::Go => Ok(true),
            Word::Stay => Ok(false),
            Word::Fail => Err("on purpose".to_owned()),
            Word::Panic => panic!("on purpose"),
        }
    }
}

trait Works: Operation<Event = Word, Error = String> {
    fn work(work: Work) -> Self;
}

struct Plain(Work);
struct Waiting(Work);

impl Works for Plain {
    fn work(work: Work) -> Self {
        Self(work)
    }
}

impl Works for Waiting {
    fn work(work: Work) -> Self {
        Self(work)
    }
}

#[fom(operation(Plain), error(String), event(Word), transient)]
enum PlainWork {
    #[phase(
        start,
        to(Second),
        sync,
        on(Go, Fail, Panic, Stay),
        locks,
        within = "60s",
        late,
        retry = "1, 10s..10s"
    )]
    First,
    #[phase(to(Third), sync, on(Go, Fail, Panic, Stay), locks, within = "60s")]
    Second,
    #[phase(to(Done), sync, on(Go, Fail, Panic, Stay))]
    Third,
    #[phase(end)]
    Done,
}

impl PlainWorkTransitions for Plain {
    fn first_locks(&self, _: &Cx<'_, Word>) -> LockSet {
        self.0.first.clone()
    }
    fn first(&mut self, _: &mut Cx<'_, Word>, word: Word) -> Result<PlainWorkAfterFirst, String> {
        Ok(match self.0.hears("First", word)? {
            true => PlainWorkAfterFirst::Second,
            false => PlainWorkAfterFirst::Stay,
        })
    }
    fn first_late(&mut self, cx: &mut Cx<'_, Word>) -> Result<PlainWorkAfterFirst, String> {
        self.0.log.put(format_args!(
            "{} late: {:?}",
            self.0.name,
            held(&self.0.first, cx)
        ));
        Err("late".to_owned())
    }
    fn second_locks(&self, _: &Cx<'_, Word>) -> LockSet {
        self.0.second.clone()
    }
    fn second(&mut self, _: &mut Cx<'_, Word>, word: Word) -> Result<PlainWorkAfterSecond, String> {
        Ok(match self.0.hears("Second", word)? {
            true => PlainWorkAfterSecond::Third,
            false => PlainWorkAfterSecond::Stay,
        })
    }
    fn third(&mut self, _: &mut Cx<'_, Word>, word: Word) -> Result<PlainWorkAfterThird, String> {
        Ok(match self.0.hears("Third", word)? {
            true => PlainWorkAfterThird::Done,
            false => PlainWorkAfterThird::Stay,
        })
    }
}

#[fom(operation(Waiting), error(String), event(Word), transient)]
enum WaitingWork {
    #[phase(
        start,
        to(Second),
        on(Go, Fail, Panic, Stay),
        locks,
        within = "60s",
        late,
        retry = "1, 10s..10s"
    )]
    First,
    #[phase(to(Third), on(Go, Fail, Panic, Stay), locks, within = "60s")]
    Second,
    #[phase(to(Done), on(Go, Fail, Panic, Stay))]
    Third,
    #[phase(end)]
    Done,
}

impl Waiting {
    async fn listen(&self, phase: &str, cx: &Cx<'_, Word>) -> Result<(), String> {
        while !self.0.hears(phase, cx.event().await)? {}
        Ok(())
    }
}

impl WaitingWorkTransitions for Waiting {
    fn first_locks(&self, _: &Cx<'_, Word>) -> LockSet {
        self.0.first.clone()
    }
    async fn first(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), String> {
        self.listen("First", cx).await
    }
    async fn first_late(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), String> {
        self.0.log.put(format_args!(
            "{} late: {:?}",
            self.0.name,
            held(&self.0.first, cx)
        ));
        Err("late".to_owned())
    }
    fn second_locks(&self, _: &Cx<'_, Word>) -> LockSet {
        self.0.second.clone()
    }
    async fn second(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), String> {
        self.listen("Second", cx).await
    }
    async fn third(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), String> {
        self.listen("Third", cx).await
    }
}

fn held(set: &LockSet, cx: &Cx<'_, Word>) -> Vec<Option<LockMode>> {
    set.iter().map(|(lock, _)| lock.held_by(cx)).collect()
}

/// One runtime, and three locks in their order.
struct Room {
    runtime: Runtime,
    clock: TestClock,
    log: Log,
    a: LongLock,
    b: LongLock,
    c: LongLock,
}

impl Room {
    fn new() -> Self {
        let clock = TestClock::new();
        Self {
            runtime: one(&clock).build().unwrap(),
            clock,
            log: Log::default(),
            a: LongLock::new("a"),
            b: LongLock::new("b"),
            c: LongLock::new("c"),
        }
    }

    fn start<O: Works>(&self, name: &'static str, first: LockSet, second: LockSet) -> Handle<O> {
        let work = Work {
            name,
            first,
            second,
            log: self.log.clone(),
        };
        self.runtime.submit(O::work(work)).start().unwrap()
    }

    async fn tell<O: Works>(&self, fom: &Handle<O>, word: Word) {
        fom.send(word).unwrap();
        self.runtime.quiet().await;
    }

    /// Returns the numbers of holders and waiters of each lock.
    async fn counts(&self) -> [(usize, usize); 3] {
        self.runtime.quiet().await;
        [&self.a, &self.b, &self.c].map(|lock| {
            let stats = lock.stats();
            (stats.holders, stats.waiters)
        })
    }
}

const FREE: [(usize, usize); 3] = [(0, 0); 3];

fn set() -> LockSet {
    LockSet::new()
}

macro_rules! of_both_kinds {
    ($($(#[$doc:meta])* $name:ident),*) => {
        $($(#[$doc])* #[test] fn $name() {
            limited(|| async { checks::$name::<Plain>().await });
            limited(|| async { checks::$name::<Waiting>().await });
        })*
    };
}

of_both_kinds! {
    /// LK-02, FL-14: the function runs when all locks are granted, and changes nothing before. Events sent meanwhile
    /// (each event is a wake) do not let the fom in. Locks are kept over `Stay`, and into the next phase as far as it
    /// names them; the other locks that it names are taken there. A phase without `locks` has none.
    granted_before_and_kept_while_named,
    /// LK-02, LK-03: an error and its retry keep the locks. The last error, a panic, a cancel and a shutdown release
    /// them, while the fom holds and while it waits.
    given_back_however_it_ends,
    /// LK-04: the deadline of the phase covers the wait: its late function runs without the locks, and those granted on
    /// the way are released. If the fom is late while it holds the locks, it has them in the late function, too.
    the_deadline_covers_the_wait,
    /// LK-05, LK-06: the additional locks of the next phase must come after the kept ones. To write after to read is
    /// refused; to read after to write stays as it is.
    the_next_phase_keeps_the_order
}

mod checks {
    use super::*;

    pub(super) async fn granted_before_and_kept_while_named<O: Works>() {
        let room = Room::new();
        let Room { a, b, c, log, .. } = &room;
        let outside = b.try_read(&room.runtime).unwrap();
        let fom = room.start::<O>("it", set().write(b).write(a), set().write(a).read(c));
        assert_eq!(room.counts().await, [(1, 0), (1, 1), (0, 0)]);
        for _ in 0..3 {
            room.tell(&fom, Word::Stay).await;
        }
        let info = room.runtime.operation(fom.id()).unwrap();
        assert_eq!(
            info.waiting_for().unwrap().split(" (").next().unwrap(),
            "the lock `b`, held by code outside of foms"
        );
        assert_eq!(log.take(), [""; 0]);
        drop(outside);
        assert_eq!(room.counts().await, [(1, 0), (1, 0), (0, 0)]);
        assert_eq!(log.take(), ["it First Stay"; 3]);
        // Another fom waits for both locks: it gets the one that the next phase does not name.
        let other = room.start::<O>("other", set().write(b), set());
        assert_eq!(room.counts().await, [(1, 0), (1, 1), (0, 0)]);
        room.tell(&fom, Word::Go).await;
        assert_eq!(room.counts().await, [(1, 0), (1, 0), (1, 0)]);
        assert_eq!((a.stats().writes, c.stats().reads), (1, 1));
        room.tell(&fom, Word::Go).await;
        assert_eq!(fom.phase(), "Third");
        assert_eq!(room.counts().await, [(0, 0), (1, 0), (0, 0)]);
        room.tell(&fom, Word::Go).await;
        fom.await.unwrap();
        other.cancel();
        other.await.unwrap_err();
        assert_eq!(room.counts().await, FREE);
    }

    pub(super) async fn given_back_however_it_ends<O: Works>() {
        let room = Room::new();
        let Room { a, b, .. } = &room;
        let both = set().write(b).write(a);
        // An error, and its retry after ten seconds.
        let fom = room.start::<O>("it", both.clone(), set());
        room.tell(&fom, Word::Fail).await;
        assert_eq!(room.counts().await, [(1, 0), (1, 0), (0, 0)]);
        room.clock.advance(secs(10));
        room.tell(&fom, Word::Fail).await;
        assert!(matches!(fom.await.unwrap_err().cause, Cause::Error(_)));
        assert_eq!((room.counts().await, a.stats().writes), (FREE, 1));
        // While the fom holds.
        let fom = room.start::<O>("it", both.clone(), set());
        room.tell(&fom, Word::Panic).await;
        let failure = fom.await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Panicked(_)));
        assert_eq!(room.counts().await, FREE);
        let fom = room.start::<O>("it", both.clone(), set());
        assert_eq!(room.counts().await, [(1, 0), (1, 0), (0, 0)]);
        fom.cancel();
        assert!(matches!(fom.await.unwrap_err().cause, Cause::Cancelled));
        assert_eq!(room.counts().await, FREE);
        // While the fom waits.
        let outside = b.try_read(&room.runtime).unwrap();
        let fom = room.start::<O>("it", both.clone(), set());
        assert_eq!(room.counts().await, [(1, 0), (1, 1), (0, 0)]);
        fom.cancel();
        assert!(matches!(fom.await.unwrap_err().cause, Cause::Cancelled));
        assert_eq!(room.counts().await, [(0, 0), (1, 0), (0, 0)]);
        // At a shutdown: one fom waits, one holds.
        let waits = room.start::<O>("waits", set().write(b), set());
        let holds = room.start::<O>("holds", set().write(a), set());
        assert_eq!(room.counts().await, [(1, 0), (1, 1), (0, 0)]);
        room.runtime.shutdown(Shutdown::Now, secs(10)).await;
        assert!(matches!(waits.await.unwrap_err().cause, Cause::Shutdown));
        assert!(matches!(holds.await.unwrap_err().cause, Cause::Shutdown));
        assert_eq!((a.stats().holders, b.stats().waiters), (0, 0));
        drop(outside);
    }

    pub(super) async fn the_deadline_covers_the_wait<O: Works>() {
        let room = Room::new();
        let Room { a, b, c, log, .. } = &room;
        let outside = b.try_write(&room.runtime).unwrap();
        let fom = room.start::<O>("first", set().write(b).write(a), set());
        room.runtime.quiet().await;
        room.clock.advance(secs(60));
        assert!(matches!(fom.await.unwrap_err().cause, Cause::Error(_)));
        assert_eq!(log.take(), ["first late: [None, None]"]);
        assert_eq!(room.counts().await, [(0, 0), (1, 0), (0, 0)]);
        // Without a late function.
        let fom = room.start::<O>("second", set().write(a), set().write(a).read(b));
        room.tell(&fom, Word::Go).await;
        assert_eq!(room.counts().await, [(1, 0), (1, 1), (0, 0)]);
        room.clock.advance(secs(60));
        let failure = fom.await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Late { armed_in: "Second" }));
        assert_eq!(room.counts().await, [(0, 0), (1, 0), (0, 0)]);
        assert_eq!(log.take(), ["second First Go"]);
        // While the fom holds the locks.
        let fom = room.start::<O>("third", set().write(a).read(c), set());
        room.runtime.quiet().await;
        room.clock.advance(secs(60));
        fom.await.unwrap_err();
        assert_eq!(log.take(), ["third late: [Some(Write), Some(Read)]"]);
        drop(outside);
        assert_eq!(room.counts().await, FREE);
    }

    pub(super) async fn the_next_phase_keeps_the_order<O: Works>() {
        let room = Room::new();
        let Room { a, b, c, .. } = &room;
        let fom = room.start::<O>("it", set().write(b).write(c), set().write(b).write(a));
        room.tell(&fom, Word::Go).await;
        let failure = fom.await.unwrap_err();
        let Some(error) = locks_of(&failure.cause) else {
            panic!("{failure:?}")
        };
        let expected = LockError::Order {
            lock: a.clone(),
            held: b.clone(),
        };
        assert_eq!((error, failure.phase_name()), (&expected, "Second"));
        assert_eq!(failure.cause.name(), "locks");
        // A released lock does not count.
        let fom = room.start::<O>("it", set().write(b).write(c), set().write(a));
        room.tell(&fom, Word::Go).await;
        assert_eq!(room.counts().await, [(1, 0), (0, 0), (0, 0)]);
        fom.cancel();
        fom.await.unwrap_err();
        let fom = room.start::<O>("it", set().read(b), set().write(b));
        room.tell(&fom, Word::Go).await;
        let failure = fom.await.unwrap_err();
        assert!(matches!(
            locks_of(&failure.cause),
            Some(LockError::Upgrade { .. })
        ));
        let fom = room.start::<O>("it", set().write(b), set().read(b).read(c));
        room.tell(&fom, Word::Go).await;
        assert!(b.try_read(&room.runtime).is_err() && c.try_read(&room.runtime).is_ok());
        fom.cancel();
        fom.await.unwrap_err();
        assert_eq!(room.counts().await, FREE);
    }
}

/// Returns the error of the locks of the phase.
fn locks_of<E>(cause: &Cause<E>) -> Option<&LockError> {
    match cause {
        Cause::Gate(error) => error.downcast_ref(),
        _ => None,
    }
}

/// LK-06: a lock that is both taken by hand and declared; and a function that panics where it must name the locks.
#[test]
fn mistakes_of_the_declared_form() {
    struct Twice(LongLock, Option<fom_patterns::lock::LockGuard>);
    #[fom(operation(Twice), transient)]
    enum Taking {
        #[phase(start, to(Then))]
        ByHand,
        #[phase(to(Done), sync, locks)]
        Then,
        #[phase(end)]
        Done,
    }
    impl TakingTransitions for Twice {
        async fn by_hand(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
            self.1 = Some(self.0.write(cx).await?);
            Ok(())
        }
        fn then_locks(&self, cx: &Cx<'_>) -> LockSet {
            assert!(cx.key().is_none(), "on purpose");
            LockSet::new().read(&self.0)
        }
        fn then(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
            unreachable!("it has no lock")
        }
    }
    limited(|| async {
        let room = Room::new();
        let twice = || room.runtime.submit(Twice(room.a.clone(), None));
        let failure = twice().await.unwrap_err();
        assert!(matches!(
            locks_of(&failure.cause),
            Some(LockError::Reentrant {
                held: LockMode::Write,
                ..
            })
        ));
        assert_eq!(room.a.stats().holders, 1, "the guard is in the operation");
        drop(failure);
        assert_eq!(room.a.stats().holders, 0);
        let failure = twice().key(7).await.unwrap_err();
        assert!(matches!(&failure.cause, Cause::Panicked(said) if said == "on purpose"));
        drop(failure);
        assert_eq!(room.counts().await, FREE);
    });
}

/// LK-02, SM-11: the phases inside a layer hold their own locks. What a phase of the layer holds is kept in the inner
/// phases that name it, too.
#[test]
fn locks_inside_a_layer() {
    struct Put(LongLock, Log);
    #[fom(operation(Put), transient)]
    enum Putting {
        #[phase(start, to(Written), sync, locks)]
        Write,
        #[phase(end)]
        Written,
    }
    impl PuttingTransitions for Put {
        fn write_locks(&self, _: &Cx<'_>) -> LockSet {
            LockSet::new().write(&self.0)
        }
        fn write(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
            self.1.put(format_args!("inside: {:?}", self.0.held_by(cx)));
            Ok(())
        }
    }
    struct Locked {
        put: Put,
    }
    #[fom(operation(Locked), around(Put), transient)]
    enum Around {
        #[phase(start, to(Serve), locks)]
        Acquire,
        #[phase(inner(put), to(Tell))]
        Serve { phase: Putting },
        #[phase(to(Done))]
        Tell,
        #[phase(end)]
        Done,
    }
    impl AroundTransitions for Locked {
        fn acquire_locks(&self, _: &Cx<'_>) -> LockSet {
            LockSet::new().write(&self.put.0)
        }
        async fn acquire(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
            let held = self.put.0.held_by(cx);
            self.put.1.put(format_args!("before: {held:?}"));
            Ok(())
        }
        async fn serve(&mut self, _: &mut Cx<'_>, _: &mut Putting) -> Result<(), BoxError> {
            Ok(())
        }
        async fn tell(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
            let held = self.put.0.held_by(cx);
            self.put.1.put(format_args!("after: {held:?}"));
            Ok(())
        }
    }
    limited(|| async {
        let room = Room::new();
        let put = Put(room.a.clone(), room.log.clone());
        room.runtime.submit(Locked { put }).await.unwrap();
        assert_eq!(
            room.log.take(),
            ["before: Some(Write)", "inside: Some(Write)", "after: None"]
        );
        assert_eq!(room.a.stats().writes, 1);
    });
}
