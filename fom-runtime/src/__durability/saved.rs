//! Saved foms as bytes.

use std::sync::Arc;

use serde::Deserialize;

use crate::{
    FomId,
    id::KeyOf,
    machine::Graph,
    operation::Operation,
    snapshot::{
        Encoded, Quarantined, RestoreError, SavedValues, Snapshot, encoding,
        quarantined::SavedBody, schema::Schema,
    },
};

/// Reads a value. Returns `None` if the bytes are no such value.
pub fn decode<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Option<T> {
    encoding::decode(bytes).ok()
}

/// Returns operation and phase as bytes, with the schema to read them by.
pub fn encoded<'a>(schema: &'a Schema, bytes: &'a [u8]) -> Encoded<'a> {
    Encoded { schema, bytes }
}

/// Returns an entry of which only the bytes are known.
pub fn unread(id: FomId, reason: RestoreError, bytes: &[u8]) -> Quarantined {
    Quarantined::unread(id, reason, bytes)
}

/// Says how operation and phase in the bytes of an entry are read, from the byte `from` on.
pub fn set_saved(quarantined: &mut Quarantined, schema: Arc<Schema>, from: usize, attempt: u32) {
    quarantined.saved = Some(SavedBody {
        schema,
        from,
        attempt,
    });
}

/// Returns the values in a snapshot, without a copy of them, and the names of the secrets.
pub fn snapshot_values(snapshot: &Snapshot) -> Option<(SavedValues<'_>, Vec<String>)> {
    snapshot.values()
}

/// Returns the key for which the quarantined fom keeps its place.
pub fn place_of(quarantined: &Quarantined) -> Option<&KeyOf> {
    quarantined.place.as_ref()
}

/// Sets the key for which the quarantined fom keeps its place.
pub fn set_place(quarantined: &mut Quarantined, place: Option<KeyOf>) {
    quarantined.place = place;
}

/// Returns the index of the phase that has this name, or had it.
pub fn place_ever(graph: &Graph, name: &str) -> Option<usize> {
    graph.place_ever(name)
}

/// Returns the phase that has this name, or had it.
pub fn kind_ever<O: Operation>(name: &str) -> Option<O::Kind> {
    O::GRAPH.place_ever(name).map(O::kind_at)
}
