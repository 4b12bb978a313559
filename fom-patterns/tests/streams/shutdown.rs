//! KeyedStream at the end of a runtime: a pushed request runs or is returned, and a push that waits for room gets an
//! answer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use fom_patterns::{
    prelude::*,
    streams::{KeyedStream, PushReason, StreamOptions},
};
use fom_runtime::config::Shutdown;
use tokio::sync::watch;

use crate::kit::{Gate, limited, millis, secs};

/// Counts itself, after waiting for its gate if it has one.
struct Count {
    counted: Arc<AtomicU64>,
    number: u64,
    gate: Option<watch::Receiver<bool>>,
}

#[fom(operation(Count), transient)]
enum Counting {
    #[phase(start, to(Counted))]
    Wait,
    #[phase(end)]
    Counted,
}

impl CountingTransitions for Count {
    async fn wait(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        if let Some(gate) = &mut self.gate {
            gate.wait_for(|open| *open).await?;
        }
        self.counted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn runtime(localities: usize) -> Runtime {
    Runtime::builder()
        .localities(localities)
        .pin(false)
        .build()
        .unwrap()
}

fn count(counted: &Arc<AtomicU64>, number: u64) -> Count {
    Count {
        counted: Arc::clone(counted),
        number,
        gate: None,
    }
}

/// SV-09: a drain runs all admitted requests, also those that queue behind a waiting one; then nothing more is
/// admitted.
#[test]
fn a_drain_runs_all_that_was_pushed() {
    limited(|| async {
        let runtime = runtime(2);
        let stream = KeyedStream::<Count, u64>::new(&runtime, StreamOptions::default());
        let counted = Arc::default();
        let (open, opened) = watch::channel(false);
        let mut producer = stream.producer();
        for number in 0..1_000 {
            let mut request = count(&counted, number);
            request.gate = (number < 20).then(|| opened.clone());
            producer.push(number % 20, request).unwrap();
        }
        drop(producer);
        let drained = thread::spawn({
            let runtime = runtime.clone();
            move || runtime.shutdown_blocking(Shutdown::Drain, secs(20))
        });
        // The stream is closed to callers outside, while all keys wait.
        while stream.push(1, count(&counted, 0)).is_ok() {
            thread::yield_now();
        }
        open.send(true).unwrap();
        assert!(drained.join().unwrap().remained.is_empty());
        assert!(counted.load(Ordering::Relaxed) >= 1_000);
        let error = stream.push(1, count(&counted, 7)).unwrap_err();
        assert_eq!(error.reason(), PushReason::ShuttingDown);
        assert_eq!(error.into_operation().number, 7);
        assert!(stream.take_refused().is_empty());
    });
}

/// SV-09, KY-05: at once: a queued request never runs and is returned in the order of its key, a waiting one ends.
#[test]
fn a_shutdown_at_once_gives_back_what_queues() {
    limited(|| async {
        let runtime = runtime(2);
        let stream = KeyedStream::<Count, u64>::new(&runtime, StreamOptions::default());
        let counted = Arc::default();
        let (_open, opened) = watch::channel(false);
        for number in 0..200 {
            let mut request = count(&counted, number);
            request.gate = Some(opened.clone());
            stream.push(number % 5, request).unwrap();
        }
        while runtime.operations().foms.len() < 5 {
            thread::yield_now();
        }
        // And some requests that no locality has looked at.
        let gates = [Gate::close(&runtime, 0), Gate::close(&runtime, 1)];
        for number in 200..300 {
            stream.push(number % 5, count(&counted, number)).unwrap();
        }
        let ended = thread::spawn({
            let runtime = runtime.clone();
            move || runtime.shutdown_blocking(Shutdown::Now, secs(20))
        });
        while stream.push(1, count(&counted, 0)).is_ok() {
            thread::yield_now();
        }
        gates.into_iter().for_each(Gate::open);
        assert!(ended.join().unwrap().remained.is_empty());
        assert_eq!(counted.load(Ordering::Relaxed), 0);
        let refused = stream.take_refused();
        assert!(refused.len() >= 295, "{}", refused.len());
        for key in 0..5 {
            let of_key = refused.iter().filter(|(of, _)| *of == key);
            let numbers: Vec<_> = of_key
                .map(|(_, count)| count.number)
                .filter(|number| *number > 0)
                .collect();
            assert!(numbers.is_sorted(), "{numbers:?}");
            assert_eq!(numbers.last(), Some(&(295 + key)));
        }
        assert_eq!(runtime.in_flight(), 0);
        assert_eq!(stream.in_flight(), 0);
        assert!(stream.take_refused().is_empty());
    });
}

/// KY-05: a push that waits for room hears of the shutdown, as a future or on a thread.
#[test]
fn a_push_that_waits_for_room_hears_of_the_shutdown() {
    limited(|| async {
        let runtime = runtime(1);
        let stream = KeyedStream::<Count, u64>::new(&runtime, StreamOptions::default().bound(1));
        let counted = Arc::default();
        let (_open, opened) = watch::channel(false);
        let mut request = count(&counted, 0);
        request.gate = Some(opened);
        stream.push(0, request).unwrap();
        let full = stream.push(1, count(&counted, 1)).unwrap_err();
        assert_eq!(full.reason(), PushReason::Full);
        let blocked = thread::spawn({
            let (stream, counted) = (stream.clone(), Arc::clone(&counted));
            move || stream.push_blocking(1, count(&counted, 1))
        });
        let waiting = tokio::spawn({
            let (stream, counted) = (stream.clone(), Arc::clone(&counted));
            async move { stream.push_waiting(2, count(&counted, 2)).await }
        });
        tokio::time::sleep(millis(20)).await;
        runtime.shutdown(Shutdown::Now, secs(10)).await;
        let error = blocked.join().unwrap().unwrap_err();
        assert_eq!(error.reason(), PushReason::ShuttingDown);
        let error = waiting.await.unwrap().unwrap_err();
        assert_eq!(error.into_operation().number, 2);
        assert_eq!(counted.load(Ordering::Relaxed), 0);
    });
}

/// KY-03: a stream goes with its last end, and a dropped runtime leaves nothing behind.
#[test]
fn streams_end_with_their_last_end() {
    limited(|| async {
        let counted = Arc::<AtomicU64>::default();
        let runtime = runtime(2);
        for _ in 0..50 {
            let stream = KeyedStream::<Count, u64>::new(&runtime, StreamOptions::default());
            for key in 0..20 {
                stream.push(key, count(&counted, key)).unwrap();
            }
        }
        runtime.shutdown(Shutdown::Drain, secs(10)).await;
        assert_eq!(counted.load(Ordering::Relaxed), 1_000);
        drop(runtime);
        assert_eq!(Arc::strong_count(&counted), 1);
    });
}
