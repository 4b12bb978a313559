//! Recovery after a restart: makes foms of the journal's entries before the runtime accepts anything new.

use std::fmt;

use fom_journal::{Damage, EntryId, Journal, JournalError, Recover, Recovery};

use crate::{
    durable::{
        Committer, Durable, Head, Kind, Meta, Types,
        committer::{HEAD_ENTRY, fenced},
        identity::Clocks,
        quarantine::keep_place,
        record::{is_fom, number_of},
        schemas::Schemas,
    },
    entry::fom_of,
};
use fom_runtime::{
    __durability::{self as seam, Resident, Schema, Shared},
    FomId, Runtime,
    context::Local,
    observe::IncidentKind,
    snapshot::{Quarantined, RestoreError},
};

/// The progress of a recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryProgress {
    /// Entries read so far.
    pub read: u64,
    /// Number of entries in the journal, if it is known.
    pub entries: u64,
    /// Foms that are back.
    pub foms: u64,
    /// Foms that were quarantined.
    pub quarantined: u64,
}

impl fmt::Display for RecoveryProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = (self.read * 100).checked_div(self.entries).unwrap_or(100);
        write!(f, "{percent} % read, {} foms back", self.foms)?;
        match self.quarantined {
            0 => Ok(()),
            n => write!(f, ", {n} quarantined"),
        }
    }
}

/// The result of a recovery.
pub(crate) struct Recovered {
    pub(crate) head: Head,
    /// The foms, in no queue yet: no fom runs before all are back.
    pub(crate) foms: Vec<(FomId, Resident)>,
    pub(crate) found: Recovery,
}

/// Reads the journal and makes foms of its entries.
///
/// # Errors
///
/// Returns the error with the foms that were already made. None of them runs.
pub(crate) fn recover(
    shared: &Shared,
    journal: &mut dyn Journal,
    tell: &mut dyn FnMut(&RecoveryProgress),
) -> Result<Recovered, (JournalError, Vec<Resident>)> {
    let time = fenced(|| Ok(journal.time())).map_err(|error| (error, Vec::new()))?;
    let clocks = Clocks::new(seam::clock(shared), time);
    let mut sink = Sink {
        shared,
        tell,
        clocks: &clocks,
        head: None,
        begun: false,
        used: 0,
        schemas: FoundSchemas::default(),
        no_head: None,
        sent: Vec::new(),
        messages: Vec::new(),
        foms: Vec::new(),
        progress: RecoveryProgress::default(),
    };
    let found = fenced(|| journal.recover(&mut sink));
    let found = found.and_then(|found| sink.check_head(&found).map(|()| found));
    let found = found.and_then(|found| {
        sink.begin();
        sink.take_sent();
        // Older foms come first, wherever their entries are.
        sink.foms.sort_unstable_by_key(|fom| fom.0);
        sink.number();
        sink.deliver();
        // The user's callback may panic.
        fenced(|| {
            sink.report();
            Ok(())
        })
        .map(|()| found)
    });
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            let foms = sink.foms.into_iter().map(|fom| fom.1);
            return Err((error, foms.collect()));
        }
    };
    let head = sink.head.unwrap_or_else(|| Head::new(&clocks));
    Ok(Recovered {
        head,
        foms: sink.foms,
        found,
    })
}

#[derive(Default)]
struct FoundSchemas {
    read: Vec<(EntryId, Schema)>,
    /// Entries of schemas that cannot be read.
    unread: Vec<EntryId>,
}

struct Sink<'a> {
    shared: &'a Shared,
    tell: &'a mut dyn FnMut(&RecoveryProgress),
    clocks: &'a Clocks,
    head: Option<Head>,
    begun: bool,
    /// No entry with this id or a greater one was read.
    used: u64,
    /// Why the head cannot be read. Without the head, the used ids are unknown.
    no_head: Option<JournalError>,
    schemas: FoundSchemas,
    /// Foms that outboxes sent and that have not begun. Foms that have begun go first.
    sent: Vec<(EntryId, Vec<u8>)>,
    /// Events for foms that come back. Delivered when all foms are back.
    messages: Vec<(EntryId, Vec<u8>)>,
    foms: Vec<(FomId, Resident)>,
    progress: RecoveryProgress,
}

/// More ids than one run gives to foms that are lost because nothing of them was committed.
const LOST_IDS: u64 = 1 << 32;

/// Number of entries between two reports.
const REPORT_EVERY: u64 = 10_000;

impl Sink<'_> {
    /// Makes the committer. The head is read, or there is none: from here on there are ids and a time.
    fn begin(&mut self) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let shared = self.shared;
        let clocks = self.clocks;
        let head = self.head.get_or_insert_with(|| Head::new(clocks));
        let schemas = Schemas::new(std::mem::take(&mut self.schemas.read), &self.schemas.unread);
        let durable = Durable::of(shared);
        durable.set_committer(Committer::new(
            head,
            clocks.clone(),
            schemas,
            &durable.memory,
        ));
    }

    /// Checks the head. Without it, it is unknown which journal the entries belong to, which ids are used, and what
    /// time it is. A new journal has no head and no entries.
    fn check_head(&mut self, found: &Recovery) -> Result<(), JournalError> {
        if let Some(error) = self.no_head.take() {
            return Err(error);
        }
        if self.progress.read == 0 || self.head.as_ref().is_some_and(|head| head.kept) {
            return Ok(());
        }
        let missing = JournalError::Missing {
            entry: HEAD_ENTRY,
            what: "which identifies the journal and the used ids",
        };
        if found.gaps.is_empty() {
            return Err(missing);
        }
        // Entries are known to be lost, and the options allow a start without them.
        seam::report(
            self.shared,
            IncidentKind::Recovery,
            "the journal",
            format!("{missing}; it begins anew with other step keys, and its time begins at 0"),
        );
        Ok(())
    }

    /// Starts new ids, after everything is read.
    fn number(&mut self) {
        let Some(head) = &mut self.head else { return };
        // A crash can break off a batch. Then its first groups may be in the journal without the head, which is the
        // last group.
        head.next_id = head.next_id.max(self.used);
        // Lost foms had ids, too, and the services that they called know their step keys.
        let first = match head.next_id {
            0 => 0,
            // A random step: a run that committed nothing left no trace of its ids.
            next => next.saturating_add(LOST_IDS + seam::random() as u64 % LOST_IDS),
        };
        seam::number_from(self.shared, first);
        let runtime = seam::runtime_of(self.shared);
        for index in 0..runtime.localities() {
            in_locality(&runtime, index, move |local| {
                seam::number_here_from(local, first)
            });
        }
    }

    /// Reads the head or a schema, which the other entries need.
    fn head_entry(&mut self, id: EntryId, bytes: &[u8]) {
        match bytes.split_first() {
            Some((kind, bytes)) if *kind == Kind::Head as u8 && id == HEAD_ENTRY => {
                match seam::leading(bytes) {
                    Ok((head, _)) => self.head = Some(Head { kept: true, ..head }),
                    Err(error) => {
                        let error = Box::<dyn std::error::Error + Send + Sync>::from(error);
                        self.no_head = Some(JournalError::Other(error.into()));
                    }
                }
            }
            Some((kind, bytes)) if *kind == Kind::Schema as u8 => {
                match Schema::from_bytes(bytes) {
                    Ok(schema) => self.schemas.read.push((id, schema)),
                    // Each entry that needs this schema is quarantined.
                    Err(error) => {
                        self.schemas.unread.push(id);
                        let what = format!("schema {id} of the journal: {error}");
                        seam::report(
                            self.shared,
                            IncidentKind::Recovery,
                            format!("schema {id}"),
                            what,
                        );
                    }
                }
            }
            _ => self.schemas.unread.push(id),
        }
    }

    fn report(&mut self) {
        self.progress.foms = (self.foms.len() + Durable::of(self.shared).passive.left()) as u64;
        (self.tell)(&self.progress);
    }

    /// Makes the foms that outboxes sent, in the order of their numbers. Foms that have begun have their keys by now.
    fn take_sent(&mut self) {
        let mut sent = std::mem::take(&mut self.sent);
        sent.sort_by_key(|(id, bytes)| (number_of(bytes), *id));
        for (id, bytes) in sent {
            self.bring_back(id, &bytes);
        }
    }

    /// Puts a fom into quarantine that is not to run. It keeps its place for its key, and its operation id.
    fn hold_back(&mut self, id: FomId, bytes: &[u8]) {
        let durable = Durable::of(self.shared);
        if let Ok(entered) = durable.enter(bytes)
            && let Some(once) = entered.meta.once
        {
            durable.memory.quarantined((entered.of.type_id(), once), id);
        }
        let mut held = durable.quarantined(id, RestoreError::HeldBack, bytes);
        keep_place(&mut held, self.shared);
        self.quarantined(held);
    }

    fn bring_back(&mut self, id: EntryId, bytes: &[u8]) {
        let held_back = &Durable::of(self.shared).held_back;
        if held_back.contains(&fom_of(id)) {
            return self.hold_back(fom_of(id), bytes);
        }
        match Types::bring_back(self.shared, id, bytes) {
            Ok(resident) => self.foms.push((fom_of(id), resident)),
            Err(quarantined) => self.quarantined(*quarantined),
        }
    }

    /// Delivers events in the order in which they were sent.
    fn deliver(&mut self) {
        let mut messages = std::mem::take(&mut self.messages);
        messages.sort_by_key(|(id, bytes)| (number_of(bytes), *id));
        for (id, bytes) in messages {
            if let Err(quarantined) = Types::take_in(self.shared, id, &bytes) {
                self.quarantined(*quarantined);
            }
        }
        Durable::of(self.shared).drop_old_events();
    }

    fn quarantined(&mut self, quarantined: Quarantined) {
        self.progress.quarantined += 1;
        Durable::of(self.shared).quarantine.put(quarantined);
    }
}

impl Recover for Sink<'_> {
    fn expect(&mut self, entries: u64) {
        self.progress.entries = entries;
        self.report();
    }

    fn entry(&mut self, id: EntryId, bytes: &[u8]) {
        self.progress.read += 1;
        if self.progress.read.is_multiple_of(REPORT_EVERY) {
            self.report();
        }
        if id < EntryId::HEAD {
            self.head_entry(id, bytes);
            return;
        }
        self.begin();
        self.used = self.used.max(fom_of(id).get() + 1);
        if bytes.first() == Some(&(Kind::Outcome as u8)) {
            if let Err(quarantined) = Types::remember_again(self.shared, id, bytes) {
                self.quarantined(*quarantined);
            }
            return;
        }
        if bytes.first() == Some(&(Kind::Sent as u8)) {
            if let Err(quarantined) = Types::remember_send(self.shared, id, bytes) {
                self.quarantined(*quarantined);
            }
            return;
        }
        if bytes.first() == Some(&(Kind::Failed as u8)) {
            let listed = Durable::of(self.shared).list_failed(self.shared, fom_of(id), bytes);
            if let Err(quarantined) = listed {
                self.quarantined(*quarantined);
            }
            return;
        }
        if let Some(number) = number_of(bytes) {
            seam::number_above(self.shared, number);
            let list = match is_fom(bytes) {
                true => &mut self.sent,
                false => &mut self.messages,
            };
            list.push((id, bytes.to_vec()));
            return;
        }
        let fom = fom_of(id);
        let durable = Durable::of(self.shared);
        if durable.passive.is_limited() && !durable.held_back.contains(&fom) {
            match durable.enter(bytes) {
                // Foms that held their gates are made at once, so that later requests, such as for locks, queue behind
                // them.
                Ok(entered) if holds_gate(&entered.meta) => {}
                Ok(entered) => {
                    durable.passive.add(self.shared, fom, &entered, bytes);
                    return;
                }
                Err(reason) => {
                    self.quarantined(durable.quarantined(fom, reason, bytes));
                    return;
                }
            }
        }
        self.bring_back(id, bytes);
    }

    fn damaged(&mut self, id: EntryId, damage: Damage) {
        self.progress.read += 1;
        if id == HEAD_ENTRY {
            self.no_head = Some(JournalError::Damaged(damage));
        } else if id < EntryId::HEAD {
            self.schemas.unread.push(id);
            let what = "a schema of the journal is damaged";
            seam::report(
                self.shared,
                IncidentKind::Journal,
                format!("schema {id}"),
                format!("{what}: {damage}"),
            );
        } else {
            self.begin();
            self.used = self.used.max(fom_of(id).get() + 1);
            let id = fom_of(id);
            let reason = in_journal(damage);
            self.quarantined(Durable::of(self.shared).quarantined(id, reason, &[]));
        }
    }
}

/// Returns whether the fom held the gate of its phase.
fn holds_gate(meta: &Meta) -> bool {
    meta.rare.as_ref().is_some_and(|rare| rare.held_gate)
}

/// Returns the reason of a fom with a damaged record.
pub(super) fn in_journal(damage: Damage) -> RestoreError {
    RestoreError::InJournal {
        file: damage.file,
        offset: damage.offset,
        length: damage.length,
        what: damage.what,
    }
}

/// Runs `f` in a locality and waits for it.
pub(super) fn in_locality(
    runtime: &Runtime,
    index: usize,
    f: impl FnOnce(&mut Local<'_>) + Send + 'static,
) {
    let (tell, told) = tokio::sync::oneshot::channel();
    // If the locality has ended, the post fails and drops the sender.
    let _ = runtime.post(index, move |local| {
        f(local);
        // This thread waits for the message.
        let _ = tell.send(());
    });
    // On an error, the locality has ended, and gives out no ids.
    let _ = fom_protocol::sync::block_on(told);
}
