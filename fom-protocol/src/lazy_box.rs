//! A box that is made on demand. It is half as large as a `OnceLock<Box<T>>`.
//!
//! # Why it is right
//!
//! The word is null until a thread puts its box there with one compare-exchange. The exchange of another thread fails then, and
//! that thread drops its own box, which no thread has seen. `Release` makes the writes of the maker visible to each thread
//! that reads the pointer with `Acquire`. The box is freed only by a caller that has it alone.

use std::{fmt, marker::PhantomData, ptr};

use crate::sync::atomic::{AtomicPtr, Ordering};

/// A box that is made once, on demand, by any thread. From then on all threads read it.
pub struct LazyBox<T> {
    made: AtomicPtr<T>,
    /// It owns what it points to.
    owns: PhantomData<Box<T>>,
}

// SAFETY: threads get only shared references from a shared `LazyBox`, and the thread that drops it may be any.
unsafe impl<T: Send + Sync> Sync for LazyBox<T> {}

impl<T: fmt::Debug> fmt::Debug for LazyBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LazyBox").field(&self.get()).finish()
    }
}

impl<T> Default for LazyBox<T> {
    fn default() -> Self {
        Self {
            made: AtomicPtr::new(ptr::null_mut()),
            owns: PhantomData,
        }
    }
}

impl<T> LazyBox<T> {
    /// Returns the value, if there is one.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: the pointer comes from a `Box`, which is freed only when no reference to it is left: see `free`.
        unsafe { self.made.load(Ordering::Acquire).as_ref() }
    }

    /// Makes this the value if there is none. Returns the value that is there then.
    pub fn or(&self, new: Box<T>) -> &T {
        let new = Box::into_raw(new);
        match self
            .made
            .compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire)
        {
            // SAFETY: the box is ours until the exchange, and in its place after it; see `get`.
            Ok(_) => unsafe { &*new },
            Err(theirs) => {
                // SAFETY: no other thread has seen the box.
                drop(unsafe { Box::from_raw(new) });
                // SAFETY: as in `get`.
                unsafe { &*theirs }
            }
        }
    }

    /// Returns the value, and makes it if there is none.
    pub fn made(&self) -> &T
    where
        T: Default,
    {
        self.get().unwrap_or_else(|| self.or(Box::default()))
    }

    /// As [`made`](Self::made), for the only owner.
    pub fn made_mut(&mut self) -> &mut T
    where
        T: Default,
    {
        self.made();
        // SAFETY: the pointer comes from a `Box`, and the borrow is exclusive.
        unsafe { &mut *self.made.load(Ordering::Relaxed) }
    }

    /// Sets the value of a `LazyBox` without one. The memory of a value that is there is lost.
    #[inline(always)]
    pub fn reset(&self, made: Option<Box<T>>) {
        let made = made.map_or(ptr::null_mut(), Box::into_raw);
        self.made.store(made, Ordering::Relaxed);
    }

    /// Frees the value, if there is one.
    ///
    /// # Safety
    ///
    /// No reference to the value is left, and no other thread uses this meanwhile.
    #[inline(always)]
    // SAFETY (caller): as the section above says.
    pub unsafe fn free(&self) {
        let made = self.made.load(Ordering::Relaxed);
        if !made.is_null() {
            self.reset(None);
            // SAFETY: `Box::into_raw` made the pointer, and no other code has it any more.
            drop(unsafe { Box::<T>::from_raw(made) });
        }
    }
}

impl<T> Drop for LazyBox<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the borrow is exclusive, so no reference to the value is left.
        unsafe { self.free() };
    }
}
