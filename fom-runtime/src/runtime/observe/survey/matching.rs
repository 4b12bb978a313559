//! The foms that a filter covers, to act on them.

use std::{fmt, sync::Arc};

use super::{Filter, walk};
use crate::{
    fom::{AnyRef, Carried},
    id::FomId,
    locality,
    runtime::{Shared, observe::FomInfo, observe::fom_info},
};

/// A fom that [`Inspect::matching`](crate::observe::Inspect::matching) found.
pub struct MatchingFom(AnyRef);

impl fmt::Debug for MatchingFom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MatchingFom({})", self.0.id())
    }
}

impl MatchingFom {
    /// Returns the id of the fom.
    pub fn id(&self) -> FomId {
        self.0.id()
    }

    /// Describes the fom as it is now.
    pub fn info(&self) -> FomInfo {
        fom_info(&self.0)
    }

    /// Returns what the fom [carries](crate::Builder::carry) of this type. Returns `None` if it carries no such value.
    pub fn carried<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        Carried::of(&self.0)?.get()
    }

    /// Wakes the fom, as [`FomRef::wake`](crate::FomRef::wake) does.
    pub fn wake(self) {
        locality::at_home_of(self.0, |fom| fom.wake_to_retry());
    }

    /// Cancels the fom, as [`FomRef::cancel`](crate::FomRef::cancel) does.
    pub fn cancel(self) {
        locality::at_home_of(self.0, |fom| fom.cancel());
    }
}

/// Returns the foms that the filter covers and `choose` takes.
pub(in crate::runtime) fn matching(
    shared: &Shared,
    filter: &Filter,
    mut choose: impl FnMut(&MatchingFom) -> bool,
) -> Vec<MatchingFom> {
    let now = shared.env.clock.nanos();
    let mut found = Vec::new();
    walk(shared, filter, now, |_, foms| {
        foms(&mut |_, fom| {
            let fom = MatchingFom(fom);
            if choose(&fom) {
                found.push(fom);
            }
        });
    });
    found
}
