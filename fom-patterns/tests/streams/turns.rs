//! Streams: the order of turns. Hot keys do not starve rare ones, and streams do not starve the other foms of their
//! locality. Nothing that a request does to its own stream stops it.

use std::{
    collections::HashMap,
    hash::{Hash, Hasher},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::Duration,
};

use fom_patterns::{
    prelude::*,
    streams::{KeyedStream, PushReason, StreamOptions},
};
use fom_runtime::{config::Shutdown, time::TestClock};

use crate::kit::{self, Gate, hush_localities, limited, secs};

type Order = Arc<Mutex<Vec<(u64, u64)>>>;

/// Writes down that it runs.
struct Note {
    key: u64,
    number: u64,
    order: Order,
}

#[fom(operation(Note), transient)]
enum Noting {
    #[phase(start, sync, to(Noted))]
    Note,
    #[phase(end)]
    Noted,
}

impl NotingTransitions for Note {
    fn note(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        self.order.lock().unwrap().push((self.key, self.number));
        Ok(())
    }
}

fn runtime() -> Runtime {
    Runtime::builder().localities(1).pin(false).build().unwrap()
}

/// What ran, in order; all requests were there before the first of them ran.
async fn run(options: StreamOptions, keys: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
    run_in(&runtime(), options, keys).await
}

async fn run_on(
    clock: &TestClock,
    options: StreamOptions,
    keys: impl Iterator<Item = u64>,
) -> Vec<(u64, u64)> {
    run_in(&kit::one(clock).build().unwrap(), options, keys).await
}

/// Maps each key to another one, differently in each run, so that other keys share a cell.
fn mixed() -> impl Fn(u64) -> u64 {
    static RUNS: AtomicU64 = AtomicU64::new(1);
    let run = RUNS.fetch_add(1, Relaxed) << 32;
    move |key| {
        let key = (run + key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let key = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let key = (key ^ (key >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        key ^ (key >> 31)
    }
}

async fn run_in(
    runtime: &Runtime,
    options: StreamOptions,
    keys: impl Iterator<Item = u64>,
) -> Vec<(u64, u64)> {
    let stream = KeyedStream::<Note, u64>::new(runtime, options);
    let order = Order::default();
    let gate = Gate::close(runtime, 0);
    let mixed = mixed();
    let mut numbers = HashMap::<u64, u64>::new();
    for key in keys {
        let number = numbers.entry(key).or_default();
        let order = Arc::clone(&order);
        stream
            .push(
                mixed(key),
                Note {
                    key,
                    number: *number,
                    order,
                },
            )
            .unwrap();
        *number += 1;
    }
    gate.open();
    runtime.shutdown(Shutdown::Drain, secs(20)).await;
    let order = order.lock().unwrap().clone();
    let mut next = HashMap::<u64, u64>::new();
    for (key, number) in &order {
        let next = next.entry(*key).or_default();
        assert_eq!(number, next, "key {key}");
        *next += 1;
    }
    assert_eq!(next, numbers);
    order
}

/// KY-06: hot keys have thousands of requests before it, but a rare key has its turn after a few quanta of each.
#[test]
fn hot_keys_do_not_starve_rare_ones() {
    limited(|| async {
        let options = StreamOptions::default().quantum(8, secs(1));
        // Three hot keys with 20,000 requests each, and behind them 50 rare ones.
        let hot = (0..60_000).map(|n| n % 3);
        let order = run(options, hot.chain(100..150)).await;
        let rare = order.iter().rposition(|(key, _)| *key >= 100).unwrap();
        // Each hot key has its quantum in line; then a turn of a hot key comes between two quanta of others.
        assert!(rare < 2_000, "the last rare one was behind {rare} others");
    });
}

/// KY-06: keys in the ring have turns of a quantum each, and the keys in line go on between them.
#[test]
fn keys_take_turns_of_a_quantum() {
    limited(|| async {
        let options = StreamOptions::default().quantum(4, secs(1));
        let order = run(options, (0..4_000).map(|n| n % 4)).await;
        let mut longest = 0;
        let mut row = 0;
        let mut last = None;
        for (key, _) in order {
            row = if last == Some(key) { row + 1 } else { 1 };
            last = Some(key);
            longest = longest.max(row);
        }
        assert_eq!(longest, 4);
    });
}

/// The keys of the requests in the order of their runs, each with the length of its row. The clock stands still, so a
/// request takes no time.
async fn rows(quantum: u32, keys: impl Iterator<Item = u64>) -> Vec<(u64, u32)> {
    // No quantum of nanoseconds has a whole number of shares for each of these numbers of requests.
    let options = StreamOptions::default().quantum(quantum, Duration::from_nanos(100_003));
    let mut rows = Vec::<(u64, u32)>::new();
    for (key, _) in run_on(&TestClock::new(), options, keys).await {
        match rows.last_mut() {
            Some((last, row)) if *last == key => *row += 1,
            _ => rows.push((key, 1)),
        }
    }
    rows
}

/// Asserts the result of most runs. Few cells count the keys: sometimes two keys share a cell, and get queues sooner.
async fn mostly<T: PartialEq + std::fmt::Debug, F: Future<Output = T>>(
    what: impl Fn() -> F,
    expected: T,
) {
    let mut others = Vec::new();
    for _ in 0..15 {
        let came = what().await;
        if came != expected {
            others.push(came);
        }
    }
    assert!(others.len() < 8, "not {expected:?}: {others:?}");
}

/// One key, repeated.
fn times(key: u64, times: u32) -> impl Iterator<Item = u64> {
    (0..times).map(move |_| key)
}

/// KY-06: a turn has as many requests as its quantum, whether or not the number divides the time.
#[test]
fn a_turn_has_as_many_requests_as_its_quantum() {
    limited(|| async {
        for quantum in [1, 2, 3, 5, 7, 9, 13, 16, 33, 100] {
            // First both keys run in line. Then each has a queue of its own, and they take turns.
            let keys = || (0..3 * quantum).flat_map(|_| [1, 2]);
            let in_line = (0..2 * quantum).map(|n| (u64::from(n % 2) + 1, 1));
            let turns = [1, 2, 1, 2].map(|key| (key, quantum));
            let expected: Vec<_> = in_line.chain(turns).collect();
            mostly(|| rows(quantum, keys()), expected).await;
        }
    });
}

/// KY-06: a key that used its quantum in line gets a queue of its own. The queue waits until others had a quantum in
/// line.
#[test]
fn a_key_that_gets_a_queue_has_no_second_quantum_in_a_row() {
    limited(|| async {
        for n in [1, 3, 4, 7] {
            let keys = || times(1, 2 * n).chain(times(2, 2 * n));
            let expected = vec![(1, n), (2, n), (1, n), (2, n)];
            mostly(|| rows(n, keys()), expected).await;
            // The other keys are not hot: each has one request.
            let others = || (0..u64::from(2 * n)).map(|other| 100 + other);
            let mut expected = vec![(1, n)];
            expected.extend((0..u64::from(n)).map(|other| (100 + other, 1)));
            expected.push((1, n));
            expected.extend((u64::from(n)..u64::from(2 * n)).map(|other| (100 + other, 1)));
            mostly(|| rows(n, times(1, 2 * n).chain(others())), expected).await;
        }
    });
}

/// KY-06: a key gets no second quantum in a row. This holds when a cycle ends in its quantum, and when its queue was
/// empty for a moment.
#[test]
fn a_key_has_no_second_quantum_in_a_new_cycle() {
    limited(|| async {
        let n = 4;
        let longest = async |before| {
            let keys = (0..before).map(|other| 1_000 + other);
            let hot = (0..8).flat_map(|_| times(1, n + 1).chain(times(2, n + 1)));
            let rows = rows(n, keys.chain(hot)).await;
            // In the last row no other key is left.
            rows[..rows.len() - 1].iter().map(|(_, row)| *row).max()
        };
        // The 256th request ends a cycle.
        for before in 245..265 {
            mostly(|| longest(before), Some(n)).await;
        }
    });
}

/// KY-06: the line has its quantum after each turn of a key with a queue, also if that turn empties the queue.
#[test]
fn the_line_goes_on_after_each_turn_of_a_key() {
    limited(|| async {
        let n = 4;
        // Both keys use their quantum, and have one more request.
        let keys = || (0..=n).flat_map(|_| [1, 2]).chain(100..108);
        let line = |keys: std::ops::Range<u64>| keys.map(|key| (key, 1));
        let both = (0..2 * n).map(|n| (u64::from(n % 2) + 1, 1));
        let expected: Vec<_> = both
            .chain(line(100..104))
            .chain([(1, 1)])
            .chain(line(104..108))
            .chain([(2, 1)])
            .collect();
        mostly(|| rows(n, keys()), expected).await;
    });
}

/// KY-07: a key becomes hot and cold again and again: wherever its requests are put, a later one overtakes none.
#[test]
fn a_key_that_gets_hot_and_cold_stays_in_order() {
    limited(|| async {
        let runtime = Runtime::builder().localities(2).pin(false).build().unwrap();
        let options = StreamOptions::default().quantum(4, Duration::from_micros(20));
        let stream = KeyedStream::<Note, u64>::new(&runtime, options);
        let order = Order::default();
        let mut producer = stream.producer();
        let mut numbers = HashMap::<u64, u64>::new();
        for n in 0..60_000_u64 {
            // In bursts of some hundreds one key has most requests; the bursts go round.
            let hot = n / 400 % 5;
            let key = if n % 4 > 0 {
                hot
            } else {
                n.wrapping_mul(0x9e37_79b9) % 200
            };
            let number = numbers.entry(key).or_default();
            let order = Arc::clone(&order);
            producer
                .push_blocking(
                    key,
                    Note {
                        key,
                        number: *number,
                        order,
                    },
                )
                .unwrap();
            *number += 1;
        }
        drop(producer);
        runtime.shutdown(Shutdown::Drain, secs(20)).await;
        let mut next = HashMap::<u64, u64>::new();
        for (key, number) in order.lock().unwrap().iter() {
            let next = next.entry(*key).or_default();
            assert_eq!(number, next, "key {key}");
            *next += 1;
        }
        assert_eq!(next, numbers);
    });
}

/// LO-08: a fom submitted while a stream is full of requests has its turn long before they are done.
#[test]
fn streams_do_not_starve_other_foms() {
    limited(|| async {
        let runtime = runtime();
        let stream = KeyedStream::<Note, u64>::new(&runtime, StreamOptions::default());
        let order = Order::default();
        let note = |key, number| Note {
            key,
            number,
            order: Arc::clone(&order),
        };
        let gate = Gate::close(&runtime, 0);
        for number in 0..20_000 {
            stream
                .push(number % 100, note(number % 100, number))
                .unwrap();
        }
        let other = runtime.submit(note(1_000, 0)).start().unwrap();
        gate.open();
        other.await.unwrap();
        runtime.shutdown(Shutdown::Drain, secs(20)).await;
        let order = order.lock().unwrap();
        let other = order.iter().position(|(key, _)| *key == 1_000).unwrap();
        assert!(other < 500, "behind {other} requests");
    });
}

/// Pushes another request into its own stream, for its own key and for another, and waits for room when there is none.
struct Nested {
    left: u32,
    key: u64,
    stream: KeyedStream<Nested, u64>,
    done: mpsc::Sender<u64>,
}

#[fom(operation(Nested), transient)]
enum Nesting {
    #[phase(start, blocking, to(Done))]
    Push,
    #[phase(end)]
    Done,
}

impl NestingTransitions for Nested {
    fn push(&mut self, _: &mut BlockingCx<'_>) -> Result<(), BoxError> {
        for key in [self.key, self.key + 1] {
            if self.left > 0 {
                let (stream, done) = (self.stream.clone(), self.done.clone());
                let next = Nested {
                    left: self.left - 1,
                    key,
                    stream,
                    done,
                };
                match self.stream.push(key, next) {
                    Err(error) if error.reason() != PushReason::Full => return Err("closed".into()),
                    _ => {}
                }
            }
        }
        self.done.send(self.key)?;
        Ok(())
    }
}

/// KY-10: a request may push into its own stream, also for its own key, and whether or not there is room.
#[test]
fn a_request_may_push_into_its_own_stream() {
    for bound in [3, 1_000] {
        limited(move || async move {
            let runtime = runtime();
            let stream =
                KeyedStream::<Nested, u64>::new(&runtime, StreamOptions::default().bound(bound));
            let (done, ended) = mpsc::channel();
            let first = Nested {
                left: 6,
                key: 0,
                stream: stream.clone(),
                done,
            };
            stream.push(0, first).unwrap();
            drop(stream);
            // All ends are gone when the last request has ended.
            let count = thread::spawn(move || ended.iter().count()).join().unwrap();
            if bound == 1_000 {
                assert_eq!(count, 127);
            }
            while runtime.in_flight() > 0 {
                thread::yield_now();
            }
        });
    }
}

/// A key whose comparison may panic.
#[derive(Clone, Debug)]
struct Touchy(u64);

impl PartialEq for Touchy {
    fn eq(&self, other: &Self) -> bool {
        assert!(self.0 != 13 && other.0 != 13, "it cannot be compared");
        self.0 == other.0
    }
}

impl Eq for Touchy {}

impl Hash for Touchy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        0_u8.hash(state);
    }
}

/// Waits until it is told to go on.
struct Held(tokio::sync::watch::Receiver<bool>);

#[fom(operation(Held), transient)]
enum Holding {
    #[phase(start, to(Free))]
    Wait,
    #[phase(end)]
    Free,
}

impl HoldingTransitions for Held {
    async fn wait(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        self.0.wait_for(|open| *open).await?;
        Ok(())
    }
}

/// Logs its begin, and waits.
struct Begins(Note, tokio::sync::watch::Receiver<bool>);

#[fom(operation(Begins), transient)]
enum Beginning {
    #[phase(start, to(Begun))]
    Begin,
    #[phase(end)]
    Begun,
}

impl BeginningTransitions for Begins {
    async fn begin(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        let Note { key, number, order } = &self.0;
        order.lock().unwrap().push((*key, *number));
        if *key >= 100 {
            self.1.wait_for(|open| *open).await?;
        }
        Ok(())
    }
}

/// The keys of the requests that begin: one hot key, and others with requests that wait.
async fn begun(n: u32) -> Vec<u64> {
    let runtime = kit::one(&TestClock::new()).build().unwrap();
    let stream =
        KeyedStream::<Begins, u64>::new(&runtime, StreamOptions::default().quantum(n, secs(1)));
    let order = Order::default();
    let (open, opened) = tokio::sync::watch::channel(false);
    let gate = Gate::close(&runtime, 0);
    let mixed = mixed();
    for key in times(1, 3 * n).chain(100..108) {
        let (order, number) = (Arc::clone(&order), 0);
        let note = Note { key, number, order };
        let begins = Begins(note, opened.clone());
        stream.push(mixed(key), begins).unwrap();
    }
    gate.open();
    runtime.quiet().await;
    let keys = order.lock().unwrap().iter().map(|(key, _)| *key).collect();
    open.send(true).unwrap();
    runtime.shutdown(Shutdown::Drain, secs(20)).await;
    keys
}

/// KY-06: requests in line that wait have used their part of the quantum, so the keys with queues have their turns.
#[test]
fn requests_that_wait_do_not_keep_the_line_going() {
    limited(|| async {
        let n = 4;
        let hot = |rest: std::ops::Range<u64>| times(1, n).chain(rest);
        let expected: Vec<_> = hot(100..104)
            .chain(hot(104..108))
            .chain(hot(0..0))
            .collect();
        mostly(|| begun(n), expected).await;
    });
}

/// A key that panics when it is compared loses its request, and is reported; the others go on, and the runtime ends.
#[test]
fn a_key_that_panics_hurts_no_other() {
    hush_localities();
    limited(|| async {
        let runtime = runtime();
        let stream = KeyedStream::<Held, Touchy>::new(&runtime, StreamOptions::default());
        let (open, opened) = tokio::sync::watch::channel(false);
        for key in [1, 2, 13, 3, 13, 1, 2] {
            stream.push(Touchy(key), Held(opened.clone())).unwrap();
        }
        while runtime.operations().foms.len() < 3 {
            thread::yield_now();
        }
        open.send(true).unwrap();
        let report = runtime.shutdown(Shutdown::Drain, secs(10)).await;
        assert!(report.remained.is_empty());
        assert_eq!(stream.in_flight(), 0);
        let incidents = runtime.operations().incidents;
        assert!(
            incidents
                .iter()
                .any(|said| said.text.contains("a key of a stream")),
            "{incidents:?}"
        );
    });
}
