//! An allocator that refuses more memory than the input justifies.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    ptr,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// The largest allocation allowed at this time.
static MOST: AtomicUsize = AtomicUsize::new(usize::MAX);

struct Bounded;

#[global_allocator]
static ALLOCATOR: Bounded = Bounded;

fn is_too_much(size: usize) -> bool {
    // The message must not allocate, and the caller cannot handle the failure. The process aborts and names the size.
    size > MOST.load(Ordering::Relaxed) && !thread::panicking()
}

// SAFETY: each call is passed on to the system's allocator unchanged, or refused as any allocator may.
unsafe impl GlobalAlloc for Bounded {
    // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_too_much(layout.size()) {
            return ptr::null_mut();
        }
        // SAFETY: `System` has the same contract.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc_zeroed`.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_too_much(layout.size()) {
            return ptr::null_mut();
        }
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    // SAFETY: the caller keeps the contract of `GlobalAlloc::dealloc`.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above; and the pointer came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }

    // SAFETY: the caller keeps the contract of `GlobalAlloc::realloc`.
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if is_too_much(size) {
            return ptr::null_mut();
        }
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Runs with a limit on each allocation: 64 KiB plus 32 times the input. An empty list in a list takes one byte in the
/// input and 24 bytes here. The capacity of a list may also be twice its length.
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
