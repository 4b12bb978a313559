//! Keyed streams of fom, with a producer that hands over batches, or one request at a time. And keyed submissions.

use std::{convert::Infallible, sync::OnceLock};

use fom_patterns::streams::{KeyedStream, StreamOptions};
use fom_runtime::{Cx, Operation, fom};
use kit::{Spent, peers};

use crate::load::{Load, PAUSE, Request, WORKERS};

/// The load, shared by all operations.
static LOAD: OnceLock<Load> = OnceLock::new();

struct Serve(Request);

#[fom(operation(Serve), error(Infallible), transient)]
enum Serving {
    #[phase(start, sync, to(Served))]
    Work,
    #[phase(end)]
    Served,
}

impl ServingTransitions for Serve {
    #[inline]
    fn work(&mut self, _: &mut Cx<'_>) -> Result<(), Infallible> {
        if let Some(load) = LOAD.get() {
            load.work(self.0);
        }
        Ok(())
    }
}

/// A request that may wait.
struct Wait(Request);

#[fom(operation(Wait), error(Infallible), transient)]
enum Waiting {
    #[phase(start, sync, to(Pause, Over))]
    Begin,
    #[phase(to(Over))]
    Pause,
    #[phase(end)]
    Over,
}

impl WaitingTransitions for Wait {
    fn begin(&mut self, _: &mut Cx<'_>) -> Result<WaitingAfterBegin, Infallible> {
        let Some(load) = LOAD.get() else {
            return Ok(WaitingAfterBegin::Over);
        };
        if self.0.waits() {
            load.begin(self.0);
            return Ok(WaitingAfterBegin::Pause);
        }
        load.work(self.0);
        Ok(WaitingAfterBegin::Over)
    }

    async fn pause(&mut self, cx: &mut Cx<'_>) -> Result<(), Infallible> {
        cx.sleep(PAUSE).await;
        if let Some(load) = LOAD.get() {
            load.end(self.0);
        }
        Ok(())
    }
}

pub(crate) fn serve(load: Load, case: &str, peer: &str) -> Spent {
    LOAD.get_or_init(|| load);
    if peer == "fom:queue" {
        return queue(load);
    }
    let one_at_a_time = peer == "fom:single";
    if case == "waiting" {
        push(load, one_at_a_time, Wait)
    } else {
        push(load, one_at_a_time, Serve)
    }
}

/// Submits each request by itself, with its key.
fn queue(load: Load) -> Spent {
    let runtime = peers::fom(WORKERS).build().expect("a runtime");
    load.measure(
        || {
            for request in load.requests {
                let submission = runtime.submit(Serve(*request)).key(request.key);
                submission.queue().detach().expect("the runtime is open");
            }
        },
        || load.requests.len() as u64 - runtime.in_flight() as u64,
    )
}

fn push<O: Operation>(load: Load, one_at_a_time: bool, make: fn(Request) -> O) -> Spent {
    let runtime = peers::fom(WORKERS).build().expect("a runtime");
    let stream = KeyedStream::<O, u32>::new(&runtime, StreamOptions::default().bound(BOUND));
    load.measure(
        || {
            let mut producer = stream.producer();
            for request in load.requests {
                let pushed = if one_at_a_time {
                    stream.push_blocking(request.key, make(*request))
                } else {
                    producer.push_blocking(request.key, make(*request))
                };
                pushed.expect("the runtime is open");
            }
            producer.flush().expect("the runtime is open");
        },
        || load.requests.len() as u64 - stream.in_flight() as u64,
    )
}

/// The number that the locality's cache holds beside the keys.
const BOUND: usize = 32_768;
