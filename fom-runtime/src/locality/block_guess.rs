//! Guesses whether the next blocking section will be short, from the last sections of the same phase.
//!
//! This works like the branch prediction of a processor, with a small table. Phases may share an entry by chance. A
//! wrong guess only costs time. A section that is guessed short calls no thread to take the core out of the slot. If
//! the guess was wrong, the block watch calls one. If that happens more than rarely, the next sections of that phase
//! call immediately.

use std::num::NonZeroU32;

use crate::fom::Header;

/// Length of a section, in nanoseconds, above which it should have been handed over at once. Some hand-overs take as
/// long.
pub(super) const SHORT: u64 = 50_000;
/// Gap between two sections, in nanoseconds, above which the second does not wake the block watch. To hand it over
/// costs less.
const SELDOM: u64 = 1_000_000;
/// Number of right guesses that make up for a wrong one. The kernel stops short sections, too, on busy processors.
const PRICE: u16 = 8;
/// Maximum number of right guesses that are kept for this.
const KEPT: u16 = 4 * PRICE;
/// Number of sections handed over until the next guess: after the first wrong guess, and at most.
const FEWEST: u16 = 16;
const MOST: u16 = 1024;

pub(super) struct BlockGuess {
    phases: [Record; 64],
    /// When the last section began.
    last: u64,
    number: NonZeroU32,
}

#[derive(Clone, Copy, Default)]
struct Record {
    /// Number of sections still to be handed over at once.
    long: u16,
    /// The value of `long` after the last wrong guess, halved by each right one. The next wrong guess doubles it.
    next: u16,
    /// Number of right guesses that no wrong one has used up.
    right: u16,
}

impl Default for BlockGuess {
    fn default() -> Self {
        Self {
            phases: [Record::default(); 64],
            last: 0,
            number: NonZeroU32::MIN,
        }
    }
}

impl BlockGuess {
    fn record(&mut self, fom: &Header) -> &mut Record {
        let graph = std::ptr::from_ref(fom.graph()).addr() / align_of::<usize>();
        let place = graph.wrapping_mul(31).wrapping_add(fom.visit().index());
        &mut self.phases[place % 64]
    }

    /// Returns whether the section that the fom begins is guessed short and left to the block watch. `watching`: whether
    /// the block watch is awake.
    pub(super) fn is_short(&mut self, fom: &Header, now: u64, watching: impl Fn() -> bool) -> bool {
        let seldom = now.saturating_sub(self.last) > SELDOM;
        self.last = now;
        let record = self.record(fom);
        if cfg!(fom_shuttle) {
            // No time passes in shuttle, so the guesses alternate.
            record.long ^= 1;
            return record.long == 0;
        }
        if record.long > 0 {
            record.long -= 1;
            return false;
        }
        !seldom || watching()
    }

    /// Records how a section was that had been guessed short.
    pub(super) fn was(&mut self, fom: &Header, short: bool) {
        let record = self.record(fom);
        if short {
            record.next /= 2;
            record.right = (record.right + 1).min(KEPT);
        } else if record.right >= PRICE {
            record.right -= PRICE;
        } else {
            record.next = (record.next * 2).clamp(FEWEST, MOST);
            record.long = record.next;
        }
    }

    /// Returns a number by which the block watch knows the section.
    pub(super) fn number(&mut self) -> NonZeroU32 {
        self.number = self.number.checked_add(1).unwrap_or(NonZeroU32::MIN);
        self.number
    }
}
