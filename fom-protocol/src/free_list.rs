//! The slots of a pool that other threads put back, until the owner of the pool takes them. The list also chooses the
//! thread that frees the pool.
//!
//! # Why it is right
//!
//! One word holds the newest returned slot, or CLOSED. Until the close, a return is one compare-exchange, and the
//! owner takes all slots by one swap. There is no ABA problem, because the list is only pushed to and emptied whole.
//!
//! The close is the last swap of the owner. The owner then knows `n`, the number of its slots still in use without
//! those that the swap returned. A thread that finds CLOSED instead counts its slot in `left`, one down from zero.
//! The owner adds `n`. The thread that leaves zero is the last: the sum of all steps is `n - n`. No step before
//! the owner's addition leaves zero or more, and after the addition the number only falls. So exactly one step leaves
//! zero, and that step comes after all others.
//!
//! An owner that stops looking leaves WATCHED in the empty word. A return first removes that mark, then tells the
//! owner, and only then puts its slot back. Until then the slot is in use, so the pool and the owner exist. An owner
//! that looks too early finds nothing and watches again, and the same return tells it again.

use std::{fmt, ptr, ptr::NonNull};

use crate::inbox::Link;
use crate::sync::atomic::{AtomicIsize, AtomicPtr, Ordering};

/// The slots that other threads returned.
pub struct FreeList {
    head: AtomicPtr<Link>,
    /// The number of slots in use after the close, when the owner takes no more slots.
    left: AtomicIsize,
}

impl fmt::Debug for FreeList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FreeList")
    }
}

impl Default for FreeList {
    fn default() -> Self {
        Self::new()
    }
}

fn closed() -> *mut Link {
    ptr::without_provenance_mut(1)
}

/// The mark of an empty list while the owner does not look.
fn watched() -> *mut Link {
    ptr::without_provenance_mut(2)
}

fn is_slot(head: *mut Link) -> bool {
    head.addr() > 2
}

/// The result of a return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Returned {
    /// The owner takes the slot when it needs it, or other slots are still to come.
    Kept,
    /// This was the last slot, and the owner of the pool has gone. The caller frees the pool.
    Last,
}

impl FreeList {
    /// Creates an open and empty list.
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
    /// The link belongs to the slot, no other thread uses the slot any more, and the link stays alive until the owner
    /// takes it.
    #[inline]
    // SAFETY (caller): as the section above says.
    pub unsafe fn put(&self, slot: NonNull<Link>, tell: impl Fn()) -> Returned {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            if !is_slot(head) && !head.is_null() {
                if head == closed() {
                    // The last return has acquired all that other threads did to their slots before.
                    return last(self.left.fetch_sub(1, Ordering::AcqRel) - 1);
                }
                head = self.unwatch(&tell);
                continue;
            }
            // SAFETY: the slot is ours alone until it is in the list.
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

    /// Removes the mark of the owner and tells the owner. Returns the word after that.
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

    /// Records that the owner stops looking until it is told. Returns `false` if a slot has come back, which the owner
    /// must take. Only the owner calls this.
    #[inline]
    pub fn watch(&self) -> bool {
        let watched = watched();
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        let before = self
            .head
            .compare_exchange(ptr::null_mut(), watched, order.0, order.1);
        before.is_ok() || before == Err(watched)
    }

    /// Takes all returned slots, newest first. The link of each slot points to the next. Only the owner calls this.
    #[inline]
    pub fn take(&self) -> *mut Link {
        if !is_slot(self.head.load(Ordering::Relaxed)) {
            return ptr::null_mut();
        }
        self.head.swap(ptr::null_mut(), Ordering::AcqRel)
    }

    /// Closes the list, because the owner goes. `in_use` takes the list of the returned slots, and returns the number
    /// of slots still in use.
    #[inline]
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
