//! The number of an entry.

use std::fmt;

/// The number of an entry. The caller that puts the entry chooses the number, and never uses it for something else
/// afterwards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(pub u64);

impl EntryId {
    /// [`Journal::recover`](crate::Journal::recover) passes entries below this number first: they say how to read the
    /// others.
    pub const HEAD: Self = Self(1 << 16);
}

impl fmt::Debug for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EntryId({})", self.0)
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
