//! The batches of one submitter.

use std::{collections::VecDeque, fmt};

use fom_runtime::{Operation, extension::block_on};

use crate::streams::{Handle, PushError, PushReason, StreamKey, inlet::Item};

/// Number of requests handed over at once.
const BATCH: usize = 32;

/// Collects the requests of one submitter and hands them over in batches. That costs a fraction of
/// [`KeyedStream::push`](crate::streams::KeyedStream::push).
///
/// If the locality has nothing to do for the stream, a request is handed over immediately. While the locality is busy
/// with them, requests are handed over once 32 have come together. As with a buffered writer, call
/// [`flush`](Self::flush) before you stop pushing for a while. Dropping the producer flushes it too.
///
/// The requests of one producer keep their order. Their order relative to other producers and to
/// [`KeyedStream::push`](crate::streams::KeyedStream::push) holds from the flush on.
pub struct Producer<O: Operation, K: StreamKey> {
    handle: Handle<O, K>,
    batches: Box<[VecDeque<Item<O, K>>]>,
}

impl<O: Operation, K: StreamKey> fmt::Debug for Producer<O, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer")
            .field("operation", &O::GRAPH.operation())
            .field("collected", &self.len())
            .finish_non_exhaustive()
    }
}

impl<O: Operation, K: StreamKey> Producer<O, K> {
    pub(super) fn new(handle: Handle<O, K>) -> Self {
        let batches = handle
            .inlets
            .iter()
            .map(|_| VecDeque::with_capacity(BATCH))
            .collect();
        Self { handle, batches }
    }

    /// Returns the number of requests not yet handed over.
    pub fn len(&self) -> usize {
        self.batches.iter().map(VecDeque::len).sum()
    }

    /// Returns whether all requests are handed over.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes in a request.
    ///
    /// # Errors
    ///
    /// Returns a [`PushError`] with the key and the operation if there is no room, or if the runtime shuts down.
    /// Requests taken in before stay.
    #[inline]
    pub fn push(&mut self, key: K, operation: O) -> Result<(), PushError<O, K>> {
        let hash = self.handle.hash(&key);
        self.push_item(Item {
            hash,
            key,
            operation,
        })
    }

    #[inline]
    fn push_item(&mut self, item: Item<O, K>) -> Result<(), PushError<O, K>> {
        let index = self.handle.home(item.hash);
        let inlet = &self.handle.inlets[index];
        let batch = &mut self.batches[index];
        if inlet.is_choosy() {
            return self.push_choosy(index, item);
        }
        if batch.len() >= BATCH
            && let Err(reason) = hand_over(&self.handle, index, batch, false)
        {
            return Err(PushError::new(reason, item));
        }
        batch.push_back(item);
        if inlet.is_resting() {
            // A failure is ignored: the request is in the batch, and the next call reports it.
            let _ = hand_over(&self.handle, index, batch, false);
        }
        Ok(())
    }

    /// Takes in a request while some key of this locality is full: each request is checked.
    #[cold]
    fn push_choosy(&mut self, index: usize, item: Item<O, K>) -> Result<(), PushError<O, K>> {
        match hand_over(&self.handle, index, &mut self.batches[index], false) {
            Ok(()) => self.handle.push_one(item),
            Err(reason) => Err(PushError::new(reason, item)),
        }
    }

    /// Takes in a request as [`push`](Self::push) does, and waits while there is no room, without blocking a thread.
    ///
    /// # Errors
    ///
    /// Fails with [`PushReason::ShuttingDown`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is ready, the request is dropped with it.
    pub async fn push_waiting(&mut self, key: K, operation: O) -> Result<(), PushError<O, K>> {
        let hash = self.handle.hash(&key);
        let mut item = Item {
            hash,
            key,
            operation,
        };
        loop {
            match self.push_item(item) {
                Err(error) if error.reason() != PushReason::ShuttingDown => {
                    item = error.into_item()
                }
                done => return done,
            }
            self.handle.room(&item).await;
        }
    }

    /// Takes in a request as [`push`](Self::push) does, and blocks the thread while there is no room. In a phase
    /// function, the call is a blocking section by itself.
    ///
    /// # Errors
    ///
    /// Fails with [`PushReason::ShuttingDown`].
    ///
    /// # Panics
    ///
    /// Panics like [`Handle::wait`](fom_runtime::Handle::wait).
    pub fn push_blocking(&mut self, key: K, operation: O) -> Result<(), PushError<O, K>> {
        match self.push(key, operation) {
            Err(error) if error.reason() != PushReason::ShuttingDown => {
                let (key, operation) = error.into_parts();
                block_on(self.push_waiting(key, operation))
            }
            done => done,
        }
    }

    /// Hands over all collected requests, even beyond the bound.
    ///
    /// # Errors
    ///
    /// Fails with [`PushReason::ShuttingDown`]. Requests that could not be handed over stay;
    /// [`into_rest`](Self::into_rest) returns them.
    pub fn flush(&mut self) -> Result<(), PushReason> {
        let mut done = Ok(());
        for (index, batch) in self.batches.iter_mut().enumerate() {
            if !batch.is_empty() {
                done = hand_over(&self.handle, index, batch, true).and(done);
            }
        }
        done
    }

    /// Returns the requests that were not handed over.
    pub fn into_rest(mut self) -> Vec<(K, O)> {
        let batches = self.batches.iter_mut();
        batches
            .flat_map(|batch| batch.drain(..))
            .map(|item| (item.key, item.operation))
            .collect()
    }
}

/// Hands over the whole batch, or nothing.
fn hand_over<O: Operation, K: StreamKey>(
    handle: &Handle<O, K>,
    index: usize,
    batch: &mut VecDeque<Item<O, K>>,
    anyway: bool,
) -> Result<(), PushReason> {
    let requests = batch.len();
    handle.hand_over(index, requests, anyway, |arrived| arrived.append(batch))
}

/// Flushes the producer. [`KeyedStream::take_refused`](crate::streams::KeyedStream::take_refused) returns requests that
/// can no longer be handed over.
impl<O: Operation, K: StreamKey> Drop for Producer<O, K> {
    fn drop(&mut self) {
        if self.flush().is_ok() {
            return;
        }
        for (inlet, batch) in self.handle.inlets.iter().zip(&mut self.batches) {
            inlet.refuse(batch.drain(..));
        }
    }
}
