//! The end of the last fom in flight against a waiter, as `fom-runtime/src/runtime/shared.rs` does it.

use super::*;

struct World {
    counts: [InFlight; 2],
    waiters: Waiters,
    /// Whether both foms have told their outcome. No waiter may see idle before.
    over: [AtomicUsize; 2],
    lock: Mutex<()>,
    changed: Condvar,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            counts: [InFlight::default(), InFlight::default()],
            waiters: Waiters::default(),
            over: [AtomicUsize::new(0), AtomicUsize::new(0)],
            lock: Mutex::new(()),
            changed: Condvar::new(),
        })
    }

    fn is_idle(&self) -> bool {
        all_idle(self.counts.iter())
    }

    /// The end of a fom in this locality. The handler then has nothing more to do.
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

/// Two localities end their last foms at once, and a caller waits: one of them tells the caller, and both have ended.
///
/// Seeded: no fence in `Waiters::any`, or none in `join`: the waiter slept forever. `Relaxed` for the count of an end:
/// the waiter saw idle, but not what the fom had done before.
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
/// Seeded: sums that are read in the other order: idle was seen with one fom in flight.
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

/// A submission from outside is counted and then refused: a waiter hears of the refusal.
///
/// Seeded: a refusal that tells no waiter (deadlock).
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
