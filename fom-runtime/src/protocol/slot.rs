//! A place where one box lies until somebody takes it: where enter-block leaves the core.
//!
//! # Why it is right
//!
//! Both ways are one swap of a pointer. Whoever gets the pointer out of a swap owns the box, since the same swap put
//! null in its place; `AcqRel` hands over all that the previous owner wrote to it.

use std::{fmt, marker::PhantomData, ptr};

use crate::sync::atomic::{AtomicPtr, Ordering};

/// Holds one box or none.
pub struct Slot<T> {
    pointer: AtomicPtr<T>,
    /// `Send` and `Sync` as a mutex is: the slot moves values between threads, and never shares one.
    owns: PhantomData<std::sync::Mutex<T>>,
}

impl<T> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slot")
    }
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Slot<T> {
    /// An empty slot.
    pub fn new() -> Self {
        Self {
            pointer: AtomicPtr::new(ptr::null_mut()),
            owns: PhantomData,
        }
    }

    /// Lays the box in. Gives back what lay there.
    pub fn put(&self, value: Box<T>) -> Option<Box<T>> {
        owned(self.pointer.swap(Box::into_raw(value), Ordering::AcqRel))
    }

    /// Whether a box lies in it. A hint: it may be gone by now.
    pub fn is_laid(&self) -> bool {
        !self.pointer.load(Ordering::Relaxed).is_null()
    }

    /// Takes the box out, if there is one.
    pub fn take(&self) -> Option<Box<T>> {
        owned(self.pointer.swap(ptr::null_mut(), Ordering::AcqRel))
    }
}

fn owned<T>(pointer: *mut T) -> Option<Box<T>> {
    // SAFETY: a pointer in a slot came from `Box::into_raw`, and the swap that gave it to us took it out.
    (!pointer.is_null()).then(|| unsafe { Box::from_raw(pointer) })
}

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}
