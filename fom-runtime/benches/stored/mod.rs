//! What the questions of durability store, and where: a record for each operation, in a raw file (the limit) or a
//! store.

mod journal;
mod peers;
mod raw;

use std::path::Path;

use kit::mix;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// The part of a record that changes with every transition.
pub(crate) const STATE: usize = 134;
/// A record is an id of 16 bytes and the state.
pub(crate) const RECORD: usize = 16 + STATE;

/// Bytes in place, also where serde saves them.
pub(crate) struct State(pub(crate) [u8; STATE]);

impl State {
    /// Returns the state at the beginning of an operation.
    pub(crate) fn new(id: u64) -> Self {
        let mut state = [0; STATE];
        for (n, part) in state.chunks_exact_mut(8).enumerate() {
            part.copy_from_slice(&mix(id + n as u64).to_le_bytes());
        }
        Self(state)
    }

    /// Changes the state as a transition does.
    pub(crate) fn change(&mut self) {
        let part = &mut self.0[..8];
        let x = u64::from_le_bytes((&*part).try_into().expect("8 bytes"));
        part.copy_from_slice(&mix(x).to_le_bytes());
    }
}

impl Serialize for State {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for State {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let bytes = <&[u8]>::deserialize(from)?;
        let state = bytes.try_into().map(Self);
        state.map_err(|_| D::Error::custom("another length"))
    }
}

/// One change of the stored records, applied as a whole or not at all.
pub(crate) struct Change<'a> {
    /// The id, which rises with time, as a fom's does.
    pub(crate) id: u64,
    pub(crate) state: &'a [u8; STATE],
    /// The operation that ended with this change.
    pub(crate) ended: Option<u64>,
}

impl Change<'_> {
    fn record(&self) -> [u8; RECORD] {
        let mut record = [0; RECORD];
        record[..16].copy_from_slice(&key(self.id));
        record[16..].copy_from_slice(self.state);
        record
    }
}

/// Returns a key that sorts as the id does.
fn key(id: u64) -> [u8; 16] {
    u128::from(id).to_be_bytes()
}

/// Keeps records on the disk.
pub(crate) trait Store: Send {
    /// Writes the changes with one sync. All of them are on the disk when it returns.
    fn commit(&mut self, changes: &mut dyn Iterator<Item = Change<'_>>);

    /// Passes the state of each record, or of each change in order, with `None` for an end.
    fn read(&mut self, each: &mut dyn FnMut(u64, Option<&[u8]>));
}

/// Opens the store of this peer in this folder, with its present content.
pub(crate) fn open(peer: &str, folder: &Path, room: u64) -> Option<Box<dyn Store>> {
    Some(match peer {
        "limit" | "limit:alone" | "limit:2" => Box::new(raw::Raw::open(folder, room)),
        "fom:journal" => Box::new(journal::Journal::open(folder)),
        "fjall" => Box::new(peers::Fjall::open(folder)),
        "redb" => Box::new(peers::Redb::open(folder)),
        _ => return None,
    })
}
