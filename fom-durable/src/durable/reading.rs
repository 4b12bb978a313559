//! Reads a journal without the program that wrote it. The journal contains the names that this needs.
//!
//! [`read`] passes each record to a [`Reader`], one after the other, and changes nothing. It also works while a program has
//! the journal open. [`SavedFom::values`] has the values by name; a
//! [`SavedValue`] can be written as JSON. [`Snapshot::saved`] reads them into any
//! type.
//!
//! ```
//! use fom_durable::{journal::{Damage, EntryId}, prelude::*, reading::{self, Content, Reader, Record}};
//!
//! #[derive(Default)]
//! struct Count(usize);
//!
//! impl Reader for Count {
//!     fn record(&mut self, record: Record<'_>) {
//!         self.0 += usize::from(matches!(record.content, Content::Fom(_)));
//!     }
//!     fn damaged(&mut self, entry: EntryId, damage: Damage) {
//!         eprintln!("{entry:?} is lost: {damage}");
//!     }
//! }
//!
//! # let directory = std::env::temp_dir().join(format!("fom-reading-{}", std::process::id()));
//! # drop(Runtime::builder().journal(&directory).build()?);
//! let mut count = Count::default();
//! let files = reading::read(&directory, &mut count)?;
//! assert_eq!((count.0, files.recovery.gaps.len()), (0, 0));
//! # std::fs::remove_dir_all(&directory)?;
//! # Ok::<(), BoxError>(())
//! ```

mod value;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use fom_journal::{Damage, EntryId, FileJournal, Inspection, JournalError, Recover};

pub use value::SavedValue;

use crate::{
    durable::{
        Head, Kind, Message,
        idempotency::decode_outcome,
        quarantine::failure_and_record,
        record::{Meta, decode_fom, is_fom},
        schemas::Schemas,
        sent::Mark,
    },
    entry::fom_of,
};
use fom_runtime::{
    __durability::{self as seam, Schema},
    FomId, Key,
    observe::Attempt,
    snapshot::{KeptFailure, RestoreError, Snapshot},
};

/// Receives the records of a journal.
pub trait Reader {
    /// Announces the number of records. Called at most once, before the first record.
    fn expect(&mut self, records: u64) {
        let _ = records;
    }

    /// Receives a record. The schemas come first, the others in the order of the files.
    fn record(&mut self, record: Record<'_>);

    /// Receives the number of an entry with damaged bytes.
    fn damaged(&mut self, entry: EntryId, damage: Damage);
}

/// One record of a journal.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Record<'a> {
    /// The number of its entry.
    pub entry: EntryId,
    /// The id of the fom, event or outcome. `None` for a record of the journal itself.
    pub id: Option<FomId>,
    /// The file of the entry, and its offset there in bytes.
    pub place: Option<(&'a Path, u64)>,
    /// The length of the entry, in bytes.
    pub bytes: usize,
    /// What the record says.
    pub content: Content<'a>,
}

/// What a record says.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Content<'a> {
    /// The identity of the journal, and its time when this record was written.
    Head {
        /// The number of the journal, which no other journal has.
        journal: u128,
        /// The time in the journal.
        time: Duration,
    },
    /// The names of a machine in one version.
    Schema {
        /// The name of the machine.
        machine: String,
        /// The name of the operation.
        operation: String,
        /// The version of the machine.
        version: u32,
        /// Each phase with the names of its fields.
        phases: Vec<(String, Vec<String>)>,
        /// The names of the fields that no tool shows.
        secrets: Vec<String>,
    },
    /// A fom that has not ended.
    Fom(Box<SavedFom<'a>>),
    /// An operation that failed, and can be tried again.
    Failed(Box<SavedFom<'a>>, Box<KeptFailure>),
    /// How an operation ended.
    Outcome(Box<SavedOutcome>),
    /// An event that its receiver has not taken.
    Event(Box<SavedEvent<'a>>),
    /// The id of an event that was sent durably. A second send with this id does nothing.
    Sent,
    /// The record cannot be read.
    Unreadable(RestoreError),
}

/// A fom in a journal. Times are in the time of the journal.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SavedFom<'a> {
    /// The name of the operation. `None` if the journal has lost the schema.
    pub operation: Option<String>,
    /// The name of the machine.
    pub machine: Option<String>,
    /// The version of the machine.
    pub version: Option<u32>,
    /// The phase.
    pub phase: Option<String>,
    /// The key.
    pub key: Option<Key>,
    /// The operation id, with which the operation runs once.
    pub once: Option<Key>,
    /// The number of the step in which the fom entered its phase.
    pub step: u64,
    /// The locality of the fom.
    pub home: u16,
    /// When the fom was submitted.
    pub submitted: Option<Duration>,
    /// When the fom entered its phase.
    pub since: Option<Duration>,
    /// When the deadline of the phase passes.
    pub due: Option<Duration>,
    /// The failed attempts at the phase, oldest first. Their age is counted from the newest one.
    pub attempts: Vec<Attempt>,
    /// The values. `None` if the operation could not be saved, or if the schema is lost.
    pub values: Option<Values<'a>>,
    /// What a snapshot is made of.
    body: Option<Body<'a>>,
}

impl SavedFom<'_> {
    /// Returns the phases that the fom came through, oldest first, without its phase. At most the last eight; none if the
    /// schema is lost.
    #[must_use]
    pub fn path(&self) -> &[String] {
        self.body.as_ref().map_or(&[], |body| &body.path)
    }

    /// Returns the fom as a snapshot, which a program can [resume](fom_runtime::Runtime::resume). Returns `None` if there are
    /// no values.
    #[must_use]
    pub fn snapshot(&self) -> Option<Snapshot> {
        self.values.as_ref()?;
        let Body {
            id,
            schema,
            bytes,
            attempt,
            ..
        } = self.body.as_ref()?;
        let mut entry = seam::unread(*id, RestoreError::Damaged, bytes);
        seam::set_saved(&mut entry, Arc::clone(schema), 0, *attempt);
        let snapshot = entry.snapshot()?;
        snapshot.phase().is_ok().then_some(snapshot)
    }
}

#[derive(Clone, Debug)]
struct Body<'a> {
    id: FomId,
    schema: Arc<Schema>,
    bytes: &'a [u8],
    attempt: u32,
    path: Vec<String>,
}

/// The values of a fom, each in MessagePack. The bytes of a damaged journal can be anything.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Values<'a> {
    /// The operation.
    pub operation: SavedValue<'a>,
    /// The fields of the phase, by name.
    pub fields: Vec<(String, SavedValue<'a>)>,
}

impl<'a> Values<'a> {
    fn of((fields, operation): seam::SavedValues<'a>, secrets: &Arc<[String]>) -> Self {
        let fields = fields.into_iter().map(|(name, bytes)| {
            let value = SavedValue::of_field(&name, bytes, secrets);
            (name, value)
        });
        Self {
            operation: SavedValue::new(operation, secrets),
            fields: fields.collect(),
        }
    }
}

/// How an operation ended, as a journal remembers it. Times are in the time of the journal.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SavedOutcome {
    /// The name of the operation.
    pub operation: String,
    /// The name of the machine.
    pub machine: String,
    /// The key.
    pub key: Option<Key>,
    /// The operation id.
    pub once: Option<Key>,
    /// When the operation ended.
    pub at: Duration,
    /// When the outcome is forgotten.
    pub expires: Duration,
    /// The end with its data, or the cause and the phase of a failure.
    pub end: Result<Snapshot, (String, String)>,
    pub(crate) secrets: Arc<[String]>,
}

impl SavedOutcome {
    /// Returns the values of the end. Returns `None` for a failure.
    #[must_use]
    pub fn values(&self) -> Option<Values<'_>> {
        let (values, own) = seam::snapshot_values(self.end.as_ref().ok()?)?;
        let secrets = self.secrets.iter().cloned().chain(own).collect();
        Some(Values::of(values, &secrets))
    }
}

/// An event in a journal.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SavedEvent<'a> {
    /// The name of the receiver's operation.
    pub operation: String,
    /// The name of the receiver's machine.
    pub machine: String,
    /// The key of the receiver.
    pub key: Option<Key>,
    /// The id of the receiver, if the event is for one fom.
    pub receiver: Option<FomId>,
    /// The event. All of it is a secret if the journal does not have the schema of the machine, which names the secrets.
    pub event: SavedValue<'a>,
}

/// Reads the journal in this directory.
///
/// The memory holds the place of each entry (29 to 57 bytes, as full as their table is), and one entry at a time. Values are not copied.
///
/// # Errors
///
/// Fails if there is no journal, if a later release wrote it, and with errors of the system. Damage is no error: the
/// result and [`Reader::damaged`] report it.
pub fn read(path: impl AsRef<Path>, to: &mut dyn Reader) -> Result<Inspection, JournalError> {
    let mut decoder = Decoder {
        to,
        place: None,
        found: Vec::new(),
        schemas: Schemas::default(),
        secrets: HashMap::new(),
    };
    FileJournal::inspect(path, &mut decoder)
}

struct Decoder<'a> {
    to: &'a mut dyn Reader,
    /// The place of the next entry.
    place: Option<(PathBuf, u64)>,
    /// Schemas, until the first other record.
    found: Vec<(EntryId, Schema)>,
    schemas: Schemas,
    /// The secrets of each machine, in all its versions.
    secrets: HashMap<String, Arc<[String]>>,
}

impl Recover for Decoder<'_> {
    fn expect(&mut self, entries: u64) {
        self.to.expect(entries);
    }

    fn place(&mut self, file: &Path, offset: u64) {
        match &mut self.place {
            Some((path, at)) if path == file => *at = offset,
            place => *place = Some((file.to_owned(), offset)),
        }
    }

    fn entry(&mut self, entry: EntryId, bytes: &[u8]) {
        let content = match entry < EntryId::HEAD {
            true => self.of_journal(entry, bytes),
            false => self.of_fom(entry, bytes),
        };
        self.to.record(Record {
            entry,
            id: (entry >= EntryId::HEAD).then(|| fom_of(entry)),
            place: self.place.as_ref().map(|(file, at)| (&**file, *at)),
            bytes: bytes.len(),
            content: content.unwrap_or_else(Content::Unreadable),
        });
    }

    fn damaged(&mut self, entry: EntryId, damage: Damage) {
        self.to.damaged(entry, damage);
    }
}

impl Decoder<'_> {
    fn of_journal(
        &mut self,
        entry: EntryId,
        bytes: &[u8],
    ) -> Result<Content<'static>, RestoreError> {
        let (kind, rest) = bytes.split_first().ok_or(RestoreError::Damaged)?;
        if *kind == Kind::Head as u8 {
            let (head, _) = seam::leading::<Head>(rest).map_err(|_| RestoreError::Damaged)?;
            return Ok(Content::Head {
                journal: head.number(),
                time: Duration::from_nanos(head.time),
            });
        }
        if *kind != Kind::Schema as u8 {
            return Err(RestoreError::Damaged);
        }
        let schema = Schema::from_bytes(rest)?;
        let phases = seam::phases_of(&schema);
        let content = Content::Schema {
            machine: schema.machine.clone(),
            operation: schema.operation.clone(),
            version: schema.version,
            phases: phases
                .map(|(name, fields)| (name.to_owned(), fields.to_vec()))
                .collect(),
            secrets: schema.secrets.clone(),
        };
        // A version from before the field was a secret has the field, too.
        let known = self.secrets.entry(schema.machine.clone()).or_default();
        *known = known.iter().chain(&schema.secrets).cloned().collect();
        self.found.push((entry, schema));
        Ok(content)
    }

    fn of_fom<'a>(&mut self, entry: EntryId, bytes: &'a [u8]) -> Result<Content<'a>, RestoreError> {
        if !self.found.is_empty() {
            self.schemas = Schemas::new(std::mem::take(&mut self.found), &[]);
        }
        let (kind, rest) = bytes.split_first().ok_or(RestoreError::Damaged)?;
        let id = fom_of(entry);
        Ok(match *kind {
            _ if is_fom(bytes) => Content::Fom(Box::new(self.fom(id, bytes)?)),
            kind if kind == Kind::Failed as u8 => {
                let (failure, phase, record) =
                    failure_and_record(bytes).ok_or(RestoreError::Damaged)?;
                let mut fom = self.fom(id, record)?;
                fom.phase = Some(phase);
                if let Some(body) = &mut fom.body {
                    body.path.clone_from(&failure.path);
                }
                Content::Failed(Box::new(fom), Box::new(failure))
            }
            kind if kind == Kind::Outcome as u8 => {
                let mut outcome = decode_outcome(rest)?.shown();
                outcome.secrets = self.secrets_of(&outcome.machine).unwrap_or_default();
                Content::Outcome(Box::new(outcome))
            }
            kind if kind == Kind::Message as u8 => {
                let mut event = Message::shown(rest).ok_or(RestoreError::Damaged)?;
                if let Some(secrets) = self.secrets_of(&event.machine) {
                    event.event.show(&secrets);
                }
                Content::Event(Box::new(event))
            }
            kind if kind == Kind::Sent as u8 => Mark::decode(bytes).map(|_| Content::Sent)?,
            _ => return Err(RestoreError::Damaged),
        })
    }

    fn secrets_of(&self, machine: &str) -> Option<Arc<[String]>> {
        self.secrets.get(machine).cloned()
    }

    fn fom<'a>(&self, id: FomId, record: &'a [u8]) -> Result<SavedFom<'a>, RestoreError> {
        let (meta, body) = decode_fom(record)?;
        let fingerprint = body.first_chunk().ok_or(RestoreError::Damaged)?;
        let schema = self.schemas.get(u64::from_le_bytes(*fingerprint));
        let mut fom = fom_of_meta(&meta);
        if let Some(schema) = schema {
            fom.operation = Some(schema.operation.clone());
            fom.machine = Some(schema.machine.clone());
            fom.version = Some(schema.version);
            fom.phase = seam::phase_of(&schema, body).map(str::to_owned);
            let path = meta.path.names(&schema);
            fom.values = seam::values_of(&schema, body)
                .zip(self.secrets_of(&schema.machine))
                .map(|(values, secrets)| Values::of(values, &secrets));
            fom.body = Some(Body {
                id,
                schema,
                bytes: body,
                attempt: meta.attempt,
                path,
            });
        }
        Ok(fom)
    }
}

fn fom_of_meta(meta: &Meta) -> SavedFom<'static> {
    let newest = meta.tried.last().map_or(0, |tried| tried.at);
    SavedFom {
        key: meta.key.clone(),
        once: meta.once.clone(),
        step: meta.step,
        home: meta.home.index,
        submitted: meta
            .times
            .map(|times| Duration::from_nanos(times.submitted)),
        since: meta.times.map(|times| Duration::from_nanos(times.since)),
        due: meta.due.map(Duration::from_nanos),
        attempts: meta.tried.iter().map(|tried| tried.shown(newest)).collect(),
        ..SavedFom::default()
    }
}
