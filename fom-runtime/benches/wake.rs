//! A thread outside wakes an operation: how long until the operation runs? The worker has one core, the thread another.
//! The thread sends the next ping when the pong has come.
//!
//! - `back-to-back`: at once. The thread outside sleeps until the pong, the worker until the ping.
//! - `after-1ms`: after a millisecond, in which the worker's core has gone to rest.
//! - `spinning`: the thread outside spins for the pong, and so do workers that can: they are awake when the ping comes.
//!
//! `wake` lasts from before the ping is sent until the operation's first instruction, `trip` until the thread has the
//! pong.

#[path = "wake/fom.rs"]
mod fom;
#[path = "wake/limit.rs"]
mod limit;
#[path = "wake/peers.rs"]
mod peers;

use std::{
    process::ExitCode,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, Thread},
    time::Duration,
};

use kit::{Better, Case, Figures, One, Question, Row, Target, ask, now, percentile, pin, settle};

const WAKE_P50: &str = "wake_us_p50";
const WAKE_P99: &str = "wake_us_p99";
const TRIP_P50: &str = "trip_us_p50";

const PEERS: &[&str] = &[
    "tokio-mt", "tokio-ct", "smol", "glommio", "monoio", "limit", "fom",
];

/// At most the time of a futex; differences of less than 10 % are noise.
const FUTEX: Target = Target {
    text: "1.0 of limit",
    of_tokio: None,
    of_limit: Some(1.1),
    absolute: None,
};

const QUESTION: Question = Question {
    name: "wake",
    cases: &[
        Case {
            name: "back-to-back",
            rounds: 5,
            peers: PEERS,
        },
        Case {
            name: "after-1ms",
            rounds: 5,
            peers: PEERS,
        },
        Case {
            name: "spinning",
            rounds: 5,
            peers: &["tokio-mt", "limit:spin", "fom", "fom:spin"],
        },
    ],
    rows: &[
        Row {
            question: "a thread outside wakes a sleeping operation, p50",
            unit: "us",
            value: |round, peer| round.get("back-to-back", peer, WAKE_P50),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: FUTEX,
        },
        Row {
            question: "  p99",
            unit: "us",
            value: |round, peer| round.get("back-to-back", peer, WAKE_P99),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: Target::NONE,
        },
        Row {
            question: "  after 1 ms of rest, p50",
            unit: "us",
            value: |round, peer| round.get("after-1ms", peer, WAKE_P50),
            better: Better::Less,
            fom: "fom",
            limit: "limit",
            target: FUTEX,
        },
        Row {
            question: "  with an opt-in spin, p50",
            unit: "us",
            value: |round, peer| round.get("spinning", peer, WAKE_P50),
            better: Better::Less,
            fom: "fom:spin",
            limit: "limit:spin",
            // The limit takes 75 ns on a busy machine, 15 on a quiet one.
            target: Target {
                text: "0.2",
                of_tokio: Some(0.2 / 15.0),
                ..Target::NONE
            },
        },
    ],
    run,
};

fn main() -> ExitCode {
    ask(&QUESTION)
}

/// What the operation tells the thread outside.
struct Pong {
    /// The duration of the wake in nanoseconds, plus one; zero means not yet.
    took: AtomicU64,
    outside: OnceLock<Thread>,
    /// Whether the thread outside spins.
    spins: OnceLock<bool>,
}

static PONG: Pong = Pong {
    took: AtomicU64::new(0),
    outside: OnceLock::new(),
    spins: OnceLock::new(),
};

impl Pong {
    /// Notes that the operation runs because of a ping sent at `sent`.
    fn send(&self, sent: u64) {
        let took = now().saturating_sub(sent);
        self.took.store(took + 1, Ordering::Release);
        if self.spins.get() == Some(&false)
            && let Some(outside) = self.outside.get()
        {
            outside.unpark();
        }
    }

    fn wait(&self, spins: bool) -> u64 {
        loop {
            match self.took.swap(0, Ordering::Acquire) {
                0 if spins => {
                    while self.took.load(Ordering::Relaxed) == 0 {
                        std::hint::spin_loop();
                    }
                }
                0 => thread::park(),
                took => return took - 1,
            }
        }
    }
}

/// Sends a ping, which carries the time.
type Ping = Box<dyn Fn(u64)>;

fn run(one: &One) -> Figures {
    let (pings, rest, spins) = match &*one.case {
        "back-to-back" => (20_000, Duration::ZERO, false),
        "after-1ms" => (500, Duration::from_millis(1), false),
        "spinning" => (50_000, Duration::ZERO, true),
        _ => one.unknown(),
    };
    PONG.spins.set(spins).expect("this is the first time");
    PONG.outside
        .set(thread::current())
        .expect("this is the first time");
    // Threads started from here on are on the worker's core.
    pin(0);
    let started = match &*one.peer {
        "fom" => Some(fom::start(Duration::ZERO)),
        // Longer than a round trip.
        "fom:spin" => Some(fom::start(Duration::from_micros(100))),
        "limit" => Some(limit::start()),
        "limit:spin" => Some(limit::start_spinning()),
        peer => peers::start(peer),
    };
    pin(1);
    let Some(ping) = started else { one.unknown() };
    if !one.peer.ends_with(":spin") {
        settle();
    }
    let pings = one.size(pings, pings / 20);
    let (mut wakes, mut trips) = (Vec::with_capacity(pings), Vec::with_capacity(pings));
    for n in 0..pings + pings / 10 {
        if !rest.is_zero() {
            thread::sleep(rest);
        }
        let sent = now();
        ping(sent);
        let took = PONG.wait(spins);
        // The first tenth is the warm-up.
        if n >= pings / 10 {
            wakes.push(took);
            trips.push(now() - sent);
        }
    }
    wakes.sort_unstable();
    trips.sort_unstable();
    Figures::new()
        .with(WAKE_P50, percentile(&wakes, 0.5) / 1e3)
        .with(WAKE_P99, percentile(&wakes, 0.99) / 1e3)
        .with(TRIP_P50, percentile(&trips, 0.5) / 1e3)
}
