//! Foms that wait for a key while others leave it, give up, are cancelled, or the runtime ends.

use fom_runtime::{Cause, submission::Placement};

use super::*;

/// Has its key once, and no other fom has it meanwhile.
struct Turn {
    inside: Arc<AtomicBool>,
    ran: Arc<AtomicUsize>,
}

#[fom(operation(Turn), transient)]
enum Turning {
    #[phase(start, sync, to(Done))]
    Take,
    #[phase(end)]
    Done,
}

impl TurningTransitions for Turn {
    fn take(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        assert!(!self.inside.swap(true, Ordering::AcqRel), "two have a key");
        thread::yield_now();
        self.inside.store(false, Ordering::Release);
        self.ran.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }
}

#[derive(Clone)]
struct Key {
    runtime: Runtime,
    inside: Arc<AtomicBool>,
    ran: Arc<AtomicUsize>,
}

impl Key {
    fn new(runtime: &Runtime) -> Self {
        Self {
            runtime: runtime.clone(),
            inside: Arc::default(),
            ran: Arc::default(),
        }
    }

    fn submit(&self, locality: usize) -> fom_runtime::Submission<'_, Turn> {
        let (inside, ran) = (Arc::clone(&self.inside), Arc::clone(&self.ran));
        let submission = self.runtime.submit(Turn { inside, ran }).key(7);
        submission.place(Placement::Locality(locality)).queue()
    }

    /// Checks that all have had their turn, or were cancelled: nothing is left of the key.
    fn check(self, ran: usize) {
        assert_eq!(self.ran.load(Ordering::Acquire), ran);
        assert!(self.runtime.find::<Turn>(7).is_none());
        let left = self.runtime.operations();
        assert!(left.keys.is_empty() && left.foms.is_empty(), "{left}");
    }
}

/// KY-03, KY-01: foms that ask for a key while the last one leaves it, or in another locality, are neither lost nor
/// together.
#[test]
fn a_fom_that_asks_while_the_last_one_leaves_is_not_lost() {
    for localities in [1, 2] {
        check(2000, move || {
            let bench = Bench::new(localities, MOST);
            let key = Key::new(&bench.runtime);
            let other = {
                let key = key.clone();
                thread::spawn(move || {
                    let one = key.submit(localities - 1).start().unwrap();
                    key.submit(0).detach().unwrap();
                    one.wait().unwrap();
                })
            };
            let one = key.submit(0).start().unwrap();
            let two = key.submit(localities - 1).start().unwrap();
            one.wait().unwrap();
            two.wait().unwrap();
            other.join().unwrap();
            block_on(bench.runtime.idle());
            key.check(4);
            bench.end(Some(Shutdown::Drain));
        });
    }
}

/// KY-05: a fom that is cancelled while it gets its turn ends in one way or the other. The next has its turn in any
/// case.
#[test]
fn a_cancel_meets_the_turn() {
    check(3000, || {
        let bench = Bench::new(1, MOST);
        let key = Key::new(&bench.runtime);
        let first = key.submit(0).start().unwrap();
        let second = key.submit(0).start().unwrap();
        let third = key.submit(0).start().unwrap();
        let cancels = {
            let second = second.fom().clone();
            thread::spawn(move || second.cancel())
        };
        third.wait().unwrap();
        let ran = match second.wait() {
            Ok(_) => 3,
            Err(failure) => {
                assert!(matches!(failure.cause, Cause::Cancelled));
                2
            }
        };
        first.wait().unwrap();
        cancels.join().unwrap();
        block_on(bench.runtime.idle());
        key.check(ran);
        bench.end(Some(Shutdown::Now));
    });
}

/// KY-05: a fom that begins to wait for a key while the runtime ends is refused or answered; none waits forever.
#[test]
fn an_end_meets_those_that_wait() {
    check(3000, || {
        let bench = Bench::new(1, MOST);
        let key = Key::new(&bench.runtime);
        let suspended = bench.runtime.suspend_key::<Turn>(7);
        let asks = {
            let key = key.clone();
            thread::spawn(move || match key.submit(0).start() {
                Ok(handle) => drop(handle.wait()),
                Err(refused) => assert_eq!(refused.reason(), RefusedReason::ShuttingDown),
            })
        };
        let report = bench.runtime.shutdown_blocking(Shutdown::Now, NEVER);
        assert!(report.remained.is_empty());
        asks.join().unwrap();
        drop((suspended, key));
        bench.end(None);
    });
}

/// KY-05, KY-09: a submission that waits for room behind a suspended key gets the room when a fom leaves. The
/// submission also gets it when the one that was given the room gives up.
#[test]
fn room_is_handed_on() {
    check(1500, || {
        let bench = Bench::with(1, MOST, |builder| builder.key_queue(1));
        let key = Key::new(&bench.runtime);
        let suspended = bench.runtime.suspend_key::<Turn>(7);
        let first = key.submit(0).start().unwrap();
        let waits = {
            let key = key.clone();
            thread::spawn(move || {
                let handle = key.submit(0).start_when_room().wait().unwrap();
                handle.wait().unwrap();
            })
        };
        let gives_up = {
            let key = key.clone();
            thread::spawn(move || {
                let mut room = std::pin::pin!(key.submit(0).start_when_room());
                let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
                // The started fom is let go.
                let started = std::future::Future::poll(room.as_mut(), &mut cx);
                usize::from(started.is_ready())
            })
        };
        drop(suspended);
        first.wait().unwrap();
        waits.join().unwrap();
        let started = gives_up.join().unwrap();
        block_on(bench.runtime.idle());
        key.check(2 + started);
        bench.end(Some(Shutdown::Drain));
    });
}
