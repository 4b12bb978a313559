//! Work in front of the localities, which is not a fom yet.

use std::{fmt, ptr};

use fom_protocol::sync::atomic::{AtomicUsize, Ordering};

#[cfg(doc)]
use crate::runtime::Local;
use crate::{
    locality::{Home, Locality},
    runtime::{Runtime, Shared, extension::Extension},
};

/// Counts work that is in flight and is not a fom yet, such as a queue in front of the localities. A drain waits for
/// this work. The drop removes what is left.
#[derive(Debug)]
pub struct PendingWork {
    runtime: Runtime,
    count: AtomicUsize,
}

impl Extension<'_> {
    /// Returns a count of pending work, at zero.
    pub fn pending_work(self) -> PendingWork {
        PendingWork {
            runtime: self.runtime.detached(),
            count: AtomicUsize::new(0),
        }
    }

    /// Returns a count of work for the locality with this index.
    ///
    /// # Panics
    ///
    /// Panics if there is no such locality.
    pub fn local_work(self, locality: usize) -> LocalWork {
        LocalWork {
            home: Home::new(self.runtime.shared.env.owned(), locality),
        }
    }
}

impl PendingWork {
    /// Adds one piece of work. If the caller asks [`Extension::is_accepting`] after this, a shutdown that begins
    /// meanwhile either waits for this piece, or the caller learns of the shutdown.
    pub fn enter(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.runtime.shared.queued.one_sent();
    }

    /// Removes pieces of work that have become foms, or were given up, at most as many as there are. A fom must be
    /// submitted before this call.
    pub fn leave(&self, pieces: usize) {
        let less = |count: usize| Some(count.saturating_sub(pieces));
        let order = Ordering::Relaxed;
        // The function never refuses.
        let (Ok(before) | Err(before)) = self.count.fetch_update(order, order, less);
        self.runtime.shared.queued.back(before.min(pieces) as u64);
        self.runtime.shared.tell_idle();
    }
}

impl Drop for PendingWork {
    fn drop(&mut self) {
        let left = self.count.load(Ordering::Relaxed);
        if left > 0 {
            self.leave(left);
        }
    }
}

/// Counts work for one locality that is not a fom yet. A drain waits for this work.
pub struct LocalWork {
    home: Home,
}

impl fmt::Debug for LocalWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalWork({})", self.home.index)
    }
}

/// Pieces of work that a [`LocalWork`] counts. A value that is dropped stays counted: give it to [`LocalWork::leave`],
/// [`Local::leave`] or [`Turn::run_here`](crate::extension::Turn::run_here) of the same locality.
#[derive(Debug, Default)]
#[must_use = "pieces that are dropped stay counted"]
pub struct Pieces {
    count: usize,
    /// The address of the locality, or zero if there are no pieces.
    of: usize,
}

impl Pieces {
    /// Returns the number of pieces.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Adds the other pieces to these.
    ///
    /// # Panics
    ///
    /// Panics if the other pieces are of another locality.
    #[inline]
    pub fn append(&mut self, other: Self) {
        if self.count == 0 {
            *self = other;
        } else if other.count > 0 {
            assert_eq!(self.of, other.of, "pieces of another locality");
            self.count += other.count;
        }
    }

    /// Returns the number of pieces, which are of this locality.
    #[inline]
    pub(super) fn count_in(&self, home: &Locality) -> usize {
        let here = ptr::from_ref(home).addr() == self.of;
        assert!(here || self.count == 0, "pieces of another locality");
        self.count
    }

    /// Takes out this many pieces, at most as many as there are.
    #[inline]
    pub fn split(&mut self, pieces: usize) -> Self {
        let count = pieces.min(self.count);
        self.count -= count;
        Self { count, of: self.of }
    }
}

impl LocalWork {
    /// Adds pieces of work. Returns `None`, and adds nothing, if the runtime takes no submission of this thread; see
    /// [`Extension::is_accepting`]. A shutdown that begins meanwhile waits for these pieces, or this call returns
    /// `None`.
    #[inline]
    pub fn enter(&self, pieces: usize) -> Option<Pieces> {
        let late = || Shared::behind(self.home.env()).is_late();
        if self.home.counts.sent(pieces as u64, late) {
            self.take_back(pieces);
            return None;
        }
        let of = ptr::from_ref::<Locality>(&self.home).addr();
        Some(Pieces { count: pieces, of })
    }

    /// Removes pieces of work that were given up, on any thread.
    ///
    /// # Panics
    ///
    /// Panics if the pieces are of another locality.
    #[cold]
    pub fn leave(&self, pieces: Pieces) {
        self.take_back(pieces.count_in(&self.home));
    }

    fn take_back(&self, pieces: usize) {
        self.home.take_back_all(pieces as u64);
        self.home.localities().tell_idle();
    }
}
