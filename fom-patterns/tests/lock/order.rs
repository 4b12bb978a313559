//! Long locks taken by hand: the order of the grants, whatever becomes of the waiters and holders.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicIsize, Ordering},
    },
    time::Duration,
};

use fom_patterns::{
    lock::{LockError, LockGuard, LockMode, LongLock},
    prelude::*,
};
use fom_runtime::{Handle, Runtime, time::TestClock};

use crate::kit::{limited, many, millis, one};

#[derive(Clone, Copy, Debug)]
enum Seen {
    Asked(usize, LockMode),
    Got(usize),
    Gave(usize),
    GaveUp(usize),
}

type History = Arc<Mutex<Vec<Seen>>>;

/// Takes the lock once, holds it, and ends in the given way.
struct Actor {
    number: usize,
    lock: LongLock,
    mode: LockMode,
    before: Duration,
    patience: Option<Duration>,
    hold: Duration,
    end: End,
    history: History,
    /// Readers inside, or -1 for a writer.
    inside: Arc<AtomicIsize>,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Well,
    Panic,
    Error,
    /// The guard goes on into the next phase.
    Carry,
}

struct Carried(Inside);

/// In the lock, until it is dropped in any way.
struct Inside {
    guard: Option<LockGuard>,
    number: usize,
    mode: LockMode,
    history: History,
    inside: Arc<AtomicIsize>,
}

impl Drop for Inside {
    fn drop(&mut self) {
        match self.mode {
            LockMode::Read => assert!(self.inside.fetch_sub(1, Ordering::SeqCst) > 0),
            LockMode::Write => assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), -1),
        }
        self.history.lock().unwrap().push(Seen::Gave(self.number));
        drop(self.guard.take());
    }
}

/// In the queue, until it is dropped or gets the lock.
struct InQueue<'a>(&'a Actor, bool);

impl Drop for InQueue<'_> {
    fn drop(&mut self) {
        if self.1 {
            let seen = Seen::GaveUp(self.0.number);
            self.0.history.lock().unwrap().push(seen);
        }
    }
}

#[fom(operation(Actor), transient)]
enum Acting {
    #[phase(start, to(Carrying, Done))]
    Taking,
    #[phase(to(Done))]
    Carrying { held: Carried },
    #[phase(end)]
    Done,
}

impl Actor {
    async fn take(&self, cx: &Cx<'_>) -> Result<Inside, LockError> {
        self.history
            .lock()
            .unwrap()
            .push(Seen::Asked(self.number, self.mode));
        let mut queued = InQueue(self, true);
        let taken = match (self.mode, self.patience) {
            (LockMode::Read, None) => self.lock.read(cx).await,
            (LockMode::Write, None) => self.lock.write(cx).await,
            (LockMode::Read, Some(time)) => self.lock.read_within(cx, time).await,
            (LockMode::Write, Some(time)) => self.lock.write_within(cx, time).await,
        };
        let guard = taken?;
        queued.1 = false;
        self.history.lock().unwrap().push(Seen::Got(self.number));
        match self.mode {
            LockMode::Read => assert!(self.inside.fetch_add(1, Ordering::SeqCst) >= 0),
            LockMode::Write => assert_eq!(self.inside.fetch_sub(1, Ordering::SeqCst), 0),
        }
        Ok(Inside {
            guard: Some(guard),
            number: self.number,
            mode: self.mode,
            history: Arc::clone(&self.history),
            inside: Arc::clone(&self.inside),
        })
    }
}

impl ActingTransitions for Actor {
    async fn taking(&mut self, cx: &mut Cx<'_>) -> Result<ActingAfterTaking, BoxError> {
        cx.sleep(self.before).await;
        let held = self.take(cx).await?;
        cx.sleep(self.hold).await;
        match self.end {
            End::Well => Ok(ActingAfterTaking::Done),
            End::Panic => panic!("on purpose"),
            End::Error => Err("on purpose".into()),
            End::Carry => Ok(ActingAfterTaking::Carrying {
                held: Carried(held),
            }),
        }
    }

    async fn carrying(&mut self, cx: &mut Cx<'_>, held: &mut Carried) -> Result<(), BoxError> {
        cx.sleep(self.hold).await;
        assert!(held.0.guard.is_some());
        Ok(())
    }
}

/// A small generator with the same results everywhere for one seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

const ACTORS: usize = 60;

fn actors(dice: &mut Dice, lock: &LongLock, history: &History) -> Vec<Actor> {
    let inside = Arc::<AtomicIsize>::default();
    let actor = |number| Actor {
        number,
        lock: lock.clone(),
        mode: if dice.below(3) == 0 {
            LockMode::Write
        } else {
            LockMode::Read
        },
        before: millis(dice.below(100)),
        patience: (dice.below(4) == 0).then(|| millis(1 + dice.below(30))),
        hold: millis(dice.below(12)),
        end: match dice.below(10) {
            0 => End::Panic,
            1 => End::Error,
            2..5 => End::Carry,
            _ => End::Well,
        },
        history: Arc::clone(history),
        inside: Arc::clone(&inside),
    };
    (0..ACTORS).map(actor).collect()
}

/// Advances the time and cancels some of the foms, until all have ended.
async fn drive(runtime: &Runtime, clock: &TestClock, foms: Vec<Handle<Actor>>, dice: &mut Dice) {
    for _ in 0..400 {
        runtime.quiet().await;
        clock.advance(millis(1 + dice.below(3)));
        if dice.below(12) == 0 {
            foms[dice.below(foms.len() as u64) as usize].cancel();
        }
    }
    runtime.quiet().await;
    // Every fom that still waits does so behind sleeping holders.
    while runtime.in_flight() > 0 {
        clock.advance(millis(20));
        runtime.quiet().await;
    }
    for fom in foms {
        let number = fom.id();
        if let Err(failure) = fom.await
            && let Cause::Panicked(said) = &failure.cause
        {
            assert_eq!(said, "on purpose", "{number}");
        }
    }
}

/// Plays the history against the simplest lock that keeps the promise: one line, and from its head all that may be
/// together.
fn check(history: &[Seen]) {
    let mut line = VecDeque::<(usize, LockMode)>::new();
    let mut has = BTreeMap::<usize, LockMode>::new();
    let mut most_readers = 0;
    let admit = |line: &mut VecDeque<(usize, LockMode)>, has: &mut BTreeMap<usize, LockMode>| {
        while let Some((number, mode)) = line.front().copied() {
            let writer = has.values().any(|mode| *mode == LockMode::Write);
            let fits = match mode {
                LockMode::Read => !writer,
                LockMode::Write => has.is_empty(),
            };
            if !fits {
                break;
            }
            has.insert(number, mode);
            line.pop_front();
        }
    };
    for (place, seen) in history.iter().enumerate() {
        match *seen {
            Seen::Asked(number, mode) => line.push_back((number, mode)),
            Seen::Got(number) => {
                assert!(
                    has.contains_key(&number),
                    "{seen:?} at {place}: {history:?}"
                );
            }
            Seen::Gave(number) => {
                assert!(has.remove(&number).is_some(), "{seen:?} at {place}");
            }
            Seen::GaveUp(number) => {
                line.retain(|(other, _)| *other != number);
                has.remove(&number);
            }
        }
        admit(&mut line, &mut has);
        most_readers = most_readers.max(has.len());
    }
    assert!(
        line.is_empty() && has.is_empty(),
        "forgotten: {line:?} {has:?}"
    );
    assert!(most_readers > 1, "readers were never together");
}

/// LK-01, LK-04: strictly first come, first served: readers together, a writer alone, no overtaking, no waiter
/// forgotten. Some waits are cancelled or too late, and some holders panic, fail, are cancelled, or carry the guard on.
/// The history of every random schedule is played against a model.
#[test]
fn the_order_is_that_of_asking_whatever_happens() {
    for seed in 0..40 {
        limited(move || async move {
            let mut dice = Dice(seed);
            let clock = TestClock::new();
            // One thread runs all, so the history is in the order of the events.
            let runtime = one(&clock).build().unwrap();
            let (lock, history) = (LongLock::new("it"), History::default());
            let foms = actors(&mut dice, &lock, &history)
                .into_iter()
                .map(|actor| runtime.submit(actor).start().unwrap())
                .collect();
            drive(&runtime, &clock, foms, &mut dice).await;
            check(&history.lock().unwrap());
            let stats = lock.stats();
            assert_eq!((stats.holders, stats.waiters), (0, 0));
            let got = |seen: &&Seen| matches!(seen, Seen::Got(_));
            let granted = history.lock().unwrap().iter().filter(got).count() as u64;
            // A fom that is cancelled when it was just granted the lock never sees it.
            assert!(stats.reads + stats.writes >= granted);
            assert!(stats.waits > 0 && stats.given_up > 0);
        });
    }
}

/// LK-03: the same over several localities: a writer is alone, every fom ends, and nothing is left.
#[test]
fn a_grant_wakes_foms_of_other_localities() {
    for seed in 100..110 {
        limited(move || async move {
            let mut dice = Dice(seed);
            let clock = TestClock::new();
            let runtime = many(3, &clock).build().unwrap();
            let (lock, history) = (LongLock::new("it"), History::default());
            let foms = actors(&mut dice, &lock, &history)
                .into_iter()
                .enumerate()
                .map(|(number, actor)| {
                    let submission = runtime.submit(actor).place(Placement::Locality(number % 3));
                    submission.start().unwrap()
                })
                .collect();
            drive(&runtime, &clock, foms, &mut dice).await;
            let stats = lock.stats();
            assert_eq!((stats.holders, stats.waiters), (0, 0));
        });
    }
}
