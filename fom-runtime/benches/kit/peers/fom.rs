//! What the questions need of fom: a runtime with a worker pinned to each core, and how a fom submits another one.

use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    task::{Poll, Waker},
};

use fom_runtime::{Builder, Cx, Operation, Runtime};

use crate::pin;

/// A runtime of so many localities, each with a core of its own and a [`Flight`] in it.
pub fn fom(workers: usize) -> Builder {
    if workers == 1 {
        // One locality would be given all cores, the peers' one worker has the first.
        pin(0);
    }
    Runtime::builder()
        .localities(workers)
        .locality_data(|_| Ok::<_, Infallible>(Flight::default()))
}

/// Starts it in this locality, and keeps nothing of it.
#[inline]
pub fn submit_here<E, O: Operation>(cx: &mut Cx<'_, E>, operation: O) {
    cx.submit(operation).detach().expect("there is room");
}

/// What a locality's generator has in flight: [`LocalWindow`](super::LocalWindow), as locality data.
#[derive(Debug, Default)]
pub struct Flight {
    flying: usize,
    low: usize,
    waker: Option<Waker>,
    /// Of what was computed, so that it has to be.
    sum: u64,
}

impl Flight {
    /// So many more.
    pub fn add(&mut self, n: usize) {
        self.flying += n;
    }

    /// One less; it came to `x`.
    #[inline]
    pub fn done(&mut self, x: u64) {
        self.sum ^= x;
        self.flying -= 1;
        if self.flying == self.low
            && let Some(waker) = self.waker.take()
        {
            waker.wake();
        }
    }

    /// Waits until no more than `low` are left; how many those are.
    pub fn at_most<E>(cx: &mut Cx<'_, E>, low: usize) -> impl Future<Output = usize> {
        poll_fn(move |task| {
            cx.local(|flight: &mut Self| {
                if flight.flying <= low {
                    return Poll::Ready(flight.flying);
                }
                flight.low = low;
                flight.waker = Some(task.waker().clone());
                Poll::Pending
            })
        })
    }
}
