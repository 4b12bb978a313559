//! Memory for small values with a short life. Each thread keeps a few freed blocks for its next values.
//!
//! # Why it is right
//!
//! A block is an ordinary box of words. [`put`] leaks it and writes the value to its beginning. [`take`] reads the value
//! and makes the same box again. Both decide by the type alone between a block and a box of the value. A value is only
//! moved here, so no code of the user runs while a thread touches its list of blocks.

use std::{cell::RefCell, mem::MaybeUninit, ptr::NonNull};

/// With the header of the allocator, a block takes 64 bytes.
type Block = [MaybeUninit<u64>; 7];

/// The number of freed blocks that a thread keeps: at most 4 KiB.
const KEPT: usize = 64;

thread_local! {
    #[allow(clippy::vec_box, reason = "the boxes go in and out as they are")]
    static FREED: RefCell<Vec<Box<Block>>> = const { RefCell::new(Vec::new()) };
}

const fn fits<T>() -> bool {
    size_of::<T>() <= size_of::<Block>() && align_of::<T>() <= align_of::<Block>()
}

/// Moves the value into memory of its own. Only [`take`] frees this memory.
#[inline]
pub(crate) fn put<T>(value: T) -> NonNull<T> {
    if !fits::<T>() {
        return NonNull::from(Box::leak(Box::new(value)));
    }
    // An error means that the thread is being taken down.
    let freed = FREED.try_with(|freed| freed.borrow_mut().pop());
    let block = match freed {
        Ok(Some(block)) => block,
        _ => Box::new([MaybeUninit::uninit(); 7]),
    };
    let memory = NonNull::from(Box::leak(block)).cast::<T>();
    // SAFETY: the value fits into the block, which belongs to this function alone.
    unsafe { memory.write(value) };
    memory
}

/// Moves the value out, and frees its memory.
///
/// # Safety
///
/// The memory came from [`put`] with the same type. The caller uses it alone, and not again.
#[inline]
// SAFETY (caller): as the section above says.
pub(crate) unsafe fn take<T>(memory: NonNull<T>) -> T {
    if !fits::<T>() {
        // SAFETY: `put` leaked this box.
        return *unsafe { Box::from_raw(memory.as_ptr()) };
    }
    // SAFETY: `put` wrote the value, and the caller uses it alone.
    let value = unsafe { memory.read() };
    // SAFETY: `put` leaked a box of a block at this address. The value has left it.
    keep(unsafe { Box::from_raw(memory.cast::<Block>().as_ptr()) });
    value
}

/// Keeps the block for a later value, or frees it.
fn keep(block: Box<Block>) {
    // An error means that the thread is being taken down. The block is then freed.
    let _ = FREED.try_with(|freed| {
        let mut freed = freed.borrow_mut();
        if freed.len() < KEPT {
            freed.push(block);
        }
    });
}

#[cfg(all(test, not(any(fom_loom, fom_shuttle))))]
mod tests {
    use super::*;

    #[repr(align(32))]
    struct Aligned(u8);

    #[test]
    fn each_size_comes_back() {
        for n in 0..3 {
            let small = [0; 2 * KEPT].map(|_| put((n, String::from("small"))));
            let (large, aligned, empty) = (put([n; 100]), put(Aligned(7)), put(()));
            assert!(aligned.addr().get().is_multiple_of(32));
            for small in small {
                // SAFETY: each pointer is used once.
                assert_eq!(unsafe { take(small) }, (n, String::from("small")));
            }
            // SAFETY: as above.
            unsafe {
                assert_eq!(take(large), [n; 100]);
                assert_eq!(take(aligned).0, 7);
                take(empty);
            }
        }
        assert_eq!(FREED.with_borrow(Vec::len), KEPT);
    }
}
