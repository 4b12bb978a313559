//! A dry run of the recovery: what this program could bring back from a journal.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use fom_journal::{Damage, EntryId, FileJournal, Inspection, JournalError, Recover};

use crate::{
    durable::{
        Kind, Message, Types,
        committer::HEAD_ENTRY,
        idempotency::decode_outcome,
        quarantine::{listed, saved_record},
        recovery::in_journal,
        schemas::Schemas,
        sent::Mark,
        types::Entered,
    },
    entry::fom_of,
};
use fom_protocol::panic_message;
use fom_runtime::{
    __durability::{self as seam, Schema},
    snapshot::{Quarantined, RestoreError},
};

/// What a program would bring back from a journal; see
/// [`Builder::check_journal`](crate::DurableBuilderExt::check_journal).
///
/// `Display` writes a report: what comes back, and a line for each reason why an entry cannot run.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct JournalCheck {
    /// Foms that would come back, by operation type and version.
    pub foms: BTreeMap<(String, u32), u64>,
    /// Outcomes that are remembered.
    pub outcomes: u64,
    /// Events that were sent through an outbox and not yet taken.
    pub events: u64,
    /// Operations that failed, and are kept.
    pub failed: u64,
    /// Entries that would be quarantined, and failed operations that this program could not try again, by id.
    pub quarantine: Vec<Quarantined>,
    /// The state of the files.
    pub files: Inspection,
}

impl JournalCheck {
    /// Returns `true` if everything in the journal comes back, or failed and could be tried again.
    pub fn is_clean(&self) -> bool {
        self.quarantine.is_empty() && self.files.recovery.gaps.is_empty()
    }

    /// Groups the entries to be quarantined by type, version, phase and reason, the lowest ids first. If a release lacks
    /// something, a group can have very many foms.
    fn alike(&self) -> Vec<Vec<&Quarantined>> {
        let mut places = HashMap::new();
        let mut all: Vec<Vec<&Quarantined>> = Vec::new();
        for quarantined in &self.quarantine {
            let what = (
                &quarantined.operation,
                quarantined.version,
                &quarantined.phase,
            );
            let place = *places
                .entry((what, quarantined.reason.to_string()))
                .or_insert(all.len());
            match all.get_mut(place) {
                Some(alike) => alike.push(quarantined),
                None => all.push(vec![quarantined]),
            }
        }
        all
    }
}

impl fmt::Display for JournalCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((operation, version), foms) in &self.foms {
            writeln!(f, "{foms:>9} of {operation} (version {version}) come back")?;
        }
        writeln!(f, "{:>9} outcomes are remembered", self.outcomes)?;
        writeln!(f, "{:>9} events are to be taken", self.events)?;
        writeln!(f, "{:>9} failed operations are kept", self.failed)?;
        writeln!(f, "{:>9} would be quarantined", self.quarantine.len())?;
        for alike in self.alike() {
            match alike.as_slice() {
                [one] => writeln!(f, "  {one}")?,
                more => writeln!(f, "  {} like {}", more.len(), more[0])?,
            }
        }
        let found = &self.files.recovery;
        if let Some(torn) = &found.torn {
            writeln!(f, "an unfinished write at the end would be cut off: {torn}")?;
        }
        for gap in &found.gaps {
            writeln!(f, "cannot be read: {gap}")?;
        }
        Ok(())
    }
}

/// Checks the journal in this directory without changing it.
pub(crate) fn check(path: &Path, types: &Types) -> Result<JournalCheck, JournalError> {
    let mut checker = Checker::new(types);
    let files = FileJournal::inspect(path, &mut checker)?;
    checker.check.files = files;
    if checker.any && !checker.has_head {
        let what = "the entry that identifies the journal is missing";
        checker.lost.push(Damage::new(path, 0, 0, what));
    }
    let gaps = &mut checker.check.files.recovery.gaps;
    gaps.append(&mut checker.lost);
    checker
        .check
        .quarantine
        .sort_by_key(|quarantined| quarantined.id);
    Ok(checker.check)
}

/// Checks entries that are in no journal.
pub(crate) fn check_entries(entries: &[(EntryId, &[u8])], types: &Types) -> JournalCheck {
    let mut checker = Checker::new(types);
    for (id, bytes) in entries {
        checker.entry(*id, bytes);
    }
    checker.check
}

struct Checker<'a> {
    types: &'a Types,
    found: Vec<(EntryId, Schema)>,
    schemas: Schemas,
    keys: HashSet<super::Place>,
    any: bool,
    has_head: bool,
    /// Schema entries that cannot be read. Other entries need them.
    lost: Vec<Damage>,
    check: JournalCheck,
}

impl<'a> Checker<'a> {
    fn new(types: &'a Types) -> Self {
        Self {
            types,
            found: Vec::new(),
            schemas: Schemas::default(),
            keys: HashSet::new(),
            any: false,
            has_head: false,
            lost: Vec::new(),
            check: JournalCheck::default(),
        }
    }

    fn readable<'b>(&self, bytes: &'b [u8]) -> Result<Entered<'b>, RestoreError> {
        let found = self.types.find(&self.schemas, bytes)?;
        found.of.check(seam::encoded(&found.schema, found.body))?;
        Ok(found)
    }

    fn look(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        let found = self.readable(bytes)?;
        // A fom that waits for its key, or shares it, may have the same key as another fom.
        let rare = found.meta.rare.as_deref();
        let alone = rare.is_none_or(|rare| rare.series.is_some() || !rare.queues && !rare.shares);
        if let Some(key) = found.meta.key.filter(|_| alone)
            && !self.keys.insert((found.of.type_id(), key.clone()))
        {
            return Err(RestoreError::KeyInUse(key));
        }
        let name = (found.schema.operation.clone(), found.schema.version);
        *self.check.foms.entry(name).or_default() += 1;
        Ok(())
    }

    fn quarantined(&mut self, id: EntryId, reason: RestoreError, bytes: &[u8]) {
        let id = fom_of(id);
        let quarantined = listed(id, reason, bytes, Some(&self.schemas));
        self.check.quarantine.push(quarantined);
    }
}

impl Recover for Checker<'_> {
    fn entry(&mut self, id: EntryId, bytes: &[u8]) {
        let Some((kind, rest)) = bytes.split_first() else {
            return;
        };
        self.any = true;
        self.has_head |= id == HEAD_ENTRY;
        if id < EntryId::HEAD {
            if *kind == Kind::Schema as u8
                && let Ok(schema) = Schema::from_bytes(rest)
            {
                self.found.push((id, schema));
            }
            return;
        }
        if !self.found.is_empty() {
            self.schemas = Schemas::new(std::mem::take(&mut self.found), &[]);
        }
        let look = || match *kind {
            kind if kind == Kind::Outcome as u8 => {
                self.check.outcomes += 1;
                decode_outcome(rest).map(drop)
            }
            kind if kind == Kind::Sent as u8 => Mark::decode(bytes).map(drop),
            kind if kind == Kind::Failed as u8 => {
                self.check.failed += 1;
                match saved_record(bytes)? {
                    Some(record) => self.readable(record).map(drop),
                    None => Ok(()),
                }
            }
            kind if kind == Kind::Message as u8 => {
                self.check.events += 1;
                Message::check(self.types, rest)
            }
            _ => self.look(bytes),
        };
        let looked = catch_unwind(AssertUnwindSafe(look))
            .unwrap_or_else(|panic| Err(RestoreError::Panicked(panic_message(panic))));
        if let Err(reason) = looked {
            self.quarantined(id, reason, bytes);
        }
    }

    fn damaged(&mut self, id: EntryId, damage: Damage) {
        self.any = true;
        self.has_head |= id == HEAD_ENTRY;
        if id >= EntryId::HEAD {
            self.quarantined(id, in_journal(damage), &[]);
        } else {
            self.lost.push(damage);
        }
    }
}
