//! How the allocator treats freed memory: what it takes back without a lock, and what it keeps from the system.
//!
//! An allocator keeps freed memory for later requests. After a burst this module tells glibc to give the memory back.
//! The memory at the end of each heap stays with glibc, except in the heap of the first thread. That is at most 64 MiB,
//! and less if no large block was ever freed.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::NonNull,
};

use fom_protocol::sync::atomic::{AtomicUsize, Ordering};

/// Creates a thread with a name.
type Spawn = dyn Fn(String, Box<dyn FnOnce() + Send>) -> io::Result<()> + Send + Sync;

/// The largest piece of memory that glibc takes back without a lock, if another thread has asked for it. A submission often
/// asks for memory that the handler of a locality frees.
pub(crate) const SMALL: usize = 120;

/// The number of bytes that may stay in the allocator.
const LITTLE: usize = 1 << 20;

/// The number of bytes that were freed since the allocator last gave some back.
#[derive(Default)]
pub(crate) struct Heap(AtomicUsize);

impl Heap {
    /// Counts freed bytes. A fom also frees data beside it, in small pieces that the allocator keeps.
    pub(crate) fn freed(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Called when a burst of frees is over. If the allocator may keep much, tells it to give memory back. A separate
    /// thread does this, because a walk through the heap takes milliseconds.
    pub(crate) fn trim(&self, spawn: &Spawn) {
        if self.0.load(Ordering::Relaxed) > LITTLE && self.0.swap(0, Ordering::Relaxed) > LITTLE {
            let spawn = || spawn("fom-memory".to_owned(), Box::new(trim));
            // Without a thread, the allocator keeps the memory for reuse. The spawner may be the user's code, so it may
            // panic.
            let _ = catch_unwind(AssertUnwindSafe(spawn));
        }
    }
}

fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    // SAFETY: `malloc_trim` asks nothing of its caller.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Drops the contents and the physical pages of memory that stays allocated. The caller must write the memory before
/// the next read.
pub(crate) fn empty(memory: NonNull<u8>, size: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        // SAFETY: `sysconf` asks nothing of its caller.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(1 << 16);
        let before = memory.addr().get().next_multiple_of(page) - memory.addr().get();
        let whole = size.saturating_sub(before) / page * page;
        // SAFETY: the pages are inside the memory, which belongs to the caller alone, and its contents are no longer
        // needed. An error leaves them unchanged.
        unsafe {
            libc::madvise(
                memory.as_ptr().wrapping_add(before).cast(),
                whole,
                libc::MADV_DONTNEED,
            );
        }
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (memory, size);
}
