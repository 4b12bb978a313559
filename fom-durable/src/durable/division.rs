//! Divides a journal among several, such as the journals of the slots of a cluster.
//!
//! The first pass learns where each operation goes. The second pass hands the entries out: an event goes where its receiver
//! is, and each part gets the schemas and a head of its own.

use std::{
    borrow::Cow,
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use fom_journal::{Damage, EntryId, FileJournal, JournalError, Recover};

use crate::{
    durable::{
        Head, Kind, Message,
        committer::{HEAD_ENTRY, encode_head},
        idempotency::rename_outcome,
        quarantine::{events_of_failed, failure_and_record},
        record::{Meta, decode_fom, is_fom, with_once},
        sent::Mark,
    },
    entry::fom_of,
};
use fom_runtime::{
    __durability::{self as seam, Schema},
    FomId, Key,
    snapshot::RestoreError,
};

/// The names of an operation in a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SavedNames {
    /// Its id in the journal.
    pub id: FomId,
    /// Its key.
    pub key: Option<Key>,
    /// Its series.
    pub series: Option<Key>,
    /// Its operation id.
    pub once: Option<Key>,
}

/// A version of an operation type in a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SavedType {
    /// The name of the machine.
    pub machine: String,
    /// The name of the operation.
    pub operation: String,
    /// The version of the machine.
    pub version: u32,
}

/// Where an operation goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The number of the part, from 0.
    pub part: u16,
    /// The operation id that it has there.
    pub once: Option<Key>,
}

/// A journal in files that is divided among several journals. Each part can be recovered like any other journal.
///
/// Operations keep their phases, ids and [step keys](fom_runtime::Cx::step_key). Their outcomes, the events that they have not
/// taken, and the ids of durable sends go with them. The time in the journal goes on where it was.
///
/// ```
/// use fom_durable::{Destination, Division, prelude::*};
/// use fom_runtime::Key;
///
/// # let directory = std::env::temp_dir().join(format!("fom-division-{}", std::process::id()));
/// # drop(Runtime::builder().journal(&directory).build()?);
/// let division = Division::of(&directory, |names| Destination {
///     part: match &names.key {
///         Some(Key::Int(number)) => (number % 2) as u16,
///         _ => 0,
///     },
///     once: names.once.clone(),
/// })?;
/// let mut entries = [0, 0];
/// division.write(2, &mut |part, _, _| entries[usize::from(part)] += 1)?;
/// assert_eq!(entries[0], entries[1]);
/// # std::fs::remove_dir_all(&directory)?;
/// # Ok::<(), BoxError>(())
/// ```
pub struct Division<F> {
    path: PathBuf,
    destination: F,
    plan: Plan,
}

impl<F> std::fmt::Debug for Division<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Division").field(&self.path).finish()
    }
}

/// What the first pass learns.
#[derive(Default)]
struct Plan {
    head: Option<Head>,
    /// No entry with this id or a greater one was read.
    used: u64,
    /// By the fingerprint of the schema.
    types: HashMap<u64, SavedType>,
    foms: HashMap<FomId, u16>,
    /// The parts of foms that hold a key which does not say the part, because the series does.
    keys: HashMap<(String, String, Key), u16>,
    /// The parts of events that belong to failed foms.
    events: HashMap<FomId, u16>,
}

/// The receiver of an event.
struct Receiver {
    machine: String,
    operation: String,
    key: Option<Key>,
    id: Option<FomId>,
}

impl<F: Fn(&SavedNames) -> Destination> Division<F> {
    /// Reads the journal in this directory, and asks for each operation where it goes. `destination` is called again for
    /// the second pass, and must return the same.
    ///
    /// An event goes to the part of its receiver. If the receiver is not there, the event goes where an operation with its key,
    /// or with its id, would go.
    ///
    /// # Errors
    ///
    /// Fails if there is no journal, if a process has it open, if an entry is damaged or cannot be read, and with errors of
    /// the system.
    pub fn of(path: impl AsRef<Path>, destination: F) -> Result<Self, JournalError> {
        let mut division = Self {
            path: path.as_ref().to_owned(),
            destination,
            plan: Plan::default(),
        };
        let path = division.path.clone();
        pass(&path, |id, bytes| division.learn(id, bytes))?;
        if division.plan.head.is_none() && division.plan.used > 0 {
            return Err(JournalError::Missing {
                entry: HEAD_ENTRY,
                what: "which identifies the journal and the used ids",
            });
        }
        Ok(division)
    }

    /// Returns the types of the operations that the journal has, or has had, in no particular order. There is one for each version.
    pub fn types(&self) -> impl Iterator<Item = &SavedType> {
        self.plan.types.values()
    }

    /// Hands each entry out, with the number of its part. The schemas and a head go to each of the parts.
    ///
    /// # Errors
    ///
    /// Fails as [`of`](Self::of) does. Some of the entries were handed out then.
    ///
    /// # Panics
    ///
    /// Panics if an operation goes to a part that is not there.
    pub fn write(
        &self,
        parts: u16,
        to: &mut dyn FnMut(u16, EntryId, &[u8]),
    ) -> Result<(), JournalError> {
        if let Some(head) = &self.plan.head {
            for part in 0..parts {
                let mut bytes = Vec::new();
                encode_head(&head.of_part(self.plan.used), &mut bytes);
                to(part, HEAD_ENTRY, &bytes);
            }
        }
        let mut was_used = false;
        pass(&self.path, |id, bytes| {
            if id == HEAD_ENTRY {
                was_used = self.plan.head != Some(decode_head(bytes)?);
                return Ok(());
            }
            if id < EntryId::HEAD {
                (0..parts).for_each(|part| to(part, id, bytes));
                return Ok(());
            }
            let (part, bytes) = self.place(fom_of(id), bytes)?;
            assert!(part < parts, "an operation goes to part {part} of {parts}");
            to(part, id, &bytes);
            Ok(())
        })?;
        match was_used {
            // A program has used it between the passes.
            true => Err(JournalError::Locked(self.path.clone())),
            false => Ok(()),
        }
    }

    fn learn(&mut self, entry: EntryId, bytes: &[u8]) -> Result<(), RestoreError> {
        if entry == HEAD_ENTRY {
            self.plan.head = Some(decode_head(bytes)?);
            return Ok(());
        }
        let (kind, rest) = bytes.split_first().ok_or(RestoreError::Damaged)?;
        if entry < EntryId::HEAD {
            if *kind != Kind::Schema as u8 {
                return Err(RestoreError::Damaged);
            }
            let schema = Schema::from_bytes(rest)?;
            let fingerprint = schema.fingerprint();
            let of = SavedType {
                machine: schema.machine,
                operation: schema.operation,
                version: schema.version,
            };
            self.plan.types.insert(fingerprint, of);
            return Ok(());
        }
        let id = fom_of(entry);
        self.plan.used = self.plan.used.max(id.get() + 1);
        let record = match is_fom(bytes) {
            true => bytes,
            false => match failure_and_record(bytes) {
                Some((_, _, record)) => record,
                None => return Ok(()),
            },
        };
        let (meta, body) = decode_fom(record)?;
        let part = self.destination(id, &meta).part;
        self.plan.foms.insert(id, part);
        let events = events_of_failed(bytes).into_iter();
        self.plan.events.extend(events.map(|event| (event, part)));
        // A failed fom holds no key: another one may have it.
        if is_fom(bytes)
            && meta.series().is_some()
            && let Some(key) = meta.key
        {
            let fingerprint = body.first_chunk().ok_or(RestoreError::Damaged)?;
            let of = self.plan.types.get(&u64::from_le_bytes(*fingerprint));
            let of = of.cloned().ok_or(RestoreError::NoSchema)?;
            let place = (of.machine, of.operation, key);
            self.plan.keys.insert(place, part);
        }
        Ok(())
    }

    /// Returns the part of an entry, and the entry as it is there.
    fn place<'a>(&self, id: FomId, bytes: &'a [u8]) -> Result<(u16, Cow<'a, [u8]>), RestoreError> {
        let (kind, rest) = bytes.split_first().ok_or(RestoreError::Damaged)?;
        let is = |other: Kind| *kind == other as u8;
        if is_fom(bytes) {
            return self.place_record(id, &[], bytes);
        }
        if is(Kind::Failed) {
            let (_, _, record) = failure_and_record(bytes).ok_or(RestoreError::Damaged)?;
            let (head, record) = bytes.split_at(bytes.len() - record.len());
            return self.place_record(id, head, record);
        }
        if is(Kind::Outcome) {
            let mut part = 0;
            let renamed = rename_outcome(rest, |key, series, once| {
                let names = SavedNames {
                    id,
                    key,
                    series,
                    once,
                };
                let to = (self.destination)(&names);
                part = to.part;
                to.once
            })?;
            return Ok((part, renamed.into()));
        }
        let receiver = if is(Kind::Message) {
            let event = Message::shown(rest).ok_or(RestoreError::Damaged)?;
            Receiver {
                machine: event.machine,
                operation: event.operation,
                key: event.key,
                id: event.receiver,
            }
        } else if is(Kind::Sent) {
            let (machine, operation, key, id) = Mark::decode(bytes)?.receiver();
            Receiver {
                machine,
                operation,
                key,
                id,
            }
        } else {
            return Err(RestoreError::Damaged);
        };
        let part = self.plan.events.get(&id).copied();
        let part = part.or_else(|| self.part_of(receiver));
        Ok((part.ok_or(RestoreError::Damaged)?, bytes.into()))
    }

    fn place_record<'a>(
        &self,
        id: FomId,
        head: &'a [u8],
        record: &'a [u8],
    ) -> Result<(u16, Cow<'a, [u8]>), RestoreError> {
        let (meta, body) = decode_fom(record)?;
        let Destination { part, once } = self.destination(id, &meta);
        let mut bytes = head.to_vec();
        match once == meta.once {
            true => bytes.extend_from_slice(record),
            false => {
                with_once(meta, once.as_ref(), &mut bytes);
                bytes.extend_from_slice(body);
            }
        }
        Ok((part, bytes.into()))
    }

    fn destination(&self, id: FomId, meta: &Meta) -> Destination {
        (self.destination)(&SavedNames {
            id,
            key: meta.key.clone(),
            series: meta.series().cloned(),
            once: meta.once.clone(),
        })
    }

    fn part_of(&self, to: Receiver) -> Option<u16> {
        let names = |id, key| SavedNames {
            id,
            key,
            series: None,
            once: None,
        };
        match (to.id, to.key) {
            (Some(id), _) => {
                let part = self.plan.foms.get(&id).copied();
                Some(part.unwrap_or_else(|| (self.destination)(&names(id, None)).part))
            }
            (None, Some(key)) => {
                let place = (to.machine, to.operation, key);
                let part = self.plan.keys.get(&place).copied();
                let names = names(seam::fom_id(0), Some(place.2));
                Some(part.unwrap_or_else(|| (self.destination)(&names).part))
            }
            (None, None) => None,
        }
    }
}

fn decode_head(bytes: &[u8]) -> Result<Head, RestoreError> {
    match bytes.split_first() {
        Some((kind, rest)) if *kind == Kind::Head as u8 => {
            let (head, _) = seam::leading(rest).map_err(|_| RestoreError::Damaged)?;
            Ok(head)
        }
        _ => Err(RestoreError::Damaged),
    }
}

/// Calls `entry` with each entry of the journal in this directory.
fn pass(
    path: &Path,
    entry: impl FnMut(EntryId, &[u8]) -> Result<(), RestoreError>,
) -> Result<(), JournalError> {
    let mut pass = Pass {
        entry,
        failed: None,
    };
    let read = FileJournal::inspect(path, &mut pass)?;
    if read.in_use {
        return Err(JournalError::Locked(path.to_owned()));
    }
    let mut gaps = read.recovery.gaps.into_iter();
    let gap = gaps.next().map(JournalError::Damaged);
    gap.or(pass.failed).map_or(Ok(()), Err)
}

struct Pass<F> {
    entry: F,
    failed: Option<JournalError>,
}

impl<F: FnMut(EntryId, &[u8]) -> Result<(), RestoreError>> Recover for Pass<F> {
    fn entry(&mut self, id: EntryId, bytes: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        if let Err(reason) = (self.entry)(id, bytes) {
            let text = format!("entry {id} cannot be read: {reason}");
            self.failed = Some(JournalError::Other(Arc::new(io::Error::other(text))));
        }
    }

    fn damaged(&mut self, _: EntryId, damage: Damage) {
        self.failed.get_or_insert(JournalError::Damaged(damage));
    }
}
