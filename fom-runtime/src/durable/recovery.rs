//! The way back after a restart: what the journal keeps becomes foms again, before anything new is taken in.

use std::{collections::HashMap, fmt, marker::PhantomData, sync::Arc};

use serde::Deserialize;

use crate::{
    Snapshot,
    durable::{
        Committer, Head, Kept, Kind, Meta,
        committer::{HEAD_ENTRY, fenced},
        record::{decode_meta, fom_of},
    },
    error::RestoreError,
    fom::Resident,
    id::FomId,
    journal::{Damage, EntryId, Journal, JournalError, Recover, Recovery},
    locality::Locality,
    operation::Persistent,
    runtime::{World, restore},
};

/// How far a recovery is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryProgress {
    /// Entries read so far.
    pub read: u64,
    /// Entries that there are, if that is known.
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

/// A fom that is in the journal and cannot run. It stays there as it is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SetAside {
    /// The fom.
    pub id: FomId,
    /// Why.
    pub reason: RestoreError,
    /// What is kept of it.
    pub bytes: Vec<u8>,
}

/// How the foms of one operation type come back.
pub(crate) trait Restore: Send + Sync {
    fn restore(
        &self,
        world: &Arc<World>,
        id: FomId,
        meta: Meta,
        body: &Snapshot,
    ) -> Result<Resident, RestoreError>;
}

/// Of the operation type `O`.
struct Of<O>(PhantomData<fn() -> O>);

impl<O: Persistent> Restore for Of<O> {
    fn restore(
        &self,
        world: &Arc<World>,
        id: FomId,
        meta: Meta,
        body: &Snapshot,
    ) -> Result<Resident, RestoreError> {
        let (operation, phase) = O::restore(body)?;
        restore::<O>(world, id, operation, phase, Kept::new(meta, true))
    }
}

/// The operation types that can come back, by machine and operation.
#[derive(Default)]
pub(crate) struct Types(HashMap<(String, String), Box<dyn Restore>>);

impl Types {
    pub(crate) fn add<O: Persistent>(&mut self) {
        let name = (O::GRAPH.name().to_owned(), O::GRAPH.operation().to_owned());
        self.0.insert(name, Box::new(Of::<O>(PhantomData)));
    }
}

/// What a recovery brought back.
pub(crate) struct Recovered {
    pub(crate) head: Head,
    /// Not yet in any queue: nobody runs before all are there.
    pub(crate) foms: Vec<Resident>,
    pub(crate) found: Recovery,
}

/// Reads the journal and makes foms of what it keeps.
///
/// # Errors
///
/// With the foms that were made already, which nobody runs.
pub(crate) fn recover(
    world: &Arc<World>,
    journal: &mut dyn Journal,
    types: &Types,
    tell: &mut dyn FnMut(&RecoveryProgress),
) -> Result<Recovered, (JournalError, Vec<Resident>)> {
    let mut sink = Sink {
        world,
        types,
        tell,
        head: None,
        begun: false,
        foms: Vec::new(),
        progress: RecoveryProgress::default(),
    };
    let found = match fenced(|| journal.recover(&mut sink)) {
        Ok(found) => found,
        Err(error) => return Err((error, sink.foms)),
    };
    sink.begin();
    sink.report();
    let head = sink.head.unwrap_or_else(|| Head::new(&world.clock));
    Ok(Recovered {
        head,
        foms: sink.foms,
        found,
    })
}

struct Sink<'a> {
    world: &'a Arc<World>,
    types: &'a Types,
    tell: &'a mut dyn FnMut(&RecoveryProgress),
    head: Option<Head>,
    begun: bool,
    foms: Vec<Resident>,
    progress: RecoveryProgress,
}

/// Entries between two reports.
const REPORT_EVERY: u64 = 10_000;

impl Sink<'_> {
    /// The head is read, or there is none: from here on there are ids and a time.
    fn begin(&mut self) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let world = self.world;
        let head = self.head.get_or_insert_with(|| Head::new(&world.clock));
        world.set_committer(Committer::new(head, &world.clock));
        let first = head.next_id;
        world.number_from(first);
        for home in &world.localities {
            in_locality(home, move |core| core.number_from(first));
        }
    }

    fn report(&mut self) {
        self.progress.foms = self.foms.len() as u64;
        (self.tell)(&self.progress);
    }

    fn fom(&mut self, id: FomId, bytes: &[u8]) -> Result<(), RestoreError> {
        let (meta, body) = decode_meta(bytes)?;
        let body = Snapshot::from_bytes(body)?;
        let name = (body.machine()?, body.operation()?);
        let Some(of) = self.types.0.get(&name) else {
            return Err(RestoreError::UnknownOperation {
                operation: name.1,
                machine: name.0,
            });
        };
        self.foms.push(of.restore(self.world, id, meta, &body)?);
        Ok(())
    }

    fn set_aside(&mut self, id: FomId, reason: RestoreError, bytes: &[u8]) {
        self.progress.set_aside += 1;
        self.world.set_aside.lock().push(SetAside {
            id,
            reason,
            bytes: bytes.to_vec(),
        });
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
            if id == HEAD_ENTRY {
                self.head = bytes.split_first().and_then(|(kind, bytes)| {
                    (*kind == Kind::Head as u8).then(|| {
                        let mut reader = rmp_serde::Deserializer::new(bytes);
                        Head::deserialize(&mut reader).ok()
                    })?
                });
            }
            return;
        }
        self.begin();
        let id_of = FomId(fom_of(id));
        let done = match bytes.split_first() {
            Some((kind, rest)) if *kind == Kind::Fom as u8 => self.fom(id_of, rest),
            _ => Err(RestoreError::Damaged),
        };
        if let Err(reason) = done {
            self.set_aside(id_of, reason, bytes);
        }
    }

    fn damaged(&mut self, id: EntryId, damage: Damage) {
        self.begin();
        self.progress.read += 1;
        if id >= EntryId::HEAD {
            self.set_aside(FomId(fom_of(id)), RestoreError::InJournal(damage), &[]);
        }
    }
}

/// Runs `f` in a locality and waits for it.
fn in_locality(home: &Locality, f: impl FnOnce(&mut crate::locality::Core) + Send + 'static) {
    let (tell, told) = tokio::sync::oneshot::channel();
    home.post_job(Box::new(move |core| {
        f(core);
        // Whoever waits, waits.
        let _ = tell.send(());
    }));
    // An error: the locality has ended, and numbers nothing.
    let _ = crate::sync::block_on(told);
}
