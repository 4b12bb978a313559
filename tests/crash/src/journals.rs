//! The wrappers around the journal in files.

use std::{collections::HashSet, fmt, fs, io, path::Path, str::FromStr};

use fom_durable::journal::{
    Batch, Change, Damage, EntryId, Journal, JournalError, JournalStats, Recover, Recovery,
};

use crate::{
    history::History,
    missing::{is_used, lose},
    points::{Point, Points},
    random::Random,
    work::Holds,
};

/// A journal with the kill points between it and the runtime.
pub(crate) struct Pointed<J> {
    pub(crate) journal: J,
    pub(crate) points: Points,
    pub(crate) history: History,
    pub(crate) holds: Holds,
    /// The entries of failed commits, until a commit contains them.
    pub(crate) failed: HashSet<EntryId>,
}

/// Returns the entries of foms and of their events.
fn entries(batch: &Batch) -> impl Iterator<Item = EntryId> {
    let changes = batch.groups().flat_map(|group| group.changes());
    let ids = changes.map(|change| match change {
        Change::Put { id, .. } | Change::Delete { id } => id,
    });
    ids.filter(|id| *id >= EntryId::HEAD)
}

struct Passing<'a> {
    to: &'a mut dyn Recover,
    points: &'a Points,
}

impl Recover for Passing<'_> {
    fn expect(&mut self, entries: u64) {
        self.to.expect(entries);
    }
    fn entry(&mut self, id: EntryId, bytes: &[u8]) {
        self.to.entry(id, bytes);
        self.points.pass(Point::InRecovery);
    }
    fn damaged(&mut self, id: EntryId, damage: Damage) {
        self.to.damaged(id, damage);
    }
}

impl<J: Journal> Journal for Pointed<J> {
    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError> {
        self.points.pass(Point::BeforeRecovery);
        let points = &self.points;
        let found = self.journal.recover(&mut Passing { to, points })?;
        self.points.pass(Point::AfterRecovery);
        Ok(found)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        self.points.pass(Point::BeforeCommit);
        let holds = self.holds.take();
        let again = entries(batch).all(|id| self.failed.contains(&id));
        let begins = if again { "O" } else { "C" };
        self.history.line(format_args!("{begins}"));
        if let Err(error) = self.journal.commit(batch) {
            self.failed.extend(entries(batch));
            return Err(error);
        }
        self.history.line(format_args!("c"));
        if !self.failed.is_empty() {
            for id in entries(batch) {
                self.failed.remove(&id);
            }
        }
        self.points.pass(Point::AfterCommit);
        self.holds.hold(holds);
        Ok(())
    }

    fn tidy(&mut self) -> Result<bool, JournalError> {
        self.points.pass(Point::BeforeTidy);
        let more = self.journal.tidy()?;
        self.points.pass(Point::AfterTidy);
        Ok(more)
    }

    fn stats(&self) -> JournalStats {
        self.journal.stats()
    }
}

/// How a journal, or the code on top of it, breaks its promises. The harness must find each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Keeps all promises.
    Not,
    /// Reports a batch as durable, but writes it with the next one.
    Loses,
    /// Writes old batches again.
    Repeats,
    /// Swaps two batches.
    Reorders,
    /// Returns an entry under the id of another.
    ReusesIds,
    /// Keeps a part of a group.
    Halves,
    /// Returns some entries in their first version.
    Forgets,
    /// Not the journal: half of the foms have locks of their own.
    TwoLocks,
    /// Loses the newest segment before each start.
    LosesNewest,
    /// Loses another segment than the newest before each start.
    LosesAnother,
    /// Loses the manifest before each start.
    LosesManifest,
}

impl Broken {
    /// Removes a file, or a part of one, before the child opens the journal.
    pub(crate) fn spoil(self, journal: &Path, life: u64) -> io::Result<()> {
        if !journal.is_dir() {
            return Ok(());
        }
        let mut files = Vec::new();
        for entry in fs::read_dir(journal)? {
            files.push(entry?.path());
        }
        files.sort();
        let manifest = files
            .iter()
            .find(|file| file.ends_with("MANIFEST"))
            .cloned();
        files.retain(|file| is_used(file));
        let newest = files.pop();
        // The older segments may be free.
        let lost = match self {
            Self::LosesNewest => newest,
            Self::LosesAnother => files.pop(),
            Self::LosesManifest => manifest,
            _ => None,
        };
        if let Some(lost) = lost {
            lose(&lost, None, &mut Random::new(life))?;
        }
        Ok(())
    }

    /// Returns the names of all variants.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(_, name)| *name)
    }
}

const NAMES: [(Broken, &str); 11] = [
    (Broken::Not, "not"),
    (Broken::Loses, "loses"),
    (Broken::Repeats, "repeats"),
    (Broken::Reorders, "reorders"),
    (Broken::ReusesIds, "reuses-ids"),
    (Broken::Halves, "halves"),
    (Broken::Forgets, "forgets"),
    (Broken::TwoLocks, "two-locks"),
    (Broken::LosesNewest, "loses-newest"),
    (Broken::LosesAnother, "loses-another"),
    (Broken::LosesManifest, "loses-manifest"),
];

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(broken, _)| broken == self);
        f.write_str(name.map_or("?", |(_, name)| name))
    }
}

impl FromStr for Broken {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = NAMES.iter().find(|(_, of)| *of == name);
        found
            .map(|(broken, _)| *broken)
            .ok_or_else(|| format!("no journal is broken in the way `{name}`"))
    }
}

/// A journal that may be broken.
pub(crate) struct Breaking<J> {
    journal: J,
    how: Broken,
    /// The batches that are not written yet.
    held: Vec<Batch>,
    /// The entries that were put.
    known: HashSet<EntryId>,
}

impl<J: Journal> Breaking<J> {
    pub(crate) fn new(journal: J, how: Broken) -> Self {
        Self {
            journal,
            how,
            held: Vec::new(),
            known: HashSet::new(),
        }
    }

    /// Returns the batch with only the changes for which `keeps` returns true.
    fn filtered(batch: &Batch, mut keeps: impl FnMut(usize, &Change<'_>) -> bool) -> Batch {
        let mut filtered = Batch::new();
        for group in batch.groups() {
            for (place, change) in group.changes().enumerate() {
                if keeps(place, &change) {
                    match change {
                        Change::Put { id, bytes } => filtered.put(id, bytes),
                        Change::Delete { id } => filtered.delete(id),
                    }
                }
            }
            filtered.end_group();
        }
        filtered
    }
}

/// Swaps the ids of each two entries.
struct Exchanging<'a> {
    to: &'a mut dyn Recover,
    held: Option<(EntryId, Vec<u8>)>,
}

impl Recover for Exchanging<'_> {
    fn entry(&mut self, id: EntryId, bytes: &[u8]) {
        if id < EntryId::HEAD {
            self.to.entry(id, bytes);
            return;
        }
        match self.held.take() {
            None => self.held = Some((id, bytes.to_vec())),
            Some((other, held)) => {
                self.to.entry(other, bytes);
                self.to.entry(id, &held);
            }
        }
    }
    fn damaged(&mut self, id: EntryId, damage: Damage) {
        self.to.damaged(id, damage);
    }
}

impl<J: Journal> Journal for Breaking<J> {
    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError> {
        if self.how != Broken::ReusesIds {
            return self.journal.recover(to);
        }
        let mut exchanging = Exchanging { to, held: None };
        let found = self.journal.recover(&mut exchanging)?;
        if let Some((id, bytes)) = exchanging.held {
            to.entry(id, &bytes);
        }
        Ok(found)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        match self.how {
            Broken::Not
            | Broken::ReusesIds
            | Broken::TwoLocks
            | Broken::LosesNewest
            | Broken::LosesAnother
            | Broken::LosesManifest => self.journal.commit(batch),
            Broken::Loses => {
                self.held.push(batch.clone());
                if self.held.len() > 1 {
                    let first = self.held.remove(0);
                    self.journal.commit(&first)?;
                }
                Ok(())
            }
            Broken::Repeats => {
                self.journal.commit(batch)?;
                self.held.push(batch.clone());
                if self.held.len() > 4 {
                    let old = self.held.remove(0);
                    self.journal.commit(&old)?;
                }
                Ok(())
            }
            Broken::Reorders => {
                self.held.push(batch.clone());
                if self.held.len() == 2 {
                    while let Some(last) = self.held.pop() {
                        self.journal.commit(&last)?;
                    }
                }
                Ok(())
            }
            Broken::Halves => self
                .journal
                .commit(&Self::filtered(batch, |place, _| place == 0)),
            Broken::Forgets => {
                // Drops later versions of every fifth entry.
                let known = &mut self.known;
                let first = Self::filtered(batch, |_, change| match change {
                    Change::Put { id, .. } if *id >= EntryId::HEAD && id.0.is_multiple_of(5) => {
                        known.insert(*id)
                    }
                    _ => true,
                });
                self.journal.commit(&first)
            }
        }
    }

    fn tidy(&mut self) -> Result<bool, JournalError> {
        self.journal.tidy()
    }

    fn stats(&self) -> JournalStats {
        self.journal.stats()
    }
}
