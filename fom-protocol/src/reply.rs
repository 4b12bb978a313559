//! The answer to one request: one thread sends it, and an owner waits for it.
//!
//! # Why it is right
//!
//! One word decides, and each change of the word is one read-modify-write.
//!
//! ```text
//!   OPEN ◀──poll──▶ OWNER ◀──poll──▶ a waker in a box        the answer belongs to the sender
//!     └────────────────┴─────┬───────────┘
//!                     send ──┴── drop of the receiver
//!                      ▼              ▼
//!                  ANSWERED         CLOSED
//!     the receiver has the cell     the sender has the cell
//! ```
//!
//! The sender writes the answer before its swap to ANSWERED, and no other thread reads the answer before that. After the
//! swap the sender does not touch the cell. The receiver takes the answer and frees the cell. If the receiver has gone
//! before, the swap returns CLOSED. Then the sender has the cell alone, takes the answer back, and frees the cell.
//!
//! A receiver that finds no answer stores its waker by a compare-exchange. This fails only if the answer came meanwhile,
//! because no other thread changes the word. So either the swap of the sender returns that waker, or the receiver sees
//! the answer. A box belongs to the side that replaces it in the word. `AcqRel` makes the writes of each side visible to
//! the other one.
//!
//! The release of the receiver's drop also orders its last look at the cell before the free. Loom does not watch this.
//!
//! Code of the user runs in drops of answers and in wakers. It runs only before or after a change of the word, so a panic
//! in it leaves a valid cell.

use std::{
    fmt, ptr,
    ptr::NonNull,
    task::{Poll, Waker},
};

use crate::{
    blocks,
    sync::{
        atomic::{AtomicPtr, Ordering},
        cell::UnsafeCell,
    },
};

/// The side that asked, which an answer wakes.
pub trait Owner {
    /// Wakes the owner. Any thread calls this.
    fn wake(&self);
}

/// What both sides reach.
struct Cell<T> {
    word: AtomicPtr<Waker>,
    answer: UnsafeCell<Option<T>>,
}

/// No side waits.
fn open() -> *mut Waker {
    ptr::null_mut()
}

/// The owner waits.
fn owner() -> *mut Waker {
    ptr::without_provenance_mut(1)
}

/// The sender has gone.
fn answered() -> *mut Waker {
    ptr::without_provenance_mut(2)
}

/// The receiver has gone.
fn closed() -> *mut Waker {
    ptr::without_provenance_mut(3)
}

/// Returns the waker that was replaced in the word, if there was one.
fn boxed(word: *mut Waker) -> Option<Box<Waker>> {
    // SAFETY: any other word is a box that `poll` leaked. The caller has replaced it, or has not stored it.
    (word.addr() > 3).then(|| unsafe { Box::from_raw(word) })
}

/// Returns the two sides of a request.
#[inline]
pub fn reply<T, O: Owner>(owner: O) -> (ReplySender<T, O>, ReplyReceiver<T>) {
    let cell = blocks::put(Cell {
        word: AtomicPtr::new(open()),
        answer: UnsafeCell::new(None),
    });
    let sender = ReplySender {
        cell: Some(cell),
        owner,
    };
    (sender, ReplyReceiver { cell })
}

/// The side that answers. A drop answers with nothing.
pub struct ReplySender<T, O: Owner> {
    /// `None` once it has answered.
    cell: Option<NonNull<Cell<T>>>,
    owner: O,
}

// SAFETY: the sides move answers between threads, and share none. See above.
unsafe impl<T: Send, O: Owner + Send> Send for ReplySender<T, O> {}
// SAFETY: a shared sender only reads the word.
unsafe impl<T: Send, O: Owner + Sync> Sync for ReplySender<T, O> {}

impl<T, O: Owner> fmt::Debug for ReplySender<T, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReplySender")
    }
}

impl<T, O: Owner> ReplySender<T, O> {
    /// Sends the answer and wakes the receiver if it waits.
    ///
    /// # Errors
    ///
    /// Returns the answer if the receiver has gone.
    #[inline]
    pub fn send(mut self, answer: T) -> Result<(), T> {
        self.finish(Some(answer)).map_or(Ok(()), Err)
    }

    /// Returns whether the receiver has gone.
    #[inline]
    pub fn is_unwanted(&self) -> bool {
        self.cell.is_none_or(|cell| {
            // SAFETY: the cell lives until the sender gives it up.
            unsafe { &(*cell.as_ptr()).word }.load(Ordering::Acquire) == closed()
        })
    }

    /// Returns the answer if the receiver has gone.
    #[inline]
    fn finish(&mut self, answer: Option<T>) -> Option<T> {
        let cell = self.cell.take()?;
        // SAFETY: the cell lives until the swap below. The place belongs to the sender until then, and is still empty.
        let word = unsafe {
            (*cell.as_ptr())
                .answer
                .with_mut(|place| place.write(answer));
            &(*cell.as_ptr()).word
        };
        let before = word.swap(answered(), Ordering::AcqRel);
        if before == owner() {
            self.owner.wake();
        } else if before == closed() {
            // SAFETY: the receiver has gone, so the sender has the cell alone.
            return unsafe { blocks::take(cell) }.answer.into_inner();
        } else if let Some(waker) = boxed(before) {
            waker.wake();
        }
        None
    }
}

impl<T, O: Owner> Drop for ReplySender<T, O> {
    #[inline]
    fn drop(&mut self) {
        self.finish(None);
    }
}

/// The side that waits for the answer. A drop refuses a later answer.
pub struct ReplyReceiver<T> {
    cell: NonNull<Cell<T>>,
}

// SAFETY: as for `ReplySender`.
unsafe impl<T: Send> Send for ReplyReceiver<T> {}
// SAFETY: a shared receiver has no function.
unsafe impl<T: Send> Sync for ReplyReceiver<T> {}

impl<T> fmt::Debug for ReplyReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReplyReceiver")
    }
}

impl<T> ReplyReceiver<T> {
    /// Takes the answer, which is `None` if the sender was dropped. While there is no answer, the last call decides what
    /// the answer wakes: this waker, or the owner.
    #[inline]
    pub fn poll(&mut self, waker: Option<&Waker>) -> Poll<Option<T>> {
        // SAFETY: the cell lives until the drop of the receiver, because a sender frees it only after that.
        let cell = unsafe { self.cell.as_ref() };
        let word = cell.word.load(Ordering::Acquire);
        if word != answered() && !cell.wait(word, waker) {
            return Poll::Pending;
        }
        // SAFETY: the sender has gone, so the receiver has the cell alone.
        Poll::Ready(cell.answer.with_mut(|answer| unsafe { (*answer).take() }))
    }
}

impl<T> Cell<T> {
    /// Stores what the answer wakes, in place of `word`. Returns `true` if the answer came before.
    #[inline]
    fn wait(&self, word: *mut Waker, waker: Option<&Waker>) -> bool {
        let waits = match waker {
            None if word == owner() => return false,
            None => owner(),
            Some(waker) => Box::into_raw(Box::new(waker.clone())),
        };
        let stored = self
            .word
            .compare_exchange(word, waits, Ordering::AcqRel, Ordering::Acquire);
        drop(boxed(stored.unwrap_or(waits)));
        stored.is_err()
    }
}

impl<T> Drop for ReplyReceiver<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: as in `poll`; after the swap the sender may free the cell.
        let word = unsafe { &(*self.cell.as_ptr()).word };
        let mut before = word.load(Ordering::Acquire);
        if before != answered() {
            before = word.swap(closed(), Ordering::AcqRel);
        }
        if before == answered() {
            // SAFETY: the sender has gone, so the receiver has the cell alone.
            drop(unsafe { blocks::take(self.cell) }.answer.into_inner());
        } else {
            drop(boxed(before));
        }
    }
}
