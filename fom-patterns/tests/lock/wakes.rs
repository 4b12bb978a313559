//! Phases with locks under many wakes by others, over several localities and threads.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use fom_patterns::{
    lock::{LockMode, LockSet, Locker, LongLocks},
    prelude::*,
};
use fom_runtime::{Runtime, submission::Placement, time::TestClock};

use crate::kit::{limited, many};

const ACCOUNTS: usize = 6;

#[derive(Default)]
struct Accounts {
    inside: [AtomicBool; ACCOUNTS],
    entered: AtomicUsize,
}

/// Goes through phases under the same two locks; no other fom is there in any of them.
#[derive(Clone)]
struct Transfer {
    pair: [usize; 2],
    locks: LongLocks,
    accounts: Arc<Accounts>,
}

impl Transfer {
    fn set(&self) -> LockSet {
        let [from, to] = self.pair.map(|account| self.locks.of(account as u64));
        LockSet::new().write(&from).write(&to)
    }

    fn enter(&self, cx: &impl Locker) {
        for (lock, _) in self.set().iter() {
            assert_eq!(lock.held_by(cx), Some(LockMode::Write), "without its lock");
        }
        for account in self.pair {
            assert!(!self.accounts.inside[account].swap(true, Ordering::SeqCst));
        }
        self.accounts.entered.fetch_add(1, Ordering::SeqCst);
        thread::yield_now();
    }

    fn leave(&self) {
        for account in self.pair {
            assert!(self.accounts.inside[account].swap(false, Ordering::SeqCst));
        }
    }
}

/// Wakes a fom that does not wait for it.
enum Poke {
    Poke,
}

struct Futures(Transfer);
struct Functions(Transfer);

#[fom(operation(Futures), event(Poke), transient)]
enum WithFutures {
    #[phase(start, to(Take), on(Poke))]
    Begin,
    #[phase(to(Write), locks)]
    Take,
    #[phase(to(Done), blocking, locks)]
    Write,
    #[phase(end)]
    Done,
}

impl WithFuturesTransitions for Futures {
    async fn begin(&mut self, cx: &mut Cx<'_, Poke>) -> Result<(), BoxError> {
        let Poke::Poke = cx.event().await;
        Ok(())
    }
    fn take_locks(&self, _: &Cx<'_, Poke>) -> LockSet {
        self.0.set()
    }
    async fn take(&mut self, cx: &mut Cx<'_, Poke>) -> Result<(), BoxError> {
        self.0.enter(cx);
        tokio::task::yield_now().await;
        Ok(())
    }
    fn write_locks(&self, _: &Cx<'_, Poke>) -> LockSet {
        self.0.set()
    }
    fn write(&mut self, _: &mut BlockingCx<'_>) -> Result<(), BoxError> {
        thread::yield_now();
        // The accounts were entered in the phase before; no other fom came in between.
        self.0.leave();
        Ok(())
    }
}

#[fom(operation(Functions), event(Poke), transient)]
enum WithFunctions {
    #[phase(start, sync, to(Take), on(Poke))]
    Begin,
    #[phase(sync, to(Write), locks)]
    Take,
    #[phase(blocking, to(Settle), locks)]
    Write,
    #[phase(sync, to(Done), locks)]
    Settle,
    #[phase(end)]
    Done,
}

impl WithFunctionsTransitions for Functions {
    fn begin(
        &mut self,
        _: &mut Cx<'_, Poke>,
        _: Poke,
    ) -> Result<WithFunctionsAfterBegin, BoxError> {
        Ok(WithFunctionsAfterBegin::Take)
    }
    fn take_locks(&self, _: &Cx<'_, Poke>) -> LockSet {
        self.0.set()
    }
    fn take(&mut self, cx: &mut Cx<'_, Poke>) -> Result<(), BoxError> {
        self.0.enter(cx);
        Ok(())
    }
    fn write_locks(&self, _: &Cx<'_, Poke>) -> LockSet {
        self.0.set()
    }
    fn write(&mut self, cx: &mut BlockingCx<'_>) -> Result<(), BoxError> {
        thread::yield_now();
        self.0.leave();
        self.0.enter(cx);
        Ok(())
    }
    fn settle_locks(&self, _: &Cx<'_, Poke>) -> LockSet {
        self.0.set()
    }
    fn settle(&mut self, _: &mut Cx<'_, Poke>) -> Result<(), BoxError> {
        self.0.leave();
        Ok(())
    }
}

const EACH: usize = 1000;

async fn hail<O: Operation<Event = Poke, Error = BoxError>>(
    runtime: &Runtime,
    make: impl Fn(usize) -> O,
) {
    let submit = |number: usize| {
        let submission = runtime.submit(make(number));
        let place = Placement::Locality(number % runtime.localities());
        submission.place(place).start().unwrap()
    };
    let foms: Vec<_> = (0..EACH).map(submit).collect();
    let addresses: Vec<_> = foms.iter().map(|fom| fom.fom().clone()).collect();
    let done = AtomicBool::new(false);
    thread::scope(|threads| {
        for first in 0..2 {
            let (addresses, done) = (&addresses, &done);
            threads.spawn(move || {
                // The first round wakes each fom in order, so that all begin; then the wakes come fast.
                let mut next = first;
                while !done.load(Ordering::Relaxed) {
                    let _ = addresses[next % EACH].send(Poke::Poke);
                    next += 1 + (next / EACH) % 7;
                    thread::yield_now();
                }
            });
        }
        for fom in foms {
            if let Err(failure) = fom.wait() {
                done.store(true, Ordering::Relaxed);
                panic!("{failure}");
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

/// LK-02, LK-03, and the trap of a phase that is set before its lock is granted. No wake lets a fom into a phase
/// without its locks. Over three localities, in async, sync and blocking phases; between phases that name the same
/// locks no other fom gets them.
#[test]
fn a_stray_wake_never_enters_unlocked() {
    limited(|| async {
        let runtime = many(3, &TestClock::new()).build().unwrap();
        let (locks, accounts) = (LongLocks::new("account"), Arc::<Accounts>::default());
        let transfer = |number: usize| Transfer {
            pair: [
                number % ACCOUNTS,
                (number + 1 + number / 7 % (ACCOUNTS - 1)) % ACCOUNTS,
            ],
            locks: locks.clone(),
            accounts: Arc::clone(&accounts),
        };
        hail(&runtime, |number| Futures(transfer(number))).await;
        assert_eq!(accounts.entered.swap(0, Ordering::SeqCst), EACH);
        hail(&runtime, |number| Functions(transfer(number))).await;
        assert_eq!(accounts.entered.load(Ordering::SeqCst), 2 * EACH);
        assert!(locks.is_empty());
        let stats = locks.stats().total;
        assert_eq!((stats.writes, stats.holders), (4 * EACH as u64, 0));
        assert!(stats.waits > 0, "they never met");
    });
}
