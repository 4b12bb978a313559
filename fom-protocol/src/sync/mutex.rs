//! The locks of a program.

#[doc(no_inline)]
pub use parking_lot::{Mutex, MutexGuard, RwLock};

/// Returns the guard of `parking_lot`.
pub(super) fn real<'g, 'a, T>(guard: &'g mut MutexGuard<'a, T>) -> &'g mut MutexGuard<'a, T> {
    guard
}

/// Calls `f` with the lock released.
pub(super) fn unlocked<T, R>(guard: &mut MutexGuard<'_, T>, f: impl FnOnce() -> R) -> R {
    MutexGuard::unlocked(guard, f)
}
