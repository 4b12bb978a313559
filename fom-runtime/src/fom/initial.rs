//! What few foms are made with: a saved visit, a delay, and a guard.

use std::any::Any;

use crate::fom::key_wait::Delay;
use fom_protocol::sync::Mutex;

/// What few foms are made with.
pub(crate) struct Initial {
    pub(crate) saved: WasSaved,
    /// The wait before the fom may begin.
    pub(crate) delay: Option<Delay>,
    /// A value that is dropped when the fom has ended in any way, or could not be made. The drop returns what was lent to
    /// the fom.
    guard: Mutex<Option<Guard>>,
}

/// See [`Submission::guard`](crate::Submission::guard).
pub(crate) type Guard = Box<dyn Any + Send>;

/// The saved visit of a fom that is submitted again.
pub(crate) struct WasSaved {
    /// The rest of its deadline.
    pub(crate) left: Option<u64>,
    /// The number of failed attempts.
    pub(crate) tries: u32,
    /// A deadline that an earlier phase keeps over this one, on the runtime's clock, and the index of that phase.
    pub(crate) kept_deadline: Option<(u64, usize)>,
}

impl Initial {
    pub(crate) fn new(saved: WasSaved, delay: Option<Delay>, guard: Option<Guard>) -> Self {
        Self {
            saved,
            delay,
            guard: Mutex::new(guard),
        }
    }

    /// Takes the guard, which the caller drops.
    pub(super) fn take_guard(&self) -> Option<Guard> {
        self.guard.lock().take()
    }
}
