//! Brings memory near before it is needed.

use crate::fom::Header;

/// Number of cache lines of a fom that its wake and the begin of its run touch.
const LINES: usize = 4;
const LINE: usize = 64;

/// Brings the beginning of a fom near. This is a hint: the fom need not exist.
#[inline]
pub(crate) fn prefetch_fom(fom: *const Header) {
    for line in 0..LINES {
        prefetch(fom.cast::<u8>().wrapping_add(line * LINE));
    }
}

#[inline]
fn prefetch(_address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction is part of x86-64, and takes any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(_address.cast()) };
    }
}
