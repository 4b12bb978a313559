//! The operation types that a program names to its inspector, for the actions that need the type.

use std::fmt;

use fom_runtime::{
    FomId, Key, Operation, Persistent, Runtime, error::SendError, machine::Graph,
    snapshot::Snapshot, submission::SuspendedKey,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::catalog::same;

/// What an event goes to.
#[derive(Clone, Debug)]
pub(crate) enum Receiver {
    Id(FomId),
    Key(Key),
}

/// Why an event was not sent.
#[derive(Debug)]
pub(crate) enum NotSent {
    /// The text is no event; what serde says.
    Unreadable(String),
    NoFom,
    Ended,
    Full,
}

/// Suspends a key, until the result is dropped.
pub(crate) type Suspend = fn(&Runtime, Key) -> SuspendedKey;
/// Submits a failed operation again. Returns the id of the new fom, or why there is none.
pub(crate) type Resubmit = fn(&Runtime, &Snapshot, Option<&Key>) -> Result<FomId, String>;
/// Sends an event. Returns the id of its receiver.
pub(crate) type Send = fn(&Runtime, &Receiver, Value) -> Result<FomId, NotSent>;

/// What can be done with the operations of one type.
#[derive(Clone, Copy)]
struct Type {
    graph: &'static Graph,
    suspend: Suspend,
    resubmit: Option<Resubmit>,
    send: Option<Send>,
}

/// The types that the program named.
#[derive(Clone, Default)]
pub(crate) struct Types(Vec<Type>);

impl fmt::Debug for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|of| of.graph.operation());
        f.debug_list().entries(names).finish()
    }
}

impl Types {
    fn of<O: Operation>(&mut self) -> &mut Type {
        let place = self.0.iter().position(|of| same(of.graph, O::GRAPH));
        let place = place.unwrap_or_else(|| {
            self.0.push(Type {
                graph: O::GRAPH,
                suspend: |runtime, key| runtime.suspend_key::<O>(key),
                resubmit: None,
                send: None,
            });
            self.0.len() - 1
        });
        &mut self.0[place]
    }

    pub(crate) fn operation<O: Operation>(&mut self) {
        let _ = self.of::<O>();
    }

    pub(crate) fn persistent<O: Persistent>(&mut self) {
        self.of::<O>().resubmit = Some(|runtime, snapshot, key| {
            let submission = runtime.resume::<O>(snapshot);
            let mut submission = submission.map_err(|error| error.to_string())?;
            if let Some(key) = key {
                submission = submission.key(key.clone());
            }
            let started = submission.start();
            started
                .map(|handle| handle.id())
                .map_err(|refused| refused.to_string())
        });
    }

    pub(crate) fn event<O>(&mut self)
    where
        O: Operation,
        O::Event: DeserializeOwned,
    {
        self.of::<O>().send = Some(|runtime, receiver, event| {
            let event: O::Event = serde_json::from_value(event)
                .map_err(|error| NotSent::Unreadable(error.to_string()))?;
            let fom = match receiver {
                Receiver::Id(id) => runtime.find_id::<O>(*id),
                Receiver::Key(key) => runtime.find::<O>(key.clone()),
            };
            let fom = fom.ok_or(NotSent::NoFom)?;
            match fom.send(event) {
                Ok(()) => Ok(fom.id()),
                Err(SendError::Full(_)) => Err(NotSent::Full),
                Err(_) => Err(NotSent::Ended),
            }
        });
    }

    fn find(&self, graph: &Graph) -> Option<&Type> {
        self.0.iter().find(|of| same(of.graph, graph))
    }

    pub(crate) fn suspend(&self, graph: &Graph) -> Option<Suspend> {
        self.find(graph).map(|of| of.suspend)
    }

    pub(crate) fn resubmit(&self, graph: &Graph) -> Option<Resubmit> {
        self.find(graph)?.resubmit
    }

    pub(crate) fn send(&self, graph: &Graph) -> Option<Send> {
        self.find(graph)?.send
    }
}
