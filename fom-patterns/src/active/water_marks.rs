//! Limits of the activation list, and reports of how full it is.

use std::fmt;

/// The result of a call when the activation list is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenFull {
    /// The call fails at once with [`ActiveCallError::Full`](crate::active::ActiveCallError::Full), which holds the
    /// arguments.
    #[default]
    Refuse,
    /// The call waits for room, by priority and then in the order of the calls. Until there is room, the
    /// [`Call`](crate::active::Call) keeps the request, and dropping the `Call` takes the request back. So the `Call`s
    /// that callers hold bound the number of requests that wait for room. After
    /// [`Call::then`](crate::active::Call::then), the request waits without a `Call`.
    Wait,
}

/// The fill level of an activation list, between two marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pressure {
    /// The list has not reached the high mark since it was last at the low mark.
    Low,
    /// The list has reached the high mark, and has not come down to the low mark since.
    High,
}

/// The function to call when the pressure changes.
pub(super) struct Tell(pub(super) Box<dyn Fn(Pressure) + Send + Sync>);

impl fmt::Debug for Tell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tell")
    }
}

/// The limits of an activation list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The number of requests that can wait.
    pub(super) capacity: usize,
    /// Whether requests without room wait outside.
    pub(super) waits: bool,
    /// The high mark and the low mark.
    pub(super) marks: Option<(usize, usize)>,
}
