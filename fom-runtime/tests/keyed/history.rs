//! Order per key, checked on histories of random runs: which fom had which key when, against the order of the
//! submissions.
//!
//! `KEYED_SEEDS=5000` tries that many; a failure says its seed.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, Barrier, Mutex},
    thread,
};

use fom_runtime::{
    Builder, Cause, FomRef,
    balance::Balance,
    error::{BlockError, RefusedReason},
    prelude::*,
    submission::{Placement, SuspendedKey},
    time::TestClock,
};

use crate::kit::{limited, many, millis, secs};

/// What an `Act` does under its key.
#[derive(Clone, Copy, Debug)]
enum What {
    Quick,
    /// Goes to the tail of the run queue, this many times.
    Yields(u32),
    Sleeps(u64),
    Blocks,
    /// This many attempts fail.
    Fails(u32),
    Panics,
    /// Waits until its deadline or a cancel.
    Hangs,
    /// Submits a part of itself, and waits for it or not.
    Chains {
        waits: bool,
    },
}

/// The number of an act at each begin and each end inside its key.
type History = Arc<Mutex<Vec<usize>>>;

struct Act {
    number: usize,
    what: What,
    history: History,
}

#[fom(operation(Act), transient)]
enum Acting {
    #[phase(start, to(Done), within = "2s", retry = "2, 10ms..40ms")]
    Work,
    #[phase(end)]
    Done,
}

/// While this lives, the fom has its key.
struct Inside(usize, History);

impl Inside {
    fn new(act: &Act) -> Self {
        act.history.lock().unwrap().push(act.number);
        Self(act.number, Arc::clone(&act.history))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(self.0);
    }
}

impl ActingTransitions for Act {
    async fn work(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let _inside = Inside::new(self);
        match self.what {
            What::Quick => {}
            What::Yields(times) => {
                for _ in 0..times {
                    cx.sleep(millis(0)).await;
                    tokio::task::yield_now().await;
                }
            }
            What::Sleeps(time) => cx.sleep(millis(time)).await,
            What::Blocks => {
                let blocked: Result<_, BlockError> = cx.enter_block();
                thread::yield_now();
                drop(blocked);
            }
            What::Fails(times) if cx.attempt() < times => return Err("not yet".into()),
            What::Fails(_) => {}
            What::Panics => panic!("as it was told to"),
            What::Hangs => std::future::pending().await,
            What::Chains { waits } => {
                let part = Self {
                    number: self.number,
                    what: What::Yields(2),
                    history: Arc::clone(&self.history),
                };
                let part = cx.submit(part).chain().start()?;
                if waits {
                    part.await?;
                }
            }
        }
        Ok(())
    }
}

/// A small generator with the same results everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, range: Range<u64>) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        range.start + self.0 % (range.end - range.start)
    }

    fn what(&mut self) -> What {
        match self.roll(0..16) {
            0..5 => What::Quick,
            5..8 => What::Yields(self.roll(1..4) as u32),
            8..10 => What::Sleeps(self.roll(1..60)),
            10 => What::Blocks,
            11..13 => What::Fails(self.roll(1..4) as u32),
            13 => What::Panics,
            14 => What::Hangs,
            _ => What::Chains {
                waits: self.roll(0..2) == 0,
            },
        }
    }
}

/// An admitted submission.
struct Asked {
    key: u64,
    shared: bool,
    /// The side that submitted; the order within one side is known.
    by: usize,
    handle: Option<Handle<Act>>,
}

/// One side of a run: its submissions, in order.
struct Side {
    by: usize,
    dice: Dice,
    keys: u64,
    runtime: Runtime,
    history: History,
    asked: Vec<(usize, Asked)>,
    suspended: Vec<SuspendedKey>,
}

impl Side {
    fn act(&mut self, numbers: &Mutex<usize>) {
        let dice = &mut self.dice;
        let key = dice.roll(0..self.keys);
        match dice.roll(0..20) {
            0 if !self.asked.is_empty() => {
                let at = dice.roll(0..self.asked.len() as u64) as usize;
                let fom: Option<&FomRef<Act>> = self.asked[at].1.handle.as_deref();
                fom.unwrap().cancel();
            }
            1 if self.suspended.len() < 3 => {
                self.suspended.push(self.runtime.suspend_key::<Act>(key));
            }
            2..4 if !self.suspended.is_empty() => {
                let at = dice.roll(0..self.suspended.len() as u64) as usize;
                drop(self.suspended.swap_remove(at));
            }
            4 if !self.asked.is_empty() => {
                let at = dice.roll(0..self.asked.len() as u64) as usize;
                self.asked[at].1.handle.as_deref().unwrap().wake();
            }
            _ => self.submit(key, numbers),
        }
    }

    fn submit(&mut self, key: u64, numbers: &Mutex<usize>) {
        let number = {
            let mut numbers = numbers.lock().unwrap();
            *numbers += 1;
            *numbers
        };
        let what = self.dice.what();
        let history = Arc::clone(&self.history);
        let act = Act {
            number,
            what,
            history,
        };
        let shared = self.dice.roll(0..3) == 0;
        let mut submission = self.runtime.submit(act).key(key).queue();
        if shared {
            submission = submission.shared();
        }
        submission = match self.dice.roll(0..4) {
            0 => {
                let localities = self.runtime.localities() as u64;
                submission.place(Placement::Locality(self.dice.roll(0..localities) as usize))
            }
            1 => submission.shed_oldest(),
            _ => submission,
        };
        match submission.start() {
            Ok(handle) => {
                let by = self.by;
                let handle = Some(handle);
                let asked = Asked {
                    key,
                    shared,
                    by,
                    handle,
                };
                self.asked.push((number, asked));
            }
            Err(refused) => assert!(
                matches!(
                    refused.reason(),
                    RefusedReason::KeyFull | RefusedReason::Full
                ),
                "{}",
                refused.reason()
            ),
        }
    }
}

/// A run: several sides submit at the same time, then all foms run to their end.
async fn run(builder: Builder, clock: TestClock, seed: u64, sides: usize, steps: usize) {
    let runtime = builder.build().unwrap();
    let history = History::default();
    let numbers = Arc::new(Mutex::new(0));
    let together = Arc::new(Barrier::new(sides));
    let threads: Vec<_> = (0..sides)
        .map(|by| {
            let mut side = Side {
                by,
                dice: Dice(seed * 31 + by as u64 + 1),
                keys: 1 + seed % 5,
                runtime: runtime.clone(),
                history: Arc::clone(&history),
                asked: Vec::new(),
                suspended: Vec::new(),
            };
            let (numbers, clock, together) =
                (Arc::clone(&numbers), clock.clone(), Arc::clone(&together));
            thread::spawn(move || {
                together.wait();
                for _ in 0..steps {
                    side.act(&numbers);
                    if side.dice.roll(0..10) == 0 {
                        clock.advance(millis(side.dice.roll(1..50)));
                    }
                    if side.dice.roll(0..6) == 0 {
                        futures::executor::block_on(side.runtime.quiet());
                    }
                }
                side.suspended.clear();
                side.asked
            })
        })
        .collect();
    let mut asked: Vec<_> = threads
        .into_iter()
        .flat_map(|side| side.join().unwrap())
        .collect();
    while runtime.in_flight() > 0 {
        runtime.quiet().await;
        clock.advance(secs(3));
    }
    // Every submission is answered, and an act that has not begun leaves no trace.
    let history = history.lock().unwrap().clone();
    let mut spans = HashMap::<usize, Range<usize>>::new();
    for (at, number) in history.iter().enumerate() {
        let span = spans.entry(*number).or_insert(at..at + 1);
        span.end = at + 1;
    }
    for (number, asked) in &mut asked {
        let outcome = asked.handle.take().unwrap().await;
        let began = spans.contains_key(number);
        match outcome.map_err(|failure| failure.cause) {
            Ok(_) | Err(Cause::Error(_) | Cause::Panicked(_) | Cause::Late { .. }) => {
                assert!(began, "seed {seed}: {number} has ended and never ran");
            }
            Err(Cause::Shed) => assert!(!began, "seed {seed}: {number} was shed and ran"),
            Err(Cause::Cancelled) => {}
            Err(other) => panic!("seed {seed}: {number}: {other}"),
        }
    }
    let known = |number: &usize| asked.iter().any(|asked| asked.0 == *number);
    assert!(
        spans.keys().all(known),
        "seed {seed}: one ran that was refused"
    );
    check(seed, &asked, &spans);
    let left = runtime.operations();
    assert!(
        left.keys.is_empty() && left.foms.is_empty(),
        "seed {seed}: {left}"
    );
}

/// Of two foms that do not share their key, the one that asked first (as far as that is known) leaves before the other
/// enters. In any case the two are never inside together.
fn check(seed: u64, asked: &[(usize, Asked)], spans: &HashMap<usize, Range<usize>>) {
    for (at, (number, first)) in asked.iter().enumerate() {
        for (other, second) in &asked[at + 1..] {
            let (Some(a), Some(b)) = (spans.get(number), spans.get(other)) else {
                continue;
            };
            if first.key != second.key || first.shared && second.shared {
                continue;
            }
            let in_order = a.end <= b.start;
            assert!(
                in_order || b.end <= a.start,
                "seed {seed}: {number} {a:?} and {other} {b:?} had key {} together",
                first.key
            );
            // The foms of one side are in the order of their submissions.
            assert!(
                in_order || first.by != second.by,
                "seed {seed}: {other} {b:?} went before {number} {a:?} for key {}",
                first.key
            );
        }
    }
}

fn seeds(usual: u64) -> Range<u64> {
    let seeds = std::env::var("KEYED_SEEDS").ok();
    1..1 + seeds.map_or(usual, |seeds| seeds.parse().unwrap())
}

/// KY-01, KY-02, KY-05, KY-08, KY-09, KY-14, KY-15: foms do different things under their keys, live anywhere, give up,
/// fail, panic, try again, are late, suspend or shed. No two foms have a key together unless they share it, the foms of
/// one side go in order, and all are answered.
#[test]
fn histories_of_one_side() {
    limited(|| async {
        for seed in seeds(150) {
            let clock = TestClock::new();
            let builder = many(1 + (seed % 3) as usize, &clock).key_queue(match seed % 4 {
                0 => 3,
                _ => usize::MAX,
            });
            run(builder, clock, seed, 1, 60).await;
        }
    });
}

/// KY-01, KY-02: the same where several sides submit at the same time, with little room, and with foms that are moved.
#[test]
fn histories_of_several_sides() {
    limited(|| async {
        for seed in seeds(60) {
            let clock = TestClock::new();
            let mut builder = many(1 + (seed % 3) as usize, &clock);
            if seed % 2 == 0 {
                builder = builder.balance(Balance::Foms);
            }
            if seed % 3 == 0 {
                builder = builder.capacity(20);
            }
            run(builder, clock, seed, 3, 40).await;
        }
    });
}
