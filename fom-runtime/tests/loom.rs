//! The lock-free pieces under loom, which tries every order of the threads' steps (with at most two forced switches)
//! and every value that a load may see.
//!
//! ```sh
//! RUSTFLAGS="--cfg fom_loom" cargo test --release -p fom-runtime --test loom
//! ```
//!
//! A lost wake shows as a deadlock: somebody waits whom nobody calls. The models were made to fail once, each time by
//! one change to the library; what caught it stands at the model as `seeded`.
#![cfg(fom_loom)]

use std::{ptr::NonNull, sync::Arc};

use fom_runtime::__protocol::{
    Cancelled, Counts, Detached, FomState, Inbox, Link, Linked, Marks, Reader, Returned, Returns,
    Slot, Stopped, Taken, Token, Waiters, Watched, all_idle,
};
use loom::{
    cell::UnsafeCell,
    sync::{
        Condvar, Mutex, Notify,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

fn model(f: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    // `LOOM_MAX_PREEMPTIONS` may ask for more.
    model.preemption_bound.get_or_insert(2);
    model.check(f);
}

/// Laid out so that a pointer to the link is one to the item.
#[repr(C)]
struct Content {
    link: Link,
    pusher: usize,
    /// Written by the pusher just before the push, read by the reader: loom reports it when the two are not ordered.
    content: UnsafeCell<usize>,
    /// Counts those that have not been dropped.
    alive: Option<Arc<()>>,
}

struct Item(Box<Content>);

// SAFETY: what a box holds does not move with it; who has the item is alone with its content, which is what the models check.
unsafe impl Send for Item {}

// SAFETY: what a box holds does not move with it.
unsafe impl Linked for Item {
    fn into_link(self) -> NonNull<Link> {
        NonNull::from(Box::leak(self.0)).cast()
    }

    unsafe fn from_link(link: NonNull<Link>) -> Self {
        // SAFETY: leaked above, and the link is its beginning.
        Self(unsafe { Box::from_raw(link.cast().as_ptr()) })
    }
}

fn item(pusher: usize, content: usize) -> Item {
    counted(pusher, content, None)
}

fn counted(pusher: usize, content: usize, alive: Option<Arc<()>>) -> Item {
    Item(Box::new(Content {
        link: Link::new(),
        pusher,
        content: UnsafeCell::new(content),
        alive,
    }))
}

impl Item {
    fn content(&self) -> usize {
        // SAFETY: see the impl of `Send`.
        self.0.content.with(|content| unsafe { *content })
    }

    fn set_content(&self, new: usize) {
        // SAFETY: as above.
        self.0.content.with_mut(|content| unsafe { *content = new });
    }
}

mod inbox {
    use super::*;

    /// Nothing is lost or doubled, and what one thread pushes comes in the order of its pushes.
    ///
    /// Seeded: `Relaxed` for the compare-exchange of `push`: loom saw a race for the item. Leaving
    /// out the turn-round in `drain`: the order of one pusher was wrong.
    #[test]
    fn two_pushers_and_a_reader() {
        model(|| {
            let inbox = Arc::new(Inbox::new());
            let pushers = [0, 1].map(|pusher| {
                let inbox = Arc::clone(&inbox);
                thread::spawn(move || {
                    for n in 0..2 {
                        assert_eq!(inbox.push(item(pusher, n)), Reader::Awake);
                    }
                })
            });
            let mut next = [0, 0];
            let mut read = |inbox: &Inbox<Item>| {
                for item in inbox.drain() {
                    assert_eq!(
                        item.content(),
                        next[item.0.pusher],
                        "out of order from {}",
                        item.0.pusher
                    );
                    next[item.0.pusher] += 1;
                }
            };
            read(&inbox);
            for pusher in pushers {
                pusher.join().unwrap();
            }
            read(&inbox);
            assert_eq!(next, [2, 2]);
        });
    }

    /// A push against a reader that goes to sleep, or away: the reader sees the item, or the pusher is told to call it.
    ///
    /// Seeded: `mark` that stores the mark instead of exchanging it: the item was neither seen nor called for.
    fn push_against(mark: fn(&Inbox<Item>) -> bool, told: Reader) {
        model(move || {
            let inbox = Arc::new(Inbox::new());
            let pusher = thread::spawn({
                let inbox = Arc::clone(&inbox);
                move || inbox.push(item(0, 7))
            });
            let marked = mark(&inbox);
            let seen_by_reader = !marked;
            let reader = pusher.join().unwrap();
            match (seen_by_reader, reader) {
                (true, Reader::Awake) => {}
                (false, reader) => assert_eq!(reader, told),
                (true, reader) => panic!("{reader:?} of a reader that never left"),
            }
            assert!(inbox.has_mail());
            let items: Vec<_> = inbox.drain().map(|item| item.content()).collect();
            assert_eq!(items, [7]);
            assert!(!inbox.has_mail() && !inbox.is_asleep());
        });
    }

    #[test]
    fn push_against_sleep() {
        push_against(Inbox::sleep, Reader::Asleep);
    }

    #[test]
    fn push_against_vacate() {
        push_against(Inbox::vacate, Reader::Missing);
    }

    /// Of two that come to a reader who sleeps exactly one is told to wake it.
    #[test]
    fn one_of_two_wakes_the_sleeper() {
        model(|| {
            let inbox = Arc::new(Inbox::new());
            assert!(inbox.sleep());
            let pusher = thread::spawn({
                let inbox = Arc::clone(&inbox);
                move || inbox.push(item(0, 0))
            });
            let poked = inbox.poke();
            let pushed = pusher.join().unwrap();
            assert_eq!(
                [poked, pushed]
                    .iter()
                    .filter(|told| **told == Reader::Asleep)
                    .count(),
                1
            );
            assert_eq!(inbox.drain().count(), 1);
        });
    }

    /// What the poker stored before is visible after the drain, whoever's item is drained: also when another thread's
    /// push stands over the poke, and when the poke found an item already.
    ///
    /// Seeded: a poke that does nothing when there is an item: the reader slept without having seen the poker's store.
    #[test]
    fn poke_publishes() {
        model(|| {
            let inbox = Arc::new(Inbox::new());
            let stored = Arc::new(AtomicUsize::new(0));
            let pusher = thread::spawn({
                let inbox = Arc::clone(&inbox);
                move || inbox.push(item(0, 0))
            });
            let poker = thread::spawn({
                let (inbox, stored) = (Arc::clone(&inbox), Arc::clone(&stored));
                move || {
                    stored.store(1, Ordering::Relaxed);
                    inbox.poke()
                }
            });
            // As the handler does: look, drain, look again, and sleep when there is nothing.
            let mut seen = 0;
            loop {
                seen += inbox.drain().count();
                let done = stored.load(Ordering::Relaxed) == 1;
                if done && seen == 1 {
                    break;
                }
                if inbox.sleep() {
                    // Asleep: one of the two comes after this mark, and is told.
                    let told = [pusher.join().unwrap(), poker.join().unwrap()];
                    assert!(told.contains(&Reader::Asleep), "nobody wakes the reader");
                    seen += inbox.drain().count();
                    assert_eq!((seen, stored.load(Ordering::Relaxed)), (1, 1));
                    return;
                }
            }
            pusher.join().unwrap();
            poker.join().unwrap();
        });
    }

    /// As soon as an item is drained it can be put in again, from another thread, too.
    #[test]
    fn a_link_is_used_again() {
        model(|| {
            let inbox = Arc::new(Inbox::new());
            let other = Arc::new(Inbox::<Item>::new());
            for n in 0..2 {
                assert_eq!(inbox.push(item(0, n)), Reader::Awake);
            }
            let pusher = thread::spawn({
                let (inbox, other) = (Arc::clone(&inbox), Arc::clone(&other));
                move || {
                    for item in other.drain() {
                        item.set_content(item.content() + 10);
                        assert_eq!(inbox.push(item), Reader::Awake);
                    }
                }
            });
            for item in inbox.drain() {
                let _ = other.push(item);
            }
            pusher.join().unwrap();
            let mut all: Vec<_> = inbox
                .drain()
                .chain(other.drain())
                .map(|item| item.content() % 10)
                .collect();
            all.sort_unstable();
            assert_eq!(all, [0, 1]);
        });
    }

    /// An inbox that goes, and a drain that is not read to its end, release their items.
    #[test]
    fn dropped_with_items() {
        model(|| {
            let inbox = Inbox::new();
            let alive = Arc::new(());
            let push = || {
                let _ = inbox.push(counted(0, 0, Some(Arc::clone(&alive))));
            };
            push();
            push();
            let mut drain = inbox.drain();
            assert!(drain.next().unwrap().0.alive.is_some());
            drop(drain);
            assert_eq!(Arc::strong_count(&alive), 1);
            push();
            drop(inbox);
            assert_eq!(Arc::strong_count(&alive), 1);
        });
    }
}

mod token {
    use super::*;

    fn waiting() -> Token {
        let token = Token::new();
        token.admit(false);
        token.start(false);
        assert_eq!(token.stop(false), Stopped::Waiting);
        token
    }

    /// Two wakers against a fom that runs and stops: it runs again until it has seen what both stored.
    ///
    /// Seeded: a `stop` that forgets the mark of a wake (deadlock); a wake that only loads when the fom is ready
    /// (the run did not see the waker's store).
    #[test]
    fn no_wake_is_lost() {
        model(|| {
            let token = Arc::new(Token::new());
            let queue = Arc::new(Notify::new());
            let stored = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
            token.admit(false);
            let wakers = [0, 1].map(|n| {
                let (token, queue, stored) =
                    (Arc::clone(&token), Arc::clone(&queue), Arc::clone(&stored));
                thread::spawn(move || {
                    stored[n].store(1, Ordering::Relaxed);
                    if token.wake() {
                        queue.notify();
                    }
                })
            });
            loop {
                token.start(false);
                let seen = stored
                    .iter()
                    .map(|one| one.load(Ordering::Relaxed))
                    .sum::<usize>();
                if seen == 2 {
                    token.finish(false);
                    break;
                }
                if token.stop(false) == Stopped::Waiting {
                    // Loom's `wait` may return for no reason.
                    while token.state() == FomState::Waiting {
                        queue.wait();
                    }
                }
            }
            for waker in wakers {
                waker.join().unwrap();
            }
            assert!(!token.wake(), "a wake after the end is nothing");
            assert_eq!(token.state(), FomState::Finished);
        });
    }

    /// Of any number of wakers of a fom that waits, one enqueues it.
    #[test]
    fn one_waker_enqueues() {
        model(|| {
            let token = Arc::new(waiting());
            let others = [0, 1].map(|_| {
                let token = Arc::clone(&token);
                thread::spawn(move || token.wake())
            });
            let here = token.wake();
            let told = others.map(|other| other.join().unwrap());
            assert_eq!(
                [here, told[0], told[1]]
                    .iter()
                    .filter(|enqueue| **enqueue)
                    .count(),
                1
            );
            assert_eq!(token.state(), FomState::Ready);
        });
    }

    /// A cancel and a wake of a fom that waits: one of them enqueues it, and the mark is there.
    #[test]
    fn cancel_against_wake() {
        model(|| {
            let token = Arc::new(waiting());
            let waker = thread::spawn({
                let token = Arc::clone(&token);
                move || token.wake()
            });
            let cancelled = token.cancel();
            let woken = waker.join().unwrap();
            assert_eq!(
                cancelled,
                if woken {
                    Cancelled::Marked
                } else {
                    Cancelled::Enqueue
                }
            );
            token.start(false);
            assert!(token.is_cancelled());
        });
    }

    /// A cancel against a fom that runs and stops: it is enqueued once, by itself or by who cancels, and the next run
    /// sees the mark.
    #[test]
    fn cancel_against_stop() {
        model(|| {
            let token = Arc::new(Token::new());
            token.admit(false);
            token.start(false);
            let canceller = thread::spawn({
                let token = Arc::clone(&token);
                move || token.cancel()
            });
            let stopped = token.stop(false);
            let cancelled = canceller.join().unwrap();
            assert_eq!(
                stopped == Stopped::Waiting,
                cancelled == Cancelled::Enqueue,
                "{stopped:?} {cancelled:?}"
            );
            token.start(false);
            assert!(token.is_cancelled());
        });
    }

    /// A cancel against the end: marked before, or told that it came too late. Nobody enqueues.
    #[test]
    fn cancel_against_finish() {
        model(|| {
            let token = Arc::new(Token::new());
            token.admit(false);
            token.start(false);
            let others = [
                thread::spawn({
                    let token = Arc::clone(&token);
                    move || {
                        assert_ne!(token.cancel(), Cancelled::Enqueue);
                    }
                }),
                thread::spawn({
                    let token = Arc::clone(&token);
                    move || assert!(!token.wake())
                }),
            ];
            token.finish(false);
            for other in others {
                other.join().unwrap();
            }
            assert_eq!(token.state(), FomState::Finished);
            assert_eq!(token.cancel(), Cancelled::Ended);
        });
    }

    /// `admit` and `again` keep the mark of a cancel that comes meanwhile.
    #[test]
    fn cancel_against_admit_and_again() {
        model(|| {
            let token = Arc::new(Token::new());
            let canceller = thread::spawn({
                let token = Arc::clone(&token);
                move || assert_eq!(token.cancel(), Cancelled::Marked)
            });
            token.admit(false);
            token.start(false);
            token.again(false);
            canceller.join().unwrap();
            token.start(false);
            assert!(token.is_cancelled());
        });
    }

    /// A fom that nobody has the address of does plain stores; one that has makes no such step. Its first address is made while it
    /// runs; whoever has it wakes the fom, and gives it back. Whatever the fom then finds its count to be, it runs again.
    ///
    /// Seeded: an address that is given back with a `Relaxed` count, a look at the count that is `Relaxed`, or no look at all: the
    /// fom stored over what the waker had stored, and was in a state that no step leads to.
    #[test]
    fn alone_again() {
        model(|| {
            let token = Arc::new(Token::new());
            let refs = Arc::new(AtomicUsize::new(1));
            let queue = Arc::new(Notify::new());
            let stored = Arc::new(AtomicUsize::new(0));
            let alone = || refs.load(Ordering::Acquire) == 1;
            token.admit(alone());
            token.start(alone());
            refs.fetch_add(1, Ordering::Relaxed);
            let waker = thread::spawn({
                let (token, refs) = (Arc::clone(&token), Arc::clone(&refs));
                let (queue, stored) = (Arc::clone(&queue), Arc::clone(&stored));
                move || {
                    stored.store(1, Ordering::Relaxed);
                    let woken = token.wake();
                    if woken {
                        queue.notify();
                    }
                    refs.fetch_sub(1, Ordering::Release);
                    woken
                }
            });
            let mut runs = 1;
            while stored.load(Ordering::Relaxed) == 0 {
                if token.stop(alone()) == Stopped::Waiting {
                    // Loom's `wait` may return for no reason.
                    while token.state() == FomState::Waiting {
                        queue.wait();
                    }
                }
                token.start(alone());
                runs += 1;
            }
            token.finish(alone());
            waker.join().unwrap();
            assert!(runs <= 2, "woken once");
            assert_eq!(token.state(), FomState::Finished);
            assert!(!token.wake(), "a wake after the end is nothing");
        });
    }

    /// The timer of a fom fires on the thread that has its locality, while the fom runs on another one in a blocking section and
    /// somebody wakes it who has its address since. It runs again, and sees what both stored.
    ///
    /// Seeded: a `wake_alone` that stores its mark also while the fom runs: it stored over what the other one had.
    #[test]
    fn a_timer_against_a_blocking_section() {
        model(|| {
            let token = Arc::new(Token::new());
            token.admit(true);
            token.start(true);
            let stored = Arc::new(AtomicUsize::new(0));
            let waker = thread::spawn({
                let (token, stored) = (Arc::clone(&token), Arc::clone(&stored));
                move || {
                    stored.store(1, Ordering::Relaxed);
                    token.wake()
                }
            });
            // The section ends with the core, which comes from the thread that fired the timer.
            let timer = thread::spawn({
                let token = Arc::clone(&token);
                move || token.wake_alone()
            });
            assert!(!timer.join().unwrap(), "it runs");
            let stopped = token.stop(false);
            if stopped == Stopped::Ready {
                token.start(false);
            }
            let seen = stored.load(Ordering::Relaxed);
            let again = token.stop(false);
            let woken = waker.join().unwrap();
            assert_eq!(stopped, Stopped::Ready);
            assert!(
                seen == 1 || again == Stopped::Ready || woken,
                "neither seen nor told again"
            );
        });
    }

    /// The whole way of a fom: who wins the wake pushes it, and has its link alone; and each run has its body alone.
    #[test]
    fn a_woken_fom_is_pushed() {
        #[repr(C)]
        struct Fom {
            link: Link,
            token: Token,
            /// Its body: only a run touches it.
            runs: UnsafeCell<usize>,
        }
        // SAFETY: `runs` is touched between `start` and `stop` or `finish` alone; that those are ordered is checked.
        unsafe impl Sync for Fom {}
        // SAFETY: as above.
        unsafe impl Send for Fom {}
        /// The one reference that goes through the inbox.
        struct Resident(Arc<Fom>);
        // SAFETY: what an `Arc` holds does not move, and the reference is kept meanwhile.
        unsafe impl Linked for Resident {
            fn into_link(self) -> NonNull<Link> {
                NonNull::new(Arc::into_raw(self.0).cast_mut().cast()).unwrap()
            }
            unsafe fn from_link(link: NonNull<Link>) -> Self {
                // SAFETY: it came from `into_link`.
                Self(unsafe { Arc::from_raw(link.as_ptr().cast()) })
            }
        }
        fn wake(fom: &Arc<Fom>, inbox: &Inbox<Resident>, bell: &Notify) {
            if fom.token.wake() && inbox.push(Resident(Arc::clone(fom))) == Reader::Asleep {
                bell.notify();
            }
        }
        model(|| {
            let (inbox, bell) = (Arc::new(Inbox::new()), Arc::new(Notify::new()));
            let fom = Arc::new(Fom {
                link: Link::new(),
                token: Token::new(),
                runs: UnsafeCell::new(0),
            });
            let stored = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
            let _ = inbox.push(Resident(Arc::clone(&fom)));
            let wakers = [0, 1].map(|n| {
                let (inbox, bell, fom) = (Arc::clone(&inbox), Arc::clone(&bell), Arc::clone(&fom));
                let stored = Arc::clone(&stored);
                thread::spawn(move || {
                    stored[n].store(1, Ordering::Relaxed);
                    wake(&fom, &inbox, &bell);
                })
            });
            'handler: loop {
                let mut ready: Vec<_> = inbox.drain().collect();
                while let Some(Resident(fom)) = ready.pop() {
                    if fom.token.state() == FomState::Init {
                        fom.token.admit(false);
                    }
                    fom.token.start(false);
                    // SAFETY: see the impl of `Sync`.
                    fom.runs.with_mut(|runs| unsafe { *runs += 1 });
                    if stored.iter().all(|one| one.load(Ordering::Relaxed) == 1) {
                        fom.token.finish(false);
                        break 'handler;
                    }
                    if fom.token.stop(false) == Stopped::Ready {
                        ready.push(Resident(fom));
                    }
                }
                if inbox.sleep() {
                    while inbox.is_asleep() {
                        bell.wait();
                    }
                }
            }
            for waker in wakers {
                waker.join().unwrap();
            }
        });
    }
}

mod slot {
    use super::*;

    /// Of two takers one gets the box, with all that was written to it; the other gets nothing.
    ///
    /// Seeded: `Relaxed` for the swaps: loom saw the taker race for the content.
    #[test]
    fn two_takers() {
        model(|| {
            let slot = Arc::new(Slot::new());
            let content = Box::new(UnsafeCell::new(0));
            let takers = [0, 1].map(|_| {
                let slot = Arc::clone(&slot);
                thread::spawn(move || {
                    slot.take().map(|content: Box<UnsafeCell<usize>>| {
                        // SAFETY: whoever has the box is alone with it.
                        content.with(|content| unsafe { *content })
                    })
                })
            });
            // SAFETY: as above.
            content.with_mut(|content| unsafe { *content = 7 });
            assert!(slot.put(content).is_none());
            let mut taken: Vec<_> = takers
                .into_iter()
                .filter_map(|taker| taker.join().unwrap())
                .collect();
            taken.extend(
                slot.take()
                    // SAFETY: as above.
                    .map(|content| content.with(|content| unsafe { *content })),
            );
            assert_eq!(taken, [7]);
        });
    }

    #[test]
    fn put_gives_back_and_drop_frees() {
        model(|| {
            let slot = Slot::new();
            let one = Arc::new(());
            assert!(slot.put(Box::new(Arc::clone(&one))).is_none());
            assert!(slot.put(Box::new(Arc::clone(&one))).is_some());
            assert_eq!(Arc::strong_count(&one), 2);
            drop(slot);
            assert_eq!(Arc::strong_count(&one), 1);
        });
    }
}

mod returns {
    use super::*;

    /// A pool in small: what of it is freed when the last slot is back.
    struct Pool {
        returns: Returns,
        slots: [Content; 2],
        freed: AtomicUsize,
    }

    // SAFETY: each content is touched by whoever has the slot; that those are ordered is checked.
    unsafe impl Sync for Pool {}
    // SAFETY: as above.
    unsafe impl Send for Pool {}

    impl Pool {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                returns: Returns::new(),
                slots: [0, 1].map(|n| Content {
                    link: Link::new(),
                    pusher: n,
                    content: UnsafeCell::new(0),
                    alive: None,
                }),
                freed: AtomicUsize::new(0),
            })
        }

        /// Whoever has slot `n` uses it for the last time and puts it back.
        fn put(&self, n: usize) {
            let slot = &self.slots[n];
            // SAFETY: the slot is the caller's.
            slot.content.with_mut(|content| unsafe { *content = 1 });
            // SAFETY: as above, and the pool is alive as long as anybody can look at the slot.
            let returned = unsafe { self.returns.put(NonNull::from(&slot.link)) };
            self.free_if(returned);
        }

        fn free_if(&self, returned: Returned) {
            if returned == Returned::Last {
                assert_eq!(self.freed.fetch_add(1, Ordering::Relaxed), 0, "twice");
                // Nobody uses any of it any more: all has been written, and all of it is seen here.
                for slot in &self.slots {
                    // SAFETY: that is what is checked.
                    assert_eq!(slot.content.with(|content| unsafe { *content }), 1);
                }
            }
        }
    }

    /// The owner takes slots in; what it finds was written before. Gives how many there were.
    fn walk(mut list: *mut Link) -> usize {
        let mut length = 0;
        while let Some(link) = NonNull::new(list) {
            length += 1;
            // SAFETY: a link in the list is the beginning of a slot that is the owner's now.
            let slot = unsafe { link.cast::<Content>().as_ref() };
            // SAFETY: as above.
            assert_eq!(slot.content.with(|content| unsafe { *content }), 1);
            list = slot.link.next();
        }
        length
    }

    /// Slots come back while their owner takes some in and goes: none is lost or counted twice, and exactly one of all frees the
    /// pool, after everybody else.
    ///
    /// Seeded: `Relaxed` for the exchange of `put`, or for the count of `left`: loom saw a race for the slot. A close that takes
    /// what came back for still in use, and a `put` that forgets the slots before its own: nobody freed the pool.
    #[test]
    fn puts_against_take_and_close() {
        model(|| {
            let pool = Pool::new();
            let users = [0, 1].map(|n| {
                let pool = Arc::clone(&pool);
                thread::spawn(move || pool.put(n))
            });
            let taken = walk(pool.returns.take());
            let returned = pool.returns.close(|back| 2 - taken - walk(back));
            pool.free_if(returned);
            for user in users {
                user.join().unwrap();
            }
            assert_eq!(pool.freed.load(Ordering::Relaxed), 1);
        });
    }

    /// With nothing in use the owner is the last.
    #[test]
    fn closed_with_all_back() {
        model(|| {
            let pool = Pool::new();
            pool.put(0);
            pool.put(1);
            let returned = pool.returns.close(|back| 2 - walk(back));
            assert_eq!(returned, Returned::Last);
        });
    }
}

/// The outcome of one fom, as `src/fom/{mod,outcome}.rs` put it there and take it.
mod marks {
    use super::*;

    /// One outcome: written by the runner, and dropped once by whoever it belongs to.
    struct Fom {
        marks: Marks,
        body: UnsafeCell<Option<Arc<()>>>,
        /// The handle's, and of those who wait for phases.
        waker: Mutex<Option<Arc<Notify>>>,
    }

    // SAFETY: `body` is touched by whoever the marks leave it to; that those are ordered is checked.
    unsafe impl Sync for Fom {}
    // SAFETY: as above.
    unsafe impl Send for Fom {}

    impl Fom {
        fn new(wanted: bool) -> Arc<Self> {
            let fom = Self {
                marks: Marks::default(),
                body: UnsafeCell::new(None),
                waker: Mutex::new(None),
            };
            fom.marks.reset(wanted);
            Arc::new(fom)
        }

        fn set_body(&self, body: Option<Arc<()>>) -> Option<Arc<()>> {
            // SAFETY: see the impl of `Sync`.
            self.body
                .with_mut(|place| std::mem::replace(unsafe { &mut *place }, body))
        }

        fn tell(&self) {
            if let Some(waker) = self.waker.lock().unwrap().take() {
                waker.notify();
            }
        }

        /// The runner's end.
        fn end(&self, outcome: Arc<()>) {
            self.set_body(Some(outcome));
            let answered = self.marks.answer(true, false);
            if answered.watched {
                self.tell();
            }
            if !answered.wanted {
                assert!(self.set_body(None).is_some());
            }
        }

        fn abandon(&self) {
            if self.marks.abandon() == Some(true) {
                self.tell();
            }
        }

        /// One poll of the handle: the outcome, or that there is none.
        fn poll(&self, waker: &Arc<Notify>) -> Option<Option<Arc<()>>> {
            if !self.marks.is_answered() {
                *self.waker.lock().unwrap() = Some(Arc::clone(waker));
                if !self.marks.watch() {
                    return None;
                }
            }
            Some(match self.marks.take() {
                Taken::Outcome => Some(self.set_body(None).expect("left to the handle")),
                Taken::Abandoned => None,
            })
        }

        fn wait(&self) -> Option<Arc<()>> {
            let waker = Arc::new(Notify::new());
            loop {
                if let Some(answer) = self.poll(&waker) {
                    return answer;
                }
                waker.wait();
            }
        }

        fn detach(&self) {
            match self.marks.detach() {
                Detached::Outcome => assert!(self.set_body(None).is_some()),
                Detached::Waker => drop(self.waker.lock().unwrap().take()),
                Detached::Nothing => {}
            }
        }
    }

    /// The handle waits: it gets the outcome, and goes.
    ///
    /// Seeded: an `answer` that loads and stores instead of one step (deadlock); `Relaxed` for it (loom saw the handle race for the
    /// body); a handle that waits without another look (deadlock).
    #[test]
    fn the_handle_waits() {
        model(|| {
            let fom = Fom::new(true);
            let outcome = Arc::new(());
            let runner = thread::spawn({
                let (fom, outcome) = (Arc::clone(&fom), Arc::clone(&outcome));
                move || fom.end(outcome)
            });
            let got = fom.wait().expect("nobody gave up on it");
            fom.detach();
            runner.join().unwrap();
            assert!(Arc::ptr_eq(&got, &outcome));
            drop(got);
            assert_eq!(Arc::strong_count(&outcome), 1);
        });
    }

    /// The handle looks once and goes: the outcome is dropped by one of the two, before both are through.
    ///
    /// Seeded: a `detach` that does not look whether the outcome was left to it (it was dropped by nobody); an `answer` that
    /// leaves it to a handle that has gone (the same).
    #[test]
    fn the_handle_goes() {
        model(|| {
            let fom = Fom::new(true);
            let outcome = Arc::new(());
            let runner = thread::spawn({
                let (fom, outcome) = (Arc::clone(&fom), Arc::clone(&outcome));
                move || fom.end(outcome)
            });
            drop(fom.poll(&Arc::new(Notify::new())));
            fom.detach();
            runner.join().unwrap();
            assert_eq!(Arc::strong_count(&outcome), 1);
            assert!(fom.waker.lock().unwrap().is_none(), "no waker is kept");
        });
    }

    /// A shutdown gives up on the fom while it ends and the handle waits: the handle is told, once, and an outcome that was there
    /// before is not taken back.
    ///
    /// Seeded: an `abandon` that sets its mark although there is an answer: the handle was told of a failure, and the outcome stayed.
    #[test]
    fn given_up_on() {
        model(|| {
            let fom = Fom::new(true);
            let outcome = Arc::new(());
            let runner = thread::spawn({
                let (fom, outcome) = (Arc::clone(&fom), Arc::clone(&outcome));
                move || fom.end(outcome)
            });
            let shutdown = thread::spawn({
                let fom = Arc::clone(&fom);
                move || fom.abandon()
            });
            let got = fom.wait();
            fom.detach();
            runner.join().unwrap();
            shutdown.join().unwrap();
            drop(got);
            assert_eq!(Arc::strong_count(&outcome), 1);
        });
    }

    /// Somebody else waits for the end, beside a handle that goes: it is told, by the fom or at once.
    ///
    /// Seeded: an `observe` that does not look whether there is an answer (deadlock).
    #[test]
    fn watched_by_another() {
        model(|| {
            let fom = Fom::new(true);
            let outcome = Arc::new(());
            let runner = thread::spawn({
                let (fom, outcome) = (Arc::clone(&fom), Arc::clone(&outcome));
                move || fom.end(outcome)
            });
            let handle = thread::spawn({
                let fom = Arc::clone(&fom);
                move || match fom.marks.detach() {
                    Detached::Outcome => assert!(fom.set_body(None).is_some()),
                    // The waker in this model is that of the other one.
                    Detached::Waker | Detached::Nothing => {}
                }
            });
            let waker = Arc::new(Notify::new());
            *fom.waker.lock().unwrap() = Some(Arc::clone(&waker));
            match fom.marks.observe() {
                Some(in_phase) => assert!(in_phase),
                None => waker.wait(),
            }
            runner.join().unwrap();
            handle.join().unwrap();
            assert_eq!(Arc::strong_count(&outcome), 1);
        });
    }
}

/// The end of the last fom in flight against who waits for it, as `src/runtime/world.rs` does it.
mod idle {
    use super::*;

    struct World {
        counts: [Counts; 2],
        waiters: Waiters,
        /// Whether both foms have told their outcome: not before that may anybody hear of idleness.
        over: [AtomicUsize; 2],
        lock: Mutex<()>,
        changed: Condvar,
    }

    impl World {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                counts: [Counts::default(), Counts::default()],
                waiters: Waiters::default(),
                over: [AtomicUsize::new(0), AtomicUsize::new(0)],
                lock: Mutex::new(()),
                changed: Condvar::new(),
            })
        }

        fn is_idle(&self) -> bool {
            all_idle(self.counts.iter())
        }

        /// The end of a fom, in this locality; then the handler has nothing more to do.
        fn end(&self, locality: usize) {
            self.over[locality].store(1, Ordering::Relaxed);
            self.counts[locality].one_done();
            self.tell();
        }

        fn tell(&self) {
            if self.waiters.any() && self.is_idle() {
                let lock = self.lock.lock().unwrap();
                self.changed.notify_all();
                drop(lock);
            }
        }

        fn wait(&self) {
            self.waiters.join();
            let mut lock = self.lock.lock().unwrap();
            while !self.is_idle() {
                lock = self.changed.wait(lock).unwrap();
            }
            drop(lock);
            self.waiters.leave();
        }

        fn ends_seen(&self) -> usize {
            self.over
                .iter()
                .map(|over| over.load(Ordering::Relaxed))
                .sum()
        }
    }

    /// Two localities end their last foms at once, and somebody waits: it is told by one of them, and both have ended.
    ///
    /// Seeded: no fence in `Waiters::any`, or none in `join` (the waiter slept for ever); `Relaxed` for the count of an end (idle was
    /// seen, but not what the fom had done before).
    #[test]
    fn two_ends_and_a_waiter() {
        model(|| {
            let world = World::new();
            world.counts[0].one_born();
            world.counts[1].one_sent();
            let handlers = [0, 1].map(|n| {
                let world = Arc::clone(&world);
                thread::spawn(move || world.end(n))
            });
            world.wait();
            assert_eq!(world.ends_seen(), 2);
            for handler in handlers {
                handler.join().unwrap();
            }
        });
    }

    /// A fom submits another to a second locality and ends; the other ends there. Idle is never seen in between.
    ///
    /// Seeded: sums that are read the other way round (idle was seen with one in flight).
    #[test]
    fn one_submits_another() {
        model(|| {
            let world = World::new();
            world.counts[0].one_born();
            let inbox = Arc::new(Inbox::new());
            let first = thread::spawn({
                let (world, inbox) = (Arc::clone(&world), Arc::clone(&inbox));
                move || {
                    world.counts[1].one_sent();
                    let _ = inbox.push(item(0, 0));
                    world.end(0);
                }
            });
            let second = thread::spawn({
                let (world, inbox) = (Arc::clone(&world), inbox);
                move || {
                    if inbox.drain().count() == 1 {
                        world.end(1);
                        true
                    } else {
                        false
                    }
                }
            });
            if world.is_idle() {
                assert_eq!(world.ends_seen(), 2, "one is in flight");
            }
            first.join().unwrap();
            let ended = second.join().unwrap();
            assert_eq!(world.is_idle(), ended);
        });
    }

    /// A submission from outside is counted and then refused: who waits meanwhile hears of that.
    ///
    /// Seeded: a refusal that tells nobody (deadlock).
    #[test]
    fn refused() {
        model(|| {
            let world = World::new();
            let outside = thread::spawn({
                let world = Arc::clone(&world);
                move || {
                    world.counts[0].one_sent();
                    world.counts[0].one_back();
                    world.tell();
                }
            });
            world.wait();
            outside.join().unwrap();
        });
    }
}

mod watched {
    use std::num::NonZeroU32;

    use super::*;

    /// A section is opened while the patrol leaves: the patrol sees it or is woken for it, and finds the core in the slot.
    ///
    /// Seeded: the number shown before the core is laid down; `leave` that stores its mark: not found, not woken.
    #[test]
    fn a_section_against_a_patrol_that_leaves() {
        model(|| {
            let (first, second) = (NonZeroU32::MIN, NonZeroU32::new(2).unwrap());
            let watched = Arc::new(Watched::new());
            let slot = Arc::new(Slot::new());
            let bell = Arc::new(Notify::new());
            assert!(watched.open(first), "nobody looked");
            let patrol = thread::spawn({
                let (watched, slot, bell) =
                    (Arc::clone(&watched), Arc::clone(&slot), Arc::clone(&bell));
                move || {
                    if watched.leave(Some(first)) {
                        bell.wait();
                    }
                    assert_eq!(watched.last(), Some(second));
                    assert!(slot.is_laid());
                }
            });
            slot.put(Box::new(7));
            if watched.open(second) {
                bell.notify();
            }
            patrol.join().unwrap();
            assert_eq!(slot.take().as_deref(), Some(&7));
        });
    }
}

/// The three together, as `src/locality/{block,crew,handler,reactor}.rs` put them: a handler leaves the core in the slot,
/// blocks and wants it back, while others push and a follower stands by.
mod hand_over {
    use super::*;

    struct Core {
        /// Items read. Not atomic: the holder of the core is alone with it.
        seen: UnsafeCell<usize>,
        /// The thread that blocked has it back.
        back: bool,
    }

    struct Home {
        inbox: Inbox<Item>,
        slot: Slot<Core>,
        bell: Notify,
        /// Calls that no follower has taken, and whether all is over.
        calls: Mutex<(usize, bool)>,
        idle: Condvar,
        /// The thread that wants the core back, as a number to be read without the lock.
        returning: AtomicUsize,
        given: Mutex<Option<Box<Core>>>,
        given_rung: Condvar,
        /// Rung when an item was read, beside the number of them.
        read: Notify,
        reads: AtomicUsize,
    }

    impl Home {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                inbox: Inbox::new(),
                slot: Slot::new(),
                bell: Notify::new(),
                calls: Mutex::new((0, false)),
                idle: Condvar::new(),
                returning: AtomicUsize::new(0),
                given: Mutex::new(None),
                given_rung: Condvar::new(),
                read: Notify::new(),
                reads: AtomicUsize::new(0),
            })
        }

        fn rouse(&self, reader: Reader) {
            match reader {
                Reader::Awake => {}
                Reader::Asleep => self.bell.notify(),
                Reader::Missing => self.call(),
            }
        }

        fn call(&self) {
            self.calls.lock().unwrap().0 += 1;
            self.idle.notify_one();
        }

        /// Enter-block with nothing ready, and leave-block after `section`.
        fn block(&self, core: Box<Core>, section: impl FnOnce()) -> Box<Core> {
            self.slot.put(core);
            if !self.inbox.vacate() {
                self.call();
            }
            section();
            let mut core = self.slot.take().unwrap_or_else(|| self.regain());
            self.drain(&core);
            core.back = true;
            core
        }

        fn regain(&self) -> Box<Core> {
            self.returning.store(1, Ordering::Release);
            let reader = self.inbox.poke();
            self.rouse(reader);
            let mut given = self.given.lock().unwrap();
            loop {
                if let Some(core) = given.take() {
                    return core;
                }
                given = self.given_rung.wait(given).unwrap();
            }
        }

        fn drain(&self, core: &Core) {
            for _ in self.inbox.drain() {
                // SAFETY: only the holder of the core is here.
                core.seen.with_mut(|seen| unsafe { *seen += 1 });
                self.reads.fetch_add(1, Ordering::AcqRel);
                self.read.notify();
            }
        }

        /// The handler's round, until the core is given away or all is done.
        fn handle(&self, core: Box<Core>) {
            loop {
                if self.returning.load(Ordering::Acquire) > 0 {
                    self.returning.store(0, Ordering::Release);
                    *self.given.lock().unwrap() = Some(core);
                    self.given_rung.notify_one();
                    return;
                }
                self.drain(&core);
                if self.returning.load(Ordering::Acquire) > 0 {
                    continue;
                }
                // SAFETY: as in `drain`.
                if core.back && core.seen.with(|seen| unsafe { *seen }) == 1 {
                    self.calls.lock().unwrap().1 = true;
                    self.idle.notify_all();
                    return;
                }
                if self.inbox.sleep() {
                    while self.inbox.is_asleep() {
                        self.bell.wait();
                    }
                }
            }
        }

        fn follow(&self) {
            loop {
                let mut calls = self.calls.lock().unwrap();
                loop {
                    if calls.1 {
                        return;
                    }
                    if calls.0 > 0 {
                        calls.0 -= 1;
                        break;
                    }
                    calls = self.idle.wait(calls).unwrap();
                }
                drop(calls);
                if let Some(core) = self.slot.take() {
                    self.handle(core);
                }
            }
        }
    }

    /// A pusher, a follower, and a handler that blocks for `section`.
    fn run(section: fn(&Home)) {
        model(move || {
            let home = Home::new();
            let core = Box::new(Core {
                seen: UnsafeCell::new(0),
                back: false,
            });
            let pusher = thread::spawn({
                let home = Arc::clone(&home);
                move || {
                    let reader = home.inbox.push(item(0, 0));
                    home.rouse(reader);
                }
            });
            let follower = thread::spawn({
                let home = Arc::clone(&home);
                move || home.follow()
            });
            let core = home.block(core, || section(&home));
            home.handle(core);
            pusher.join().unwrap();
            follower.join().unwrap();
            assert_eq!(home.reads.load(Ordering::Relaxed), 1);
        });
    }

    /// The section blocks until the item was read: somebody else must take the core from the slot.
    ///
    /// Seeded: `vacate` before the core is in the slot (the follower came too early, and nobody was called again); no
    /// look at what `vacate` says; no call when the push met nobody. All of them: deadlock.
    #[test]
    fn somebody_serves_while_the_handler_blocks() {
        run(|home| {
            while home.reads.load(Ordering::Acquire) == 0 {
                home.read.wait();
            }
        });
    }

    /// The section is over at once: the core is still in the slot, or with the follower, or on its way there.
    ///
    /// Seeded: `regain` that pokes before it says that it returns: the follower slept on with the core.
    #[test]
    fn the_blocked_thread_gets_the_core_back() {
        run(|_| {});
    }
}
