//! The fom side of the questions: a runtime with a worker pinned to each core, and how a fom submits another one.

use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    task::{Poll, Waker},
};

use fom_runtime::{Builder, Cx, Operation, Runtime};

use crate::pin;

/// Makes a runtime of `workers` localities, each with a core of its own and a [`Flight`].
pub fn fom(workers: usize) -> Builder {
    if workers == 1 {
        // A single locality would get all cores. The peers' one worker has the first core.
        pin(0);
    }
    Runtime::builder()
        .localities(workers)
        .locality_data(|_| Ok::<_, Infallible>(Flight::default()))
}

/// Starts the operation in this locality, and keeps no handle.
#[inline]
pub fn submit_here<E, O: Operation>(cx: &mut Cx<'_, E>, operation: O) {
    cx.submit(operation).detach().expect("there is room");
}

/// The operations in flight of a locality's generator: [`LocalWindow`](super::LocalWindow), as locality data.
#[derive(Debug, Default)]
pub struct Flight {
    flying: usize,
    low: usize,
    waker: Option<Waker>,
    /// The sum of the results, so that the compiler cannot leave them out.
    sum: u64,
}

impl Flight {
    /// Adds `n` operations.
    pub fn add(&mut self, n: usize) {
        self.flying += n;
    }

    /// Removes one operation, with the result `x`.
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

    /// Waits until no more than `low` operations are left. Returns how many are.
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
