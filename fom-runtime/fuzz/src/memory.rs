//! An allocator that refuses more than the bytes justify that are read.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    ptr,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// The largest piece that may be asked for at this time.
static MOST: AtomicUsize = AtomicUsize::new(usize::MAX);

struct Bounded;

#[global_allocator]
static ALLOCATOR: Bounded = Bounded;

fn is_too_much(size: usize) -> bool {
    // Nothing is allocated to say so, and whoever asked cannot answer: the process aborts and names the size.
    size > MOST.load(Ordering::Relaxed) && !thread::panicking()
}

// SAFETY: each call is passed on to the system's allocator as it came, or refused as any allocator may.
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_too_much(layout.size()) {
            return ptr::null_mut();
        }
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_too_much(layout.size()) {
            return ptr::null_mut();
        }
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above; and the pointer came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if is_too_much(size) {
            return ptr::null_mut();
        }
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Runs while no piece of memory may be larger than 64 KiB and 32 times the bytes: an empty list in a list takes a byte there
/// and 24 here, and a list may be twice as large as it must be.
pub(super) fn bounded<T>(bytes: &[u8], run: impl FnOnce() -> T) -> T {
    struct Unbounded;
    impl Drop for Unbounded {
        fn drop(&mut self) {
            MOST.store(usize::MAX, Ordering::Relaxed);
        }
    }
    let _unbounded = Unbounded;
    MOST.store(32 * bytes.len() + (64 << 10), Ordering::Relaxed);
    run()
}
