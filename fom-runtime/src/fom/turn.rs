//! Where a fom stands in the queue of its key.

use crate::{
    fom::Header,
    sync::atomic::{AtomicU64, Ordering},
};

/// What the directory says of a fom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has its key, or has none.
    Has,
    /// It waits for its key, with this number.
    Waits(u64),
    /// It has lost its place, and is to end.
    Shed,
}

/// Changed under the lock of the directory, and looked at by the thread that runs the fom, which is woken after each change.
#[derive(Debug, Default)]
pub(super) struct Turn(AtomicU64);

const HAS: u64 = 0;
const SHED: u64 = u64::MAX;

impl Header {
    /// Only for a fom with a key, under the lock of the directory.
    pub(crate) fn stand(&self, standing: Standing) {
        let word = match standing {
            Standing::Has => HAS,
            Standing::Waits(number) => number,
            Standing::Shed => SHED,
        };
        if let Some(extra) = self.extra() {
            extra.turn.0.store(word, Ordering::Release);
        }
    }

    pub(crate) fn standing(&self) -> Standing {
        let word = self
            .extra()
            .map_or(HAS, |extra| extra.turn.0.load(Ordering::Acquire));
        match word {
            HAS => Standing::Has,
            SHED => Standing::Shed,
            number => Standing::Waits(number),
        }
    }
}
