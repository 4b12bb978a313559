//! Late functions of phases with locks, after a restart. When they run, the fom holds the locks again that it held
//! before.

use fom_durable::prelude::*;
use fom_patterns::lock::{LockMode, LockSet, LongLock, LongLocks};
use fom_runtime::{config::Shutdown, time::TestClock};
use serde::{Deserialize, Serialize};

use crate::kit::held::Held;
use crate::kit::{Log, limited, one, secs};

/// Does two things under its lock, each at an event. The second one has a deadline.
#[derive(Serialize, Deserialize)]
struct Relabel {
    inode: u64,
}

#[derive(Debug)]
enum Word {
    Go,
}

#[fom(operation(Relabel), event(Word))]
enum Renaming {
    #[phase(start, to(Unlink), sync, on(Go), locks)]
    Link,
    #[phase(to(Renamed), sync, on(Go), locks, within = "10s", late)]
    Unlink,
    #[phase(end)]
    Renamed,
}

fn lock(cx: &Cx<'_, Word>, inode: u64) -> LongLock {
    cx.resource::<LongLocks>().of(inode)
}

impl RenamingTransitions for Relabel {
    fn link_locks(&self, cx: &Cx<'_, Word>) -> LockSet {
        LockSet::new().write(&lock(cx, self.inode))
    }
    fn link(&mut self, cx: &mut Cx<'_, Word>, _: Word) -> Result<RenamingAfterLink, BoxError> {
        cx.resource::<Log>().put("links");
        Ok(RenamingAfterLink::Unlink)
    }
    fn unlink_locks(&self, cx: &Cx<'_, Word>) -> LockSet {
        LockSet::new().write(&lock(cx, self.inode))
    }
    fn unlink(&mut self, _: &mut Cx<'_, Word>, _: Word) -> Result<RenamingAfterUnlink, BoxError> {
        Ok(RenamingAfterUnlink::Renamed)
    }
    fn unlink_late(&mut self, cx: &mut Cx<'_, Word>) -> Result<RenamingAfterUnlink, BoxError> {
        assert_eq!(lock(cx, self.inode).held_by(cx), Some(LockMode::Write));
        cx.resource::<Log>().put("is late");
        Ok(RenamingAfterUnlink::Renamed)
    }
}

/// The same with futures. The second phase also takes the lock of inode 8.
#[derive(Serialize, Deserialize)]
struct Move {
    inode: u64,
}

#[fom(operation(Move), event(Word))]
enum Moving {
    #[phase(start, to(Unlink), on(Go), locks)]
    Link,
    #[phase(to(Moved), on(Go), locks, within = "10s", late)]
    Unlink,
    #[phase(end)]
    Moved,
}

impl MovingTransitions for Move {
    fn link_locks(&self, cx: &Cx<'_, Word>) -> LockSet {
        LockSet::new().write(&lock(cx, self.inode))
    }
    async fn link(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        cx.event().await;
        Ok(())
    }
    fn unlink_locks(&self, cx: &Cx<'_, Word>) -> LockSet {
        LockSet::new()
            .write(&lock(cx, self.inode))
            .write(&lock(cx, 8))
    }
    async fn unlink(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        cx.event().await;
        Ok(())
    }
    async fn unlink_late(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        for inode in [self.inode, 8] {
            assert_eq!(lock(cx, inode).held_by(cx), Some(LockMode::Write));
        }
        cx.resource::<Log>().put("is late");
        Ok(())
    }
}

struct Bench {
    journal: Held,
    clock: TestClock,
    log: Log,
}

impl Bench {
    fn new() -> Self {
        Self {
            journal: Held::default(),
            clock: TestClock::new(),
            log: Log::default(),
        }
    }

    /// Makes new locks, because those of the last runtime are gone.
    fn build(&self) -> (Runtime, LongLocks) {
        let locks = LongLocks::new("inode");
        let builder = one(&self.clock).resource(locks.clone());
        let builder = builder.resource(self.log.clone());
        let runtime = builder.journal_with(self.journal.clone()).build().unwrap();
        (runtime, locks)
    }
}

/// LK-02: the fom that held the lock is late after the restart. It has the lock again before its late function runs,
/// and no other fom gets the lock in between.
#[test]
fn a_late_function_has_the_lock_that_was_held_before() {
    limited(|| async {
        let bench = Bench::new();
        {
            let (runtime, locks) = bench.build();
            let start = |key: u64| {
                let rename = runtime.submit(Relabel { inode: 7 }).key(key);
                rename.start().unwrap()
            };
            let holder = start(1);
            runtime.quiet().await;
            // The runtime goes on with the fom.
            drop(start(2));
            holder.send(Word::Go).unwrap();
            holder.reached([RenamingKind::Unlink]).await;
            runtime.quiet().await;
            let stats = locks.of(7).stats();
            assert_eq!((stats.holders, stats.waiters), (1, 1));
            runtime.shutdown(Shutdown::Now, secs(10)).await;
        }
        assert_eq!(bench.log.take(), ["links"]);
        bench.clock.advance(secs(10));
        let (runtime, locks) = bench.build();
        runtime.quiet().await;
        assert_eq!(bench.log.take(), ["is late"]);
        assert!(runtime.find::<Relabel>(1u64).is_none());
        let stats = locks.of(7).stats();
        assert_eq!((stats.holders, stats.waiters), (1, 0));
    });
}

/// LK-02: a late fom held one lock and waited for the lock of another fom. After the restart it waits for both locks,
/// and then its late function runs. A caller can cancel it meanwhile.
#[test]
fn a_late_function_waits_for_a_lock_of_another() {
    for cancelled in [false, true] {
        limited(move || async move {
            let bench = Bench::new();
            {
                let (runtime, locks) = bench.build();
                // It is not late: its deadline begins when it enters `Unlink`.
                let other = runtime.submit(Relabel { inode: 8 }).key(8u64);
                let other = other.start().unwrap();
                let holder = runtime.submit(Move { inode: 7 }).key(7u64);
                let holder = holder.start().unwrap();
                holder.send(Word::Go).unwrap();
                holder.reached([MovingKind::Unlink]).await;
                bench.clock.advance(secs(5));
                other.send(Word::Go).unwrap();
                other.reached([RenamingKind::Unlink]).await;
                runtime.quiet().await;
                assert_eq!(locks.of(7).stats().holders, 1);
                assert_eq!(locks.of(8).stats().waiters, 1);
                runtime.shutdown(Shutdown::Now, secs(10)).await;
            }
            assert_eq!(bench.log.take(), ["links"]);
            bench.clock.advance(secs(6));
            let (runtime, locks) = bench.build();
            runtime.quiet().await;
            assert!(bench.log.take().is_empty());
            assert_eq!(locks.of(7).stats().holders, 1);
            if cancelled {
                runtime.find::<Move>(7u64).unwrap().cancel();
                runtime.quiet().await;
                assert_eq!(locks.of(7).stats().holders, 0);
            }
            let other = runtime.find::<Relabel>(8u64).unwrap();
            other.send(Word::Go).unwrap();
            runtime.idle().await;
            let late: &[&str] = if cancelled { &[] } else { &["is late"] };
            assert_eq!(bench.log.take(), late);
            assert_eq!(locks.of(8).stats().holders, 0);
        });
    }
}
