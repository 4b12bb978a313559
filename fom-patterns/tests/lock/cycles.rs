//! Foms that wait for each other in a cycle are named, and no other foms are.

use fom_patterns::{
    lock::{LockGuard, LockMode, LongLock},
    prelude::*,
};
use fom_runtime::{observe::WaitsFor, time::TestClock};

use crate::kit::{limited, one, secs};

/// Takes its locks by hand, one after the other with a second between, and keeps them for a while.
struct Taker(Vec<(LongLock, LockMode)>);

#[fom(operation(Taker), transient)]
enum Taking {
    #[phase(start, to(Done))]
    Taking,
    #[phase(end)]
    Done,
}

impl TakingTransitions for Taker {
    async fn taking(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let mut guards: Vec<LockGuard> = Vec::new();
        for (lock, mode) in &self.0 {
            guards.push(match mode {
                LockMode::Read => lock.read(cx).await?,
                LockMode::Write => lock.write(cx).await?,
            });
            cx.sleep(secs(1)).await;
        }
        cx.sleep(secs(1000)).await;
        Ok(())
    }
}

const READ: LockMode = LockMode::Read;
const WRITE: LockMode = LockMode::Write;

fn taker<const N: usize>(locks: [(&LongLock, LockMode); N]) -> Taker {
    Taker(locks.map(|(lock, mode)| (lock.clone(), mode)).to_vec())
}

/// LK-08: two foms take two locks in different orders. One sentence tells the cycle, with foms, phases and locks. When
/// one fom is cancelled there is no cycle, and the other goes on.
#[test]
fn two_locks_in_different_orders() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let (a, b) = (LongLock::new("account 3"), LongLock::new("account 7"));
        let start = |taker| runtime.submit(taker).start().unwrap();
        let one = start(taker([(&a, WRITE), (&b, WRITE)]));
        let two = start(taker([(&b, WRITE), (&a, WRITE)]));
        let behind = start(taker([(&a, READ)]));
        runtime.quiet().await;
        assert!(runtime.inspect().deadlocks().is_empty());
        clock.advance(secs(1));
        runtime.quiet().await;
        let [found] = &runtime.inspect().deadlocks()[..] else {
            panic!("one cycle")
        };
        let (first, second) = (one.id(), two.id());
        assert_eq!(
            found.to_string(),
            format!(
                "Taker {first} in Taking waits for the lock `account 7`, held by Taker {second} in Taking, \
                 which waits for the lock `account 3`, held by Taker {first} in Taking"
            )
        );
        let told: Vec<_> = found
            .waits
            .iter()
            .map(|wait| match &wait.wait.on {
                WaitsFor::Package { wait: lock, .. } => (wait.fom, lock.kind, lock.subject.clone()),
                other => panic!("{other}"),
            })
            .collect();
        assert_eq!(
            told,
            [
                (first, "the lock", Some(b.to_string())),
                (second, "the lock", Some(a.to_string()))
            ]
        );
        two.cancel();
        two.await.unwrap_err();
        runtime.quiet().await;
        assert!(runtime.inspect().deadlocks().is_empty());
        assert_eq!((b.stats().holders, a.stats().waiters), (1, 1));
        drop((one, behind));
    });
}

/// LK-08: a cycle through the line of a lock, where a waiter could share the lock with its holder: a reader waits
/// behind a writer, and the writer behind a reader.
#[test]
fn a_cycle_through_the_line() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let (a, b) = (LongLock::new("a"), LongLock::new("b"));
        let start = |taker| runtime.submit(taker).start().unwrap();
        let reads = start(taker([(&a, READ), (&b, WRITE)]));
        let holds = start(taker([(&b, READ), (&a, READ)]));
        let writes = start(taker([(&a, WRITE)]));
        runtime.quiet().await;
        clock.advance(secs(1));
        runtime.quiet().await;
        let found = runtime.inspect().deadlocks();
        assert_eq!(found.len(), 1);
        let foms: Vec<_> = found[0].waits.iter().map(|wait| wait.fom).collect();
        assert_eq!(foms, [reads.id(), holds.id(), writes.id()]);
        assert_eq!(
            found[0].waits[1].wait.to_string(),
            format!("the lock `a`, behind Taker {} in Taking", writes.id())
        );
        writes.cancel();
        runtime.quiet().await;
        assert!(runtime.inspect().deadlocks().is_empty());
    });
}

/// LK-08: many foms that wait for one lock, and for each other without a cycle, are no deadlock; each of several
/// cycles is named.
#[test]
fn what_is_no_cycle_is_not_named_and_each_cycle_is() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let start = |taker| runtime.submit(taker).start().unwrap();
        let locks: Vec<_> = (0..20)
            .map(|number| LongLock::new(format!("{number}")))
            .collect();
        let mut foms = Vec::new();
        // A chain, and a crowd.
        for pair in locks.windows(2) {
            foms.push(start(taker([(&pair[0], WRITE), (&pair[1], WRITE)])));
            foms.push(start(taker([(&pair[1], READ)])));
        }
        for _ in 0..500 {
            foms.push(start(taker([(&locks[0], READ)])));
            foms.push(start(taker([(&locks[0], WRITE)])));
        }
        runtime.quiet().await;
        clock.advance(secs(1));
        runtime.quiet().await;
        assert!(runtime.inspect().deadlocks().is_empty());
        for length in [2, 3, 5] {
            let ring: Vec<_> = (0..length)
                .map(|number| LongLock::new(format!("r{number}")))
                .collect();
            for place in 0..length {
                let next = (place + 1) % length;
                foms.push(start(taker([(&ring[place], WRITE), (&ring[next], WRITE)])));
            }
        }
        runtime.quiet().await;
        clock.advance(secs(1));
        runtime.quiet().await;
        let mut lengths: Vec<_> = runtime
            .inspect()
            .deadlocks()
            .iter()
            .map(|found| found.waits.len())
            .collect();
        lengths.sort();
        assert_eq!(lengths, [2, 3, 5]);
    });
}

/// Holds the lock and waits for its helpers: for all, or for the next.
struct Leader {
    lock: LongLock,
    helpers: Vec<(Helper, Option<&'static str>)>,
    all: bool,
}

#[fom(operation(Leader), transient)]
enum Leading {
    #[phase(start, to(Led))]
    Lead,
    #[phase(end)]
    Led,
}

impl LeadingTransitions for Leader {
    async fn lead(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let _guard = self.lock.write(cx).await?;
        let mut team = cx.team();
        let mut handles = Vec::new();
        for (helper, key) in self.helpers.drain(..) {
            let submission = cx.submit(helper);
            handles.push(match key {
                Some(key) => team.start(submission.key(key).queue())?,
                None => team.start(submission)?,
            });
        }
        if self.all {
            team.all().await;
        } else {
            team.next().await;
        }
        Ok(())
    }
}

/// Takes a lock, or waits forever.
struct Helper(Option<LongLock>);

#[fom(operation(Helper), transient)]
enum Helping {
    #[phase(start, to(Helped))]
    Help,
    #[phase(end)]
    Helped,
}

impl HelpingTransitions for Helper {
    async fn help(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        match &self.0 {
            Some(lock) => drop(lock.write(cx).await?),
            None => cx.sleep(secs(1000)).await,
        }
        Ok(())
    }
}

/// LK-08: a leader holds what its helper waits for, directly and through the key that the helper waits for. A leader
/// that waits for the next helper is in no deadlock as long as one helper is not stuck.
#[test]
fn cycles_through_helpers_and_keys() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let lock = LongLock::new("it");
        let lead = |helpers: Vec<(Helper, Option<&'static str>)>, all| {
            let leader = Leader {
                lock: lock.clone(),
                helpers,
                all,
            };
            runtime.submit(leader).start().unwrap()
        };
        let stuck = || (Helper(Some(lock.clone())), None);
        let leader = lead(vec![stuck(), (Helper(None), None)], true);
        runtime.quiet().await;
        let found = runtime.inspect().deadlocks();
        assert_eq!(found.len(), 1);
        let helper = found[0].waits[1].fom;
        assert_eq!(
            found[0].to_string(),
            format!(
                "Leader {0} in Lead waits for its helper Helper {helper} in Help, \
                 which waits for the lock `it`, held by Leader {0} in Lead",
                leader.id()
            )
        );
        leader.cancel();
        leader.await.unwrap_err();
        let leader = lead(vec![stuck(), (Helper(None), None)], false);
        runtime.quiet().await;
        assert!(runtime.inspect().deadlocks().is_empty());
        leader.cancel();
        leader.await.unwrap_err();
        // The helper had the lock then, and is gone by now.
        runtime.quiet().await;
        // The helper waits for its key, and the key's holder waits for the lock. The holder came for the lock after the
        // leader.
        let guard = lock.try_write(&runtime).unwrap();
        let leader = lead(vec![(Helper(None), Some("k"))], true);
        runtime.quiet().await;
        let holder = runtime.submit(Helper(Some(lock.clone()))).key("k");
        let holder = holder.start().unwrap();
        runtime.quiet().await;
        assert!(runtime.inspect().deadlocks().is_empty());
        drop(guard);
        runtime.quiet().await;
        let found = runtime.inspect().deadlocks();
        assert_eq!(found.len(), 1);
        let helper = found[0].waits[1].fom;
        assert_eq!(
            found[0].to_string(),
            format!(
                "Leader {0} in Lead waits for its helper Helper {helper} (key k) in Help, \
                 which waits for its key, held by Helper {1} (key k) in Help, \
                 which waits for the lock `it`, held by Leader {0} in Lead",
                leader.id(),
                holder.id()
            )
        );
        leader.cancel();
        leader.await.unwrap_err();
        holder.await.unwrap();
        runtime.quiet().await;
        assert!(runtime.inspect().deadlocks().is_empty());
    });
}
