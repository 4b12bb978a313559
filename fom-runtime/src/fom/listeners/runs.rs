//! What listeners are told of the runs of foms.

use std::{fmt, sync::Arc};

use crate::{
    fom::{CarriedBy, Header},
    id::{FomId, Key},
};

/// Hears of each run of each fom of a runtime: the fom has its locality from the begin to the end. Both are told on the
/// thread that runs the fom, which also runs its blocking sections meanwhile. A listener must not block. A listener that
/// panics is removed and reported in [`Operations::incidents`](crate::observe::Operations::incidents).
pub trait RunListener: Send + Sync + 'static {
    /// Hears that a run begins.
    fn begins(&self, run: &Run<'_>);

    /// Hears that the last run that began on this thread is over. The fom may have ended.
    fn ends(&self);
}

/// A run of a fom that begins.
pub struct Run<'a>(&'a Header);

impl fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Run({} {} in {})",
            self.operation(),
            self.id(),
            self.phase()
        )
    }
}

impl<'a> Run<'a> {
    pub(crate) fn of(fom: &'a Header) -> Self {
        Self(fom)
    }

    /// Returns the id of the fom.
    pub fn id(&self) -> FomId {
        self.0.id()
    }

    /// Returns the key that the fom was submitted with.
    pub fn key(&self) -> Option<&'a Key> {
        self.0.key()
    }

    /// Returns the name of the operation type.
    pub fn operation(&self) -> &'static str {
        self.0.type_name()
    }

    /// Returns the phase of the fom. For a fom that has not begun, this is its first phase.
    pub fn phase(&self) -> &'static str {
        self.0.phase_name()
    }

    /// Returns the number of failed attempts at this phase.
    pub fn attempt(&self) -> u32 {
        self.0.visit().attempt()
    }

    /// Returns the index of the locality.
    pub fn locality(&self) -> usize {
        self.0.home_index()
    }

    /// Returns the value of this type that the fom [carries](crate::Builder::carry).
    pub fn carried<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        CarriedBy(self.0).get()
    }
}
