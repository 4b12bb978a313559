//! A place for one box, which any thread can take. Enter-block leaves the core here.
//!
//! # Why it is right
//!
//! `put` and `take` are each one swap of a pointer. The caller that gets the pointer from a swap owns the box,
//! because the same swap replaced the pointer. `AcqRel` makes all writes of the previous owner to the box visible.

use std::{fmt, marker::PhantomData, ptr};

use crate::sync::atomic::{AtomicPtr, Ordering};

/// Holds at most one box.
pub struct HandoffSlot<T> {
    pointer: AtomicPtr<T>,
    /// Makes the slot `Send` and `Sync` like a mutex: the slot moves values between threads, and never shares them.
    owns: PhantomData<std::sync::Mutex<T>>,
}

impl<T> fmt::Debug for HandoffSlot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HandoffSlot")
    }
}

impl<T> Default for HandoffSlot<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> HandoffSlot<T> {
    /// Creates an empty slot.
    pub fn new() -> Self {
        Self {
            pointer: AtomicPtr::new(ptr::null_mut()),
            owns: PhantomData,
        }
    }

    /// Puts the box in. Returns the box that was there before.
    #[inline]
    pub fn put(&self, value: Box<T>) -> Option<Box<T>> {
        owned(self.pointer.swap(Box::into_raw(value), Ordering::AcqRel))
    }

    /// Returns whether the slot holds a box. This is a hint: another thread may take the box at once.
    #[inline]
    pub fn is_laid(&self) -> bool {
        !self.pointer.load(Ordering::Relaxed).is_null()
    }

    /// Takes the box out, if there is one.
    #[inline]
    pub fn take(&self) -> Option<Box<T>> {
        owned(self.pointer.swap(ptr::null_mut(), Ordering::AcqRel))
    }
}

fn owned<T>(pointer: *mut T) -> Option<Box<T>> {
    // SAFETY: a pointer in a slot came from `Box::into_raw`, and the swap that returned the pointer took it out of
    // the slot.
    (!pointer.is_null()).then(|| unsafe { Box::from_raw(pointer) })
}

impl<T> Drop for HandoffSlot<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}
