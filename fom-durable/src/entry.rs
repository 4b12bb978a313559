//! The numbers of entries in the journal: each fom, event and outcome has the number of its id.

use fom_journal::EntryId;
use fom_runtime::{__durability::fom_id, FomId};

/// Returns the fom of an entry.
pub(crate) fn fom_of(entry: EntryId) -> FomId {
    fom_id(entry.0 - EntryId::HEAD.0)
}

/// Returns the entry of a fom.
pub(crate) fn entry_of(fom: FomId) -> EntryId {
    EntryId(EntryId::HEAD.0 + fom.get())
}
