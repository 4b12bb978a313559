//! What learns of the end of a fom: a part of its home, and the guard of its submission.

use crate::fom::{Cold, Header};

/// The place of a part in a locality. No other part of this process has an equal place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartPlace {
    pub(crate) at: u32,
    pub(crate) id: u64,
}

/// A part of the fom's home, and the number by which the part knows the fom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartTicket {
    pub(crate) part: PartPlace,
    pub(crate) number: u64,
}

/// What learns of the end of this fom.
#[derive(Clone, Copy)]
pub(crate) struct EndTicket<'a>(pub(super) &'a Header);

impl EndTicket<'_> {
    /// Sets the part that learns of the end of the fom. It is called on the thread that has the core.
    pub(crate) fn set_part(self, ticket: PartTicket) {
        *self.0.cold_made().ties_made().part.lock() = Some(ticket);
    }

    /// Drops the guard of a fom that ends, or cannot be stopped.
    #[cold]
    pub(super) fn give_guard(self) {
        let initial = self.0.cold().and_then(|cold| cold.initial.as_ref());
        if let Some(guard) = initial.and_then(|it| it.take_guard()) {
            self.0.fenced("while its end was told", || drop(guard));
        }
    }

    /// Gives the guard and the ticket of the part back, which tells waiters for the end of this fom or of all foms.
    #[cold]
    pub(crate) fn give(self) {
        self.give_guard();
        let ties = self.0.cold().and_then(Cold::ties);
        let part = ties.and_then(|ties| ties.part.lock().take());
        if let Some(ticket) = part {
            self.0.fenced("while its end was told", || {
                self.0.env().host().part_ended(ticket);
            });
        }
    }
}
