//! KeyedStream: order for each key, checked over random schedules of submitters, waits, failures and panics.

use std::{
    collections::HashMap,
    hash::{Hash, Hasher},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use fom_durable::{journal::MemoryJournal, prelude::*};
use fom_patterns::streams::{KeyedStream, StreamOptions};
use fom_runtime::config::Shutdown;

use crate::kit::{hush_localities, limited, secs};

/// The events, in order.
#[derive(Clone, Default)]
struct History(Arc<Mutex<Vec<Seen>>>);

#[derive(Clone, Copy, Debug)]
enum Seen {
    Begins(Name),
    Ends(Name),
}

/// Identifies a request: its key, its pusher, and its number among the pusher's requests for this key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Name {
    key: u64,
    pusher: u64,
    number: u64,
}

impl History {
    fn put(&self, seen: Seen) {
        self.0.lock().unwrap().push(seen);
    }

    /// Panics unless requests of a key never overlapped and each pusher's requests came in order. Returns the number of
    /// requests.
    fn check(&self) -> usize {
        let mut running = HashMap::<u64, Name>::new();
        let mut next = HashMap::<(u64, u64), u64>::new();
        let mut ended = 0;
        for seen in self.0.lock().unwrap().iter() {
            match *seen {
                Seen::Begins(name) => {
                    let before = running.insert(name.key, name);
                    assert_eq!(before, None, "{name:?} began while another ran");
                    let next = next.entry((name.key, name.pusher)).or_default();
                    assert_eq!(name.number, *next, "{name:?} is out of order");
                    *next += 1;
                }
                Seen::Ends(name) => {
                    assert_eq!(running.remove(&name.key), Some(name));
                    ended += 1;
                }
            }
        }
        assert!(running.is_empty(), "some never ended: {running:?}");
        ended
    }
}

/// What a request does on its way.
#[derive(Clone, Copy, Debug)]
enum Does {
    Nothing,
    /// Waits for a future that is ready some turns later.
    Yields(u32),
    Sleeps,
    Blocks,
    /// Fails once and is tried again.
    Retries,
    Fails,
    Panics,
}

struct Request {
    history: History,
    name: Name,
    does: Does,
    tried: bool,
}

impl Drop for Request {
    fn drop(&mut self) {
        self.history.put(Seen::Ends(self.name));
    }
}

#[fom(operation(Request), transient)]
enum Serve {
    #[phase(start, sync, to(Wait, Block, Try, Served))]
    Begin,
    #[phase(to(Served))]
    Wait,
    #[phase(blocking, to(Served))]
    Block,
    #[phase(sync, to(Served), retry = "3, 1ms..2ms")]
    Try,
    #[phase(end)]
    Served,
}

impl ServeTransitions for Request {
    fn begin(&mut self, _: &mut Cx<'_>) -> Result<ServeAfterBegin, BoxError> {
        self.history.put(Seen::Begins(self.name));
        match self.does {
            Does::Nothing => Ok(ServeAfterBegin::Served),
            Does::Yields(_) | Does::Sleeps => Ok(ServeAfterBegin::Wait),
            Does::Blocks => Ok(ServeAfterBegin::Block),
            Does::Retries => Ok(ServeAfterBegin::Try),
            Does::Fails => Err("it was to fail".into()),
            Does::Panics => panic!("it was to panic"),
        }
    }

    async fn wait(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        match self.does {
            Does::Yields(times) => {
                for _ in 0..times {
                    tokio::task::yield_now().await;
                }
            }
            _ => cx.sleep(Duration::from_micros(300)).await,
        }
        Ok(())
    }

    fn block(&mut self, _: &mut BlockingCx<'_>) -> Result<(), BoxError> {
        thread::sleep(Duration::from_micros(200));
        Ok(())
    }

    fn r#try(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        if std::mem::replace(&mut self.tried, true) {
            Ok(())
        } else {
            Err("not yet".into())
        }
    }
}

/// A generator of numbers: the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

fn does(random: &mut Random) -> Does {
    match random.below(40) {
        0 => Does::Sleeps,
        1 => Does::Blocks,
        2 => Does::Retries,
        3 => Does::Fails,
        4 => Does::Panics,
        5..=8 => Does::Yields(random.below(5) as u32),
        _ => Does::Nothing,
    }
}

/// Pushes as the seed says, by producers and one at a time.
fn push(
    stream: &KeyedStream<Request, u64>,
    history: &History,
    pusher: u64,
    keys: u64,
    requests: u64,
    seed: u64,
) {
    let mut random = Random(seed ^ pusher.wrapping_mul(0x9e37_79b9));
    let mut numbers = HashMap::<u64, u64>::new();
    let mut producer = stream.producer();
    for _ in 0..requests {
        // A few keys get most requests.
        let key = random.below(keys).min(random.below(keys));
        let number = numbers.entry(key).or_default();
        let name = Name {
            key,
            pusher,
            number: *number,
        };
        *number += 1;
        let request = Request {
            history: history.clone(),
            name,
            does: does(&mut random),
            tried: false,
        };
        if pusher.is_multiple_of(2) {
            producer.push_blocking(key, request).unwrap();
            if random.below(50) == 0 {
                producer.flush().unwrap();
            }
        } else {
            stream.push_blocking(key, request).unwrap();
        }
    }
}

/// KY-01: requests of a key run one after the other in the order of their submission, whatever they wait for and
/// however they end. KY-05: also when submitters wait for room. KY-13: also when they come in batches of a producer.
#[test]
fn requests_of_a_key_are_in_order_over_random_schedules() {
    hush_localities();
    for seed in 0..24 {
        limited(move || async move {
            let mut random = Random(seed);
            let runtime = Runtime::builder()
                .localities(1 + random.below(3) as usize)
                .pin(false)
                .build()
                .unwrap();
            let (keys, requests) = (1 + random.below(40), 300);
            let options = StreamOptions::default()
                .bound(1 + random.below(400) as usize)
                .per_key(1 + random.below(60) as usize)
                .quantum(1 + random.below(4) as u32, Duration::from_micros(50));
            let stream = KeyedStream::<Request, u64>::new(&runtime, options);
            let history = History::default();
            let pushers: Vec<_> = (0..4)
                .map(|pusher| {
                    let (stream, history) = (stream.clone(), history.clone());
                    thread::spawn(move || push(&stream, &history, pusher, keys, requests, seed))
                })
                .collect();
            for pusher in pushers {
                pusher.join().unwrap();
            }
            runtime.shutdown_blocking(Shutdown::Drain, secs(20));
            assert_eq!(history.check(), 4 * requests as usize, "seed {seed}");
            assert_eq!(stream.in_flight(), 0);
            assert_eq!(runtime.in_flight(), 0);
        });
    }
}

/// A key with the same hash as all others.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Same(u64);

impl Hash for Same {
    fn hash<H: Hasher>(&self, state: &mut H) {
        0_u8.hash(state);
    }
}

/// KY-02: a waiting request holds up its own key, and no other key with the same hash.
#[test]
fn keys_with_the_same_hash_do_not_wait_for_each_other() {
    limited(|| async {
        let runtime = Runtime::builder().localities(2).pin(false).build().unwrap();
        let stream = KeyedStream::<Gated, Same>::new(&runtime, StreamOptions::default());
        let (open, opened) = tokio::sync::watch::channel(false);
        let (done, mut ended) = tokio::sync::mpsc::unbounded_channel();
        for key in 0..50 {
            for _ in 0..2 {
                let gate = (key == 7).then(|| opened.clone());
                let done = done.clone();
                stream.push(Same(key), Gated { key, gate, done }).unwrap();
            }
        }
        let mut others = Vec::new();
        while others.len() < 98 {
            others.push(ended.recv().await.unwrap());
        }
        assert!(!others.contains(&7));
        open.send(true).unwrap();
        assert_eq!(ended.recv().await, Some(7));
        assert_eq!(ended.recv().await, Some(7));
    });
}

struct Gated {
    key: u64,
    gate: Option<tokio::sync::watch::Receiver<bool>>,
    done: tokio::sync::mpsc::UnboundedSender<u64>,
}

#[fom(operation(Gated), transient)]
enum Gating {
    #[phase(start, to(Through))]
    Wait,
    #[phase(end)]
    Through,
}

impl GatingTransitions for Gated {
    async fn wait(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        if let Some(gate) = &mut self.gate {
            gate.wait_for(|open| *open).await?;
        }
        self.done.send(self.key)?;
        Ok(())
    }
}

/// A request that is kept in a journal, if there is one.
#[derive(serde::Serialize, serde::Deserialize)]
struct Kept {
    name: Name,
}

/// What ran in the test with a journal; a static, since an operation that can be saved holds nothing else.
static KEPT: Mutex<Vec<Name>> = Mutex::new(Vec::new());

#[fom(operation(Kept))]
enum Keep {
    #[phase(start, sync, to(Second))]
    First,
    #[phase(sync, to(Done))]
    Second,
    #[phase(end)]
    Done,
}

impl KeepTransitions for Kept {
    fn first(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        KEPT.lock().unwrap().push(self.name);
        Ok(())
    }

    fn second(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        KEPT.lock().unwrap().push(self.name);
        Ok(())
    }
}

/// KY-01: with a journal, a history and a listener, each request has ended before the next of its key begins.
#[test]
fn requests_that_are_kept_are_in_order() {
    limited(|| async {
        let runtime = Runtime::builder()
            .localities(2)
            .pin(false)
            .history(8)
            .capacity(20)
            .journal_with(MemoryJournal::new())
            .build()
            .unwrap();
        let heard = Arc::new(Mutex::new(0));
        let _listening = runtime.listen({
            let heard = Arc::clone(&heard);
            move |_| *heard.lock().unwrap() += 1
        });
        let stream = KeyedStream::<Kept, u64>::new(&runtime, StreamOptions::default());
        for number in 0..40 {
            for key in 0..5 {
                let name = Name {
                    key,
                    pusher: 0,
                    number,
                };
                stream.push(key, Kept { name }).unwrap();
            }
        }
        runtime.shutdown(Shutdown::Drain, secs(20)).await;
        let kept = KEPT.lock().unwrap();
        for key in 0..5 {
            let of_key = kept.iter().filter(|name| name.key == key);
            let numbers: Vec<_> = of_key.map(|name| name.number).collect();
            assert!(
                numbers.iter().copied().eq((0..40).flat_map(|n| [n, n])),
                "{numbers:?}"
            );
        }
        // The start and two transitions of each.
        assert_eq!(*heard.lock().unwrap(), 5 * 40 * 3);
        assert_eq!(runtime.in_flight(), 0);
    });
}
