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
//!
//! An owner that stops looking leaves WATCHED in the empty word. A return takes that away first, tells the owner, and
//! only then puts its slot back. Until then the slot is in use, so the pool and the owner exist. An owner that looks
//! too early finds nothing and watches again, and the same return tells it again.

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

/// Empty, and the owner does not look.
fn watched() -> *mut Link {
    ptr::without_provenance_mut(2)
}

fn is_slot(head: *mut Link) -> bool {
    head.addr() > 2
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

    /// Puts a slot back. If the owner has stopped looking, `tell` is called first, while the slot is still in use.
    ///
    /// # Safety
    ///
    /// The link is the slot's own, nobody else uses it any more, and it stays alive until the owner takes it.
    #[inline]
    pub unsafe fn put(&self, slot: NonNull<Link>, tell: impl Fn()) -> Returned {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            if !is_slot(head) && !head.is_null() {
                if head == closed() {
                    // The last return has acquired what all others did to their slots before.
                    return last(self.left.fetch_sub(1, Ordering::AcqRel) - 1);
                }
                head = self.unwatch(&tell);
                continue;
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

    /// Takes the mark of the owner away and tells the owner. Returns the word as it is after that.
    #[cold]
    fn unwatch(&self, tell: impl Fn()) -> *mut Link {
        let empty = ptr::null_mut();
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        match self
            .head
            .compare_exchange(watched(), empty, order.0, order.1)
        {
            Ok(_) => {
                tell();
                empty
            }
            Err(now) => now,
        }
    }

    /// The owner stops looking until it is told. `false`: a slot has come back, and the owner must take it. Only the
    /// owner may call this.
    pub fn watch(&self) -> bool {
        let watched = watched();
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        let before = self
            .head
            .compare_exchange(ptr::null_mut(), watched, order.0, order.1);
        before.is_ok() || before == Err(watched)
    }

    /// Takes all that came back, newest first, each one's next in its link. Only the owner.
    pub fn take(&self) -> *mut Link {
        if !is_slot(self.head.load(Ordering::Relaxed)) {
            return ptr::null_mut();
        }
        self.head.swap(ptr::null_mut(), Ordering::AcqRel)
    }

    /// The owner goes. `in_use` says how many slots are still in use, given the list of those that came back.
    pub fn close(&self, in_use: impl FnOnce(*mut Link) -> usize) -> Returned {
        let mut head = self.head.swap(closed(), Ordering::AcqRel);
        if !is_slot(head) {
            head = ptr::null_mut();
        }
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
