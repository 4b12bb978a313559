//! Long locks taken by hand: tries, deadlines, mistakes, sets, tables, statistics and listings.

use std::{sync::mpsc, thread};

use fom_patterns::{
    lock::{LockError, LockGuard, LockMode, LockSet, LongLock, LongLocks},
    prelude::*,
};
use fom_runtime::{config::Shutdown, time::TestClock};

use crate::kit::{self, Log, limited, millis, one, secs};

/// A script of what a fom does with locks.
struct Script {
    name: &'static str,
    steps: Vec<Step>,
    log: Log,
}

#[derive(Clone)]
enum Step {
    Read(LongLock),
    Write(LongLock),
    WriteWithin(LongLock, u64),
    TryRead(LongLock),
    TryWrite(LongLock),
    Set(LockSet),
    SetWithin(LockSet, u64),
    Both(LongLock),
    Sleep(u64),
    Drop,
}

#[fom(operation(Script), transient)]
enum Play {
    #[phase(start, to(Done))]
    Playing,
    #[phase(end)]
    Done,
}

impl PlayTransitions for Script {
    async fn playing(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let mut guards: Vec<LockGuard> = Vec::new();
        let mut sets = Vec::new();
        for step in self.steps.clone() {
            let took = match &step {
                Step::Read(lock) => lock.read(cx).await.map(|guard| guards.push(guard)),
                Step::Write(lock) => lock.write(cx).await.map(|guard| guards.push(guard)),
                Step::WriteWithin(lock, secs) => lock
                    .write_within(cx, kit::secs(*secs))
                    .await
                    .map(|guard| guards.push(guard)),
                Step::TryRead(lock) => lock.try_read(cx).map(|guard| guards.push(guard)),
                Step::TryWrite(lock) => lock.try_write(cx).map(|guard| guards.push(guard)),
                Step::Set(set) => set.lock(cx).await.map(|guard| sets.push(guard)),
                Step::SetWithin(set, secs) => set
                    .lock_within(cx, kit::secs(*secs))
                    .await
                    .map(|guard| sets.push(guard)),
                Step::Both(lock) => {
                    let (one, two) = tokio::join!(lock.write(cx), lock.write(cx));
                    one.and(two.map(|guard| guards.push(guard)))
                }
                Step::Sleep(secs) => {
                    cx.sleep(kit::secs(*secs)).await;
                    continue;
                }
                Step::Drop => {
                    guards.clear();
                    sets.clear();
                    continue;
                }
            };
            match took {
                Ok(()) => self.log.put(format_args!("{} has it", self.name)),
                Err(error) => self.log.put(format_args!("{}: {error}", self.name)),
            }
        }
        Ok(())
    }
}

fn script(log: &Log, name: &'static str, steps: &[Step]) -> Script {
    Script {
        name,
        steps: steps.to_vec(),
        log: log.clone(),
    }
}

/// LK-04: a try takes a free lock and never waits, not even beside readers when a writer waits before it. A deadline is
/// a typed error. When a waiter gives up, the waiters behind it are looked at again: the readers go on beside the
/// reader.
#[test]
fn tries_and_deadlines() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let (log, lock) = (Log::default(), LongLock::new("it"));
        let start =
            |name, steps: &[Step]| runtime.submit(script(&log, name, steps)).start().unwrap();
        let first = start("first", &[Step::Read(lock.clone()), Step::Sleep(100)]);
        let beside = start("beside", &[Step::TryRead(lock.clone())]);
        let not = start("not", &[Step::TryWrite(lock.clone())]);
        runtime.quiet().await;
        assert_eq!(
            log.take(),
            [
                "first has it",
                "beside has it",
                "not: the lock `it` is not free; wait for it, or try again later"
            ]
        );
        let writer = start("writer", &[Step::WriteWithin(lock.clone(), 5)]);
        let one = start("one", &[Step::Read(lock.clone()), Step::Sleep(50)]);
        let two = start("two", &[Step::Read(lock.clone()), Step::Sleep(50)]);
        let overtakes = start("overtakes", &[Step::TryRead(lock.clone())]);
        runtime.quiet().await;
        assert_eq!(
            log.take(),
            ["overtakes: the lock `it` is not free; wait for it, or try again later"]
        );
        clock.advance(secs(4));
        // Waits and holds that are not over count as well.
        let stats = lock.stats();
        assert_eq!((stats.waits, stats.given_up, stats.waiters), (3, 0, 3));
        assert_eq!((stats.wait_time, stats.longest_wait), (secs(12), secs(4)));
        assert_eq!((stats.hold_time, stats.longest_hold), (secs(4), secs(4)));
        clock.advance(secs(1));
        runtime.quiet().await;
        let mut lines = log.take();
        lines.sort();
        assert_eq!(
            lines,
            [
                "one has it",
                "two has it",
                "writer: the lock `it` was not granted within 5s; `Runtime::operations` names its holder"
            ]
        );
        clock.advance(secs(200));
        for fom in [first, beside, not, writer, one, two, overtakes] {
            fom.await.unwrap();
        }
        let stats = lock.stats();
        assert_eq!((stats.waits, stats.given_up), (3, 1));
        assert_eq!((stats.wait_time, stats.longest_wait), (secs(15), secs(5)));
    });
}

/// LK-04: a waiter is cancelled, or the runtime shuts down: the fom has its answer, and has left the queue.
#[test]
fn cancel_and_shutdown_of_waiters() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let (log, lock) = (Log::default(), LongLock::new("it"));
        let guard = lock.try_write(&runtime).unwrap();
        let start = |name| {
            let steps = [Step::Write(lock.clone())];
            runtime.submit(script(&log, name, &steps)).start().unwrap()
        };
        let (cancelled, stays) = (start("cancelled"), start("stays"));
        runtime.quiet().await;
        assert_eq!(lock.stats().waiters, 2);
        cancelled.cancel();
        assert!(matches!(
            cancelled.await.unwrap_err().cause,
            Cause::Cancelled
        ));
        assert_eq!(lock.stats().waiters, 1);
        runtime.shutdown(Shutdown::Now, secs(10)).await;
        assert!(matches!(stays.await.unwrap_err().cause, Cause::Shutdown));
        assert_eq!(lock.stats().waiters, 0);
        drop(guard);
        assert_eq!(lock.stats().holders, 0);
        assert_eq!(log.take(), [""; 0]);
    });
}

/// LK-06: a fom that asks for a lock that it has, or waits for, gets an error that says so, and keeps what it has.
#[test]
fn a_fom_that_would_wait_for_itself_is_told() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let (log, lock) = (Log::default(), LongLock::new("it"));
        let again = "the lock `it` is taken again by the caller that has it to write; that caller would wait for itself; use its guard, or drop the guard first";
        let upgrade = "the lock `it` is held to read by the one that asks to write; take it to write from the start, or give it back first";
        for (steps, said) in [
            (
                [Step::Write(lock.clone()), Step::Write(lock.clone())],
                again,
            ),
            (
                [Step::Write(lock.clone()), Step::TryRead(lock.clone())],
                again,
            ),
            (
                [Step::Read(lock.clone()), Step::Write(lock.clone())],
                upgrade,
            ),
            ([Step::Drop, Step::Both(lock.clone())], again),
        ] {
            let fom = runtime.submit(script(&log, "it", &steps)).start().unwrap();
            fom.await.unwrap();
            assert_eq!(log.take().last().unwrap(), &format!("it: {said}"));
            assert_eq!(lock.stats().holders, 0);
        }
        // Also in the queue, where one of the two waits already.
        let guard = lock.try_read(&runtime).unwrap();
        let steps = [Step::Both(lock.clone())];
        let fom = runtime.submit(script(&log, "it", &steps)).start().unwrap();
        runtime.quiet().await;
        drop(guard);
        fom.await.unwrap();
        assert_eq!(log.take(), [format!("it: {again}")]);
    });
}

/// LK-05: sets over the same locks, put together in different orders, never wait for each other in a cycle. Taken one
/// by one in these orders, the locks would.
#[test]
fn sets_have_one_order() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let (a, b, accounts) = (
            LongLock::new("a"),
            LongLock::new("b"),
            LongLocks::new("account"),
        );
        let sets = [
            LockSet::new().write(&a).write(&b).read(&accounts.of(7)),
            LockSet::new().write(&accounts.of(7)).write(&b).write(&a),
            LockSet::new().read(&b).write(&accounts.of(9)).read(&a),
            LockSet::new().write(&accounts.of(9)).write(&accounts.of(7)),
        ];
        let foms: Vec<_> = (0..200)
            .map(|number: usize| {
                let steps = [
                    Step::Set(sets[number % 4].clone()),
                    Step::Sleep(1),
                    Step::Drop,
                    Step::Sleep(1),
                    Step::Set(sets[(number + 1) % 4].clone()),
                ];
                runtime.submit(script(&log, "it", &steps)).start().unwrap()
            })
            .collect();
        while runtime.in_flight() > 0 {
            runtime.quiet().await;
            clock.advance(secs(1));
        }
        for fom in foms {
            fom.await.unwrap();
        }
        assert_eq!(log.take().len(), 400);
        drop(sets);
        assert!(accounts.is_empty());
    });
}

/// LK-05: a set is all or nothing: a set that is too late, or not free at once, leaves nothing taken.
#[test]
fn a_set_is_all_or_nothing() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let log = Log::default();
        let (a, b) = (LongLock::new("a"), LongLock::new("b"));
        let set = LockSet::new().write(&b).write(&a).read(&a);
        let held = b.try_read(&runtime).unwrap();
        assert_eq!(
            set.try_lock(&runtime).unwrap_err(),
            LockError::Busy { lock: b.clone() }
        );
        assert_eq!(a.stats().holders, 0);
        let steps = [Step::SetWithin(set.clone(), 3)];
        let fom = runtime.submit(script(&log, "it", &steps)).start().unwrap();
        runtime.quiet().await;
        assert_eq!((a.stats().holders, b.stats().waiters), (1, 1));
        clock.advance(secs(3));
        fom.await.unwrap();
        assert_eq!(
            log.take(),
            ["it: the lock `b` was not granted within 3s; `Runtime::operations` names its holder"]
        );
        assert_eq!((a.stats().holders, b.stats().waiters), (0, 0));
        drop(held);
        let both = set.try_lock(&runtime).unwrap();
        let modes: Vec<_> = both.iter().map(|guard| guard.mode()).collect();
        assert_eq!(modes, [LockMode::Write, LockMode::Write]);
    });
}

/// LK-07: counts and times of a lock, a table and a fom, on the runtime's clock and without any option. The listing
/// says which fom waits for what behind which.
#[test]
fn statistics_and_listing() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let (log, accounts) = (Log::default(), LongLocks::new("account"));
        let lock = accounts.of(7);
        let start =
            |name, steps: &[Step]| runtime.submit(script(&log, name, steps)).start().unwrap();
        let first = start("first", &[Step::Write(lock.clone()), Step::Sleep(4)]);
        let second = start(
            "second",
            &[
                Step::Read(lock.clone()),
                Step::Sleep(2),
                Step::Drop,
                Step::Sleep(9),
            ],
        );
        runtime.quiet().await;
        clock.advance(secs(1));
        let third = start("third", &[Step::Write(lock.clone())]);
        let fourth = start("fourth", &[Step::Read(lock.clone())]);
        runtime.quiet().await;
        let said = |id| runtime.operation(id).unwrap().waiting_for().unwrap();
        assert_eq!(
            said(second.id()),
            format!(
                "the lock `account 7`, held by Script {} in Playing",
                first.id()
            )
        );
        clock.advance(secs(3));
        runtime.quiet().await;
        assert_eq!(
            said(third.id()),
            format!(
                "the lock `account 7`, held by Script {} in Playing",
                second.id()
            )
        );
        assert_eq!(
            said(fourth.id()),
            format!(
                "the lock `account 7`, behind Script {} in Playing",
                third.id()
            )
        );
        clock.advance(secs(2));
        runtime.quiet().await;
        let second_info = runtime.operation(second.id()).unwrap();
        assert_eq!(second_info.times.waited, secs(4));
        clock.advance(secs(20));
        for fom in [first, second, third, fourth] {
            fom.await.unwrap();
        }
        let stats = lock.stats();
        assert_eq!((stats.reads, stats.writes, stats.waits), (2, 2, 3));
        assert_eq!(
            (stats.wait_time, stats.longest_wait),
            (secs(4 + 5 + 5), secs(5))
        );
        assert_eq!((stats.hold_time, stats.longest_hold), (secs(6), secs(4)));
        drop(accounts.of(8).try_write(&runtime).unwrap());
        drop(lock);
        let table = accounts.stats();
        assert_eq!((table.locks, table.total.writes), (0, 3));
        let (worst, of_it) = table.worst.unwrap();
        assert_eq!((worst, of_it), (7.into(), stats));
    });
}

/// LK-02: a lock for a key exists only as long as a fom or guard has or wants it. At any time there is one lock per
/// key, from whatever thread it is asked for.
#[test]
fn locks_of_a_table_come_and_go() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let accounts = LongLocks::new("account");
        let inside: [std::sync::atomic::AtomicBool; 3] = Default::default();
        thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    for round in 0..2000_u32 {
                        let key = round % 3;
                        let guard = accounts.of(key).write_blocking(&runtime).unwrap();
                        let inside = &inside[key as usize];
                        assert!(!inside.swap(true, std::sync::atomic::Ordering::SeqCst));
                        inside.store(false, std::sync::atomic::Ordering::SeqCst);
                        drop(guard);
                    }
                });
            }
        });
        assert!(accounts.is_empty());
        assert_eq!(accounts.stats().total.writes, 8000);
    });
}

/// LO-15: a thread outside of foms may block for a lock; a thread that runs foms is refused.
#[test]
fn only_threads_outside_of_foms_block() {
    struct Blocks(LongLock);
    #[fom(operation(Blocks), error(LockError), transient)]
    enum Blocking {
        #[phase(start, to(Beside), sync)]
        Here,
        #[phase(to(Done), blocking)]
        Beside,
        #[phase(end)]
        Done,
    }
    impl BlockingTransitions for Blocks {
        fn here(&mut self, cx: &mut Cx<'_>) -> Result<(), LockError> {
            let refused = self.0.write_blocking(&cx.runtime()).unwrap_err();
            assert!(matches!(refused, LockError::OnHandler { .. }));
            Ok(())
        }
        fn beside(&mut self, cx: &mut BlockingCx<'_>) -> Result<(), LockError> {
            let refused = self.0.read_blocking(&cx.runtime()).unwrap_err();
            assert!(matches!(refused, LockError::OnHandler { .. }));
            drop(self.0.try_read(cx)?);
            self.0.try_write(cx).map(drop)
        }
    }
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let (log, lock) = (Log::default(), LongLock::new("it"));
        runtime.submit(Blocks(lock.clone())).await.unwrap();
        let steps = [Step::Write(lock.clone()), Step::Sleep(1)];
        let fom = runtime.submit(script(&log, "fom", &steps)).start().unwrap();
        runtime.quiet().await;
        let (got, gets) = mpsc::channel();
        let thread = {
            let (lock, runtime) = (lock.clone(), runtime.clone());
            thread::spawn(move || {
                let guard = lock.write_blocking(&runtime).unwrap();
                got.send(guard).unwrap();
            })
        };
        while lock.stats().waiters == 0 {
            thread::yield_now();
        }
        clock.advance(millis(1000));
        fom.await.unwrap();
        let guard = gets.recv().unwrap();
        thread.join().unwrap();
        assert_eq!(lock.stats().holders, 1);
        // The guard keeps the lock on any thread.
        drop(guard);
        assert_eq!(lock.stats().holders, 0);
    });
}
