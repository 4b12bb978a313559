//! The flags of a fom in its header, in one byte with its priority.

use crate::fom::Priority;
use fom_protocol::sync::atomic::{AtomicU8, Ordering};

const PRIORITY: u8 = 0b11;
/// The fom has entered its first phase.
const BEGUN: u8 = 1 << 2;
/// The fom is between enter-block and leave-block.
const BLOCKED: u8 = 1 << 3;
/// The fom is listed: submitted, not ended.
const LISTED: u8 = 1 << 4;
/// The fom was saved and is submitted again.
const RESUMED: u8 = 1 << 5;
/// The fom does not move: it was placed by hand or by its key, or is bound to its locality's data.
const SETTLED: u8 = 1 << 6;
/// The transitions of the fom need extra work: its phases are remembered or counted.
const NOTED: u8 = 1 << 7;

/// The flags of a fom. Any thread reads them. Only the thread that runs the fom changes them.
#[derive(Default)]
pub(crate) struct Flags(AtomicU8);

impl Flags {
    /// Sets the flags of a new fom, which is listed.
    #[inline(always)]
    pub(super) fn reset(&self, priority: Priority, settled: bool, resumed: bool, noted: bool) {
        let flag = |on: bool, flag: u8| if on { flag } else { 0 };
        self.0.store(
            priority as u8
                | LISTED
                | flag(settled, SETTLED)
                | flag(resumed, RESUMED)
                | flag(noted, NOTED),
            Ordering::Relaxed,
        );
    }

    #[inline]
    fn has(&self, flag: u8) -> bool {
        self.0.load(Ordering::Acquire) & flag != 0
    }

    #[inline]
    fn set(&self, flag: u8, on: bool) {
        let flags = self.0.load(Ordering::Relaxed);
        let flags = if on { flags | flag } else { flags & !flag };
        self.0.store(flags, Ordering::Release);
    }

    /// Returns the [`Priority`] as a number.
    #[inline]
    pub(crate) fn priority(&self) -> usize {
        (self.0.load(Ordering::Relaxed) & PRIORITY).into()
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.has(BEGUN)
    }

    /// Records that the first visit has begun. Returns whether the fom was resumed.
    #[inline]
    pub(crate) fn begin(&self) -> bool {
        let flags = self.0.load(Ordering::Relaxed);
        self.0.store(flags | BEGUN, Ordering::Release);
        flags & RESUMED != 0
    }

    pub(crate) fn is_listed(&self) -> bool {
        self.has(LISTED)
    }

    pub(crate) fn unlist(&self) {
        self.set(LISTED, false);
    }

    pub(crate) fn is_resumed(&self) -> bool {
        self.has(RESUMED)
    }

    pub(crate) fn is_blocked(&self) -> bool {
        self.has(BLOCKED)
    }

    pub(crate) fn set_blocked(&self, blocked: bool) {
        self.set(BLOCKED, blocked);
    }

    pub(super) fn is_settled(&self) -> bool {
        self.has(SETTLED)
    }

    /// Keeps the fom in its locality, because it has touched the locality's data.
    pub(crate) fn settle(&self) {
        if !self.is_settled() {
            self.set(SETTLED, true);
        }
    }

    #[inline]
    pub(super) fn is_noted(&self) -> bool {
        self.0.load(Ordering::Relaxed) & NOTED != 0
    }

    /// Records that the transitions need extra work.
    #[inline]
    pub(crate) fn note(&self) {
        self.set(NOTED, true);
    }
}
