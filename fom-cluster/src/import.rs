//! Imports: a new cluster is filled with the entries of an export, or of the journal of a single machine.

use std::{path::Path, sync::Arc, time::Duration};

use fom_durable::{
    Destination, Division, SavedNames,
    reading::{self, Content, Reader, Record},
};
use fom_journal::{
    Damage, EntryId, FileJournal, JournalError, Statement,
    log::{LogJournal, LogStore},
};
use fom_runtime::Key;

use crate::{
    backup::{BATCH, Copies, LONGEST, copy, damaged, journal_of, load, read_settings, unreadable},
    call::Name,
    copying::Told,
    engine::{Append, Beat, Claim, Engine, NodeInfo, Settings, Versions},
    error::{BackupError, ClusterError},
    letters,
    slot::{Place, Slot},
};

/// The incarnation and the name of an import.
const IMPORT: &str = "import";

/// Creates a cluster with the entries that an export wrote.
pub(crate) fn import(
    engine: &Arc<dyn Engine>,
    directory: &Path,
    told: &Told,
) -> Result<(), ClusterError> {
    let (settings, time) = read_settings(directory)?;
    told.begins(settings.slots);
    if let Some(slot) = (0..settings.slots)
        .map(Slot)
        .find(|slot| !journal_of(directory, *slot).is_dir())
    {
        return Err(BackupError::NoExport {
            directory: directory.to_owned(),
            what: format!("the journal of {slot} is missing"),
        }
        .into());
    }
    let of_slot = |slot| {
        let found = types_in(&journal_of(directory, slot));
        Ok(found.map_err(|source| BackupError::Journal { slot, source })?)
    };
    let cluster = Filling::begin(engine, &settings, time, of_slot)?;
    for (slot, mut log) in cluster.logs() {
        let copied = copy(&mut log, told, |to| {
            let read = FileJournal::inspect(journal_of(directory, slot), to)?;
            let mut gaps = read.recovery.gaps.into_iter();
            gaps.next().map_or(Ok(()), |gap| Err(unreadable(&gap)))
        });
        copied.map_err(|source| BackupError::Journal { slot, source })?;
        told.completed();
        cluster.beat()?;
    }
    cluster.end()
}

/// Creates a cluster with the entries of the journal of a single machine. Each goes to the slot of its operation.
pub(crate) fn import_journal(
    engine: &Arc<dyn Engine>,
    directory: &Path,
    slots: u16,
    told: &Told,
) -> Result<(), ClusterError> {
    told.begins(slots);
    let unread = |source| BackupError::Single {
        directory: directory.to_owned(),
        source,
    };
    let division = Division::of(directory, |names| destination(names, slots)).map_err(unread)?;
    let mut versions = Versions::new();
    for of in division.types() {
        add(&mut versions, &of.machine, &of.operation, of.version);
    }
    if versions.is_empty() {
        // An empty directory, or a journal without an operation, is not what the caller means.
        return Err(unread(JournalError::NotAJournal(directory.to_owned())).into());
    }
    let settings = Settings::new(slots);
    let cluster = Filling::begin(engine, &settings, Duration::ZERO, |_| Ok(versions.clone()))?;
    let mut logs: Vec<_> = cluster.logs().collect();
    let failed = |slot, source| ClusterError::from(BackupError::Journal { slot, source });
    let mut filled = Vec::new();
    for (slot, log) in &mut logs {
        let copies = Copies::begin(log, told).map_err(|source| failed(*slot, source))?;
        filled.push((*slot, copies));
    }
    let (mut bytes, mut lost) = (0, None);
    division
        .write(slots, &mut |part, id, entry| {
            // Each part is a slot.
            if let Some((_, to)) = filled.get_mut(usize::from(part)) {
                to.put(id, entry);
            }
            bytes += entry.len();
            if bytes >= BATCH {
                bytes = 0;
                filled.iter_mut().for_each(|(_, to)| to.write());
                lost = lost.take().or(cluster.beat().err());
            }
        })
        .map_err(unread)?;
    for (slot, copies) in filled {
        copies.end().map_err(|source| failed(slot, source))?;
        told.completed();
    }
    lost.map_or(Ok(()), Err)?;
    cluster.end()
}

/// Returns the slot of an operation, and its id there, as for a submission with these names.
fn destination(names: &SavedNames, slots: u16) -> Destination {
    let mut place = Place {
        key: names.key.clone(),
        serial: names.series.clone(),
        once: names.once.clone(),
    };
    let once = place.operation_id();
    // Without a name, any slot will do.
    place.once.get_or_insert(Key::Int(names.id.get()));
    Destination {
        part: place.slot(slots).0,
        once,
    }
}

/// Returns the types in the journal of a slot.
fn types_in(journal: &Path) -> Result<Versions, JournalError> {
    struct Found(Versions);

    impl Reader for Found {
        fn record(&mut self, record: Record<'_>) {
            if let Content::Schema {
                machine,
                operation,
                version,
                ..
            } = record.content
            {
                add(&mut self.0, &machine, &operation, version);
            }
        }

        // What is damaged is refused when it is copied.
        fn damaged(&mut self, _: EntryId, _: Damage) {}
    }

    let mut found = Found(Versions::new());
    reading::read(journal, &mut found)?;
    Ok(found.0)
}

/// Adds a type that a slot will hold: only a node that reads it is to own the slot.
fn add(to: &mut Versions, machine: &str, operation: &str, version: u32) {
    let is_own = |own: &Name| own.machine == machine && own.operation == operation;
    // Each node reads what letters need.
    if !letters::names().iter().any(is_own) {
        let latest = to.entry(format!("{machine} {operation}")).or_default();
        *latest = version.max(*latest);
    }
}

/// A new cluster while it is filled. Its slots have an owner, so no node finds a part of the entries.
struct Filling<'a> {
    engine: &'a Arc<dyn Engine>,
    info: NodeInfo,
    time: Duration,
    terms: Vec<(Slot, u64)>,
}

impl<'a> Filling<'a> {
    /// Claims all slots of a new cluster, each with the types that will be there.
    fn begin(
        engine: &'a Arc<dyn Engine>,
        settings: &Settings,
        time: Duration,
        versions: impl Fn(Slot) -> Result<Versions, ClusterError>,
    ) -> Result<Self, ClusterError> {
        let found = engine.open(settings)?;
        let not_new = |what: String| ClusterError::from(BackupError::NotNew(what));
        if found != *settings {
            return Err(not_new(format!(
                "it has {} slots, and the import {}",
                found.slots, settings.slots
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
        let mut terms = Vec::new();
        for slot in (0..settings.slots).map(Slot) {
            let reads = versions(slot)?;
            let mut claim = Claim::new(slot, 0, IMPORT, time);
            claim.reads = &reads;
            let claimed = engine.claim(&claim)?;
            let term = claimed.map(|claimed| claimed.term);
            let term = term.ok_or_else(|| not_new(format!("a node has {slot}")))?;
            terms.push((slot, term));
            // To read the versions of a large journal can take long.
            beat(false)?;
        }
        Ok(Self {
            engine,
            info,
            time,
            terms,
        })
    }

    /// Returns the log of each slot, in order.
    fn logs(&self) -> impl Iterator<Item = (Slot, LogJournal<Imported>)> {
        let log = |&(slot, term)| {
            let imported = Imported {
                engine: Arc::clone(self.engine),
                slot,
                term,
                time: self.time,
                next: 1,
            };
            (slot, LogJournal::new(imported))
        };
        self.terms.iter().map(log)
    }

    /// Shows to other nodes that the import lives.
    fn beat(&self) -> Result<(), ClusterError> {
        let beat = Beat::new(IMPORT, false, self.time, &self.info);
        self.engine.beat(&beat)?;
        Ok(())
    }

    /// Gives the slots to the nodes.
    fn end(self) -> Result<(), ClusterError> {
        for (slot, term) in self.terms {
            self.engine.release(slot, term)?;
        }
        Ok(self.engine.leave(IMPORT)?)
    }
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
