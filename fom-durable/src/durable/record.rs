//! A fom's entry in the journal.
//!
//! An entry begins with a byte for its kind and with [`Meta`]. The body follows: operation and phase, which are read
//! with a schema. The schema is an entry of its own.
//!
//! [`Meta`] is written at every step, so its form is a few bytes and not MessagePack. In this order:
//!
//! - the flags (1 byte),
//! - the [number](number_of), if the entry has one (8 bytes, little-endian),
//! - the step and the home, as varints; the lowest bit of the home says whether the fom was placed there by hand,
//! - the [`Path`], as a varint, if the kind says that there is one,
//! - the fields that the flags name: the [times](Times), the deadline (8 bytes, little-endian), the key and the
//!   operation id,
//! - the rest, as a MessagePack record.

use std::any::TypeId;

use serde::{Deserialize, Serialize};

use crate::durable::{
    DurableState, Path,
    state::{Inner, More},
};
use fom_runtime::{
    __durability::{self as seam, KeptValues, KeyOf, Order, Tried},
    Key,
    snapshot::RestoreError,
};

/// The kind of an entry: its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// [`Head`](super::Head).
    Head = 1,
    /// How the bodies of a type are read.
    Schema = 2,
    /// A fom that has not ended. There is no path: the fom has left no phase, or an earlier release wrote the entry.
    Fom = 6,
    /// A fom that has not ended, with its path.
    FomOnPath = 9,
    /// How a fom ended, if its outcome is remembered.
    Outcome = 5,
    /// A fom that failed, and can be tried again.
    Failed = 7,
    /// An event for a fom.
    Message = 4,
    /// The id of an event that was sent durably.
    Sent = 8,
}

/// The saved state of a fom beside its operation and phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meta {
    /// The fom's number in the queue for its turn, if the fom waits for it, or an outbox has sent the fom.
    pub(crate) number: Option<u64>,
    /// The number of the step in which the fom entered its phase.
    pub(crate) step: u64,
    /// The last phases that the fom has left.
    pub(crate) path: Path,
    /// The ages, if they are known.
    pub(crate) times: Option<Times>,
    /// The number of failed attempts at this phase.
    pub(crate) attempt: u32,
    /// The failed attempts, of which some may be forgotten, in the time of the journal.
    pub(crate) tried: Vec<Tried>,
    /// When the deadline passes, in the time of the journal.
    pub(crate) due: Option<u64>,
    /// A deadline that an earlier phase keeps over this one: its time, and the phase.
    pub(crate) kept: Option<Box<(u64, String)>>,
    /// The home of the fom.
    pub(crate) home: Home,
    /// The priority of the fom.
    pub(crate) priority: u8,
    /// The key of the fom.
    pub(crate) key: Option<Key>,
    /// The operation id of the fom.
    pub(crate) once: Option<Key>,
    /// Fields that few foms have.
    pub(crate) rare: Option<Box<RecordRare>>,
}

impl Meta {
    /// Returns the series of the fom.
    pub(crate) fn series(&self) -> Option<&Key> {
        self.rare.as_ref()?.series.as_ref()
    }

    /// Returns the turn that a fom of this type needs: that of its series, or of its key.
    pub(crate) fn turn(&self, of: TypeId) -> Option<KeyOf> {
        KeyOf::turn(of, self.key.as_ref(), self.series())
    }

    /// Returns the names that a fom of this type has: its key, and its turn.
    pub(crate) fn names(&self, of: TypeId) -> impl Iterator<Item = KeyOf> {
        let key = self.key.clone().map(|key| KeyOf::key(of, key));
        let turn = self.series().and_then(|_| self.turn(of));
        key.into_iter().chain(turn)
    }
}

/// The home of a fom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Home {
    pub(crate) index: u16,
    /// Whether the fom was placed there by hand.
    pub(crate) settled: bool,
}

/// The times from which the age of a fom and its time in the phase count, in the time of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    /// When the fom was submitted.
    pub(crate) submitted: u64,
    /// When the fom entered its phase.
    pub(crate) since: u64,
}

/// The unit of [`Times`] in a record is 2^20 ns, about a millisecond. The time in a journal of three months then needs
/// five bytes.
const UNIT: u32 = 20;

/// The saved state of few foms. Add new fields at the end: older records are without them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordRare {
    /// Whether the fom shares its key with others.
    pub(crate) shares: bool,
    /// Whether the fom has not begun, and waits for its turn while another fom has it.
    pub(crate) queues: bool,
    /// When the next attempt is due, in the time of the journal.
    #[serde(default)]
    pub(crate) retry: Option<u64>,
    /// Whether the fom holds the gate of its phase.
    #[serde(default)]
    pub(crate) held_gate: bool,
    /// The series of the fom.
    #[serde(default, with = "stored_key")]
    pub(crate) series: Option<Key>,
    /// When the fom begins, or takes its place in the queue for its key, in the time of the journal.
    #[serde(default)]
    pub(crate) begins: Option<u64>,
    /// Whether the fom has taken a way out of a cancel.
    #[serde(default)]
    pub(crate) heard_cancel: bool,
    /// Whether the fom has taken the way out of a phase with `cancelled`.
    #[serde(default)]
    pub(crate) turned_back: bool,
    /// What the fom carries, by name. Values that this release does not know are there, too.
    #[serde(default)]
    pub(crate) carried: Option<Box<KeptValues>>,
}

/// Whether this is the entry of a fom.
pub(super) fn is_fom(bytes: &[u8]) -> bool {
    bytes
        .first()
        .is_some_and(|kind| [Kind::Fom as u8, Kind::FomOnPath as u8].contains(kind))
}

// Flags for the fields of a record. The two lowest bits are the priority.
const PRIORITY: u8 = 0b11;
const TIMED: u8 = 1 << 2;
const DUE: u8 = 1 << 3;
const KEY: u8 = 1 << 4;
const ONCE: u8 = 1 << 5;
const REST: u8 = 1 << 6;
const NUMBER: u8 = 1 << 7;

/// Returns what the journal keeps of a new fom beside the fields of [`Meta`]. `sent`: an outbox sent the fom, and the fom
/// has not begun.
pub(super) fn stored(
    order: Order,
    series: Option<Key>,
    sent: bool,
    carried: KeptValues,
) -> Option<Box<RecordRare>> {
    let (shares, queues) = match order {
        Order::Queue { shares, .. } => (shares, sent),
        _ => (false, false),
    };
    let carried = (!carried.is_empty()).then(|| Box::new(carried));
    (shares || queues || series.is_some() || carried.is_some()).then(|| {
        Box::new(RecordRare {
            shares,
            queues,
            series,
            carried,
            ..RecordRare::default()
        })
    })
}

/// Returns the offset of the number in an entry that has one.
fn number_at(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [_, flags, ..] if is_fom(bytes) && flags & NUMBER != 0 => Some(2),
        [kind, ..] if *kind == Kind::Message as u8 => Some(1),
        _ => None,
    }
}

/// Returns the number of an entry that an outbox sent: an event, or a fom that has a key and has not begun. Lower
/// numbers go first.
pub(crate) fn number_of(bytes: &[u8]) -> Option<u64> {
    let number = bytes.get(number_at(bytes)?..)?.first_chunk()?;
    Some(u64::from_le_bytes(*number))
}

/// Writes the number into an entry that has one.
pub(crate) fn set_number(bytes: &mut [u8], number: u64) {
    let at = number_at(bytes);
    let place = at.and_then(|at| bytes.get_mut(at..)?.first_chunk_mut());
    if let Some(place) = place {
        *place = number.to_le_bytes();
    }
}

/// The fields that few records have: the number of failed attempts, the attempts, a deadline that is kept, and the
/// [`RecordRare`] fields.
type Rest<T, K, R> = (u32, T, K, R);

/// Appends the entry of a fom up to the body. `submitted` is in the time of the journal.
pub(crate) fn encode_head(
    kept: &Inner,
    submitted: Option<u64>,
    key: Option<&Key>,
    once: Option<&Key>,
    out: &mut Vec<u8>,
) {
    let more = kept.more();
    let more = more.filter(|more| {
        !more.tried.is_empty() || more.kept.is_some() || more.rare != RecordRare::default()
    });
    let has_rest = more.is_some() || kept.attempt > 0;
    let flag = |on: bool, flag: u8| if on { flag } else { 0 };
    let flags = kept.priority & PRIORITY
        | flag(submitted.is_some(), TIMED)
        | flag(kept.due.is_some(), DUE)
        | flag(key.is_some(), KEY)
        | flag(once.is_some(), ONCE)
        | flag(has_rest, REST)
        | flag(kept.number().is_some(), NUMBER);
    let path = kept.saved_path().to_record();
    let kind = path.map_or(Kind::Fom, |_| Kind::FomOnPath);
    out.extend_from_slice(&[kind as u8, flags]);
    if let Some(number) = kept.number() {
        out.extend_from_slice(&number.to_le_bytes());
    }
    seam::put_varint(kept.step, out);
    seam::put_varint(u64::from(kept.home) << 1 | u64::from(kept.settled), out);
    if let Some(path) = path {
        seam::put_varint(path, out);
    }
    if let Some(submitted) = submitted {
        let submitted = submitted >> UNIT;
        seam::put_varint(submitted, out);
        // In one byte, if the fom is young.
        seam::put_varint((kept.since >> UNIT).saturating_sub(submitted), out);
    }
    if let Some(due) = kept.due {
        out.extend_from_slice(&due.to_le_bytes());
    }
    for key in [key, once].into_iter().flatten() {
        seam::put_key(key, out);
    }
    if has_rest {
        let nothing = More::default();
        let more = more.unwrap_or(&nothing);
        let rest: Rest<_, _, _> = (kept.attempt, &more.tried, &more.kept, &more.rare);
        // Numbers and texts cannot fail to encode.
        let _ = rmp_serde::encode::write(out, &rest);
    }
}

/// Appends the entry of a fom up to the body, as it is with another operation id.
pub(super) fn with_once(meta: Meta, once: Option<&Key>, out: &mut Vec<u8>) {
    let (key, submitted) = (meta.key.clone(), meta.times.map(|times| times.submitted));
    let kept = DurableState::new(meta, true, None);
    encode_head(&kept.inner(), submitted, key.as_ref(), once, out);
}

/// Reads the entry of a fom, up to the body.
pub(crate) fn decode_fom(bytes: &[u8]) -> Result<(Meta, &[u8]), RestoreError> {
    let head = is_fom(bytes).then(|| decode_head(bytes));
    head.flatten().ok_or(RestoreError::Damaged)
}

fn decode_head(bytes: &[u8]) -> Option<(Meta, &[u8])> {
    let (&[kind, flags], mut bytes) = bytes.split_first_chunk()?;
    let mut number = None;
    if flags & NUMBER != 0 {
        let (found, after) = bytes.split_first_chunk()?;
        (number, bytes) = (Some(u64::from_le_bytes(*found)), after);
    }
    let (step, bytes) = seam::take_varint(bytes)?;
    let (home, mut bytes) = seam::take_varint(bytes)?;
    let mut meta = Meta {
        number,
        step,
        home: Home {
            index: u16::try_from(home >> 1).ok()?,
            settled: home & 1 != 0,
        },
        priority: flags & PRIORITY,
        ..Meta::default()
    };
    if kind == Kind::FomOnPath as u8 {
        let (path, after) = seam::take_varint(bytes)?;
        (meta.path, bytes) = (Path::from_record(path), after);
    }
    if flags & TIMED != 0 {
        let (submitted, after) = seam::take_varint(bytes)?;
        let (later, after) = seam::take_varint(after)?;
        meta.times = Some(Times {
            submitted: submitted << UNIT,
            since: submitted.wrapping_add(later) << UNIT,
        });
        bytes = after;
    }
    if flags & DUE != 0 {
        let (due, after) = bytes.split_first_chunk()?;
        meta.due = Some(u64::from_le_bytes(*due));
        bytes = after;
    }
    for (flag, place) in [(KEY, &mut meta.key), (ONCE, &mut meta.once)] {
        if flags & flag != 0 {
            let (key, after) = seam::take_key(bytes, 0)?;
            *place = Some(key);
            bytes = after;
        }
    }
    if flags & REST != 0 {
        let (rest, after) =
            seam::leading::<Rest<_, Option<(u64, String)>, RecordRare>>(bytes).ok()?;
        let (kept, rare);
        (meta.attempt, meta.tried, kept, rare) = rest;
        meta.kept = kept.map(Box::new);
        meta.rare = (rare != RecordRare::default()).then(|| Box::new(rare));
        bytes = after;
    }
    Some((meta, bytes))
}

/// The stored form of a [`Key`]. It does not depend on the order of the variants of `Key`.
pub(super) mod stored_key {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    use fom_runtime::Key;

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Stored {
        Int(u64),
        Text(String),
        Bytes(Vec<u8>),
        Pair(Box<(Stored, Stored)>),
    }

    impl From<&Key> for Stored {
        fn from(key: &Key) -> Self {
            match key {
                Key::Int(key) => Self::Int(*key),
                Key::Text(key) => Self::Text(key.to_string()),
                Key::Bytes(key) => Self::Bytes(key.to_vec()),
                Key::Pair(pair) => Self::Pair(Box::new(((&pair.0).into(), (&pair.1).into()))),
            }
        }
    }

    impl From<Stored> for Key {
        fn from(key: Stored) -> Self {
            match key {
                Stored::Int(key) => Self::Int(key),
                Stored::Text(key) => key.into(),
                Stored::Bytes(key) => Self::Bytes(key.into()),
                Stored::Pair(pair) => (Key::from(pair.0), Key::from(pair.1)).into(),
            }
        }
    }

    pub(in crate::durable) fn serialize<S: Serializer>(
        key: &Option<Key>,
        out: S,
    ) -> Result<S::Ok, S::Error> {
        key.as_ref().map(Stored::from).serialize(out)
    }

    pub(in crate::durable) fn deserialize<'de, D: Deserializer<'de>>(
        input: D,
    ) -> Result<Option<Key>, D::Error> {
        let key = Option::<Stored>::deserialize(input).map_err(D::Error::custom)?;
        Ok(key.map(Key::from))
    }
}

#[cfg(all(test, not(fom_shuttle)))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use fom_runtime::__durability::{PAIR, TEXT};

    /// Returns the entry of a fom with all of this, and the body `body`.
    fn written(meta: &Meta) -> Vec<u8> {
        let mut out = Vec::new();
        with_once(meta.clone(), meta.once.as_ref(), &mut out);
        out.extend_from_slice(b"body");
        out
    }

    fn tried(error: &str) -> Tried {
        Tried {
            number: error.len() as u32,
            error: error.to_owned(),
            at: u64::MAX - 7,
        }
    }

    fn full() -> Meta {
        Meta {
            number: Some(5),
            step: 300,
            path: Path::from_record(1_000),
            times: Some(Times {
                submitted: 900 << UNIT,
                since: 70_000 << UNIT,
            }),
            attempt: 2,
            tried: vec![tried("no"), tried("no!")],
            due: Some(1 << 40),
            kept: Some(Box::new((77, "Ring".to_owned()))),
            home: Home {
                index: 3,
                settled: true,
            },
            priority: 2,
            key: Some(Key::from(("alice", 7u64))),
            once: Some(Key::from("call-1")),
            rare: Some(Box::new(RecordRare {
                shares: true,
                queues: true,
                ..RecordRare::default()
            })),
        }
    }

    /// Most records have only a step, a home, a priority and a path. The first record of a fom has no path.
    #[test]
    fn a_plain_record_has_a_head_of_five_bytes() {
        let mut meta = Meta {
            step: 9,
            priority: 1,
            ..Meta::default()
        };
        let bytes = written(&meta);
        assert_eq!(bytes, b"\x06\x01\x09\x00body");
        assert_eq!(decode_fom(&bytes).unwrap(), (meta.clone(), &b"body"[..]));
        meta.path.leaves(2, 4);
        let bytes = written(&meta);
        assert_eq!(bytes, b"\x09\x01\x09\x00\x06body");
        assert_eq!(decode_fom(&bytes).unwrap(), (meta, &b"body"[..]));
    }

    /// The times of a record take six bytes in the first three months of a journal, until the fom is an hour old.
    #[test]
    fn the_times_of_a_young_fom_take_six_bytes() {
        let days = |days: u64| (days * 86_400_000_000_000) >> UNIT << UNIT;
        let meta = Meta {
            times: Some(Times {
                submitted: days(300),
                since: days(300) + (100 << UNIT),
            }),
            ..Meta::default()
        };
        let bytes = written(&meta);
        assert_eq!(bytes.len(), b"body".len() + 4 + 6);
        assert_eq!(decode_fom(&bytes).unwrap(), (meta, &b"body"[..]));
    }

    #[test]
    fn a_record_that_is_cut_short_is_refused() {
        let bytes = written(&full());
        assert_eq!(decode_fom(&bytes).unwrap(), (full(), &b"body"[..]));
        for end in 0..bytes.len() - b"body".len() {
            let cut = decode_fom(&bytes[..end]);
            assert!(matches!(cut, Err(RestoreError::Damaged)), "{end}");
        }
        let mut deep = vec![Kind::Fom as u8, KEY, 0, 0];
        deep.extend([PAIR; 100_000]);
        assert!(matches!(decode_fom(&deep), Err(RestoreError::Damaged)));
        // A text of 2^63 bytes.
        let long = [Kind::Fom as u8, KEY, 0, 0, TEXT]
            .into_iter()
            .chain([0xff; 8])
            .chain([0x7f]);
        let long: Vec<u8> = long.collect();
        assert!(matches!(decode_fom(&long), Err(RestoreError::Damaged)));
    }

    fn keys() -> impl Strategy<Value = Key> {
        let leaf = prop_oneof![
            any::<u64>().prop_map(Key::from),
            ".{0,20}".prop_map(Key::from),
            proptest::collection::vec(any::<u8>(), 0..20)
                .prop_map(|bytes| Key::Bytes(bytes.into())),
        ];
        leaf.prop_recursive(3, 8, 2, |inner| (inner.clone(), inner).prop_map(Key::from))
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            (step, attempt, due, home) in any::<(u64, u32, Option<u64>, u16)>(),
            (settled, priority, shares, queues) in any::<(bool, u8, bool, bool)>(),
            (number, renumbered) in any::<(Option<u64>, u64)>(),
            path in any::<u64>(),
            (retry, held_gate) in any::<(Option<u64>, bool)>(),
            times in any::<Option<(u32, u32)>>(),
            (errors, kept) in any::<(Vec<String>, Option<(u64, String)>)>(),
            key in proptest::option::of(keys()),
            once in proptest::option::of(keys()),
            series in proptest::option::of(keys()),
        ) {
            let mut meta = Meta {
                number,
                step,
                path: Path::from_record(path),
                times: times.map(|(at, later)| Times {
                    submitted: u64::from(at) << UNIT,
                    since: (u64::from(at) + u64::from(later)) << UNIT,
                }),
                attempt,
                tried: errors.iter().map(|error| tried(error)).collect(),
                due,
                kept: kept.map(Box::new),
                home: Home { index: home, settled },
                priority: priority % 3,
                key,
                once,
                rare: retry.map(|_| Box::new(RecordRare { shares, queues, retry, held_gate, series, begins: due, heard_cancel: settled, turned_back: shares, carried: settled.then(|| Box::new(vec![("tenant".to_owned(), vec![1, 200])])) })),
            };
            let mut bytes = written(&meta);
            prop_assert_eq!(number_of(&bytes), number);
            prop_assert_eq!(decode_fom(&bytes).unwrap(), (meta.clone(), &b"body"[..]));
            set_number(&mut bytes, renumbered);
            meta.number = meta.number.map(|_| renumbered);
            prop_assert_eq!(decode_fom(&bytes).unwrap(), (meta, &b"body"[..]));
        }

        #[test]
        fn anything_else_is_refused_or_read(mut bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode_fom(&bytes);
            bytes.insert(0, 0);
            for kind in [Kind::Fom, Kind::FomOnPath] {
                bytes[0] = kind as u8;
                let _ = decode_fom(&bytes);
            }
        }
    }
}
