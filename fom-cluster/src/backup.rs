//! Exports of a cluster to journals in files, and imports of them.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use fom_journal::{
    Batch, Damage, EntryId, FileJournal, Journal as _, JournalError, Recover, Statement,
    log::{LogJournal, LogStore},
};

use fom_protocol::sync::sleep;

use crate::{
    clock::boot_time,
    commits::AGAIN,
    engine::{Append, Beat, Claim, Engine, EngineError, Facts, NodeInfo},
    error::{BackupError, ClusterError},
    slot::Slot,
    time::ClusterTime,
};

/// The file that an export writes last.
const FACTS: &str = "cluster";
/// How long an export waits for an engine that does not answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often an export begins anew.
const ATTEMPTS: u32 = 10;
/// About how many bytes are written at once.
const BATCH: usize = 8 << 20;
/// The longest body.
const LONGEST: usize = 512 << 20;
/// The incarnation and the name of an import.
const IMPORT: &str = "import";

impl From<BackupError> for ClusterError {
    fn from(error: BackupError) -> Self {
        Self::Backup(Arc::new(error))
    }
}

fn journal_of(directory: &Path, slot: Slot) -> PathBuf {
    directory.join(format!("slot-{}", slot.0))
}

fn file_error(path: &Path) -> impl FnOnce(io::Error) -> BackupError {
    let path = path.to_owned();
    move |source| BackupError::File { path, source }
}

/// Writes the entries of all slots, as of one moment, to journals in a new directory.
pub(crate) fn export(
    engine: &Arc<dyn Engine>,
    facts: Facts,
    time: &ClusterTime,
    directory: &Path,
) -> Result<(), ClusterError> {
    match fs::create_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(BackupError::Exists(directory.to_owned()).into());
        }
        made => made.map_err(file_error(directory))?,
    }
    for _ in 0..ATTEMPTS {
        if export_moment(engine, facts.slots, directory)? {
            return write_facts(directory, facts, time.now());
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
) -> Result<bool, ClusterError> {
    let begins = begins(engine, slots)?;
    let ends = read(|| engine.ends(slots))?;
    for ((slot, end), begin) in (0..slots).map(Slot).zip(ends).zip(begins) {
        let path = journal_of(directory, slot);
        // Of an attempt before.
        let _ = fs::remove_dir_all(&path);
        write_journal(engine, (slot, end), &path)?;
        let is_whole = match begin {
            Some(first) => !read(|| engine.load(slot, 0, first))?.is_empty(),
            // It had no bodies.
            None => end == 0,
        };
        if !is_whole {
            return Ok(false);
        }
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
) -> Result<(), BackupError> {
    let failed = |source| BackupError::Journal { slot, source };
    let mut read = LogJournal::new(Exported {
        engine: Arc::clone(engine),
        slot,
        end,
    });
    let mut journal = FileJournal::open(path).map_err(failed)?;
    copy(&mut journal, |to| read.recover(to).map(drop)).map_err(failed)
}

/// Writes what `read` reads to a new journal.
fn copy(
    journal: &mut dyn fom_journal::Journal,
    read: impl FnOnce(&mut dyn Recover) -> Result<(), JournalError>,
) -> Result<(), JournalError> {
    journal.recover(&mut Nothing)?;
    let mut copies = Copies {
        journal,
        batch: Batch::new(),
        failed: None,
    };
    read(&mut copies)?;
    copies.write();
    copies.failed.map_or(Ok(()), Err)
}

/// A new journal has no entries.
struct Nothing;

impl Recover for Nothing {
    fn entry(&mut self, _: EntryId, _: &[u8]) {}

    fn damaged(&mut self, _: EntryId, _: Damage) {}
}

/// Writes entries to a journal.
struct Copies<'a> {
    journal: &'a mut dyn fom_journal::Journal,
    batch: Batch,
    failed: Option<JournalError>,
}

impl Copies<'_> {
    fn write(&mut self) {
        if self.failed.is_none() && !self.batch.is_empty() {
            self.failed = self.journal.commit(&self.batch).err();
        }
        self.batch.clear();
    }
}

impl Recover for Copies<'_> {
    fn entry(&mut self, id: EntryId, bytes: &[u8]) {
        self.batch.put(id, bytes);
        self.batch.end_group();
        if self.batch.bytes() >= BATCH {
            self.write();
        }
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

fn load(
    engine: &dyn Engine,
    slot: Slot,
    from: u64,
    to: u64,
) -> Result<Vec<(u64, Vec<u8>)>, JournalError> {
    let loaded = read(|| engine.load(slot, from, to));
    loaded.map_err(|error| JournalError::Other(Arc::new(error)))
}

fn damaged(slot: Slot, number: u64, what: &'static str) -> JournalError {
    let text = format!("body {number} of {slot} is damaged: {what}");
    JournalError::Other(Arc::new(io::Error::other(text)))
}

fn unreadable(damage: &Damage) -> JournalError {
    JournalError::Other(Arc::new(io::Error::other(damage.to_string())))
}

fn write_facts(directory: &Path, facts: Facts, time: Duration) -> Result<(), ClusterError> {
    let Facts { slots, hash } = facts;
    let nanos = time.as_nanos();
    let text = format!("fom cluster 1\nslots {slots}\nhash {hash}\ntime {nanos}\n");
    let path = directory.join(FACTS);
    let written = fs::File::create(&path).and_then(|mut file| {
        io::Write::write_all(&mut file, text.as_bytes())?;
        file.sync_all()?;
        fs::File::open(directory)?.sync_all()
    });
    Ok(written.map_err(file_error(&path))?)
}

fn read_facts(directory: &Path) -> Result<(Facts, Duration), BackupError> {
    let no_export = |what: String| BackupError::NoExport {
        directory: directory.to_owned(),
        what,
    };
    let text = fs::read_to_string(directory.join(FACTS));
    let text = text.map_err(|error| no_export(format!("the file `{FACTS}`: {error}")))?;
    let mut lines = text.lines();
    if lines.next() != Some("fom cluster 1") {
        return Err(no_export("a later release has written it".to_owned()));
    }
    let mut number = |name: &str| {
        let value = lines.next().and_then(|line| line.strip_prefix(name));
        let value = value.and_then(|value| value.trim().parse::<u64>().ok());
        value.ok_or_else(|| no_export(format!("the file `{FACTS}` has no number of `{name}`")))
    };
    let (slots, hash, time) = (number("slots")?, number("hash")?, number("time")?);
    let (Ok(slots), Ok(hash)) = (u16::try_from(slots), u32::try_from(hash)) else {
        return Err(no_export(format!(
            "the file `{FACTS}` has a number that is too large"
        )));
    };
    let mut facts = Facts::new(slots);
    facts.hash = hash;
    Ok((facts, Duration::from_nanos(time)))
}

/// Creates a cluster with the entries that an export wrote.
pub(crate) fn import(engine: &Arc<dyn Engine>, directory: &Path) -> Result<(), ClusterError> {
    let (facts, time) = read_facts(directory)?;
    if let Some(slot) = (0..facts.slots)
        .map(Slot)
        .find(|slot| !journal_of(directory, *slot).is_dir())
    {
        return Err(BackupError::NoExport {
            directory: directory.to_owned(),
            what: format!("the journal of {slot} is missing"),
        }
        .into());
    }
    let found = engine.open(&facts)?;
    let not_new = |what: String| ClusterError::from(BackupError::NotNew(what));
    if found != facts {
        return Err(not_new(format!(
            "it has {} slots, and the export {}",
            found.slots, facts.slots
        )));
    }
    let mut info = NodeInfo::new(IMPORT, "");
    info.weight = 0;
    let beat = |is_first| engine.beat(&Beat::new(IMPORT, is_first, time, &info));
    let view = beat(true)?;
    if let Some(other) = view.nodes.keys().find(|name| *name != IMPORT) {
        return Err(not_new(format!("`{other}` is a node of it")));
    }
    if !view.is_member || view.slots.iter().any(|slot| slot.term > 0) {
        engine.leave(IMPORT)?;
        return Err(not_new("its slots were used".to_owned()));
    }
    // All of them before the first entry: no node finds a part.
    let mut terms = Vec::new();
    for slot in (0..facts.slots).map(Slot) {
        let claimed = engine.claim(&Claim::new(slot, 0, IMPORT, time))?;
        let term = claimed.map(|claimed| claimed.term);
        terms.push((
            slot,
            term.ok_or_else(|| not_new(format!("a node has {slot}")))?,
        ));
    }
    for (slot, term) in &terms {
        let failed = |source| BackupError::Journal {
            slot: *slot,
            source,
        };
        let mut imported = LogJournal::new(Imported {
            engine: Arc::clone(engine),
            slot: *slot,
            term: *term,
            time,
            next: 1,
        });
        let copied = copy(&mut imported, |to| {
            let read = FileJournal::inspect(journal_of(directory, *slot), to)?;
            let mut gaps = read.recovery.gaps.into_iter();
            gaps.next().map_or(Ok(()), |gap| Err(unreadable(&gap)))
        });
        copied.map_err(failed)?;
        // Other nodes see that the import lives.
        beat(false)?;
    }
    for (slot, term) in terms {
        engine.release(slot, term)?;
    }
    Ok(engine.leave(IMPORT)?)
}

/// The log of a slot that an import fills.
struct Imported {
    engine: Arc<dyn Engine>,
    slot: Slot,
    term: u64,
    time: Duration,
    next: u64,
}

impl LogStore for Imported {
    fn last(&self) -> u64 {
        0
    }

    fn append(
        &mut self,
        bodies: Vec<Vec<u8>>,
        _: Vec<(usize, Statement)>,
    ) -> Result<Vec<u64>, JournalError> {
        let numbered: Vec<_> = (self.next..).zip(bodies).collect();
        let numbers: Vec<_> = numbered.iter().map(|(number, _)| *number).collect();
        self.next += numbers.len() as u64;
        let append = Append::new(self.slot, self.term, self.time, numbered);
        match self.engine.commit(&[append]).as_deref() {
            Ok([true]) => Ok(numbers),
            Ok(_) => Err(JournalError::Fenced),
            Err(error) => Err(JournalError::Other(Arc::new(error.clone()))),
        }
    }

    fn load(&mut self, from: u64, to: u64) -> Result<Vec<(u64, Vec<u8>)>, JournalError> {
        load(&*self.engine, self.slot, from, to)
    }

    fn delete_until(&mut self, _: u64) -> Result<(), JournalError> {
        Ok(())
    }

    fn longest(&self) -> usize {
        LONGEST
    }

    fn damaged(&self, number: u64, what: &'static str) -> JournalError {
        damaged(self.slot, number, what)
    }
}
