//! Memory that was freed, and that the allocator keeps from the system.
//!
//! An allocator keeps what is freed, to give it out again. After a burst glibc is told to give it back. It then still keeps what is at
//! the end of the heap of a thread that is not the first one: at most 64 MiB, and less where no large block was ever freed.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::NonNull,
};

use crate::{
    locality::Spawner,
    sync::atomic::{AtomicUsize, Ordering},
};

/// So much may stay in the allocator.
const LITTLE: usize = 1 << 20;

/// How many bytes were freed since the allocator last gave some back.
#[derive(Default)]
pub(crate) struct Heap(AtomicUsize);

impl Heap {
    /// So many bytes were freed. With foms goes what they had beside them, in pieces that the allocator keeps.
    pub(crate) fn freed(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Nothing more is freed at the moment: has the allocator give back what it keeps, if that may be much. A thread of its own goes
    /// through the heap, which takes milliseconds.
    pub(crate) fn trim(&self, spawner: &Spawner) {
        if self.0.load(Ordering::Relaxed) > LITTLE && self.0.swap(0, Ordering::Relaxed) > LITTLE {
            let spawn = || (spawner.0)("fom-memory".to_owned(), Box::new(trim));
            // Without a thread the allocator keeps it, and uses it again. The function that makes one may be the user's.
            let _ = catch_unwind(AssertUnwindSafe(spawn));
        }
    }
}

fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    // SAFETY: it asks nothing of its caller.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// The memory stays allocated, and loses its contents and its place in the machine's memory. Nobody reads it before it is written again.
pub(crate) fn empty(memory: NonNull<u8>, size: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        // SAFETY: it asks nothing of its caller.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(1 << 16);
        let before = memory.addr().get().next_multiple_of(page) - memory.addr().get();
        let whole = size.saturating_sub(before) / page * page;
        // SAFETY: the pages are inside of the memory, which the caller has alone, and whose contents nobody needs. An error leaves
        // them as they are.
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
