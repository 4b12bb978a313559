//! Recovery after a restart: makes foms of the journal's entries before the runtime accepts anything new.

use std::{
    any::TypeId,
    borrow::Cow,
    collections::HashMap,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use fom_journal::{Damage, EntryId, Journal, JournalError, Recover, Recovery};

use crate::{
    durable::{
        Committer, Durable, DurableState, Head, Kind, Message, Meta,
        committer::{HEAD_ENTRY, fenced},
        idempotency::decode_outcome,
        quarantine::keep_place,
        record::{decode_fom, is_fom, number_of},
        schemas::Schemas,
    },
    entry::fom_of,
};
use fom_protocol::panic_message;
use fom_runtime::{
    __durability::{
        self as seam, AnyRef, EventReader, Registered, Resident, Restorer, Revival, Schema, Shared,
    },
    FomId, Persistent, Runtime,
    context::Local,
    error::BuildError,
    machine::{Durability, Graph},
    snapshot::{RestoreError, SetAside},
    submission::Priority,
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
    /// Foms that were set aside.
    pub set_aside: u64,
}

impl fmt::Display for RecoveryProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = (self.read * 100).checked_div(self.entries).unwrap_or(100);
        write!(f, "{percent} % read, {} foms back", self.foms)?;
        match self.set_aside {
            0 => Ok(()),
            n => write!(f, ", {n} set aside"),
        }
    }
}

/// The operation types that can come back, by the current and former names of machine and operation; and how events are
/// read.
pub(crate) struct Types(HashMap<Name<'static>, Known>, HashMap<TypeId, EventReader>);

type Name<'a> = (Cow<'a, str>, Cow<'a, str>);

/// The operation types with one name.
#[derive(Clone, Copy)]
struct Known {
    of: &'static dyn Restorer,
    /// Whether the user named the type. Such a type takes precedence over types that are only linked.
    named: bool,
    /// Whether the name is a former name of the type.
    had: bool,
    /// Another type with the name, now or formerly.
    other: Option<&'static dyn Restorer>,
}

impl Known {
    const fn new(of: &'static dyn Restorer, named: bool, had: bool) -> Self {
        Self {
            of,
            named,
            had,
            other: None,
        }
    }

    /// Adds another type with this name, now or formerly.
    fn with(self, more: Self) -> Self {
        if self.of.type_id() == more.of.type_id() {
            return self;
        }
        let (one, other) = match more.had {
            true => (more, self),
            false => (self, more),
        };
        Self {
            other: Some(other.of),
            ..one
        }
    }

    fn the_one(&self) -> Result<&'static dyn Restorer, RestoreError> {
        match self.other {
            None => Ok(self.of),
            Some(other) => Err(RestoreError::Ambiguous {
                one: self.of.type_name(),
                other: other.type_name(),
            }),
        }
    }
}

/// Returns all names under which a type's foms can be in a journal, and whether each is a former name.
fn names(graph: &Graph) -> impl Iterator<Item = (Name<'static>, bool)> {
    let names = seam::names(graph).into_iter().enumerate();
    names.map(|(at, (machine, operation))| ((machine.into(), operation.into()), at > 0))
}

impl Default for Types {
    fn default() -> Self {
        let mut types = Self(HashMap::new(), HashMap::new());
        for of in seam::registered() {
            types.link(of.restorer());
            if let Some(reader) = of.reader() {
                types.1.insert(of.restorer().type_id(), reader);
            }
        }
        types
    }
}

impl Types {
    fn link(&mut self, of: &'static dyn Restorer) {
        if of.durability() == Durability::None {
            return;
        }
        for (name, had) in names(of.graph()) {
            let known = Known::new(of, false, had);
            let known = self.0.get(&name).map_or(known, |first| first.with(known));
            self.0.insert(name, known);
        }
    }

    /// Adds a type that the user names.
    pub(crate) fn name<O: Persistent>(&mut self) {
        let of = Registered::of::<O>();
        for (name, had) in names(O::GRAPH) {
            let known = Known::new(of.restorer(), true, had);
            // Two types that the user names have the same precedence.
            let first = self.0.get(&name).filter(|first| first.named);
            let known = first.map_or(known, |first| first.with(known));
            self.0.insert(name, known);
        }
    }

    /// # Errors
    ///
    /// Fails if a former name of one type is also a name of another type: the runtime would have to guess.
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        let had = self.0.iter().filter(|(_, known)| known.had);
        let clash = had.filter_map(|(name, known)| Some((name, known.of, known.other?)));
        // The same name each time, if there are many.
        match clash.min_by_key(|(name, ..)| *name) {
            None => Ok(()),
            Some(((machine, operation), of, other)) => Err(BuildError::NameTaken {
                machine: machine.clone().into_owned(),
                operation: operation.clone().into_owned(),
                was: of.type_name(),
                other: other.type_name(),
            }),
        }
    }

    /// Returns the operation type with this name, and how its events are read.
    pub(super) fn taking(
        &self,
        machine: &str,
        operation: &str,
    ) -> Result<(&'static dyn Restorer, EventReader), RestoreError> {
        let of = self.of(machine, operation)?;
        let reader = self.1.get(&of.type_id()).copied();
        Ok((of, reader.ok_or(RestoreError::NoEventReader)?))
    }

    /// Whether an event for this type can be read again after a restart.
    pub(crate) fn takes<O: Persistent>(&self) -> bool {
        self.1.contains_key(&TypeId::of::<O>())
    }

    /// Makes a fom of its entry. The fom is in no queue yet.
    pub(crate) fn bring_back(
        shared: &Shared,
        entry: EntryId,
        bytes: &[u8],
    ) -> Result<Resident, Box<SetAside>> {
        let id = fom_of(entry);
        let durable = Durable::of(shared);
        // The user's code reads a part of the entry.
        let back = catch_unwind(AssertUnwindSafe(|| durable.read(shared, id, bytes)));
        back.unwrap_or_else(|panic| Err(RestoreError::Panicked(panic_message(panic))))
            .map_err(|reason| {
                let mut aside = Box::new(durable.aside(id, reason, bytes));
                keep_place(&mut aside, shared);
                aside
            })
    }

    /// Takes in an entry: remembers an outcome, delivers an event, or makes a fom. The fom has the events that waited
    /// for it, and is in no queue yet.
    pub(crate) fn take_in(
        shared: &Shared,
        entry: EntryId,
        bytes: &[u8],
    ) -> Result<Option<Resident>, Box<SetAside>> {
        match bytes.first() {
            Some(kind) if *kind == Kind::Outcome as u8 => {
                return Self::remember_again(shared, entry, bytes).map(|()| None);
            }
            Some(kind) if *kind == Kind::Message as u8 => {
                let deliver = || Message::deliver_again(shared, entry, bytes);
                return catch_unwind(AssertUnwindSafe(deliver))
                    .unwrap_or_else(|panic| Err(RestoreError::Panicked(panic_message(panic))))
                    .map(|()| None)
                    .map_err(|reason| {
                        Box::new(Durable::of(shared).aside(fom_of(entry), reason, bytes))
                    });
            }
            _ => {}
        }
        let fom = Self::bring_back(shared, entry, bytes)?;
        let durable = Durable::of(shared);
        // The fom is found by its key by now, so there is no moment in which events for it go nowhere.
        drop(durable.set_aside.take(fom.id()));
        durable.give_kept(fom.id(), DurableState::of(&fom));
        durable.passive.revive_before(shared, &fom);
        Ok(Some(fom))
    }

    /// Remembers the outcome in this entry.
    fn remember_again(shared: &Shared, entry: EntryId, bytes: &[u8]) -> Result<(), Box<SetAside>> {
        let durable = Durable::of(shared);
        let id = fom_of(entry);
        let was = decode_outcome(&bytes[1..])
            .map_err(|reason| Box::new(durable.aside(id, reason, bytes)))?;
        let of = match durable.types.of(&was.machine, &was.operation) {
            Ok(of) => Some(of.type_id()),
            Err(reason @ RestoreError::Ambiguous { .. }) => {
                // The operation must not run again, whichever of the types it is.
                for of in durable.types.all(&was.machine, &was.operation) {
                    let place = (of.type_id(), was.id.clone());
                    durable.memory.aside(place, id);
                }
                return Err(Box::new(durable.aside(id, reason, bytes)));
            }
            Err(_) => None,
        };
        durable.memory.recovered(id, of, was);
        Ok(())
    }

    /// Returns the operation types with this name.
    fn all(&self, machine: &str, operation: &str) -> Vec<&'static dyn Restorer> {
        let known = self.0.get(&(machine.into(), operation.into()));
        let both = known.map_or([None, None], |known| [Some(known.of), known.other]);
        both.into_iter().flatten().collect()
    }

    /// Returns the operation type with this name.
    fn of(&self, machine: &str, operation: &str) -> Result<&'static dyn Restorer, RestoreError> {
        match self.0.get(&(machine.into(), operation.into())) {
            Some(known) => known.the_one(),
            None => Err(RestoreError::UnknownOperation {
                operation: operation.to_owned(),
                machine: machine.to_owned(),
            }),
        }
    }

    /// Returns the machine of this release with this schema fingerprint.
    fn graph_of(&self, wanted: u64) -> Option<&'static Graph> {
        let known = self.0.values().filter_map(|known| known.the_one().ok());
        let mut graphs = known.map(|of| of.graph());
        graphs.find(|graph| seam::fingerprint(graph) == wanted)
    }

    /// Reads a fom's entry, except for the user's part.
    pub(super) fn find<'a>(
        &self,
        schemas: &Schemas,
        bytes: &'a [u8],
    ) -> Result<Entered<'a>, RestoreError> {
        let (meta, body) = decode_fom(bytes)?;
        let fingerprint = body.first_chunk().ok_or(RestoreError::Damaged)?;
        let fingerprint = u64::from_le_bytes(*fingerprint);
        let schema = schemas.get(fingerprint).or_else(|| {
            // Lost by damage. This release's own schema is the same, and is put again.
            let graph = self.graph_of(fingerprint)?;
            schemas.want(graph);
            Some(Arc::new(Schema::of(graph)))
        });
        let schema = schema.ok_or(RestoreError::NoSchema)?;
        let of = self.of(&schema.machine, &schema.operation)?;
        Ok(Entered {
            of,
            meta,
            schema,
            body,
        })
    }
}

impl Durable {
    /// Makes a fom of its entry. The fom is in no queue yet.
    fn read(&self, shared: &Shared, id: FomId, bytes: &[u8]) -> Result<Resident, RestoreError> {
        let entered = self.enter(bytes)?;
        if let Some(once) = &entered.meta.once {
            // The operation id stays taken even if the fom cannot come back.
            let place = (entered.of.type_id(), once.clone());
            self.memory.aside(place, id);
        }
        self.make(shared, id, entered)
    }

    /// Makes a fom of the parts of its entry. The fom is in no queue yet.
    fn make(
        &self,
        shared: &Shared,
        id: FomId,
        entered: Entered<'_>,
    ) -> Result<Resident, RestoreError> {
        let Entered {
            of,
            mut meta,
            schema,
            body,
        } = entered;
        let left = |at: u64| self.committer().map_or(0, |to| to.left_until(at));
        let rare = meta.rare.as_deref();
        let revival = Revival {
            shared,
            id,
            body: seam::encoded(&schema, body),
            key: meta.key.take(),
            number: meta.number,
            shares_key: rare.is_some_and(|rare| rare.shares),
            queues: rare.is_some_and(|rare| rare.queues),
            causes: std::mem::take(&mut meta.causes),
            attempt: meta.attempt,
            left: meta.due.map(left),
            kept_left: meta
                .kept
                .as_deref()
                .map(|(at, owner)| (left(*at), owner.clone())),
            home: meta.home.into(),
            placed: meta.settled,
            priority: match meta.priority {
                0 => Priority::High,
                1 => Priority::Normal,
                _ => Priority::Low,
            },
            state: DurableState::new(meta, true),
        };
        let fom = of.revive(revival)?.0;
        if self.passive.is_limited() {
            self.passive.one_made();
        }
        if let Some(once) = DurableState::of(&fom).and_then(DurableState::once) {
            let place = (of.type_id(), once.id.clone());
            self.memory.back(place, AnyRef::of(&fom));
        }
        Ok(fom)
    }
}

/// The parts of a fom's entry.
pub(super) struct Entered<'a> {
    pub(super) of: &'static dyn Restorer,
    pub(super) meta: Meta,
    pub(super) schema: Arc<Schema>,
    pub(super) body: &'a [u8],
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
    let mut sink = Sink {
        shared,
        tell,
        head: None,
        begun: false,
        used: 0,
        schemas: Vec::new(),
        unread: Vec::new(),
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
    let head = sink.head.unwrap_or_else(|| Head::new(seam::clock(shared)));
    Ok(Recovered {
        head,
        foms: sink.foms,
        found,
    })
}

struct Sink<'a> {
    shared: &'a Shared,
    tell: &'a mut dyn FnMut(&RecoveryProgress),
    head: Option<Head>,
    begun: bool,
    /// No entry with this id or a greater one was read.
    used: u64,
    /// Why the head cannot be read. Without the head, the used ids are unknown.
    no_head: Option<JournalError>,
    schemas: Vec<(EntryId, Schema)>,
    /// Foms that outboxes sent and that have not begun. Foms that have begun go first.
    sent: Vec<(EntryId, Vec<u8>)>,
    /// Entries of schemas that cannot be read.
    unread: Vec<EntryId>,
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
        let head = self
            .head
            .get_or_insert_with(|| Head::new(seam::clock(shared)));
        let schemas = Schemas::new(std::mem::take(&mut self.schemas), &self.unread);
        let durable = Durable::of(shared);
        durable.set_committer(Committer::new(
            head,
            seam::clock(shared),
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
                    Ok(schema) => self.schemas.push((id, schema)),
                    // Each entry that needs this schema is set aside.
                    Err(error) => {
                        self.unread.push(id);
                        let what = format!("schema {id} of the journal: {error}");
                        seam::report(self.shared, what);
                    }
                }
            }
            _ => self.unread.push(id),
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

    fn bring_back(&mut self, id: EntryId, bytes: &[u8]) {
        match Types::bring_back(self.shared, id, bytes) {
            Ok(resident) => self.foms.push((fom_of(id), resident)),
            Err(aside) => self.set_aside(*aside),
        }
    }

    /// Delivers events in the order in which they were sent.
    fn deliver(&mut self) {
        let mut messages = std::mem::take(&mut self.messages);
        messages.sort_by_key(|(id, bytes)| (number_of(bytes), *id));
        for (id, bytes) in messages {
            if let Err(aside) = Types::take_in(self.shared, id, &bytes) {
                self.set_aside(*aside);
            }
        }
    }

    fn set_aside(&mut self, aside: SetAside) {
        self.progress.set_aside += 1;
        Durable::of(self.shared).set_aside.put(aside);
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
            if let Err(aside) = Types::remember_again(self.shared, id, bytes) {
                self.set_aside(*aside);
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
        if durable.passive.is_limited() {
            match durable.enter(bytes) {
                // Foms that held their gates are made at once, so that later requests, such as for locks, queue behind
                // them.
                Ok(entered) if holds_gate(&entered.meta) => {}
                Ok(entered) => {
                    durable.passive.add(self.shared, fom, &entered, bytes);
                    return;
                }
                Err(reason) => {
                    self.set_aside(durable.aside(fom, reason, bytes));
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
            self.unread.push(id);
            let what = "a schema of the journal is damaged";
            seam::report(self.shared, format!("{what}: {damage}"));
        } else {
            self.begin();
            self.used = self.used.max(fom_of(id).get() + 1);
            let id = fom_of(id);
            let reason = in_journal(damage);
            self.set_aside(Durable::of(self.shared).aside(id, reason, &[]));
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
