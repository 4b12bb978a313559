//! Exports of a cluster to journals in files.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use fom_journal::{
    Batch, Damage, EntryId, FileJournal, Journal, JournalError, Recover, Statement,
    log::{LogJournal, LogStore},
};

use fom_protocol::sync::sleep;

use crate::{
    clock::boot_time,
    commits::AGAIN,
    copying::Told,
    engine::{Engine, EngineError, Settings},
    error::{BackupError, ClusterError},
    slot::Slot,
    time::ClusterTime,
};

/// The file that an export writes last.
const SETTINGS: &str = "cluster";
/// How long an export waits for an engine that does not answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often an export begins anew.
const ATTEMPTS: u32 = 10;
/// About how many bytes are written at once.
pub(crate) const BATCH: usize = 8 << 20;
/// The longest body.
pub(crate) const LONGEST: usize = 512 << 20;

impl From<BackupError> for ClusterError {
    fn from(error: BackupError) -> Self {
        Self::Backup(Arc::new(error))
    }
}

pub(crate) fn journal_of(directory: &Path, slot: Slot) -> PathBuf {
    directory.join(format!("slot-{}", slot.0))
}

fn file_error(path: &Path) -> impl FnOnce(io::Error) -> BackupError {
    let path = path.to_owned();
    move |source| BackupError::File { path, source }
}

/// Writes the entries of all slots, as of one moment, to journals in a new directory.
pub(crate) fn export(
    engine: &Arc<dyn Engine>,
    settings: Settings,
    time: &ClusterTime,
    directory: &Path,
    told: &Told,
) -> Result<(), ClusterError> {
    match fs::create_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(BackupError::Exists(directory.to_owned()).into());
        }
        made => made.map_err(file_error(directory))?,
    }
    for _ in 0..ATTEMPTS {
        if export_moment(engine, settings.slots, directory, told)? {
            return write_settings(directory, settings, time.now());
        }
    }
    Err(BackupError::Compacted(ATTEMPTS).into())
}

/// Writes the journals of one moment. Returns false if an owner has compacted a log after the moment and before it was read: the
/// bodies that it deleted are missing, and what it wrote in their place is later.
fn export_moment(
    engine: &Arc<dyn Engine>,
    slots: u16,
    directory: &Path,
    told: &Told,
) -> Result<bool, ClusterError> {
    told.begins(slots);
    let begins = begins(engine, slots)?;
    let ends = read(|| engine.ends(slots))?;
    for ((slot, end), begin) in (0..slots).map(Slot).zip(ends).zip(begins) {
        let path = journal_of(directory, slot);
        // Of an attempt before.
        let _ = fs::remove_dir_all(&path);
        write_journal(engine, (slot, end), &path, told)?;
        let is_whole = match begin {
            Some(first) => !read(|| engine.load(slot, 0, first))?.is_empty(),
            // It had no bodies.
            None => end == 0,
        };
        if !is_whole {
            return Ok(false);
        }
        told.completed();
    }
    Ok(true)
}

/// Reads from the engine. Servers may choose a leader just now.
fn read<T>(mut ask: impl FnMut() -> Result<T, EngineError>) -> Result<T, EngineError> {
    let begun = boot_time();
    loop {
        match ask() {
            Err(EngineError::Unknown(_)) if boot_time().saturating_sub(begun) < PATIENCE => {
                sleep(AGAIN);
            }
            answer => return answer,
        }
    }
}

/// Returns the number of the first body of each slot.
fn begins(engine: &Arc<dyn Engine>, slots: u16) -> Result<Vec<Option<u64>>, EngineError> {
    let slots = (0..slots).map(Slot);
    slots
        .map(|slot| {
            let first = read(|| engine.load(slot, 0, u64::MAX >> 1))?;
            Ok(first.first().map(|(number, _)| *number))
        })
        .collect()
}

fn write_journal(
    engine: &Arc<dyn Engine>,
    (slot, end): (Slot, u64),
    path: &Path,
    told: &Told,
) -> Result<(), BackupError> {
    let failed = |source| BackupError::Journal { slot, source };
    let mut read = LogJournal::new(Exported {
        engine: Arc::clone(engine),
        slot,
        end,
    });
    let mut journal = FileJournal::open(path).map_err(failed)?;
    let copied = copy(&mut journal, told, |to| read.recover(to).map(drop));
    copied.map_err(failed)
}

/// Writes what `read` reads to a new journal.
pub(crate) fn copy(
    journal: &mut dyn Journal,
    told: &Told,
    read: impl FnOnce(&mut dyn Recover) -> Result<(), JournalError>,
) -> Result<(), JournalError> {
    let mut copies = Copies::begin(journal, told)?;
    read(&mut copies)?;
    copies.end()
}

/// A new journal has no entries.
struct Nothing;

impl Recover for Nothing {
    fn entry(&mut self, _: EntryId, _: &[u8]) {}

    fn damaged(&mut self, _: EntryId, _: Damage) {}
}

/// Writes entries to a journal.
pub(crate) struct Copies<'a> {
    journal: &'a mut dyn Journal,
    told: &'a Told,
    batch: Batch,
    failed: Option<JournalError>,
}

impl<'a> Copies<'a> {
    /// Begins a new journal.
    pub(crate) fn begin(
        journal: &'a mut dyn Journal,
        told: &'a Told,
    ) -> Result<Self, JournalError> {
        journal.recover(&mut Nothing)?;
        Ok(Self {
            journal,
            told,
            batch: Batch::new(),
            failed: None,
        })
    }

    pub(crate) fn put(&mut self, id: EntryId, bytes: &[u8]) {
        self.batch.put(id, bytes);
        self.batch.end_group();
        if self.batch.bytes() >= BATCH {
            self.write();
        }
    }

    /// Writes the rest. Fails with the first error.
    pub(crate) fn end(mut self) -> Result<(), JournalError> {
        self.write();
        self.failed.map_or(Ok(()), Err)
    }

    /// Writes what is put.
    pub(crate) fn write(&mut self) {
        if self.failed.is_none() && !self.batch.is_empty() {
            match self.journal.commit(&self.batch) {
                Ok(()) => self.told.wrote(self.batch.len(), self.batch.bytes()),
                Err(error) => self.failed = Some(error),
            }
        }
        self.batch.clear();
    }
}

impl Recover for Copies<'_> {
    fn entry(&mut self, id: EntryId, bytes: &[u8]) {
        self.put(id, bytes);
    }

    fn damaged(&mut self, _: EntryId, damage: Damage) {
        self.failed.get_or_insert(unreadable(&damage));
    }
}

/// The log of a slot up to the moment of an export.
struct Exported {
    engine: Arc<dyn Engine>,
    slot: Slot,
    end: u64,
}

impl LogStore for Exported {
    fn last(&self) -> u64 {
        self.end
    }

    fn append(
        &mut self,
        _: Vec<Vec<u8>>,
        _: Vec<(usize, Statement)>,
    ) -> Result<Vec<u64>, JournalError> {
        Err(JournalError::Closed)
    }

    fn load(&mut self, from: u64, to: u64) -> Result<Vec<(u64, Vec<u8>)>, JournalError> {
        load(&*self.engine, self.slot, from, to)
    }

    fn delete_until(&mut self, _: u64) -> Result<(), JournalError> {
        Err(JournalError::Closed)
    }

    fn longest(&self) -> usize {
        LONGEST
    }

    fn damaged(&self, number: u64, what: &'static str) -> JournalError {
        damaged(self.slot, number, what)
    }
}

pub(crate) fn load(
    engine: &dyn Engine,
    slot: Slot,
    from: u64,
    to: u64,
) -> Result<Vec<(u64, Vec<u8>)>, JournalError> {
    let loaded = read(|| engine.load(slot, from, to));
    loaded.map_err(|error| JournalError::Other(Arc::new(error)))
}

pub(crate) fn damaged(slot: Slot, number: u64, what: &'static str) -> JournalError {
    let text = format!("body {number} of {slot} is damaged: {what}");
    JournalError::Other(Arc::new(io::Error::other(text)))
}

pub(crate) fn unreadable(damage: &Damage) -> JournalError {
    JournalError::Other(Arc::new(io::Error::other(damage.to_string())))
}

fn write_settings(
    directory: &Path,
    settings: Settings,
    time: Duration,
) -> Result<(), ClusterError> {
    let Settings { slots, hash } = settings;
    let nanos = time.as_nanos();
    let text = format!("fom cluster 1\nslots {slots}\nhash {hash}\ntime {nanos}\n");
    let path = directory.join(SETTINGS);
    let written = fs::File::create(&path).and_then(|mut file| {
        io::Write::write_all(&mut file, text.as_bytes())?;
        file.sync_all()?;
        fs::File::open(directory)?.sync_all()
    });
    Ok(written.map_err(file_error(&path))?)
}

pub(crate) fn read_settings(directory: &Path) -> Result<(Settings, Duration), BackupError> {
    let no_export = |what: String| BackupError::NoExport {
        directory: directory.to_owned(),
        what,
    };
    let text = fs::read_to_string(directory.join(SETTINGS));
    let text = text.map_err(|error| no_export(format!("the file `{SETTINGS}`: {error}")))?;
    let mut lines = text.lines();
    if lines.next() != Some("fom cluster 1") {
        return Err(no_export("a later release has written it".to_owned()));
    }
    let mut number = |name: &str| {
        let value = lines.next().and_then(|line| line.strip_prefix(name));
        let value = value.and_then(|value| value.trim().parse::<u64>().ok());
        value.ok_or_else(|| no_export(format!("the file `{SETTINGS}` has no number of `{name}`")))
    };
    let (slots, hash, time) = (number("slots")?, number("hash")?, number("time")?);
    let (Ok(slots), Ok(hash)) = (u16::try_from(slots), u32::try_from(hash)) else {
        return Err(no_export(format!(
            "the file `{SETTINGS}` has a number that is too large"
        )));
    };
    let mut settings = Settings::new(slots);
    settings.hash = hash;
    Ok((settings, Duration::from_nanos(time)))
}
