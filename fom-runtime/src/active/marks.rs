//! How long the activation list may become, and who is told when it does.

use std::fmt;

/// What is done with a call when the activation list is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// It is answered [`CallError::Full`](crate::active::CallError::Full) at once, with its arguments.
    #[default]
    Refuse,
    /// It waits until there is room, in the order of the calls. Until then its request is kept by the [`Call`](crate::active::Call):
    /// who drops that takes the request back. So what waits for room is bounded by the calls that somebody holds.
    Wait,
}

/// How full an activation list is, between two marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pressure {
    /// It has not reached the high mark since it was at the low one.
    Low,
    /// It has reached the high mark, and since then not been down to the low one.
    High,
}

/// Told when the pressure changes.
pub(super) struct Tell(pub(super) Box<dyn Fn(Pressure) + Send + Sync>);

impl fmt::Debug for Tell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tell")
    }
}

/// What a list is bounded by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Requests that wait.
    pub(super) capacity: usize,
    /// What does not go in waits outside.
    pub(super) waits: bool,
    /// The high mark and the low one.
    pub(super) marks: Option<(usize, usize)>,
}
