//! What a fom waits for, as its header shows it.

use crate::fom::{Header, hand};
use fom_protocol::sync::atomic::{AtomicU16, Ordering};

/// What a fom waits for, as one small number that any thread can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitingFor {
    Nothing,
    Future,
    Event,
    Timer,
    Retry,
    Blocking,
    /// The commit of its transition.
    Journal,
    /// The end of the fom of a handle.
    Fom,
    /// The foms that have its key, or asked for the key before.
    Key,
    /// The gate of its phase, which tells no more.
    Gate,
    /// The [`WaitKind`](crate::fom::WaitKind) with this number.
    Kind(u16),
    /// An answer of the resource at this place of the table.
    Resource(u32),
}

const RESOURCES_FROM: u16 = 16;
const KINDS_FROM: u16 = 1 << 15;

impl WaitingFor {
    pub(crate) fn encode(self) -> u16 {
        match self {
            Self::Nothing => 0,
            Self::Future => 1,
            Self::Event => 2,
            Self::Timer => 3,
            Self::Retry => 4,
            Self::Blocking => 5,
            Self::Journal => 6,
            Self::Fom => 9,
            Self::Key => 7,
            Self::Gate => 8,
            Self::Kind(number) => KINDS_FROM.saturating_add(number),
            // Resources beyond the range are shown as the last resource.
            Self::Resource(place) => {
                let place = u16::try_from(place).unwrap_or(u16::MAX);
                RESOURCES_FROM.saturating_add(place).min(KINDS_FROM - 1)
            }
        }
    }

    /// Shows in the listing that the fom that runs on this thread, if any, waits for this.
    pub(crate) fn say(self) {
        hand::context::with_hand(|hand| {
            if let Some(fom) = hand.running() {
                fom.waiting.set(self);
            }
        });
    }

    /// As [`say`](Self::say), if this is the fom that runs on this thread.
    pub(crate) fn say_for(self, fom: &Header) {
        hand::context::with_hand(|hand| {
            let running = hand.running();
            if let Some(running) = running.filter(|running| running.whole() == fom.whole()) {
                running.waiting.set(self);
            }
        });
    }

    pub(crate) fn decode(code: u16) -> Self {
        match code {
            1 => Self::Future,
            2 => Self::Event,
            3 => Self::Timer,
            4 => Self::Retry,
            5 => Self::Blocking,
            6 => Self::Journal,
            9 => Self::Fom,
            7 => Self::Key,
            8 => Self::Gate,
            number if number >= KINDS_FROM => Self::Kind(number - KINDS_FROM),
            place if place >= RESOURCES_FROM => Self::Resource((place - RESOURCES_FROM).into()),
            _ => Self::Nothing,
        }
    }
}

/// The [`WaitingFor`] of a fom, written by the thread that runs the fom.
#[derive(Default)]
pub(crate) struct WaitCell(AtomicU16);

impl WaitCell {
    /// Sets the state of a new fom, which waits for nothing.
    #[inline(always)]
    pub(super) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> WaitingFor {
        WaitingFor::decode(self.0.load(Ordering::Relaxed))
    }

    #[inline]
    pub(crate) fn set(&self, what: WaitingFor) {
        self.0.store(what.encode(), Ordering::Relaxed);
    }
}
