//! What a submission does if its key is not free.

/// What happens to a submission if its key is not free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// It is refused.
    #[default]
    Refuse,
    /// It waits behind those that came before it.
    Queue {
        /// Whether the fom may have the key together with other sharing foms.
        shares: bool,
        /// What happens if as many wait as may.
        full: Full,
    },
    /// It has the key together with the fom that submits it.
    Chain,
}

impl Order {
    /// Returns whether the submission waits for its turn.
    pub(crate) fn queues(self) -> bool {
        matches!(self, Self::Queue { .. })
    }
}

/// What happens to a submission if as many wait for its key as may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// It is refused.
    Refuse,
    /// The fom that has waited longest makes room for it.
    Shed,
    /// It waits: a place is kept for it, or it is in the journal already.
    Ignore,
}
