//! A value that is `Sync` because no shared reference reaches it.

use std::fmt;

/// A value that only its owner reaches. So it is `Sync` if the value is `Send`, and an error that holds it goes through
/// `?` into a `Box<dyn Error + Send + Sync>`.
///
/// ```
/// use fom_runtime::error::Exclusive;
/// use std::cell::Cell;
///
/// fn sync(_: &impl Sync) {}
/// let mut count = Exclusive::new(Cell::new(1));
/// sync(&count);
/// count.get_mut().set(2);
/// assert_eq!(count.into_inner().get(), 2);
/// ```
pub struct Exclusive<T>(T);

// SAFETY: a shared reference gives no access to the value: `get_mut` and `into_inner` need the whole. `peek` leaves the
// proof to its caller.
unsafe impl<T: Send> Sync for Exclusive<T> {}

impl<T> Exclusive<T> {
    /// Returns the value in this form.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.0
    }

    /// Returns a reference to the value.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.0
    }

    /// Returns a shared reference to the value.
    ///
    /// # Safety
    ///
    /// No other thread has a reference to `self`.
    pub(crate) unsafe fn peek(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Exclusive<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exclusive").finish_non_exhaustive()
    }
}
