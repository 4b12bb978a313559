//! A long lock that is granted while its waiter gives up.

use std::{
    pin::pin,
    task::{Context, Waker},
};

use fom_patterns::lock::{LockSet, LongLock};

use super::*;

/// The lock, and whether a visitor is inside.
#[derive(Clone)]
struct Room(LongLock, Arc<AtomicBool>);

impl Room {
    fn new() -> Self {
        Self(LongLock::new("room"), Arc::default())
    }

    fn visit(&self) {
        assert!(!self.1.swap(true, Ordering::AcqRel), "two in the room");
        thread::yield_now();
        self.1.store(false, Ordering::Release);
    }

    /// Whether no visitor is left inside or in line.
    fn is_left(&self) -> bool {
        let stats = self.0.stats();
        (stats.holders, stats.waiters) == (0, 0)
    }
}

struct Visitor(Room);

#[fom(operation(Visitor), transient)]
enum Visiting {
    #[phase(start, sync, to(Inside))]
    Before,
    #[phase(sync, to(Done), locks)]
    Inside,
    #[phase(end)]
    Done,
}

impl VisitingTransitions for Visitor {
    fn before(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
    fn inside_locks(&self, _: &Cx<'_>) -> LockSet {
        LockSet::new().write(&self.0.0)
    }
    fn inside(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        self.0.visit();
        Ok(())
    }
}

/// Two foms of two localities wait for the lock; it is released while the first is cancelled. The second gets the lock
/// in any case, the first or not, and the lock is free in the end.
#[test]
fn granted_while_cancelled() {
    check(2000, || {
        let bench = Bench::new(2, MOST);
        let room = Room::new();
        let guard = room.0.try_write(&bench.runtime).unwrap();
        let submit = |index| {
            let submission = bench.runtime.submit(Visitor(room.clone()));
            submission
                .place(Placement::Locality(index))
                .start()
                .unwrap()
        };
        let (first, second) = (submit(0), submit(1));
        let address = first.fom().clone();
        let cancel = thread::spawn(move || address.cancel());
        let give_back = thread::spawn(move || drop(guard));
        match first.wait() {
            Ok(_) => {}
            Err(failure) => assert!(matches!(failure.cause, Cause::Cancelled)),
        }
        second.wait().unwrap();
        cancel.join().unwrap();
        give_back.join().unwrap();
        assert!(room.is_left());
        bench.end(Some(Shutdown::Drain));
    });
}

/// Threads take the lock; others ask for it and go away, whether or not it was granted meanwhile.
#[test]
fn granted_while_dropped() {
    check(2000, || {
        let bench = Bench::new(1, MOST);
        let room = Room::new();
        let threads: Vec<_> = (0..3)
            .map(|number| {
                let (room, runtime) = (room.clone(), bench.runtime.clone());
                thread::spawn(move || {
                    if number == 0 {
                        let mut asking = pin!(room.0.read(&runtime));
                        let mut cx = Context::from_waker(Waker::noop());
                        let polled = asking.as_mut().poll(&mut cx);
                        thread::yield_now();
                        drop(polled);
                    } else {
                        let guard = room.0.write_blocking(&runtime).unwrap();
                        room.visit();
                        drop(guard);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(room.is_left());
        bench.end(Some(Shutdown::Drain));
    });
}
