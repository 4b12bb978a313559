//! KeyedStream: barriers over all keys, batches of one key, requests beside the others of their key, and the progress of
//! a numbered source.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use fom_patterns::{
    prelude::*,
    streams::{KeyedStream, Progress, PushReason, StreamOptions, StreamRules},
};
use fom_runtime::config::Shutdown;
use tokio::sync::{mpsc, watch};

use crate::kit::{limited, secs};

#[derive(Clone, Default)]
struct History(Arc<Mutex<Vec<(bool, u64)>>>);

impl History {
    fn put(&self, begins: bool, number: u64) {
        self.0.lock().unwrap().push((begins, number));
    }

    fn take(&self) -> Vec<(bool, u64)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Waits some turns, and records when it begins and ends.
struct Step {
    history: History,
    number: u64,
    turns: u64,
}

#[fom(operation(Step), transient)]
enum Stepping {
    #[phase(start, sync, to(Wait, Over))]
    Begin,
    #[phase(to(Over))]
    Wait,
    #[phase(end)]
    Over,
}

impl SteppingTransitions for Step {
    fn begin(&mut self, _: &mut Cx<'_>) -> Result<SteppingAfterBegin, BoxError> {
        self.history.put(true, self.number);
        if self.turns > 0 {
            return Ok(SteppingAfterBegin::Wait);
        }
        self.history.put(false, self.number);
        Ok(SteppingAfterBegin::Over)
    }

    async fn wait(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        for _ in 0..self.turns {
            tokio::task::yield_now().await;
        }
        self.history.put(false, self.number);
        Ok(())
    }
}

/// A generator with a seed (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }
}

/// KY-19: over random keys and waits, in one locality and in several, every request before a barrier ends before any
/// request behind it begins. A barrier is ready when the requests before it have ended. Some barriers have nothing
/// between them.
#[test]
fn requests_before_a_barrier_end_before_those_behind_it_begin() {
    for seed in 1..20_u64 {
        limited(move || async move {
            let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
            let localities = 1 + random.below(4) as usize;
            let runtime = Runtime::builder()
                .localities(localities)
                .pin(false)
                .build()
                .unwrap();
            let stream = KeyedStream::<Step, u64>::new(&runtime, StreamOptions::default());
            let history = History::default();
            let mut epochs: Vec<u64> = Vec::new();
            let mut barriers = Vec::new();
            for number in 0..400_u64 {
                while random.below(12) == 0 {
                    let ended = stream.barrier();
                    let (history, before) = (history.clone(), number);
                    barriers.push(tokio::spawn(async move {
                        ended.await.unwrap();
                        let ended = history.0.lock().unwrap();
                        let ended = ended
                            .iter()
                            .filter(|(begins, number)| !begins && *number < before);
                        assert_eq!(ended.count() as u64, before);
                    }));
                }
                epochs.push(barriers.len() as u64);
                let step = Step {
                    history: history.clone(),
                    number,
                    turns: random.below(4),
                };
                stream.push(random.below(30), step).unwrap();
            }
            for barrier in barriers {
                barrier.await.unwrap();
            }
            runtime.idle().await;
            runtime.quiet().await;
            assert_eq!(stream.in_flight(), 0);
            let mut open: HashMap<u64, u64> = HashMap::new();
            let history = history.take();
            assert_eq!(history.len(), 800);
            let mut ended = 0;
            for (begins, number) in history {
                let epoch = epochs[number as usize];
                if begins {
                    *open.entry(epoch).or_default() += 1;
                    let before = epochs.iter().filter(|other| **other < epoch).count();
                    assert!(ended >= before, "seed {seed}: {number} began too early");
                } else {
                    ended += 1;
                }
            }
        });
    }
}

/// KY-19: a shutdown answers a barrier that cannot open, and gives back the requests behind it.
#[test]
fn a_shutdown_answers_a_barrier() {
    limited(|| async {
        let set = Set::new(StreamRules::default());
        set.stream.push(1, set.write(0, true)).unwrap();
        let first = set.stream.barrier();
        set.stream.push(2, set.write(1, false)).unwrap();
        let second = set.stream.barrier();
        set.stream.push(3, set.write(2, false)).unwrap();
        set.runtime.quiet().await;
        set.runtime.shutdown(Shutdown::Now, secs(5)).await;
        assert_eq!(first.await, Err(PushReason::ShuttingDown));
        assert_eq!(second.await, Err(PushReason::ShuttingDown));
        assert_eq!(set.stream.barrier().await, Err(PushReason::ShuttingDown));
        let refused = set.stream.take_refused();
        let keys: Vec<_> = refused.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, [2, 3]);
        assert_eq!(set.runtime.in_flight(), 0);
    });
}

/// KY-19: a drain opens the barriers, one after the other.
#[test]
fn a_drain_runs_what_is_behind_a_barrier() {
    limited(|| async {
        let mut set = Set::new(StreamRules::default());
        for number in 0..5 {
            set.stream.push(number, set.write(number, false)).unwrap();
            drop(set.stream.barrier());
        }
        set.runtime.shutdown(Shutdown::Drain, secs(5)).await;
        for number in 0..5 {
            assert_eq!(set.heard.recv().await, Some(vec![number]));
        }
        assert_eq!(set.stream.in_flight(), 0);
    });
}

/// Tells its numbers, after waiting for the gate if it must.
struct Write {
    numbers: Vec<u64>,
    gate: Option<watch::Receiver<bool>>,
    told: mpsc::UnboundedSender<Vec<u64>>,
}

#[fom(operation(Write), transient)]
enum Writing {
    #[phase(start, to(Written))]
    Append,
    #[phase(end)]
    Written,
}

impl WritingTransitions for Write {
    async fn append(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        if let Some(gate) = &mut self.gate {
            gate.wait_for(|open| *open).await?;
        }
        self.told.send(self.numbers.clone())?;
        Ok(())
    }
}

struct Set {
    runtime: Runtime,
    stream: KeyedStream<Write, u64>,
    told: mpsc::UnboundedSender<Vec<u64>>,
    heard: mpsc::UnboundedReceiver<Vec<u64>>,
    open: watch::Sender<bool>,
}

impl Set {
    fn new(rules: StreamRules<Write>) -> Self {
        let runtime = Runtime::builder().localities(1).pin(false).build().unwrap();
        let (told, heard) = mpsc::unbounded_channel();
        Self {
            stream: KeyedStream::with_rules(&runtime, StreamOptions::default(), rules),
            runtime,
            told,
            heard,
            open: watch::channel(false).0,
        }
    }

    fn write(&self, number: u64, waits: bool) -> Write {
        Write {
            numbers: vec![number],
            gate: waits.then(|| self.open.subscribe()),
            told: self.told.clone(),
        }
    }
}

/// KY-13: what queues behind a request of its key runs as batches, in order, as large as the program allows. Other keys
/// stay apart. A merge that panics loses its own request only.
#[test]
fn the_requests_of_a_key_run_in_batches() {
    limited(|| async {
        let rules = StreamRules::default().merge(|write: &mut Write, next: Write| {
            assert_ne!(next.numbers, [7], "told to");
            if write.numbers.len() == 4 {
                return Some(next);
            }
            write.numbers.extend(&next.numbers);
            None
        });
        let mut set = Set::new(rules);
        set.stream.push(1, set.write(0, true)).unwrap();
        for number in 1..=10 {
            set.stream.push(1, set.write(number, false)).unwrap();
        }
        set.stream.push(2, set.write(99, false)).unwrap();
        assert_eq!(set.heard.recv().await, Some(vec![99]));
        set.runtime.quiet().await;
        assert_eq!(set.stream.in_flight(), 11);
        set.open.send(true).unwrap();
        set.runtime.idle().await;
        set.runtime.quiet().await;
        let mut batches = Vec::new();
        while let Ok(batch) = set.heard.try_recv() {
            batches.push(batch);
        }
        assert_eq!(
            batches,
            [vec![0], vec![1, 2, 3, 4], vec![5, 6, 8, 9], vec![10]]
        );
        assert_eq!(set.stream.in_flight(), 0);
        assert_eq!(set.runtime.operations().incidents.len(), 1);
    });
}

/// KY-14: a predicate lets some requests run beside the others of their key, in both directions. The others still wait
/// for each other.
#[test]
fn a_predicate_lets_requests_run_beside_their_key() {
    limited(|| async {
        let rules = StreamRules::default().beside(|write: &Write| write.numbers[0] >= 100);
        let mut set = Set::new(rules);
        set.stream.push(1, set.write(0, true)).unwrap();
        set.stream.push(1, set.write(1, false)).unwrap();
        set.stream.push(1, set.write(100, true)).unwrap();
        set.stream.push(1, set.write(101, false)).unwrap();
        assert_eq!(set.heard.recv().await, Some(vec![101]));
        set.runtime.quiet().await;
        assert!(
            set.heard.try_recv().is_err(),
            "1 waits for 0, and both others for the gate"
        );
        assert_eq!(set.stream.in_flight(), 3);
        set.open.send(true).unwrap();
        set.runtime.idle().await;
        set.runtime.quiet().await;
        let mut rest = Vec::new();
        while let Ok(told) = set.heard.try_recv() {
            rest.extend(told);
        }
        let place = |number| rest.iter().position(|other| *other == number).unwrap();
        assert_eq!(rest.len(), 3);
        assert!(place(0) < place(1));
        assert_eq!(set.stream.in_flight(), 0);
    });
}

/// KY-14: with "always", a request never waits for another of its key.
#[test]
fn all_requests_of_a_key_may_overlap() {
    limited(|| async {
        let mut set = Set::new(StreamRules::default().beside(|_| true));
        for number in 0..20 {
            set.stream.push(1, set.write(number, number < 10)).unwrap();
        }
        for number in 10..20 {
            assert_eq!(set.heard.recv().await, Some(vec![number]));
        }
        set.open.send(true).unwrap();
        let barrier = set.stream.barrier();
        barrier.await.unwrap();
        assert_eq!(set.stream.in_flight(), 0);
        drop(set.stream);
        set.runtime.idle().await;
    });
}

/// KY-12: a source with a record of its progress pauses when one request hangs, at the bound. After a crash, from the
/// saved record, exactly the requests run again that had not ended.
#[test]
fn a_restart_runs_again_only_what_has_not_ended() {
    limited(|| async {
        let mut progress = Progress::new(8);
        let mut set = Set::new(StreamRules::default());
        let mut next = 0;
        let begin = |set: &Set, progress: &Progress, next: &mut u64| {
            while progress.may_begin(*next) {
                // Number 5 hangs.
                set.stream
                    .push(*next, set.write(*next, *next == 5))
                    .unwrap();
                *next += 1;
            }
        };
        begin(&set, &progress, &mut next);
        while let Some(ended) = {
            set.runtime.quiet().await;
            set.heard.try_recv().ok()
        } {
            progress.end(ended[0]);
            begin(&set, &progress, &mut next);
        }
        assert_eq!(
            (progress.first_open(), next),
            (5, 13),
            "paused at the bound"
        );
        assert_eq!(
            progress.ended_beyond().collect::<Vec<_>>(),
            (6..13).collect::<Vec<_>>()
        );
        let saved = serde_json::to_vec(&progress).unwrap();
        set.runtime.shutdown(Shutdown::Now, secs(5)).await;

        let mut progress: Progress = serde_json::from_slice(&saved).unwrap();
        let mut set = Set::new(StreamRules::default());
        let again = (progress.first_open()..15).filter(|number| !progress.has_ended(*number));
        let again: Vec<_> = again.collect();
        assert_eq!(again, [5, 13, 14]);
        set.open.send_replace(true);
        for number in again {
            assert!(progress.may_begin(number));
            set.stream.push(number, set.write(number, true)).unwrap();
            let ended = set.heard.recv().await.unwrap();
            assert!(progress.end(ended[0]));
        }
        assert_eq!(progress.first_open(), 15);
        assert_eq!(progress.ended_beyond().count(), 0);
        assert!(
            !progress.end(3),
            "an end that is reported twice changes nothing"
        );
    });
}
