//! The work of a phase.

/// A few instructions that depend on each other: one 64-bit number, mixed.
#[inline]
pub fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ (x >> 27)
}
