//! The operation types that can come back, and the making of a fom of its entry.

use std::{
    any::TypeId,
    borrow::Cow,
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use fom_journal::EntryId;

use crate::{
    durable::{
        Committer, Durable, DurableState, Kind, Message, Meta, idempotency::decode_outcome,
        quarantine::keep_place, record::decode_fom, schemas::Schemas,
    },
    entry::fom_of,
};
use fom_protocol::panic_message;
use fom_runtime::{
    __durability::{
        self as seam, AnyRef, EventReader, KeyClaim, Registered, Resident, Restorer, Revival,
        RevivedHome, RevivedVisit, Schema, Shared,
    },
    FomId, Persistent,
    error::BuildError,
    machine::{Durability, Graph},
    snapshot::{Quarantined, RestoreError},
    submission::Priority,
};

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
    let names = graph.names().into_iter().enumerate();
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
    ) -> Result<Resident, Box<Quarantined>> {
        Self::make_again(shared, entry, bytes).map_err(|reason| {
            let mut quarantined =
                Box::new(Durable::of(shared).quarantined(fom_of(entry), reason, bytes));
            keep_place(&mut quarantined, shared);
            quarantined
        })
    }

    /// As [`bring_back`](Self::bring_back). A fom that cannot come back keeps no place for its key.
    pub(super) fn make_again(
        shared: &Shared,
        entry: EntryId,
        bytes: &[u8],
    ) -> Result<Resident, RestoreError> {
        // The user's code reads a part of the entry.
        let read = || Durable::of(shared).read(shared, fom_of(entry), bytes);
        let back = catch_unwind(AssertUnwindSafe(read));
        back.unwrap_or_else(|panic| Err(RestoreError::Panicked(panic_message(panic))))
    }

    /// Takes in an entry: remembers an outcome, delivers an event, or makes a fom. The fom has the events that waited
    /// for it, and is in no queue yet.
    pub(crate) fn take_in(
        shared: &Shared,
        entry: EntryId,
        bytes: &[u8],
    ) -> Result<Option<Resident>, Box<Quarantined>> {
        match bytes.first() {
            Some(kind) if *kind == Kind::Outcome as u8 => {
                return Self::remember_again(shared, entry, bytes).map(|()| None);
            }
            Some(kind) if *kind == Kind::Sent as u8 => {
                return Self::remember_send(shared, entry, bytes).map(|()| None);
            }
            Some(kind) if *kind == Kind::Failed as u8 => {
                let listed = Durable::of(shared).list_failed(shared, fom_of(entry), bytes);
                return listed.map(|()| None);
            }
            Some(kind) if *kind == Kind::Message as u8 => {
                let deliver = || Message::deliver_again(shared, entry, bytes);
                return catch_unwind(AssertUnwindSafe(deliver))
                    .unwrap_or_else(|panic| Err(RestoreError::Panicked(panic_message(panic))))
                    .map(|()| None)
                    .map_err(|reason| {
                        Box::new(Durable::of(shared).quarantined(fom_of(entry), reason, bytes))
                    });
            }
            _ => {}
        }
        let fom = Self::bring_back(shared, entry, bytes)?;
        let durable = Durable::of(shared);
        // The fom is found by its key by now, so there is no moment in which events for it go nowhere.
        drop(durable.quarantine.take(fom.id()));
        durable.give_kept(fom.id(), DurableState::of(&fom));
        durable.passive.revive_before(shared, &fom);
        Ok(Some(fom))
    }

    /// Remembers the outcome in this entry.
    pub(super) fn remember_again(
        shared: &Shared,
        entry: EntryId,
        bytes: &[u8],
    ) -> Result<(), Box<Quarantined>> {
        let durable = Durable::of(shared);
        let id = fom_of(entry);
        let was = decode_outcome(&bytes[1..])
            .map_err(|reason| Box::new(durable.quarantined(id, reason, bytes)))?;
        let of = match durable.types.of(&was.machine, &was.operation) {
            Ok(of) => Some((of.type_id(), of.graph())),
            Err(reason @ RestoreError::Ambiguous { .. }) => {
                // The operation must not run again, whichever of the types it is.
                for of in durable.types.all(&was.machine, &was.operation) {
                    if let Some(once) = &was.id {
                        let place = (of.type_id(), once.clone());
                        durable.memory.quarantined(place, id);
                    }
                }
                return Err(Box::new(durable.quarantined(id, reason, bytes)));
            }
            Err(_) => None,
        };
        durable.memory.recovered(id, of, was);
        Ok(())
    }

    /// Remembers the id of a durable send in this entry.
    pub(super) fn remember_send(
        shared: &Shared,
        entry: EntryId,
        bytes: &[u8],
    ) -> Result<(), Box<Quarantined>> {
        let (durable, id) = (Durable::of(shared), fom_of(entry));
        let done = durable.remember_send(id, bytes);
        done.map_err(|reason| Box::new(durable.quarantined(id, reason, bytes)))
    }

    /// Returns the operation types with this name.
    fn all(&self, machine: &str, operation: &str) -> Vec<&'static dyn Restorer> {
        let known = self.0.get(&(machine.into(), operation.into()));
        let both = known.map_or([None, None], |known| [Some(known.of), known.other]);
        both.into_iter().flatten().collect()
    }

    /// Returns the operation type with this name.
    pub(super) fn of(
        &self,
        machine: &str,
        operation: &str,
    ) -> Result<&'static dyn Restorer, RestoreError> {
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
            self.memory.quarantined(place, id);
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
        let to = self.committer().map(|to| &**to);
        let path = meta.path;
        meta.path = path.in_release(&schema, of.graph());
        let rare = meta.rare.as_deref();
        let begins = rare.and_then(|rare| rare.begins);
        let carried = rare.and_then(|rare| rare.carried.as_deref());
        let revival = Revival {
            shared,
            id,
            body: seam::encoded(&schema, body),
            after: begins.map(|at| Duration::from_nanos(left(to, at))),
            carried: carried.cloned().unwrap_or_default(),
            key: key_claim(&mut meta),
            visit: visit(to, &mut meta),
            home: RevivedHome {
                index: meta.home.index.into(),
                chosen: meta.home.settled,
            },
            priority: match meta.priority {
                0 => Priority::High,
                1 => Priority::Normal,
                _ => Priority::Low,
            },
            state: {
                let remembering = self.memory.remembering(of.type_id(), meta.once.take());
                DurableState::new(meta, true, remembering)
            },
        };
        let fom = of.revive(revival)?.0;
        if let Some(state) = DurableState::of(&fom)
            && seam::has_unread_phase(&fom)
        {
            state.inner().keep_path(path);
        }
        if self.passive.is_limited() {
            self.passive.one_made();
        }
        if let Some(once) = DurableState::of(&fom).and_then(DurableState::once) {
            let place = (of.type_id(), once.clone());
            self.memory.back(place, AnyRef::of(&fom));
        }
        Ok(fom)
    }
}

/// Returns how long it is until this time of the journal.
fn left(to: Option<&Committer>, at: u64) -> u64 {
    to.map_or(0, |to| to.left_until(at))
}

/// Returns what the fom has done in its phase so far.
fn visit(to: Option<&Committer>, meta: &mut Meta) -> RevivedVisit {
    let tried = std::mem::take(&mut meta.tried);
    let tried = to.map(|to| to.on_clock(tried));
    let times = to.zip(meta.times).map(|(to, times)| {
        let [submitted, since] = [times.submitted, times.since].map(|at| to.past_on_clock(at));
        (submitted, since)
    });
    let kept = meta.kept.as_deref();
    let rare = meta.rare.as_deref();
    RevivedVisit {
        heard_cancel: rare.is_some_and(|rare| rare.heard_cancel),
        turned_back: rare.is_some_and(|rare| rare.turned_back),
        times,
        tried: tried.unwrap_or_default(),
        attempt: meta.attempt,
        left: meta.due.map(|at| left(to, at)),
        kept_left: kept.map(|(at, owner)| (left(to, *at), owner.clone())),
    }
}

/// Returns what the fom has of its key or series, if it has one of them.
fn key_claim(meta: &mut Meta) -> Option<KeyClaim> {
    let key = meta.key.take();
    let series = meta.series().cloned();
    let rare = meta.rare.as_deref();
    (key.is_some() || series.is_some()).then(|| KeyClaim {
        key,
        series,
        number: meta.number,
        shares: rare.is_some_and(|rare| rare.shares),
        queues: rare.is_some_and(|rare| rare.queues),
    })
}

/// The parts of a fom's entry.
pub(super) struct Entered<'a> {
    pub(super) of: &'static dyn Restorer,
    pub(super) meta: Meta,
    pub(super) schema: Arc<Schema>,
    pub(super) body: &'a [u8],
}
