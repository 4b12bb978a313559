//! What a cancel does to a fom, decided without effects.

#[cfg(all(test, not(fom_shuttle)))]
mod tests;

use crate::graph::OnCancel;

/// A fom that a caller has cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CancelledFom {
    /// The caller called `abort`.
    pub(super) aborted: bool,
    /// A cancel was a transition of the fom before.
    pub(super) heard: bool,
    /// The fom has taken the way out of a phase with `cancelled`.
    pub(super) turned_back: bool,
    /// A phase function has run, in this process.
    pub(super) begun: bool,
    /// The way out of this visit was taken.
    pub(super) leaves: bool,
    /// What the phase declares.
    pub(super) phase: OnCancel,
}

/// What happens to a cancelled fom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CancelEffect {
    /// The fom leaves its phase now: it ends, or takes the way out of a phase with `cancelled`.
    Interrupts,
    /// The fom goes on, and a later phase hears the cancel.
    Waits,
    /// The fom goes on, and no phase hears the cancel.
    Nothing,
}

impl CancelledFom {
    pub(super) fn effect(self) -> CancelEffect {
        match self {
            Self { aborted: true, .. } => CancelEffect::Interrupts,
            Self { heard: true, .. } => CancelEffect::Nothing,
            // The way out of its phase has begun.
            Self {
                turned_back: true,
                leaves: true,
                ..
            } => CancelEffect::Waits,
            Self {
                phase: OnCancel::TurnsBack,
                ..
            } => CancelEffect::Interrupts,
            Self {
                turned_back: true, ..
            } => CancelEffect::Waits,
            // A fom that has not begun has nothing to finish.
            Self {
                phase: OnCancel::Waits,
                begun: true,
                ..
            } => CancelEffect::Waits,
            Self { .. } => CancelEffect::Interrupts,
        }
    }
}
