//! A barrier over all keys of a stream.
//!
//! A barrier stands in each inlet. Requests that come later wait behind it. An inlet passes the barrier when all its
//! requests before have ended. When all inlets have passed, the barrier is removed from all of them.
//!
//! The lock of the barriers is taken before the lock of an inlet, never while one is held.

use std::{collections::VecDeque, sync::Arc};

use fom_runtime::Operation;
use tokio::sync::oneshot;

use crate::streams::{Common, KeyedStream, PushReason, StreamKey};

/// A barrier that is not open.
pub(super) struct Barrier {
    /// Number of inlets that have not passed.
    left: usize,
    opened: oneshot::Sender<()>,
}

/// The barriers of a stream, the oldest first.
pub(super) type Barriers = VecDeque<Barrier>;

impl<O: Operation, K: StreamKey> KeyedStream<O, K> {
    /// Sets a barrier over all keys. Every request that was pushed before the call ends before any request that is
    /// pushed after the call begins. The requests that wait behind the barrier count for the
    /// [bound](crate::streams::StreamOptions::bound). A request that a [`Producer`](crate::streams::Producer) has
    /// collected is pushed when the producer hands it over.
    ///
    /// The barrier is set by the call itself. The future is ready when the requests before the barrier have ended.
    ///
    /// # Errors
    ///
    /// Fails with [`PushReason::ShuttingDown`] if the runtime shuts down first.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the barrier stays.
    ///
    /// ```
    /// # use fom_patterns::{prelude::*, streams::{KeyedStream, StreamOptions}};
    /// # struct Deposit { cents: u64 }
    /// # #[fom(operation(Deposit), transient)]
    /// # enum Depositing {
    /// #     #[phase(start, sync, to(Done))]
    /// #     Book,
    /// #     #[phase(end)]
    /// #     Done,
    /// # }
    /// # impl DepositingTransitions for Deposit {
    /// #     fn book(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> { let _ = self.cents; Ok(()) }
    /// # }
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), BoxError> {
    /// # let runtime = Runtime::builder().localities(2).build()?;
    /// let deposits = KeyedStream::new(&runtime, StreamOptions::default());
    /// deposits.push("alice", Deposit { cents: 5 })?;
    /// deposits.push("bob", Deposit { cents: 7 })?;
    /// let end_of_day = deposits.barrier();
    /// deposits.push("alice", Deposit { cents: 9 })?;
    /// end_of_day.await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn barrier(&self) -> impl Future<Output = Result<(), PushReason>> + Send + use<O, K> {
        let opened = self.0.set_barrier();
        async move {
            match opened {
                Some(opened) => opened.await.map_err(|_| PushReason::ShuttingDown),
                None => Err(PushReason::ShuttingDown),
            }
        }
    }
}

impl<O: Operation, K: StreamKey> Common<O, K> {
    fn set_barrier(self: &Arc<Self>) -> Option<oneshot::Receiver<()>> {
        let mut barriers = self.barriers.lock();
        if self.inlets.iter().any(|inlet| inlet.lock().closed) {
            return None;
        }
        let (opened, opens) = oneshot::channel();
        let left = self.inlets.len();
        barriers.push_back(Barrier { left, opened });
        for inlet in &self.inlets {
            inlet.lock().set_barrier();
        }
        let opened = if barriers.len() == 1 {
            self.open_barriers(&mut barriers)
        } else {
            Vec::new()
        };
        drop(barriers);
        tell(opened);
        Some(opens)
    }

    /// Notes that all requests before the first barrier have ended in one inlet.
    #[cold]
    pub(super) fn passed_barrier(self: &Arc<Self>) {
        let mut barriers = self.barriers.lock();
        if let Some(first) = barriers.front_mut() {
            first.left -= 1;
        }
        let opened = self.open_barriers(&mut barriers);
        drop(barriers);
        tell(opened);
    }

    /// Removes each barrier that all inlets pass. Returns those that wait for them.
    fn open_barriers(self: &Arc<Self>, barriers: &mut Barriers) -> Vec<oneshot::Sender<()>> {
        let mut opened = Vec::new();
        while let Some(first) = barriers.front_mut() {
            let idle = self.inlets.iter();
            first.left -= idle.filter(|inlet| inlet.lock().passes_barrier()).count();
            if first.left > 0 {
                break;
            }
            self.let_go();
            opened.extend(barriers.pop_front().map(|first| first.opened));
        }
        opened
    }

    /// Lets the requests behind the first barrier go.
    fn let_go(self: &Arc<Self>) {
        for (index, inlet) in self.inlets.iter().enumerate() {
            let mut state = inlet.lock();
            let signal = state.open_barrier() && state.must_signal();
            if signal {
                inlet.set_resting(false);
            }
            drop(state);
            if signal {
                let common = Arc::clone(self);
                // A locality with counted work has not ended.
                let _ = self.runtime.post(index, move |local| common.signal(local));
            }
        }
    }
}

/// Tells those that wait for a barrier, without a lock.
fn tell(opened: Vec<oneshot::Sender<()>>) {
    for opened in opened {
        // The caller may wait for the barrier no more.
        let _ = opened.send(());
    }
}
