//! The way of an operation to the owner of its slot, and of its end back. On the node of the owner this is a submission to the
//! runtime of the slot, without a message.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::{Arc, atomic::Ordering},
};

use fom_durable::SavedEnd;
use fom_runtime::{
    Cause, Failure, Handle, Key, Persistent, snapshot::SnapshotError, submission::Ended,
};

use crate::{
    call::{Blob, Reply, Submit, What},
    commits::Owned,
    error::ClusterError,
    node::Node,
    registry::{NotBegun, start},
    route::{Serving, ask, failed, request},
    slot::Place,
};

/// How an operation ended.
///
/// A failure has the cause [`Cause::Remembered`] and no operation, as it comes from the journal. Only a [`Started`] of the node that
/// ran the operation from its start to its end has more: what the handle of
/// [`Runtime::submit`](fom_runtime::Runtime::submit) returns.
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
    /// Fails with [`NotStarted`], which gives the operation back if it can. After [`ClusterError::NoOwner`], the operation may have
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
        let operation = match begin(node, operation, &place, queues).await {
            Ok(begun) => return Ok(Started::new(node, place, Some(begun))),
            Err(NotBegun::Refused(operation, reason)) => {
                let reason = ClusterError::Refused(reason);
                return Err(not(Some(operation), place, reason));
            }
            Err(NotBegun::Busy(operation)) => {
                return Err(not(Some(operation), place, ClusterError::Busy));
            }
            Err(NotBegun::Leaves(operation)) => Some(operation),
            Err(NotBegun::Lost) => None,
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
struct Begun<O: Persistent> {
    owned: Arc<Owned>,
    handle: Handle<O>,
}

/// Begins an operation in a slot of this node.
///
/// # Errors
///
/// Fails with [`NotBegun::Leaves`] if this node does not own the slot.
async fn begin<O: Persistent>(
    node: &Arc<Node>,
    operation: O,
    place: &Place,
    queues: bool,
) -> Result<Begun<O>, NotBegun<O>> {
    let serving = node.serving(place.slot(node.settings.slots));
    let Some((owned, runtime)) = serving.filter(|_| node.registry.serves::<O>()) else {
        return Err(NotBegun::Leaves(operation));
    };
    let Some(_serving) = Serving::begin(node) else {
        return Err(NotBegun::Busy(operation));
    };
    if !node.has_room() {
        return Err(NotBegun::Busy(operation));
    }
    let (key, series, once) = (
        place.key.clone(),
        place.serial.clone(),
        place.operation_id(),
    );
    let handle = start(&runtime, operation, key, series, once, queues).await?;
    match owned.lease.holds() {
        true => Ok(Begun { owned, handle }),
        false => Err(NotBegun::Lost),
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
///
/// # Errors
///
/// The wait fails as [`Cluster::outcome`](crate::Cluster::outcome) does.
///
/// # Cancel safety
///
/// Cancel safe: dropping it, or the future of the wait, ends the wait, and the operation goes on.
#[must_use = "await it to learn how the operation ended; drop it otherwise"]
pub struct Started<O: Persistent> {
    node: Arc<Node>,
    place: Place,
    begun: Option<Begun<O>>,
}

impl<O: Persistent> fmt::Debug for Started<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Started").field(&self.place).finish()
    }
}

impl<O: Persistent> Started<O> {
    fn new(node: &Arc<Node>, place: Place, begun: Option<Begun<O>>) -> Self {
        Self {
            node: Arc::clone(node),
            place,
            begun,
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
            if let Some(Begun { owned, handle }) = self.begun {
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
pub(crate) fn unique(node: &Node) -> Key {
    let number = node.attempts.fetch_add(1, Ordering::Relaxed);
    Key::from((&*node.incarnation(), number))
}

#[cfg(test)]
mod tests {
    use fom_durable::prelude::*;
    use serde::{Deserialize, Serialize};

    use crate::{Cluster, ClusterError, MemoryEngine};

    #[derive(Serialize, Deserialize)]
    struct Parcel {
        number: u32,
    }

    #[fom(operation(Parcel))]
    enum Sending {
        #[phase(start, sync, to(Sent))]
        Send,
        #[phase(end)]
        Sent,
    }

    impl SendingTransitions for Parcel {
        fn send(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
            self.number += 1;
            Err("no stamp".into())
        }
    }

    /// The node that runs an operation has its error. The journal has the text.
    #[tokio::test]
    async fn a_failure_has_its_error_where_it_happened() {
        let builder = Cluster::builder(MemoryEngine::new(), "a").slots(1);
        let cluster = builder.operation::<Parcel>().join().await.unwrap();
        // Until the node has its slot, a submission goes by messages.
        while cluster.served().is_empty() {
            tokio::task::yield_now().await;
        }
        let started = cluster.submit(Parcel { number: 7 }).key("parcel");
        let started = started.start().await.unwrap();
        let place = started.place().clone();
        let failure = started.await.unwrap().unwrap_err();
        assert!(matches!(&failure.cause, Cause::Error(error) if error.to_string() == "no stamp"));
        assert_eq!(failure.operation.unwrap().into_inner().number, 8);
        let failure = cluster.outcome::<Parcel>(place).await.unwrap();
        let failure = failure.unwrap_err();
        assert!(
            matches!(&failure.cause, Cause::Remembered { cause } if cause.contains("no stamp"))
        );
        assert!(failure.operation.is_none());
        cluster.leave().await;
    }

    /// A node that does not serve a type begins none of its operations, as it could not take them over.
    #[tokio::test]
    async fn an_operation_that_is_not_served_is_given_back() {
        let builder = Cluster::builder(MemoryEngine::new(), "a").slots(1);
        let cluster = builder.join().await.unwrap();
        let parcel = cluster.submit(Parcel { number: 7 });
        let not_started = parcel.start().await.unwrap_err();
        assert!(
            matches!(&not_started.reason, ClusterError::Failed(why) if why.contains("does not serve"))
        );
        assert_eq!(not_started.operation.unwrap().number, 7);
        cluster.leave().await;
    }
}
