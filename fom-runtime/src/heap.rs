//! Freed memory that the allocator keeps from the system.
//!
//! An allocator keeps freed memory for later requests. After a burst this module tells glibc to give it back. glibc
//! still keeps the memory at the end of the heap of each thread but the first: at most 64 MiB, and less if no large
//! block was ever freed.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::NonNull,
};

use crate::{
    locality::Spawner,
    sync::atomic::{AtomicUsize, Ordering},
};

/// The number of bytes that may stay in the allocator.
const LITTLE: usize = 1 << 20;

/// The number of bytes that were freed since the allocator last gave some back.
#[derive(Default)]
pub(crate) struct Heap(AtomicUsize);

impl Heap {
    /// Notes this many freed bytes. With a fom goes what it had beside it, in small pieces that the allocator keeps.
    pub(crate) fn freed(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The burst of frees is over. If the allocator may keep much, tells it to give that back. A separate thread does
    /// this, because a walk through the heap takes milliseconds.
    pub(crate) fn trim(&self, spawner: &Spawner) {
        if self.0.load(Ordering::Relaxed) > LITTLE && self.0.swap(0, Ordering::Relaxed) > LITTLE {
            let spawn = || (spawner.0)("fom-memory".to_owned(), Box::new(trim));
            // Without a thread the allocator keeps the memory, and uses it again. The spawner may be the user's code.
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

/// The memory stays allocated, and loses its contents and its physical pages. The caller writes it before the next
/// read.
pub(crate) fn empty(memory: NonNull<u8>, size: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        // SAFETY: `sysconf` asks nothing of its caller.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(1 << 16);
        let before = memory.addr().get().next_multiple_of(page) - memory.addr().get();
        let whole = size.saturating_sub(before) / page * page;
        // SAFETY: the pages are inside of the memory, which belongs to the caller alone, and its contents are no longer
        // needed. An error leaves them as they are.
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
