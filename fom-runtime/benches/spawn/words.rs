//! A state of 4 KiB.

use kit::mix;

/// The state.
pub(crate) type Words = [u64; 512];

/// Returns the state of operation `x`. Each word is written, and each differs from the one before, so that no peer fills
/// the memory in one instruction.
#[inline]
pub(crate) fn words(x: u64) -> Words {
    std::array::from_fn(|place| x ^ place as u64)
}

/// Changes the word that a phase needs. Returns what goes on.
#[inline]
pub(crate) fn touch(words: &mut Words, phase: u64, x: u64) -> u64 {
    let word = &mut words[(x ^ phase) as usize % 512];
    *word = mix(*word ^ x);
    *word
}
