//! The outbox of the current visit: what durability sends when the transition is made.

use crate::fom::{Cold, Header, durability::Effects};

/// The outbox of this fom. Only the thread that runs the fom uses it.
#[derive(Clone, Copy)]
pub(crate) struct Outbox<'a>(pub(super) &'a Header);

impl Outbox<'_> {
    /// Calls `f` with the outbox, if there is one.
    #[inline]
    pub(crate) fn with<R>(self, f: impl FnOnce(&mut dyn Effects) -> R) -> Option<R> {
        let mut outbox = self.0.cold()?.rare()?.outbox.lock();
        outbox.as_deref_mut().map(f)
    }

    /// Calls `f` with the outbox, which is made by `make` if there is none.
    pub(crate) fn with_made(
        self,
        make: impl FnOnce() -> Box<dyn Effects>,
        f: impl FnOnce(&mut dyn Effects),
    ) {
        self.0.flags.note();
        let mut outbox = self.0.cold_made().rare_made().outbox.lock();
        f(&mut **outbox.get_or_insert_with(make));
    }

    /// Sends the outbox. The transition is made, and committed if the fom is kept in a journal.
    #[inline]
    pub(crate) fn send(self) {
        if let Some(outbox) = self.take() {
            outbox.send(self.0);
        }
    }

    /// Drops the outbox, because the phase function failed.
    pub(crate) fn discard(self) {
        if let Some(outbox) = self.take() {
            outbox.discard(self.0);
        }
    }

    #[inline]
    fn take(self) -> Option<Box<dyn Effects>> {
        self.0.cold().and_then(Cold::rare)?.outbox.lock().take()
    }
}
