//! The handles of listeners and interposers.

use std::{any::TypeId, fmt, sync::Weak};

use crate::runtime::Shared;

/// An attached listener. Dropping this removes it.
#[must_use = "the listener is taken off when this is dropped"]
pub struct Listening {
    pub(crate) shared: Weak<Shared>,
    pub(crate) id: u64,
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Listening({})", self.id)
    }
}

impl Listening {
    /// Keeps the listener as long as the runtime lives.
    pub fn forever(mut self) {
        self.shared = Weak::new();
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.env.hooks.remove(self.id);
        }
    }
}

/// An interposer that is in place. It stays when this is dropped.
#[must_use = "an interposer stays until it is removed"]
pub struct Interposed {
    pub(crate) shared: Weak<Shared>,
    pub(crate) id: u64,
    pub(crate) of: TypeId,
}

impl fmt::Debug for Interposed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Interposed({})", self.id)
    }
}

/// An interposer of the same operation type was added later and must be removed first.
#[derive(Debug, thiserror::Error)]
#[error("another interposer lies on top of this one; remove that one first")]
pub struct NotOnTop(pub Interposed);

impl Interposed {
    /// Removes the interposer. Interposers are removed last in, first out.
    ///
    /// # Errors
    ///
    /// Fails with [`NotOnTop`], with the interposer still in place.
    pub fn remove(self) -> Result<(), NotOnTop> {
        let Some(shared) = self.shared.upgrade() else {
            return Ok(());
        };
        if shared.env.hooks.remove_top(self.id, self.of) {
            Ok(())
        } else {
            Err(NotOnTop(self))
        }
    }
}
