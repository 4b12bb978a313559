//! The way of an operation to the owner of its slot, and of its end back. On the node of the owner this is a submission to the
//! runtime of the slot, without a message.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::{Arc, atomic::Ordering},
};

use fom_durable::{DurableFomExt as _, NotCommitted, SavedEnd};
use fom_runtime::{
    Cause, Failure, Handle, Key, Persistent, error::RefusedReason, snapshot::SnapshotError,
    submission::Ended,
};

use crate::{
    call::{Blob, Reply, Submit, What},
    commits::Owned,
    error::ClusterError,
    node::Node,
    registry::begin,
    route::{Serving, ask, failed, request},
    slot::Place,
};

/// How an operation ended.
///
/// If this node ran the operation, this is what the handle of [`Runtime::submit`](fom_runtime::Runtime::submit) returns. If another
/// node did, a failure has the cause [`Cause::Remembered`] and no operation.
pub type Outcome<O> = Result<Ended<O>, Failure<O>>;

/// An operation on its way to the owner of its slot.
#[must_use = "a submission does nothing until it is started"]
pub struct Submission<'a, O: Persistent> {
    node: &'a Arc<Node>,
    operation: O,
    place: Place,
    queues: bool,
}

impl<O: Persistent> fmt::Debug for Submission<'_, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Submission").field(&self.place).finish()
    }
}

impl<'a, O: Persistent> Submission<'a, O> {
    pub(crate) fn new(node: &'a Arc<Node>, operation: O) -> Self {
        Self {
            node,
            operation,
            place: Place {
                key: None,
                serial: None,
                once: None,
            },
            queues: false,
        }
    }

    /// Gives the operation a key, as [`fom_runtime::Submission::key`] does: at most one live operation of its type in the
    /// cluster has it. The key gives the operation its slot.
    pub fn key(mut self, key: impl Into<Key>) -> Self {
        self.place.key = Some(key.into());
        self
    }

    /// Makes the operation a part of a series, as [`fom_runtime::Submission::serial`] does. The series gives it its slot.
    pub fn serial(mut self, series: impl Into<Key>) -> Self {
        self.place.serial = Some(series.into());
        self
    }

    /// Waits behind other operations with the same key, as [`fom_runtime::Submission::queue`] does.
    pub fn queue(mut self) -> Self {
        self.queues = true;
        self
    }

    /// Gives the operation an id, as `once` of `fom-durable` does. The id is unique for one key or series: with another one, it
    /// is another operation. Default: an id that no other submission has.
    pub fn once(mut self, id: impl Into<Key>) -> Self {
        self.place.once = Some(id.into());
        self
    }

    /// Starts the operation. When this method returns, the operation is in the journal of its slot, and is carried out,
    /// whichever node is lost.
    ///
    /// # Errors
    ///
    /// Fails with [`NotStarted`], which gives the operation back. After [`ClusterError::NoOwner`], the operation may have
    /// started: the [place](NotStarted::place) has its id.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the operation may be started or not.
    pub async fn start(self) -> Result<Started<O>, NotStarted<O>> {
        let Self {
            node,
            operation,
            mut place,
            queues,
        } = self;
        if place.once.is_none() {
            place.once = Some(unique(node));
        }
        let not = |operation, place, reason| NotStarted {
            operation,
            place,
            reason,
        };
        let failed_to = |error: SnapshotError| ClusterError::Failed(error.to_string());
        // Made before this node begins the operation: if it loses the slot, another one needs it.
        let snapshot = match operation.snapshot(&O::start()) {
            Ok(snapshot) => snapshot,
            Err(error) => return Err(not(Some(operation), place, failed_to(error))),
        };
        let operation = match start_here(node, operation, &place, queues).await {
            Here::Started(here) => return Ok(Started::new(node, place, Some(here))),
            Here::Refused(operation, reason) => return Err(not(Some(operation), place, reason)),
            Here::NotOwned(operation) => Some(operation),
            Here::Lost => None,
        };
        let submit = Submit {
            operation: Blob(snapshot.as_bytes().to_vec()),
            key: place.key.clone(),
            serial: place.serial.clone(),
            once: place.operation_id(),
            queues,
        };
        let reason = match ask(node, request::<O>(node, &place, What::Submit(submit))).await {
            Ok(Reply::Started) => return Ok(Started::new(node, place, None)),
            Ok(other) => failed(other, &place),
            Err(reason) => reason,
        };
        let operation = operation.or_else(|| Some(O::restore(&snapshot).ok()?.0));
        Err(not(operation, place, reason))
    }
}

/// An operation that this node has begun in a slot of its own.
struct OfHere<O: Persistent> {
    owned: Arc<Owned>,
    handle: Handle<O>,
}

/// What became of an operation on this node.
enum Here<O: Persistent> {
    Started(OfHere<O>),
    Refused(O, ClusterError),
    /// This node does not own the slot, or gives it up.
    NotOwned(O),
    /// This node has lost the slot. The journal may have the operation.
    Lost,
}

/// Starts an operation on this node, if it owns the slot.
async fn start_here<O: Persistent>(
    node: &Arc<Node>,
    operation: O,
    place: &Place,
    queues: bool,
) -> Here<O> {
    let serving = node.serving(place.slot(node.facts.slots));
    let Some((owned, runtime)) = serving.filter(|_| node.registry.serves::<O>()) else {
        return Here::NotOwned(operation);
    };
    let Some(_serving) = Serving::begin(node) else {
        return Here::Refused(operation, ClusterError::Busy);
    };
    let handle = {
        let (key, series) = (place.key.clone(), place.serial.clone());
        match begin(
            &runtime,
            operation,
            key,
            series,
            place.operation_id(),
            queues,
        ) {
            Ok(handle) => handle,
            Err(refused) => {
                let reason = refused.reason();
                let operation = refused.into_operation();
                return match reason {
                    RefusedReason::ShuttingDown | RefusedReason::Moved => Here::NotOwned(operation),
                    reason => Here::Refused(operation, ClusterError::Refused(reason)),
                };
            }
        }
    };
    match handle.committed().await {
        Ok(()) | Err(NotCommitted::NotKept) if owned.lease.holds() => {
            Here::Started(OfHere { owned, handle })
        }
        _ => Here::Lost,
    }
}

/// An operation that was not started.
#[non_exhaustive]
pub struct NotStarted<O> {
    /// The operation. `None` if this node began it, lost the slot, and cannot read it back from its snapshot.
    pub operation: Option<O>,
    /// Its place, with its operation id.
    pub place: Place,
    /// Why it was not started.
    pub reason: ClusterError,
}

impl<O> fmt::Debug for NotStarted<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotStarted")
            .field("place", &self.place)
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

impl<O> fmt::Display for NotStarted<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the operation was not started: {}", self.reason)
    }
}

impl<O> std::error::Error for NotStarted<O> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.reason)
    }
}

/// An operation of the cluster that has started. Awaited, it returns how the operation ended, wherever it runs then.
#[must_use = "await it to learn how the operation ended; drop it otherwise"]
pub struct Started<O: Persistent> {
    node: Arc<Node>,
    place: Place,
    here: Option<OfHere<O>>,
}

impl<O: Persistent> fmt::Debug for Started<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Started").field(&self.place).finish()
    }
}

impl<O: Persistent> Started<O> {
    fn new(node: &Arc<Node>, place: Place, here: Option<OfHere<O>>) -> Self {
        Self {
            node: Arc::clone(node),
            place,
            here,
        }
    }

    /// Returns the place of the operation, with its operation id. Another process can wait for its
    /// [outcome](crate::Cluster::outcome) there.
    pub fn place(&self) -> &Place {
        &self.place
    }
}

impl<O: Persistent> IntoFuture for Started<O> {
    type Output = Result<Outcome<O>, ClusterError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            if let Some(OfHere { owned, handle }) = self.here {
                let outcome = handle.await;
                // Another node may have claimed the slot, and may know what this one does not.
                if !goes_on(&outcome) && owned.lease.holds() {
                    return Ok(outcome);
                }
            }
            outcome::<O>(&self.node, &self.place).await
        })
    }
}

/// Whether the operation has not ended in the journal.
fn goes_on<O: Persistent>(outcome: &Outcome<O>) -> bool {
    let cause = outcome.as_ref().err().map(|failure| &failure.cause);
    matches!(
        cause,
        Some(Cause::Shutdown | Cause::Moved | Cause::Journal(_))
    )
}

/// Waits for the end of the operation at a place, wherever it runs.
pub(crate) async fn outcome<O: Persistent>(
    node: &Arc<Node>,
    place: &Place,
) -> Result<Outcome<O>, ClusterError> {
    let what = What::Ended {
        once: place.operation_id(),
    };
    match ask(node, request::<O>(node, place, what)).await? {
        Reply::Ended(end) => {
            let end = SavedEnd::from_bytes(&end.0);
            let end = end.map_err(|error| ClusterError::Failed(error.to_string()))?;
            Ok(end.outcome::<O>())
        }
        other => Err(failed(other, place)),
    }
}

/// Returns an operation id that no other submission has.
fn unique(node: &Node) -> Key {
    let number = node.attempts.fetch_add(1, Ordering::Relaxed);
    Key::from((&*node.incarnation(), number))
}
