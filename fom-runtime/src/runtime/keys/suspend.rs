//! Keys that are suspended, and who a key is.

use std::{
    any::TypeId,
    fmt,
    sync::{Arc, Weak},
};

use crate::{
    fom::{Barred, Header, Standing},
    id::Key,
    operation::Operation,
    runtime::{Runtime, World},
};

impl Runtime {
    /// Suspends a key of an operation type: whoever has it goes on to its end, and then nobody gets it. Those that
    /// [wait](crate::Submission::queue) for it keep their order, others wait behind them, and what would not wait is
    /// [refused](crate::RefusedReason::KeySuspended). No thread is held, and other keys go on.
    ///
    /// It counts: the key goes on when it was resumed as often as it was suspended, by whomever and wherever. What waits meanwhile is
    /// in flight: a drain of the runtime waits for it, up to its limit, and then answers it with
    /// [`Cause::Shutdown`](crate::Cause::Shutdown). Suspended keys are listed in [`Operations::keys`](crate::Operations).
    ///
    /// A suspension is not in the journal. What comes back after a restart has its key.
    ///
    /// ```
    /// # use fom_runtime::prelude::*;
    /// # struct Book;
    /// # #[fom(operation(Book), transient)]
    /// # enum Booking {
    /// #     #[phase(start, sync, to(Booked))]
    /// #     Add,
    /// #     #[phase(end)]
    /// #     Booked,
    /// # }
    /// # impl BookingTransitions for Book {
    /// #     fn add(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> { Ok(()) }
    /// # }
    /// # async fn close(runtime: &Runtime) {
    /// let suspended = runtime.suspend_key::<Book>("account 7");
    /// if let Some(last) = runtime.find::<Book>("account 7") {
    ///     // To wait for no phase is to wait for the end: from here on nothing of this key runs.
    ///     last.reached([]).await;
    /// }
    /// suspended.resume();
    /// # }
    /// ```
    pub fn suspend_key<O: Operation>(&self, key: impl Into<Key>) -> SuspendedKey {
        let of = (TypeId::of::<O>(), key.into());
        self.world.directory.suspend::<O>(of.clone());
        SuspendedKey {
            world: Arc::downgrade(&self.world),
            of,
        }
    }

    /// Whether this thread is inside the turn of this key: it runs a fom of type `O` that has it, also in a blocking section, or one
    /// that was [chained](crate::Submission::chain) to it. False in what such a fom has spawned elsewhere.
    pub fn is_current<O: Operation>(&self, key: impl Into<Key>) -> bool {
        let of = (TypeId::of::<O>(), key.into());
        let current = crate::locality::running(&self.world, |fom| fom.has_key(&of));
        current == Some(true)
    }
}

/// A key that is suspended, until this is dropped; see [`Runtime::suspend_key`].
#[must_use = "the key is resumed when this is dropped"]
pub struct SuspendedKey {
    world: Weak<World>,
    of: (TypeId, Key),
}

impl fmt::Debug for SuspendedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SuspendedKey({})", self.of.1)
    }
}

impl SuspendedKey {
    /// Resumes it, as dropping it does.
    pub fn resume(self) {}
}

impl Drop for SuspendedKey {
    fn drop(&mut self) {
        if let Some(world) = self.world.upgrade() {
            world.directory.resume(&world, self.of.clone());
        }
    }
}

impl Header {
    /// The fom that runs on this thread waits for this one: which never begins if it waits for the key that the other has.
    pub(crate) fn bar_if_stuck(&self) {
        let Standing::Waits(_) = self.standing() else {
            return;
        };
        let world = self.world();
        let Some(key) = self.key() else { return };
        let of = (self.type_id(), key.clone());
        if crate::locality::running(world, |fom| fom.has_key(&of)) == Some(true) {
            world.directory.bar(self, Barred::Stuck);
        }
    }
}
