//! Suspended keys, and whether a thread is inside the turn of a key.

use std::{
    any::TypeId,
    fmt,
    sync::{Arc, Weak},
};

use crate::{
    fom::{Header, KeyWait, Rejected},
    id::{Key, KeyOf},
    operation::Operation,
    runtime::{Runtime, Shared},
};

impl Runtime {
    /// Suspends a key of an operation type. A fom that has the key goes on to its end, and then no fom gets it.
    ///
    /// Foms that [wait](crate::Submission::queue) for the key keep their order, and others wait behind them. A
    /// submission that would not wait is [refused](crate::error::RefusedReason::KeySuspended). No thread is held, and
    /// other keys go on.
    ///
    /// Suspensions count: the key goes on when it was resumed as often as it was suspended, from anywhere. The foms
    /// that wait meanwhile are in flight. A drain of the runtime waits for them, up to its limit, and then answers them
    /// with [`Cause::Shutdown`](crate::Cause::Shutdown). [`Operations::keys`](crate::observe::Operations) lists
    /// suspended keys.
    ///
    /// A suspension is not in the journal. A fom that comes back after a restart has its key.
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
        suspend::<O>(&self.shared, KeyOf::key(TypeId::of::<O>(), key.into()))
    }

    /// Suspends a [series](crate::Submission::serial) of an operation type, as [`suspend_key`](Self::suspend_key) does
    /// with a key.
    pub fn suspend_serial<O: Operation>(&self, name: impl Into<Key>) -> SuspendedKey {
        suspend::<O>(&self.shared, KeyOf::serial(TypeId::of::<O>(), name.into()))
    }

    /// Returns whether this thread is inside the turn of this key. Then it runs a fom of type `O` that has the key, or a
    /// fom [chained](crate::Submission::chain) to that fom. Blocking sections count. Threads and tasks that such a fom
    /// has spawned are outside.
    pub fn is_current<O: Operation>(&self, key: impl Into<Key>) -> bool {
        let of = KeyOf::key(TypeId::of::<O>(), key.into());
        let current =
            crate::fom::hand::context::running(&self.shared.env, |fom| fom.turn().has_key(&of));
        current == Some(true)
    }
}

fn suspend<O: Operation>(shared: &Arc<Shared>, of: KeyOf) -> SuspendedKey {
    shared.key_index.suspend::<O>(of.clone());
    SuspendedKey {
        shared: Arc::downgrade(shared),
        of,
    }
}

/// A suspended key, until this is dropped; see [`Runtime::suspend_key`].
#[must_use = "the key is resumed when this is dropped"]
pub struct SuspendedKey {
    shared: Weak<Shared>,
    of: KeyOf,
}

impl fmt::Debug for SuspendedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SuspendedKey({})", self.of.key)
    }
}

impl SuspendedKey {
    /// Resumes the key, as the drop of this value does.
    pub fn resume(self) {}
}

impl Drop for SuspendedKey {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.key_index.resume(&shared, self.of.clone());
        }
    }
}

/// The fom that runs on this thread waits for `fom`. Bars `fom` if it waits for the key that the running fom has,
/// because then it never begins.
pub(in crate::runtime) fn bar_if_stuck(fom: &Header) {
    let KeyWait::Waits(_) = fom.turn().key_wait() else {
        return;
    };
    let shared = Shared::of(fom);
    let Some(of) = fom.turn().own() else { return };
    if crate::fom::hand::context::running(&shared.env, |fom| fom.turn().has_key(&of)) == Some(true)
    {
        shared.key_index.bar(fom, Rejected::Stuck);
    }
}
