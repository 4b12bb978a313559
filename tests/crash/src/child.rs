//! The child: a runtime on the journal, under load, until it is killed.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use fom_runtime::{
    BuildError, Builder, Key, Operations, RefusedReason, RestoreError, SetAside, TransitionCause,
    TransitionOf, journal::FileJournal, prelude::*,
};
use tokio::task::{LocalSet, spawn_local};

use crate::{
    history::History,
    journals::{Breaking, Broken, Pointed},
    points::{Point, Points},
    work::{Mark, Retry, Speak, Story, Talk, Tick, Walk},
};

/// How large a segment is: small, so that there are many of them in a short life.
const SEGMENT: u64 = 32 << 10;

/// How many operations of each kind are submitted at a time.
const USERS: usize = 12;

/// How many keys there are that operations share, one after the other.
const CHAINS: u64 = 6;

/// More than this many in flight are not added to: what came back is to end.
const MOST: usize = 600;

/// How long it takes at most until nothing is in flight any more.
const DRAIN: Duration = Duration::from_secs(30);

/// Numbers of one life.
pub(crate) const PER_LIFE: u64 = 1_000_000;

/// What the parent says.
#[derive(Debug)]
struct Orders {
    journal: PathBuf,
    history: PathBuf,
    life: u64,
    point: Point,
    nth: u64,
    broken: Broken,
    /// Nothing new is begun; it ends when nothing is in flight any more.
    drain: bool,
    /// Operations to be submitted with their ids again.
    again: Vec<(char, u64)>,
}

impl Orders {
    fn parse(args: &[String]) -> Result<Self, String> {
        let [journal, history, life, point, nth, broken, drain, again] = args else {
            return Err(format!("eight words, not {}", args.len()));
        };
        let number = |word: &str| {
            word.parse::<u64>()
                .map_err(|error| format!("{word}: {error}"))
        };
        let again = again.split(',').filter(|word| !word.is_empty());
        Ok(Self {
            journal: journal.into(),
            history: history.into(),
            life: number(life)?,
            point: point.parse()?,
            nth: number(nth)?,
            broken: broken.parse()?,
            drain: drain == "drain",
            again: again
                .map(|word| {
                    let letter = word.chars().next().unwrap_or('?');
                    Ok((letter, number(&word[letter.len_utf8()..])?))
                })
                .collect::<Result<_, String>>()?,
        })
    }
}

/// Runs the child with what stands behind `child` on its command line.
///
/// # Errors
///
/// In words, when it could not begin.
pub fn child(args: &[String]) -> Result<(), String> {
    let orders = Orders::parse(args)?;
    let history = History::open(&orders.history).map_err(|error| error.to_string())?;
    match live(&orders, &history) {
        Err(Broke::NotBuilt(error)) if orders.point.explains(&error) => {
            // The disk failed this early: to say so and to end is all that can be done. The next life must find everything.
            history.line(format_args!("! {}, before it began", orders.point));
            Ok(())
        }
        Err(error) => {
            let error = error.to_string();
            history.line(format_args!("X {error}"));
            Err(error)
        }
        Ok(()) => Ok(()),
    }
}

/// Why a child came to no good end.
#[derive(Debug, thiserror::Error)]
enum Broke {
    #[error("the runtime cannot be built: {0}")]
    NotBuilt(#[from] BuildError),
    #[error("no tokio runtime: {0}")]
    NoTokio(std::io::Error),
    #[error("after {DRAIN:?} something is in flight still:\n{0}")]
    InFlight(Box<Operations>),
}

fn live(orders: &Orders, history: &History) -> Result<(), Broke> {
    let points = Points::new(orders.point, orders.nth, history);
    let journal = FileJournal::options()
        .segment_bytes(SEGMENT)
        .disk(points.disk(orders.nth))
        .open(&orders.journal)
        .map_err(BuildError::from)?;
    let journal = Breaking::new(journal, orders.broken);
    let runtime = builder(history, &points)
        .journal_with(Pointed {
            journal,
            points: points.clone(),
        })
        .build()?;
    history.line(format_args!("R {}", runtime.in_flight()));
    for aside in runtime.set_aside() {
        if !stalled(&aside) {
            history.line(format_args!(
                "X fom {} was set aside: {}",
                aside.id, aside.reason
            ));
        }
    }
    let users = LocalSet::new();
    let user = User {
        runtime: runtime.clone(),
        history: history.clone(),
        life: orders.life,
    };
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(Broke::NoTokio)?;
    let again = orders.again.clone();
    let drain = orders.drain;
    let drained = users.block_on(&tokio, async move {
        let again = spawn_local(resubmit(user.clone(), again));
        if drain {
            // Who waits for what was submitted again, waits no longer than for the rest.
            let _ = tokio::time::timeout(DRAIN, again).await;
            return tokio::time::timeout(DRAIN, user.runtime.idle())
                .await
                .is_ok();
        }
        user.load();
        std::future::pending().await
    });
    if !drained {
        return Err(Broke::InFlight(Box::new(runtime.operations())));
    }
    runtime.shutdown_blocking(Shutdown::Now, DRAIN);
    history.line(format_args!("Z"));
    Ok(())
}

/// The journal fails at times, on purpose: what that holds up goes on by itself.
fn stalled(aside: &SetAside) -> bool {
    matches!(aside.reason, RestoreError::NotCommitted(_))
}

fn builder(history: &History, points: &Points) -> Builder {
    let builder = Runtime::builder()
        .localities(2)
        .pin(false)
        .remember(1_000_000, Duration::from_secs(86_400))
        .resource(history.clone())
        .resource(points.clone());
    let builder = told::<Walk>(builder, history, points);
    let builder = told::<Tick>(builder, history, points);
    let builder = told::<Retry>(builder, history, points);
    let builder = told::<Speak>(builder, history, points);
    told::<Talk>(builder, history, points)
}

/// Writes down what listeners hear.
fn told<O: Story>(builder: Builder, history: &History, points: &Points) -> Builder {
    let (history, points) = (history.clone(), points.clone());
    builder.listen_to::<O>(move |heard: &TransitionOf<'_, O>| {
        points.pass(Point::Hearing);
        let operation = heard.operation();
        let cause = match heard.cause() {
            TransitionCause::Failed(why) => format!("failed-{}", why.replace(' ', "-")),
            cause => cause.to_string(),
        };
        let key = heard.key().map_or("-".to_owned(), Key::to_string);
        history.line(format_args!(
            "T {} {} {} {} {} {cause} {key} {}",
            operation.mark().n,
            heard.id(),
            operation.mark().hops,
            heard.from().unwrap_or("-"),
            heard.to().unwrap_or("-"),
            operation.outcome(),
        ));
        points.pass(Point::Heard);
    })
}

/// Somebody who submits operations and waits for them.
#[derive(Clone)]
struct User {
    runtime: Runtime,
    history: History,
    life: u64,
}

/// A number that is the same for the same number, and else any.
fn mixed(n: u64) -> u64 {
    let mut n = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    n ^= n >> 29;
    n = n.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    n ^ (n >> 32)
}

fn walk(n: u64) -> Walk {
    Walk {
        mark: Mark::new(n),
        steps: (mixed(n) % 4) as u32,
        sum: 1,
    }
}

fn tick(n: u64) -> Tick {
    Tick {
        mark: Mark::new(n),
        text: format!("{:x}", mixed(n) % 4096),
    }
}

fn retry(n: u64) -> Retry {
    Retry {
        mark: Mark::new(n),
        fails: (mixed(n) % 4) as u32,
    }
}

fn speak(n: u64) -> Speak {
    Speak { mark: Mark::new(n) }
}

impl User {
    fn load(&self) {
        for place in 0..USERS as u64 {
            let first = self.life * PER_LIFE + place * 20_000;
            spawn_local(self.clone().ones(first, walk, place % 2 == 0));
            spawn_local(self.clone().ones(first + 4_000, tick, place % 3 == 0));
            spawn_local(self.clone().ones(first + 8_000, retry, place % 3 == 1));
            spawn_local(self.clone().ones(first + 12_000, speak, false));
        }
        for chain in 0..CHAINS {
            let first = self.life * PER_LIFE + 900_000 + chain * 4_000;
            if chain % 2 == 0 {
                spawn_local(self.clone().chained(first, chain, tick));
            } else {
                spawn_local(self.clone().chained(first, chain, walk));
            }
        }
    }

    /// One after the other.
    async fn ones<O: Story>(self, first: u64, make: fn(u64) -> O, once: bool) {
        for n in (first..first + 4_000).step_by(2) {
            while self.runtime.in_flight() > MOST {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            self.one(n, make(n), once).await;
        }
    }

    async fn one<O: Story>(&self, n: u64, mut operation: O, once: bool) {
        self.say_submitted::<O>(n, once);
        let refused = loop {
            let submission = self.runtime.submit(operation);
            let submission = if once { submission.once(n) } else { submission };
            match submission.start() {
                Ok(handle) => return self.say_outcome(n, handle.await),
                // The journal fails at times, on purpose: what could not commit goes on by itself in a moment.
                Err(refused) if refused.reason() == RefusedReason::SetAside && self.all_go_on() => {
                    operation = refused.into_operation();
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                Err(refused) => break refused.reason(),
            }
        };
        self.history
            .line(format_args!("X {n} was refused: {refused}"));
    }

    /// Whether nothing is set aside for good.
    fn all_go_on(&self) -> bool {
        self.runtime.set_aside().iter().all(stalled)
    }

    /// One after the other with the same key. After a restart the last one may be there still.
    async fn chained<O: Story>(self, first: u64, chain: u64, make: fn(u64) -> O) {
        for n in first..first + 4_000 {
            let mut operation = make(n);
            let handle = loop {
                self.say_submitted::<O>(n, false);
                let submission = self.runtime.submit(operation).key(("chain", chain));
                let refused = match submission.start() {
                    Ok(handle) => break handle,
                    Err(refused) => refused,
                };
                let RefusedReason::KeyInUse = refused.reason() else {
                    self.history
                        .line(format_args!("X {n} was refused: {}", refused.reason()));
                    return;
                };
                if let Some(live) = refused.live() {
                    // None of them: until it ends. One that could not commit has, and comes back in a moment.
                    live.reached([]).await;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                operation = refused.into_operation();
            };
            self.say_outcome(n, handle.await);
        }
    }

    fn say_submitted<O: Story>(&self, n: u64, once: bool) {
        let once = if once { "once" } else { "-" };
        self.history
            .line(format_args!("S {n} {} {once}", O::LETTER));
    }

    fn say_outcome<O: Story>(&self, n: u64, outcome: Result<Ended<O>, Failure<O>>) {
        match outcome {
            Ok(ended) => self
                .history
                .line(format_args!("H {n} {}", ended.operation.outcome())),
            Err(failure) => self.history.line(format_args!(
                "H {n} failed-{}",
                failure.cause.name().replace(' ', "-")
            )),
        }
    }
}

/// What was submitted with its id in an earlier life, once more.
async fn resubmit(user: User, again: Vec<(char, u64)>) {
    let begun = Instant::now();
    let mut waits = BTreeMap::new();
    for (letter, n) in again {
        let user = user.clone();
        waits.insert(
            n,
            spawn_local(async move {
                match letter {
                    Walk::LETTER => user.one(n, walk(n), true).await,
                    Tick::LETTER => user.one(n, tick(n), true).await,
                    _ => user.one(n, retry(n), true).await,
                }
            }),
        );
    }
    for (n, wait) in waits {
        let left = DRAIN.saturating_sub(begun.elapsed());
        if tokio::time::timeout(left, wait).await.is_err() {
            user.history
                .line(format_args!("X {n}, submitted again, has no outcome"));
        }
    }
}
