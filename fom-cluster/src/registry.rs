//! The operation types that a node serves, by their names.

use std::{
    any::TypeId,
    collections::{HashMap, HashSet},
    future::Future,
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
};

use fom_durable::{
    Address, DurableExt as _, DurableFomExt as _, DurableSubmissionExt as _, End, Lookup,
    NotCommitted, NotSentReason, Outbox, Sent,
};
use fom_runtime::{
    Handle, Key, Persistent, Runtime,
    error::RefusedReason,
    machine::Savable,
    snapshot::{Snapshot, SnapshotError},
};

use crate::{
    answers::Answers,
    call::{At, Blob, Content, Name, Reply, Submit},
    engine::Versions,
};

/// A reply that comes later.
pub(crate) type Replying<'a> = Pin<Box<dyn Future<Output = Reply> + Send + 'a>>;

/// The operation types that a node serves.
#[derive(Default)]
pub(crate) struct Registry {
    by_name: HashMap<Name, Box<dyn Serves>>,
    /// The types by the names that they had in earlier releases.
    by_earlier_name: HashMap<Name, Box<dyn Serves>>,
    versions: Versions,
    types: HashSet<TypeId>,
    answers: HashMap<String, Arc<dyn Answers>>,
    /// The first name that was added twice.
    added_twice: Option<String>,
}

impl Registry {
    /// Adds an operation type.
    pub(crate) fn add<O>(&mut self)
    where
        O: Persistent,
        O::Event: Savable,
    {
        let is_new = self.types.insert(TypeId::of::<O>());
        let current = name_of::<O>();
        // Journals, letters and nodes of an earlier release have its names.
        for (machine, operation) in O::GRAPH.names() {
            let name = Name {
                machine: machine.to_owned(),
                operation,
            };
            let known_as = format!("{} {}", name.machine, name.operation);
            let types = if name == current {
                self.versions.insert(known_as.clone(), O::GRAPH.version());
                &mut self.by_name
            } else {
                // The version of a type that has the name now counts.
                self.versions
                    .entry(known_as.clone())
                    .or_insert(O::GRAPH.version());
                &mut self.by_earlier_name
            };
            let served = types.insert(name, Box::new(Of::<O>(PhantomData)));
            if is_new && served.is_some() {
                self.added_twice.get_or_insert(known_as);
            }
        }
    }

    /// Returns what the node can read, by the names of the machine and of the operation.
    pub(crate) fn versions(&self) -> &Versions {
        &self.versions
    }

    /// Whether the node serves this type.
    pub(crate) fn serves<O: Persistent>(&self) -> bool {
        self.types.contains(&TypeId::of::<O>())
    }

    /// Adds what answers the calls of this name.
    pub(crate) fn add_answers(&mut self, name: String, answers: Arc<dyn Answers>) {
        if self.answers.insert(name.clone(), answers).is_some() {
            self.added_twice.get_or_insert(name);
        }
    }

    /// Returns the first name that two types, or two answers, have.
    pub(crate) fn added_twice(&self) -> Option<&str> {
        self.added_twice.as_deref()
    }

    pub(crate) fn answers(&self, name: &str) -> Option<&Arc<dyn Answers>> {
        self.answers.get(name)
    }

    pub(crate) fn get(&self, name: &Name) -> Option<&dyn Serves> {
        let current = self.by_name.get(name);
        let serves = current.or_else(|| self.by_earlier_name.get(name))?;
        Some(&**serves)
    }
}

/// Returns the names of an operation type.
pub(crate) fn name_of<O: Persistent>() -> Name {
    Name {
        machine: O::GRAPH.name().to_owned(),
        operation: O::GRAPH.operation().to_owned(),
    }
}

/// Serves the requests for one operation type.
pub(crate) trait Serves: Send + Sync {
    fn submit(&self, runtime: Runtime, submit: Submit) -> Replying<'_>;
    fn ended(&self, runtime: Runtime, once: Key) -> Replying<'_>;
    fn find(&self, runtime: &Runtime, at: At) -> Reply;
    fn cancel(&self, runtime: &Runtime, at: At) -> Reply;
    fn send(&self, runtime: Runtime, to: At, event: Blob, once: Key) -> Replying<'_>;

    /// Gives the content of a letter to the outbox of a phase.
    ///
    /// # Errors
    ///
    /// Fails if this release cannot read it.
    fn take(&self, outbox: &Outbox<'_>, content: &Content) -> Result<(), String>;
}

struct Of<O>(PhantomData<fn() -> O>);

impl<O> Serves for Of<O>
where
    O: Persistent,
    O::Event: Savable,
{
    fn submit(&self, runtime: Runtime, submit: Submit) -> Replying<'_> {
        Box::pin(async move {
            let operation = match read::<O>(submit.operation) {
                Ok(operation) => operation,
                Err(why) => return Reply::Failed(why),
            };
            let Submit {
                key,
                serial,
                once,
                queues,
                ..
            } = submit;
            match start(&runtime, operation, key, serial, once, queues).await {
                Ok(_) => Reply::Started,
                Err(NotBegun::Refused(_, reason)) => Reply::Refused(reason),
                Err(NotBegun::Busy(_)) => Reply::Busy,
                // The caller asks again: the operation runs once for its id.
                Err(NotBegun::Leaves(_) | NotBegun::Lost) => Reply::Moved,
            }
        })
    }

    fn ended(&self, runtime: Runtime, once: Key) -> Replying<'_> {
        Box::pin(async move {
            match runtime.ended::<O>(once).await {
                End::Saved(end) => Reply::Ended(Blob(end.to_bytes())),
                End::Quarantined => Reply::Quarantined,
                End::Unknown => Reply::Unknown,
                // It goes on at another owner.
                _ => Reply::Moved,
            }
        })
    }

    fn find(&self, runtime: &Runtime, at: At) -> Reply {
        let Some(address) = address(at) else {
            return Reply::Unknown;
        };
        match runtime.outcome::<O>(address.clone()) {
            Lookup::InFlight(id) => match runtime.operation(id) {
                Some(info) => Reply::InFlight(info.phase.to_owned()),
                None => gone::<O>(runtime, address, Reply::Done),
            },
            Lookup::Ended { .. } => Reply::Done,
            Lookup::Quarantined(_) => Reply::Quarantined,
            Lookup::Unknown => Reply::Unknown,
            // It goes on at another owner.
            _ => Reply::Moved,
        }
    }

    fn cancel(&self, runtime: &Runtime, at: At) -> Reply {
        let Some(address) = address(at) else {
            return Reply::Unknown;
        };
        match runtime.outcome::<O>(address.clone()) {
            Lookup::InFlight(id) if runtime.cancel(id) => Reply::Done,
            Lookup::InFlight(_) => gone::<O>(runtime, address, Reply::Before),
            Lookup::Ended { .. } => Reply::Before,
            Lookup::Quarantined(_) => Reply::Quarantined,
            Lookup::Unknown => Reply::Unknown,
            // It goes on at another owner.
            _ => Reply::Moved,
        }
    }

    fn send(&self, runtime: Runtime, to: At, event: Blob, once: Key) -> Replying<'_> {
        Box::pin(async move {
            let event: O::Event = match rmp_serde::from_slice(&event.0) {
                Ok(event) => event,
                Err(error) => return Reply::Failed(format!("the event cannot be read: {error}")),
            };
            let Some(address) = address(to) else {
                return Reply::Unknown;
            };
            match runtime.send_durably::<O>(address, event, once).await {
                Ok(Sent::Now) => Reply::Done,
                Ok(_) => Reply::Before,
                Err(not_sent) => match not_sent.reason {
                    NotSentReason::NoReceiver { .. } => Reply::Unknown,
                    NotSentReason::NotAccepted | NotSentReason::Journal(_) => Reply::Moved,
                    NotSentReason::QuarantineFull => Reply::Quarantined,
                    reason => Reply::Failed(reason.to_string()),
                },
            }
        })
    }

    fn take(&self, outbox: &Outbox<'_>, content: &Content) -> Result<(), String> {
        let saved = |error: SnapshotError| error.to_string();
        match content.clone() {
            Content::Event { to, event } => {
                let event: O::Event =
                    rmp_serde::from_slice(&event.0).map_err(|error| error.to_string())?;
                let key = to.key.ok_or("a letter goes to a key")?;
                outbox.send::<O>(key, event).map_err(saved)
            }
            Content::Submit(submit) => {
                let mut posting = outbox.submit(read::<O>(submit.operation)?);
                if let Some(key) = submit.key {
                    posting = posting.key(key);
                }
                posting = match submit.serial {
                    Some(series) => posting.serial(series),
                    None => posting.queue(),
                };
                posting.post().map(drop).map_err(saved)
            }
        }
    }
}

/// Why an operation did not begin in the runtime of its slot.
pub(crate) enum NotBegun<O> {
    Refused(O, RefusedReason),
    /// The node has too much to do.
    Busy(O),
    /// The runtime ends, because the slot goes to another node.
    Leaves(O),
    /// The runtime ended meanwhile. The journal may have the operation.
    Lost,
}

/// Starts an operation in the runtime of its slot. Returns when the journal has it.
///
/// # Errors
///
/// Fails if the runtime refuses it or ends.
pub(crate) async fn start<O: Persistent>(
    runtime: &Runtime,
    operation: O,
    key: Option<Key>,
    series: Option<Key>,
    once: Option<Key>,
    queues: bool,
) -> Result<Handle<O>, NotBegun<O>> {
    let handle = {
        let mut submission = runtime.submit(operation);
        if let Some(key) = key {
            submission = submission.key(key);
        }
        if let Some(series) = series {
            submission = submission.serial(series);
        }
        if queues {
            submission = submission.queue();
        }
        if let Some(once) = once {
            submission = submission.once(once);
        }
        submission.start().map_err(|refused| {
            let reason = refused.reason();
            let operation = refused.into_operation();
            match reason {
                RefusedReason::ShuttingDown | RefusedReason::Moved => NotBegun::Leaves(operation),
                reason => NotBegun::Refused(operation, reason),
            }
        })?
    };
    match handle.committed().await {
        Ok(()) | Err(NotCommitted::NotKept) => Ok(handle),
        Err(_) => Err(NotBegun::Lost),
    }
}

fn read<O: Persistent>(bytes: Blob) -> Result<O, String> {
    let snapshot = Snapshot::from_bytes(bytes.0).map_err(|error| error.to_string())?;
    let restored = O::restore(&snapshot);
    let (operation, phase) = restored.map_err(|error| error.to_string())?;
    match O::kind(&phase) == O::kind(&O::start()) {
        true => Ok(operation),
        false => Err("a submitted operation is not at its start".to_owned()),
    }
}

/// Returns the answer for an operation that was in flight a moment ago: that it has ended, unless its runtime ends.
fn gone<O: Persistent>(runtime: &Runtime, address: Address, ended: Reply) -> Reply {
    match runtime.outcome::<O>(address) {
        Lookup::Ended { .. } | Lookup::Unknown => ended,
        // It goes on at another owner.
        _ => Reply::Moved,
    }
}

fn address(at: At) -> Option<Address> {
    match (at.key, at.once) {
        (Some(key), _) => Some(Address::Key(key)),
        (None, Some(id)) => Some(Address::Once(id)),
        (None, None) => None,
    }
}
