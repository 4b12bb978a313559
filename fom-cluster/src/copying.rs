//! Exports and imports under way: how far they are, and how a program waits for them.

use std::{
    cell::{Cell, RefCell},
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
};

use crate::{apart::apart, error::ClusterError};

/// An export or an import. It begins when it is awaited.
///
/// # Cancel safety
///
/// If the future is dropped, the work goes on.
#[must_use = "an export or an import begins when it is awaited"]
pub struct Copying {
    /// The name of its thread.
    name: &'static str,
    work: Work,
    tell: Tell,
}

type Work = Box<dyn FnOnce(&Told) -> Result<(), ClusterError> + Send>;
type Tell = Box<dyn FnMut(Copied) + Send>;

/// How far an export or an import is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Copied {
    /// The entries that are written.
    pub entries: u64,
    /// The bytes of these entries.
    pub bytes: u64,
    /// The slots that are complete.
    pub slots: u16,
    /// All slots.
    pub of: u16,
}

impl fmt::Debug for Copying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Copying").field(&self.name).finish()
    }
}

impl Copying {
    pub(crate) fn new(
        name: &'static str,
        work: impl FnOnce(&Told) -> Result<(), ClusterError> + Send + 'static,
    ) -> Self {
        Self {
            name,
            work: Box::new(work),
            tell: Box::new(|_| {}),
        }
    }

    /// Calls `tell` whenever some megabytes are written, and for each slot that is complete. An export that begins anew
    /// counts from zero again.
    ///
    /// `tell` runs on the thread that copies. If it panics, the export or the import fails.
    pub fn on_progress(mut self, tell: impl FnMut(Copied) + Send + 'static) -> Self {
        self.tell = Box::new(tell);
        self
    }
}

impl IntoFuture for Copying {
    type Output = Result<(), ClusterError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { name, work, tell } = self;
        Box::pin(async move {
            let told = Told {
                copied: Cell::default(),
                tell: RefCell::new(tell),
            };
            let copied = apart(name, move || work(&told));
            copied.await.map_err(ClusterError::Failed)?
        })
    }
}

/// The caller, as the copying thread knows it.
pub(crate) struct Told {
    copied: Cell<Copied>,
    tell: RefCell<Tell>,
}

impl Told {
    /// Notes the beginning of a copy of so many slots.
    pub(crate) fn begins(&self, of: u16) {
        self.copied.set(Copied {
            of,
            ..Copied::default()
        });
    }

    /// Notes that entries were written.
    pub(crate) fn wrote(&self, entries: usize, bytes: usize) {
        self.change(|copied| {
            copied.entries += entries as u64;
            copied.bytes += bytes as u64;
        });
    }

    /// Notes that one more slot is complete.
    pub(crate) fn completed(&self) {
        self.change(|copied| copied.slots += 1);
    }

    fn change(&self, change: impl FnOnce(&mut Copied)) {
        let mut copied = self.copied.get();
        change(&mut copied);
        self.copied.set(copied);
        (self.tell.borrow_mut())(copied);
    }
}
