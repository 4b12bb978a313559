//! The ticket of a fom: the value or the part that learns of its end.

use std::any::Any;

use crate::fom::{Cold, Header};
use fom_protocol::sync::Mutex;

/// The value or the part that learns when a fom has ended in any way, or could not be made.
pub(crate) enum Ticket {
    /// A value that is dropped. The drop returns what was lent to the fom.
    Guard(Box<dyn Any + Send>),
    /// A part of the home, which is called on the thread that has the core.
    Part(PartTicket),
}

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

/// The [`Ticket`] of this fom.
#[derive(Clone, Copy)]
pub(crate) struct EndTicket<'a>(pub(super) &'a Header);

impl EndTicket<'_> {
    /// Sets the part that learns of the end of the fom.
    pub(crate) fn set_part(self, ticket: PartTicket) {
        if self.0.cold().is_none() {
            let mut new = Box::<Cold>::default();
            new.ticket = Mutex::new(Some(Ticket::Part(ticket)));
            let new_at: *const Cold = &raw const *new;
            if std::ptr::eq(self.0.cold.or(new), new_at) {
                return;
            }
        }
        *self.0.cold_made().ticket.lock() = Some(Ticket::Part(ticket));
    }

    /// Drops the guard of a fom that cannot be stopped.
    #[cold]
    pub(super) fn give_guard(self) {
        let guard = self.0.cold().and_then(|cold| {
            let is_guard = |ticket: &mut Ticket| matches!(ticket, Ticket::Guard(_));
            cold.ticket.lock().take_if(is_guard)
        });
        if let Some(guard) = guard {
            self.0.fenced("while its end was told", || drop(guard));
        }
    }

    /// Gives the ticket back, which tells waiters for the end of this fom or of all foms.
    #[cold]
    pub(crate) fn give(self) {
        let ticket = self.0.cold().and_then(|cold| cold.ticket.lock().take());
        let Some(ticket) = ticket else { return };
        match ticket {
            Ticket::Guard(guard) => self.0.fenced("while its end was told", || drop(guard)),
            Ticket::Part(ticket) => {
                self.0.fenced("while its end was told", || {
                    self.0.env().host().part_ended(ticket)
                });
            }
        }
    }
}
