//! A wait until an operation has ended, by its operation id; and how it ended, as bytes for another process.

use std::{any::TypeId, sync::Arc};

use serde::{Deserialize, Serialize};

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

/// The bytes of a [`SavedEnd`]: a snapshot, or the cause and the phase of a failure.
#[derive(Serialize, Deserialize)]
enum Form {
    Ended(Vec<u8>),
    Failed(String, String),
}

impl SavedEnd {
    /// Returns the end as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let form = match &*self.0 {
            Stored::Ended(snapshot) => Form::Ended(snapshot.as_bytes().to_vec()),
            Stored::Failed { cause, phase } => Form::Failed(cause.clone(), phase.clone()),
        };
        // Text and bytes cannot fail to encode.
        seam::encode(&form).unwrap_or_default()
    }

    /// Reads the bytes of [`to_bytes`](Self::to_bytes).
    ///
    /// # Errors
    ///
    /// Fails if the bytes are damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RestoreError> {
        let stored = match seam::leading(bytes).map_err(|_| RestoreError::Damaged)? {
            (Form::Ended(snapshot), []) => Stored::Ended(Snapshot::from_bytes(snapshot)?),
            (Form::Failed(cause, phase), []) => Stored::Failed { cause, phase },
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
