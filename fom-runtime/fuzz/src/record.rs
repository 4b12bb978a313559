//! The entries of a journal: foms, schemas, outcomes, events.

use fom_durable::{DurableBuilderExt as _, journal::EntryId};
use fom_runtime::{Runtime, snapshot::RestoreError};

use super::{archive::unpack, memory::bounded};

/// Returns the entry for the number of a piece. Numbers below 128 are the entries that come first.
pub(super) fn entry_of(piece: u8) -> EntryId {
    match piece {
        0..128 => EntryId(u64::from(piece)),
        _ => EntryId(EntryId::HEAD.0 + u64::from(piece)),
    }
}

/// Returns the number of the piece for an entry, if there is one.
pub(super) fn piece_of(entry: EntryId) -> Option<u8> {
    let piece = match entry < EntryId::HEAD {
        true => entry.0,
        false => entry.0 - EntryId::HEAD.0 + 128,
    };
    u8::try_from(piece).ok()
}

/// Fuzzes an [archive](super::archive) of entries. Each is read, or quarantined for a reason; none causes a panic.
pub fn record(bytes: &[u8]) {
    let entries = unpack(bytes);
    let builder = Runtime::builder();
    let check = bounded(bytes, || {
        let mut entries: Vec<_> = entries
            .into_iter()
            .map(|(piece, bytes)| (entry_of(piece), bytes))
            .collect();
        entries.sort_by_key(|(id, _)| *id);
        builder.check_hostile_entries(&entries)
    });
    for quarantined in &check.quarantine {
        let panicked = matches!(quarantined.reason, RestoreError::Panicked(_));
        assert!(!panicked, "{quarantined}");
        let _ = quarantined.snapshot();
    }
    assert!(!check.to_string().is_empty());
}
