//! Slots: the parts of the keys of a cluster. And the place of an operation, which says its slot.

use std::{fmt, hash::Hasher as _};

use fom_runtime::Key;
use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;

/// The number of a slot: one of the parts into which the keys of a cluster are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Slot(pub u16);

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {}", self.0)
    }
}

/// The number of this hash. Nodes with another one are refused.
pub(crate) const HASH: u32 = 1;

/// Returns a hash of texts and numbers that is the same on each machine and in each release.
pub(crate) fn hash(parts: &[&[u8]]) -> u64 {
    let mut hasher = SipHasher13::new();
    for part in parts {
        hasher.write(&(part.len() as u64).to_le_bytes());
        hasher.write(part);
    }
    hasher.finish()
}

/// Where an operation is in the cluster, and how it is found there.
///
/// The slot of an operation comes from its series. Without a series, it comes from its key, or from the first part of a key
/// that is a pair. Without a key, it comes from its operation id. `submit`, `find`, `send` and `outcome` use the same rule.
///
/// Related operations share a slot, and so a machine, if their keys are pairs with the same first part, or if they are of one
/// series:
///
/// ```
/// use fom_cluster::Place;
///
/// let order = Place::key(("customer 7", "order 3"));
/// assert_eq!(order.slot(64), Place::key(("customer 7", "order 4")).slot(64));
/// assert_eq!(order.slot(64), Place::key("order 9").serial("customer 7").slot(64));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use = "a place only says where an operation is"]
pub struct Place {
    pub(crate) key: Option<Key>,
    pub(crate) serial: Option<Key>,
    pub(crate) once: Option<Key>,
}

impl Place {
    /// The place of the operation that has this key.
    pub fn key(key: impl Into<Key>) -> Self {
        Self {
            key: Some(key.into()),
            serial: None,
            once: None,
        }
    }

    /// The place of the operation that was submitted with this operation id. An operation that has a key, too, is found with
    /// both.
    pub fn once(id: impl Into<Key>) -> Self {
        Self {
            key: None,
            serial: None,
            once: Some(id.into()),
        }
    }

    /// Adds the series that the operation was submitted to.
    pub fn serial(mut self, series: impl Into<Key>) -> Self {
        self.serial = Some(series.into());
        self
    }

    /// Adds the operation id.
    pub fn with_once(mut self, id: impl Into<Key>) -> Self {
        self.once = Some(id.into());
        self
    }

    /// Returns the slot, in a cluster of so many slots.
    pub fn slot(&self, slots: u16) -> Slot {
        let of = self.serial.as_ref().or(self.key.as_ref());
        let (kind, key): (u8, _) = match of {
            Some(key) => (0, Some(first(key))),
            None => (1, self.once.as_ref()),
        };
        let mut bytes = vec![kind];
        if let Some(key) = key {
            put_key(key, &mut bytes);
        }
        let slot = hash(&[&bytes]) % u64::from(slots.max(1));
        // Smaller than the number of slots.
        Slot(slot as u16)
    }
}

impl Place {
    /// Returns the operation id in the runtime of the slot: the same id with another key or series is another operation.
    pub(crate) fn operation_id(&self) -> Option<Key> {
        let once = self.once.clone()?;
        Some(match self.serial.as_ref().or(self.key.as_ref()) {
            Some(of) => Key::from((of.clone(), once)),
            None => once,
        })
    }
}

impl<K: Into<Key>> From<K> for Place {
    fn from(key: K) -> Self {
        Self::key(key)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.key, &self.once) {
            (Some(key), _) => write!(f, "the key `{key}`"),
            (None, Some(id)) => write!(f, "the operation id `{id}`"),
            (None, None) => f.write_str("no name"),
        }
    }
}

/// Returns the first part of a key.
fn first(key: &Key) -> &Key {
    match key {
        Key::Pair(pair) => first(&pair.0),
        key => key,
    }
}

/// Appends a key, so that different keys give different bytes. The form never changes: slots depend on it.
pub(crate) fn put_key(key: &Key, out: &mut Vec<u8>) {
    let mut put = |kind: u8, bytes: &[u8]| {
        out.push(kind);
        out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(bytes);
    };
    match key {
        Key::Int(number) => put(0, &number.to_le_bytes()),
        Key::Text(text) => put(1, text.as_bytes()),
        Key::Bytes(bytes) => put(2, bytes),
        Key::Pair(pair) => {
            out.push(3);
            put_key(&pair.0, out);
            put_key(&pair.1, out);
        }
    }
}

/// Limit on pairs in pairs: hostile bytes can nest deeply.
const DEEPEST: u8 = 64;

/// Reads a key that [`put_key`] wrote. Returns the bytes behind it, too.
pub(crate) fn take_key(bytes: &[u8], depth: u8) -> Option<(Key, &[u8])> {
    let (kind, bytes) = bytes.split_first()?;
    if *kind == 3 {
        if depth == DEEPEST {
            return None;
        }
        let (one, bytes) = take_key(bytes, depth + 1)?;
        let (other, bytes) = take_key(bytes, depth + 1)?;
        return Some((Key::from((one, other)), bytes));
    }
    let (length, bytes) = bytes.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (content, bytes) = bytes.split_at_checked(length)?;
    let key = match kind {
        0 => Key::Int(u64::from_le_bytes(content.try_into().ok()?)),
        1 => Key::Text(std::str::from_utf8(content).ok()?.into()),
        2 => Key::Bytes(content.into()),
        _ => return None,
    };
    Some((key, bytes))
}

/// Keys in messages between nodes, as bytes.
pub(crate) mod wire_key {
    use fom_runtime::Key;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

    use super::{put_key, take_key};

    pub(crate) fn serialize<S: Serializer>(key: &Option<Key>, to: S) -> Result<S::Ok, S::Error> {
        let bytes = key.as_ref().map(|key| {
            let mut bytes = Vec::new();
            put_key(key, &mut bytes);
            bytes
        });
        bytes.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Key>, D::Error> {
        let Some(bytes) = Option::<Vec<u8>>::deserialize(from)? else {
            return Ok(None);
        };
        match take_key(&bytes, 0) {
            Some((key, [])) => Ok(Some(key)),
            _ => Err(D::Error::custom("a key is damaged")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slots are stored with the cluster, so the hash is the same in each release.
    #[test]
    fn the_slot_of_a_key_never_changes() {
        let slots = ["order 7", "order 8", ""].map(|key| Place::key(key).slot(64).0);
        assert_eq!(slots, [13, 57, 15]);
        assert_eq!(Place::key(7).slot(64), Slot(1));
        assert_eq!(Place::once("order 7").slot(64), Slot(48));
    }

    #[test]
    fn slots_are_used_evenly() {
        let mut used = [0u32; 64];
        for key in 0..64_000 {
            used[usize::from(Place::key(key).slot(64).0)] += 1;
        }
        assert!(
            used.iter().all(|count| (850..1150).contains(count)),
            "{used:?}"
        );
    }

    #[test]
    fn a_key_is_read_as_it_was_written() {
        let keys = [
            Key::from(7),
            Key::from("text"),
            Key::from(&b"bytes"[..]),
            Key::from((("a", 1), "b")),
        ];
        for key in keys {
            let mut bytes = Vec::new();
            put_key(&key, &mut bytes);
            assert_eq!(take_key(&bytes, 0), Some((key, &[][..])));
            assert!((0..bytes.len()).all(|end| take_key(&bytes[..end], 0).is_none()));
        }
        assert_eq!(take_key(&[3; 10_000], 0), None, "it nests too deeply");
    }
}
