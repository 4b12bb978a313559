//! The priorities of foms.

/// Decides which of the ready foms of a locality runs first. Foms of one priority run first in, first out.
///
/// The preference is bounded: one pick in sixteen goes to the lowest priority that has work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Runs before all others.
    High = 0,
    /// The default.
    #[default]
    Normal = 1,
    /// Runs after all others.
    Low = 2,
}

impl Priority {
    /// The number of values that its bits can hold.
    pub(crate) const VALUES: usize = 4;
}
