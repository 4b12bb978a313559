//! One submitter's batches.

use std::{collections::VecDeque, fmt};

use crate::{
    lanes::{Handle, LaneKey, PushError, PushReason, inlet::Item},
    operation::Operation,
};

/// Requests handed over at once.
const BATCH: usize = 32;

/// Collects the requests of one submitter and hands them over many at a time, which costs a fraction of what
/// [`Lanes::push`](crate::Lanes::push) does.
///
/// A request whose locality has nothing to do for these lanes is handed over at once. While it is busy with them, requests are
/// handed over when 32 have come together. So whoever stops pushing for a while calls [`flush`](Self::flush), as with a
/// buffered writer; dropping the feed does that, too.
///
/// Requests of one feed come in its order. With those of others, and with [`Lanes::push`](crate::Lanes::push), they are in order
/// from the flush on.
pub struct Feed<O: Operation, K: LaneKey> {
    handle: Handle<O, K>,
    batches: Box<[VecDeque<Item<O, K>>]>,
}

impl<O: Operation, K: LaneKey> fmt::Debug for Feed<O, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed")
            .field("operation", &O::GRAPH.operation())
            .field("collected", &self.len())
            .finish_non_exhaustive()
    }
}

impl<O: Operation, K: LaneKey> Feed<O, K> {
    pub(super) fn new(handle: Handle<O, K>) -> Self {
        let batches = handle
            .inlets
            .iter()
            .map(|_| VecDeque::with_capacity(BATCH))
            .collect();
        Self { handle, batches }
    }

    /// How many requests it has that were not handed over yet.
    pub fn len(&self) -> usize {
        self.batches.iter().map(VecDeque::len).sum()
    }

    /// Whether all that was pushed is handed over.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes a request in.
    ///
    /// # Errors
    ///
    /// [`PushError`], with key and operation: there is no room, or the runtime shuts down. What was taken in before stays.
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
            // Whatever comes of that: it is in the batch, and the next call says so.
            let _ = hand_over(&self.handle, index, batch, false);
        }
        Ok(())
    }

    /// While some key of this locality is full, each request is looked at.
    #[cold]
    fn push_choosy(&mut self, index: usize, item: Item<O, K>) -> Result<(), PushError<O, K>> {
        match hand_over(&self.handle, index, &mut self.batches[index], false) {
            Ok(()) => self.handle.push_one(item),
            Err(reason) => Err(PushError::new(reason, item)),
        }
    }

    /// As [`push`](Self::push), and waits while there is no room, without a thread.
    ///
    /// # Errors
    ///
    /// [`PushReason::ShuttingDown`].
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped before it is ready, the request is dropped with it.
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

    /// As [`push`](Self::push), and blocks the thread while there is no room. In a phase function this is a blocking section by
    /// itself.
    ///
    /// # Errors
    ///
    /// [`PushReason::ShuttingDown`].
    ///
    /// # Panics
    ///
    /// As [`Handle::wait`](crate::Handle::wait).
    pub fn push_blocking(&mut self, key: K, operation: O) -> Result<(), PushError<O, K>> {
        match self.push(key, operation) {
            Err(error) if error.reason() != PushReason::ShuttingDown => {
                let (key, operation) = error.into_parts();
                crate::runtime::block_on(self.push_waiting(key, operation))
            }
            done => done,
        }
    }

    /// Hands over all that it has, also beyond the bound.
    ///
    /// # Errors
    ///
    /// [`PushReason::ShuttingDown`]. What could not be handed over stays; [`into_rest`](Self::into_rest) gives it back.
    pub fn flush(&mut self) -> Result<(), PushReason> {
        let mut done = Ok(());
        for (index, batch) in self.batches.iter_mut().enumerate() {
            if !batch.is_empty() {
                done = hand_over(&self.handle, index, batch, true).and(done);
            }
        }
        done
    }

    /// What was not handed over.
    pub fn into_rest(mut self) -> Vec<(K, O)> {
        let batches = self.batches.iter_mut();
        batches
            .flat_map(|batch| batch.drain(..))
            .map(|item| (item.key, item.operation))
            .collect()
    }
}

/// All of it or nothing.
fn hand_over<O: Operation, K: LaneKey>(
    handle: &Handle<O, K>,
    index: usize,
    batch: &mut VecDeque<Item<O, K>>,
    anyway: bool,
) -> Result<(), PushReason> {
    let requests = batch.len();
    handle.hand_over(index, requests, anyway, |arrived| arrived.append(batch))
}

/// What cannot be handed over any more is with [`Lanes::take_refused`](crate::Lanes::take_refused).
impl<O: Operation, K: LaneKey> Drop for Feed<O, K> {
    fn drop(&mut self) {
        if self.flush().is_ok() {
            return;
        }
        for (inlet, batch) in self.handle.inlets.iter().zip(&mut self.batches) {
            inlet.refuse(batch.drain(..));
        }
    }
}
