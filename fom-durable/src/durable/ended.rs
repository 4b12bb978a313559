//! A wait until an operation has ended, by its operation id; and how it ended, as bytes for another process.

use std::{any::TypeId, sync::Arc};

use crate::durable::{Durable, Open, Passive, Seen, Stored};
use fom_runtime::{
    __durability::{self as seam, Shared},
    Failure, Key, Persistent,
    snapshot::{RestoreError, Snapshot},
    submission::Ended,
};

/// How an operation ended, in a form that another process can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedEnd(Arc<Stored>);

/// The first byte of a saved end: a snapshot follows.
const ENDED: u8 = 0;
/// The first byte of a saved failure: its cause and its phase follow.
const FAILED: u8 = 1;

impl SavedEnd {
    /// Returns the end as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        match &*self.0 {
            Stored::Ended(snapshot) => [&[ENDED], snapshot.as_bytes()].concat(),
            Stored::Failed { cause, phase } => {
                // Two texts cannot fail to encode.
                let told = seam::encode(&(cause, phase)).unwrap_or_default();
                [&[FAILED], &*told].concat()
            }
        }
    }

    /// Reads the bytes of [`to_bytes`](Self::to_bytes).
    ///
    /// # Errors
    ///
    /// Fails if the bytes are damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RestoreError> {
        let stored = match bytes.split_first() {
            Some((&ENDED, snapshot)) => Stored::Ended(Snapshot::from_bytes(snapshot.to_vec())?),
            Some((&FAILED, told)) => {
                let told = seam::leading(told).map_err(|_| RestoreError::Damaged)?;
                let ((cause, phase), []) = told else {
                    return Err(RestoreError::Damaged);
                };
                Stored::Failed { cause, phase }
            }
            _ => return Err(RestoreError::Damaged),
        };
        Ok(Self(Arc::new(stored)))
    }

    /// Returns the end phase and the operation, or the failure.
    ///
    /// # Errors
    ///
    /// The failure has [`Cause::Remembered`](fom_runtime::Cause::Remembered) and no operation. It has
    /// [`Cause::Unread`](fom_runtime::Cause::Unread) if this release cannot read how the operation ended.
    pub fn outcome<O: Persistent>(&self) -> Result<Ended<O>, Failure<O>> {
        let open: Open<O> = O::restore;
        seam::told(self.0.outcome(open))
    }
}

/// The answer of [`DurableExt::ended`](crate::DurableExt::ended).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// The operation has ended.
    Saved(SavedEnd),
    /// The operation is in the journal, and cannot go on for now; see
    /// [`quarantine`](crate::DurableExt::quarantine).
    Quarantined,
    /// No operation of this type has this id, or its outcome is not remembered any more.
    Unknown,
    /// The runtime ends, or its journal failed. The operation may go on in another process.
    Interrupted,
}

/// Waits for the end of an operation.
pub(super) async fn ended<O: Persistent>(shared: &Shared, id: Key) -> End {
    let durable = Durable::of(shared);
    let place = (TypeId::of::<O>(), id);
    loop {
        let seen = durable.memory.lock(durable.journal_now()).look(&place);
        let told = match seen {
            // A runtime that ends forgets the operations that go on in another process.
            Seen::Never if seam::is_closed(shared) => return End::Interrupted,
            Seen::Never => return End::Unknown,
            Seen::Quarantined => return End::Quarantined,
            Seen::Ended(_, answer) => return End::Saved(SavedEnd(answer)),
            Seen::Live(_, told) => told,
            // Only a fom in memory tells of its end.
            Seen::Rests(id) => {
                if seam::is_late(shared) || Passive::is_reviving() {
                    return End::Interrupted;
                }
                if !durable.passive.revive(shared, id) {
                    // Another thread brings it back.
                    fom_protocol::sync::yield_now();
                }
                continue;
            }
        };
        return match told.await {
            Ok(Ok(answer)) => End::Saved(SavedEnd(answer)),
            Ok(Err(_)) | Err(_) => End::Interrupted,
        };
    }
}
