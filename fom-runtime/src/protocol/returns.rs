//! Where other threads put back the slots of a pool, until its owner takes them in; and who frees the pool at last.
//!
//! # Why it is right
//!
//! One word holds the newest returned slot, or CLOSED. While it is open a return is one compare-exchange, and the owner
//! takes all of them by one swap: a list that is only pushed to and emptied whole knows no ABA.
//!
//! Closing is the owner's last swap. It knows how many of its slots are still in use, after those that the swap gave it:
//! `n`. Who finds CLOSED counts its slot in `left` instead, one down from zero; the owner adds `n`. Whoever's step leaves
//! zero is the last one: the sum of all steps is `n - n`, no step before the owner's addition leaves zero or more, and after
//! it the number only falls. So exactly one step leaves zero, and it comes after all others.

use std::{fmt, ptr, ptr::NonNull};

use super::inbox::Link;
use crate::sync::atomic::{AtomicIsize, AtomicPtr, Ordering};

/// The slots that came back from elsewhere.
pub struct Returns {
    head: AtomicPtr<Link>,
    /// Slots in use that nobody will take in any more; only after the close.
    left: AtomicIsize,
}

impl fmt::Debug for Returns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Returns")
    }
}

impl Default for Returns {
    fn default() -> Self {
        Self::new()
    }
}

fn closed() -> *mut Link {
    ptr::without_provenance_mut(1)
}

/// What became of a slot that was put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Returned {
    /// The owner takes it in when it needs it, or there are others yet to come.
    Kept,
    /// It was the last one of a pool whose owner has gone: the caller frees the pool.
    Last,
}

impl Returns {
    /// Open and empty.
    pub fn new() -> Self {
        Self {
            head: AtomicPtr::new(ptr::null_mut()),
            left: AtomicIsize::new(0),
        }
    }

    /// Puts a slot back.
    ///
    /// # Safety
    ///
    /// The link is the slot's own, nobody else uses it any more, and it stays alive until the owner takes it.
    pub unsafe fn put(&self, slot: NonNull<Link>) -> Returned {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            if head == closed() {
                // The last one has acquired what all others did to their slots before.
                return last(self.left.fetch_sub(1, Ordering::AcqRel) - 1);
            }
            // SAFETY: ours alone until it is in the list.
            unsafe { slot.as_ref() }.set_next(head);
            match self.head.compare_exchange_weak(
                head,
                slot.as_ptr(),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Returned::Kept,
                Err(now) => head = now,
            }
        }
    }

    /// Takes all that came back, newest first, each one's next in its link. Only the owner.
    pub fn take(&self) -> *mut Link {
        if self.head.load(Ordering::Relaxed).is_null() {
            return ptr::null_mut();
        }
        self.head.swap(ptr::null_mut(), Ordering::AcqRel)
    }

    /// The owner goes. `in_use` says how many slots are still in use, given the list of those that came back.
    pub fn close(&self, in_use: impl FnOnce(*mut Link) -> usize) -> Returned {
        let head = self.head.swap(closed(), Ordering::AcqRel);
        let in_use = in_use(head).cast_signed();
        last(self.left.fetch_add(in_use, Ordering::AcqRel) + in_use)
    }
}

fn last(left: isize) -> Returned {
    if left == 0 {
        Returned::Last
    } else {
        Returned::Kept
    }
}
