//! The pieces together, as `{block,threads,handler,reactor}.rs` in `fom-runtime/src/locality` combine them. A handler
//! leaves the core in the slot, blocks and wants it back, while other threads push and a follower waits.

use super::*;

struct Core {
    /// Items read. Not atomic: the holder of the core is alone with it.
    seen: UnsafeCell<usize>,
    /// The thread that blocked has the core back.
    back: bool,
}

struct Home {
    inbox: Inbox<Item>,
    slot: HandoffSlot<Core>,
    bell: Notify,
    /// Calls that no follower has taken, and whether the model is over.
    calls: Mutex<(usize, bool)>,
    idle: Condvar,
    /// The thread that wants the core back, as a number that is read without the lock.
    returning: AtomicUsize,
    given: Mutex<Option<Box<Core>>>,
    given_rung: Condvar,
    /// Rung when an item was read, beside the count of reads.
    read: Notify,
    reads: AtomicUsize,
}

impl Home {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            inbox: Inbox::new(),
            slot: HandoffSlot::new(),
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

/// The section blocks until the item was read: another thread must take the core from the slot.
///
/// Seeded, each a deadlock: `vacate` before the core is in the slot, so that the follower comes too early, and none is
/// called again. No check of the result of `vacate`. No call when the push met no reader.
#[test]
fn a_follower_serves_while_the_handler_blocks() {
    run(|home| {
        while home.reads.load(Ordering::Acquire) == 0 {
            home.read.wait();
        }
    });
}

/// The section is over at once: the core is still in the slot, or with the follower, or on its way there.
///
/// Seeded: a `regain` that pokes before it announces its return: the follower slept on with the core.
#[test]
fn the_blocked_thread_gets_the_core_back() {
    run(|_| {});
}
