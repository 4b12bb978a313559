//! KeyedStream: what they may hold, which pushes wait for room, and how much room a waiting key takes.

use std::{collections::HashMap, thread};

use fom_patterns::{
    prelude::*,
    streams::{KeyedStream, PushReason, StreamOptions},
};
use fom_runtime::time::TestClock;
use tokio::sync::{mpsc, watch};

use crate::kit::{limited, many, millis};

/// Tells its number, after waiting for its gate if it has one.
struct Tell {
    number: u64,
    told: mpsc::UnboundedSender<u64>,
    gate: Option<watch::Receiver<bool>>,
}

#[fom(operation(Tell), transient)]
enum Telling {
    #[phase(start, to(Told))]
    Wait,
    #[phase(end)]
    Told,
}

impl TellingTransitions for Tell {
    async fn wait(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        if let Some(gate) = &mut self.gate {
            gate.wait_for(|open| *open).await?;
        }
        self.told.send(self.number)?;
        Ok(())
    }
}

struct Set {
    runtime: Runtime,
    stream: KeyedStream<Tell, u64>,
    told: mpsc::UnboundedSender<u64>,
    hears: mpsc::UnboundedReceiver<u64>,
    open: watch::Sender<bool>,
}

fn set(options: StreamOptions) -> Set {
    let runtime = Runtime::builder().localities(1).pin(false).build().unwrap();
    let (told, hears) = mpsc::unbounded_channel();
    Set {
        stream: KeyedStream::new(&runtime, options),
        runtime,
        told,
        hears,
        open: watch::channel(false).0,
    }
}

impl Set {
    fn tell(&self, number: u64) -> Tell {
        Tell {
            number,
            told: self.told.clone(),
            gate: None,
        }
    }

    fn gated(&self, number: u64) -> Tell {
        Tell {
            gate: Some(self.open.subscribe()),
            ..self.tell(number)
        }
    }

    /// Returns the next number told.
    async fn heard(&mut self) -> u64 {
        self.hears.recv().await.unwrap()
    }
}

/// KY-05: full streams return the operation. A future or thread that waits gets in when there is room, in order.
#[test]
fn full_streams_reject_or_let_wait() {
    limited(|| async {
        let mut set = set(StreamOptions::default().bound(4));
        for number in 0..4 {
            set.stream.push(7, set.gated(number)).unwrap();
        }
        let error = set.stream.push(8, set.tell(9)).unwrap_err();
        assert_eq!(error.reason(), PushReason::Full);
        assert!(error.to_string().contains("full"), "{error}");
        let (key, operation) = error.into_parts();
        assert_eq!((key, operation.number), (8, 9));
        let blocked = thread::spawn({
            let (stream, request) = (set.stream.clone(), set.tell(4));
            move || stream.push_blocking(7, request)
        });
        let waiting = {
            let (stream, first, second) = (set.stream.clone(), set.tell(100), set.tell(101));
            tokio::spawn(async move {
                stream.push_waiting(8, first).await?;
                stream.push_waiting(8, second).await
            })
        };
        tokio::time::sleep(millis(20)).await;
        assert!(!blocked.is_finished() && !waiting.is_finished());
        set.open.send(true).unwrap();
        blocked.join().unwrap().unwrap();
        waiting.await.unwrap().unwrap();
        let mut heard = Vec::new();
        while heard.len() < 7 {
            heard.push(set.heard().await);
        }
        let of = |large: bool| {
            heard
                .iter()
                .copied()
                .filter(move |number| (*number >= 100) == large)
        };
        assert!(of(false).eq(0..5), "{heard:?}");
        assert!(of(true).eq(100..102), "{heard:?}");
    });
}

/// KY-05, KY-08: a key with a waiting head takes no more than its share. A push that waits for room of this key is told
/// when the key moves on. Other keys come through meanwhile.
#[test]
fn a_key_that_waits_leaves_room_for_others() {
    limited(|| async {
        let mut set = set(StreamOptions::default().bound(64).per_key(3));
        set.stream.push(1, set.gated(0)).unwrap();
        let mut taken = 1;
        // The locality says that the key is full once it has looked at the earlier requests.
        let refused = loop {
            set.runtime.quiet().await;
            match set.stream.push(1, set.tell(taken)) {
                Ok(()) => taken += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(taken, 1 + 3);
        assert_eq!(refused.reason(), PushReason::KeyFull);
        for number in 0..1_000 {
            set.stream
                .push_waiting(2 + number % 5, set.tell(1_000 + number))
                .await
                .unwrap();
        }
        for _ in 0..1_000 {
            assert!(set.heard().await >= 1_000);
        }
        let mut producer = set.stream.producer();
        let error = producer.push(1, set.tell(0)).unwrap_err();
        assert_eq!(error.reason(), PushReason::KeyFull);
        let waiting = tokio::spawn({
            let (stream, request) = (set.stream.clone(), set.tell(taken));
            async move { stream.push_waiting(1, request).await }
        });
        tokio::time::sleep(millis(10)).await;
        assert!(!waiting.is_finished());
        set.open.send(true).unwrap();
        waiting.await.unwrap().unwrap();
        for number in 0..=taken {
            assert_eq!(set.heard().await, number);
        }
        assert!(producer.push(1, set.tell(taken + 1)).is_ok());
    });
}

/// A producer hands over at once what an idle locality can run; the rest at a flush, and when the producer is dropped.
#[test]
fn a_producer_lets_no_lone_request_sit() {
    limited(|| async {
        let mut set = set(StreamOptions::default());
        let mut producer = set.stream.producer();
        producer.push(1, set.tell(1)).unwrap();
        assert_eq!(set.heard().await, 1);
        for number in 2..10 {
            producer.push(number, set.tell(number)).unwrap();
        }
        producer.flush().unwrap();
        assert!(producer.is_empty());
        for _ in 2..10 {
            set.heard().await;
        }
        for number in 10..20 {
            producer.push(number, set.tell(number)).unwrap();
        }
        drop(producer);
        for _ in 10..20 {
            set.heard().await;
        }
    });
}

/// Fails a few times before it succeeds.
struct Flaky {
    key: u64,
    fails: u32,
    told: mpsc::UnboundedSender<(u64, u32)>,
    number: u32,
}

#[fom(operation(Flaky), transient)]
enum Trying {
    #[phase(start, sync, to(Done), retry = "5, 100ms..1s")]
    Try,
    #[phase(end)]
    Done,
}

impl TryingTransitions for Flaky {
    fn r#try(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        if self.fails > 0 {
            self.fails -= 1;
            return Err("not yet".into());
        }
        self.told.send((self.key, self.number))?;
        Ok(())
    }
}

/// KY-08: a retried head keeps its key's order, and holds neither a thread nor another key; after its last attempt the
/// key goes on.
#[test]
fn a_head_that_is_tried_again_keeps_its_key_and_no_other() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = many(1, &clock).build().unwrap();
        let stream = KeyedStream::<Flaky, u64>::new(&runtime, StreamOptions::default());
        let (told, mut hears) = mpsc::unbounded_channel();
        let request = |key, number, fails| Flaky {
            key,
            number,
            fails,
            told: told.clone(),
        };
        for number in 0..3 {
            // The first of key 1 succeeds at its third attempt, the second of key 2 never does.
            let (first, second) = (number == 0, number == 1);
            stream
                .push(1, request(1, number, if first { 2 } else { 0 }))
                .unwrap();
            stream
                .push(2, request(2, number, if second { 9 } else { 0 }))
                .unwrap();
            stream.push(3, request(3, number, 0)).unwrap();
        }
        let mut order = HashMap::<u64, Vec<u32>>::new();
        // Requests that do not wait come while no time passes.
        for _ in 0..4 {
            let (key, number) = hears.recv().await.unwrap();
            order.entry(key).or_default().push(number);
        }
        assert_eq!(order[&3], [0, 1, 2]);
        assert_eq!(order[&2], [0]);
        runtime.quiet().await;
        assert_eq!(runtime.operations().foms.len(), 2);
        while order.values().map(Vec::len).sum::<usize>() < 8 {
            clock.advance(millis(100));
            runtime.quiet().await;
            while let Ok((key, number)) = hears.try_recv() {
                order.entry(key).or_default().push(number);
            }
        }
        assert_eq!(order[&1], [0, 1, 2]);
        assert_eq!(order[&2], [0, 2]);
        assert_eq!(stream.in_flight(), 0);
    });
}
