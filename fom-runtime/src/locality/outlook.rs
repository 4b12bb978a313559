//! Whether the next blocking section will be short: guessed by the phase from how its last ones were.
//!
//! As a processor guesses branches, by a small table that phases share when they happen to meet there: a wrong guess costs
//! time, never more. A section that is guessed short calls nobody to take the core out of the slot; the patrol does when
//! the guess was wrong, and the next sections of that phase call at once.

use std::num::NonZeroU32;

use crate::fom::Header;

/// What is longer, in nanoseconds, should have been handed over at once: some hand-overs take as long.
pub(super) const SHORT: u64 = 50_000;
/// A section that comes later after the one before, in nanoseconds, is handed over: to keep the patrol awake would cost more.
const SELDOM: u64 = 1_000_000;
/// Sections handed over until the next guess, after the first wrong one and at most.
const FEWEST: u16 = 16;
const MOST: u16 = 1024;

pub(super) struct Outlook {
    phases: [Record; 64],
    /// When the last section began.
    last: u64,
    number: NonZeroU32,
}

#[derive(Clone, Copy, Default)]
struct Record {
    /// Sections still to be handed over at once.
    long: u16,
    /// How many it will be after the next wrong guess.
    next: u16,
}

impl Default for Outlook {
    fn default() -> Self {
        Self {
            phases: [Record::default(); 64],
            last: 0,
            number: NonZeroU32::MIN,
        }
    }
}

impl Outlook {
    fn record(&mut self, fom: &Header) -> &mut Record {
        let graph = std::ptr::from_ref(fom.graph()).addr() / align_of::<usize>();
        let place = graph.wrapping_mul(31).wrapping_add(fom.phase_index());
        &mut self.phases[place % 64]
    }

    /// Whether the section that the fom begins will be short.
    pub(super) fn is_short(&mut self, fom: &Header, now: u64) -> bool {
        let seldom = now.saturating_sub(self.last) > SELDOM;
        self.last = now;
        let record = self.record(fom);
        if cfg!(fom_shuttle) {
            // No time passes there: one and the other in turns.
            record.long ^= 1;
            return record.long == 0;
        }
        if record.long > 0 {
            record.long -= 1;
            return false;
        }
        !seldom
    }

    /// How a section was that had been guessed short.
    pub(super) fn was(&mut self, fom: &Header, short: bool) {
        let record = self.record(fom);
        if short {
            record.next /= 2;
        } else {
            record.next = (record.next * 2).clamp(FEWEST, MOST);
            record.long = record.next;
        }
    }

    /// A number for the patrol to know the section by.
    pub(super) fn number(&mut self) -> NonZeroU32 {
        self.number = self.number.checked_add(1).unwrap_or(NonZeroU32::MIN);
        self.number
    }
}
