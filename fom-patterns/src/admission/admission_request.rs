//! An operation on its way into the queue, with the tags that policies sort by.

use std::{
    fmt,
    future::IntoFuture,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use fom_runtime::{
    Failure, Key, Operation, Refused,
    extension::block_on,
    submission::{Ended, Placement, Priority},
};
use tokio::sync::oneshot;

use crate::admission::{
    Queued, Sorted, Tags, WaitForRoom,
    intake::Shared,
    waiting_request::{Parts, Progress, WaitingRequest},
};

/// An operation to queue, with the tags that policies sort by. It enters the queue by [`start`](Self::start), by a
/// method that waits for room, or by an `.await`.
#[must_use = "an operation is not queued until it is started or awaited"]
pub struct AdmissionRequest<'a, O: Operation> {
    shared: &'a Arc<Shared>,
    tags: Tags,
    parts: Parts<O>,
}

impl<O: Operation> fmt::Debug for AdmissionRequest<'_, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AdmissionRequest").field(&self.tags).finish()
    }
}

impl<'a, O: Operation> AdmissionRequest<'a, O> {
    pub(super) fn new(shared: &'a Arc<Shared>, operation: O) -> Self {
        let tags = Tags {
            number: AtomicU64::new(u64::MAX),
            operation: O::GRAPH.operation(),
            client: None,
            class: None,
            object: None,
            series: None,
            sort_key: 0,
            deadline: None,
            priority: Priority::Normal,
            since: shared.runtime.now(),
        };
        let parts = Parts {
            operation,
            key: None,
            placement: None,
            carried: shared.runtime.extension().inherit(),
            answer: None,
            room: None,
        };
        Self {
            shared,
            tags,
            parts,
        }
    }

    /// Sets the client that submits the operation. All operations without a client count as one client.
    pub fn client(mut self, client: impl Into<Key>) -> Self {
        self.tags.client = Some(client.into());
        self
    }

    /// Gives the fom this value to carry, like [`Submission::carrying`](fom_runtime::Submission::carrying).
    ///
    /// # Panics
    ///
    /// Panics if the runtime was built without [`Builder::carry`](fom_runtime::Builder::carry) for this type.
    pub fn carrying<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.parts.carried.carry(value);
        self
    }

    /// Sets the class of service.
    pub fn class(mut self, class: impl Into<Key>) -> Self {
        self.tags.class = Some(class.into());
        self
    }

    /// Sets the object that the operation works on, and the position in the object.
    pub fn object(mut self, object: impl Into<Key>, sort_key: u64) -> Self {
        self.tags.object = Some(object.into());
        self.tags.sort_key = sort_key;
        self
    }

    /// Sets the object and the position that the operation returns as [`Sorted`].
    pub fn sorted(mut self) -> Self
    where
        O: Sorted,
    {
        self.tags.object = self.parts.operation.object();
        self.tags.sort_key = self.parts.operation.sort_key();
        self
    }

    /// Sets the time within which the operation should start, counted from the call of
    /// [`submit`](super::Admission::submit). Only [`DeadlineFirst`](super::DeadlineFirst) sorts by it. A late operation
    /// is not dropped.
    pub fn deadline(mut self, within: Duration) -> Self {
        self.tags.deadline = Some(self.tags.since + within);
        self
    }

    /// Sets the priority: in the queue, if the policy knows priorities, and in the locality, like
    /// [`Submission::priority`](fom_runtime::Submission::priority).
    pub fn priority(mut self, priority: Priority) -> Self {
        self.tags.priority = priority;
        self
    }

    /// Sets the key, like [`Submission::key`](fom_runtime::Submission::key), for when the operation's turn comes. The
    /// operation fails with [`RefusedReason::KeyInUse`](fom_runtime::error::RefusedReason::KeyInUse) if another fom of
    /// its type has the key then.
    pub fn key(mut self, key: impl Into<Key>) -> Self {
        self.parts.key = Some(key.into());
        self
    }

    /// Sets the series, like [`Submission::serial`](fom_runtime::Submission::serial). Of the operations of a series that
    /// come through this intake, one runs at a time. The policy chooses the others in its order, and they wait in the
    /// queue until the one before them has ended. So a busy series takes one of the permits, and no more. An operation
    /// that waits for its series can be cancelled. It is not promoted, and a full queue sheds another one.
    ///
    /// Operations of the series that another way submits do not count here. An operation that the intake starts behind
    /// them waits in the line of the runtime, with its permit.
    pub fn serial(mut self, name: impl Into<Key>) -> Self {
        self.tags.series = Some(name.into());
        self
    }

    /// Sets the locality. Default: by series or key; without them, one locality after the other, also inside a fom.
    pub fn place(mut self, placement: Placement) -> Self {
        self.parts.placement = Some(match placement {
            // The thread that starts the operation may be anywhere.
            Placement::Here => self
                .shared
                .runtime
                .extension()
                .current_locality()
                .map_or(Placement::RoundRobin, Placement::Locality),
            placement => placement,
        });
        self
    }

    fn into_waiting(mut self) -> Arc<WaitingRequest<Progress<O>>> {
        let is_named = self.parts.key.is_some() || self.tags.series.is_some();
        if !is_named && self.parts.placement.is_none() {
            self.parts.placement = Some(Placement::RoundRobin);
        }
        WaitingRequest::new(self.shared, self.tags, self.parts)
    }

    /// Makes the handle of the operation, which is not in the queue yet.
    fn into_queued(mut self) -> Queued<O> {
        let (tell, told) = oneshot::channel();
        self.parts.answer = Some(tell);
        Queued::new(self.into_waiting(), told)
    }

    /// Puts the operation into the queue. The queue is in memory, also with a journal: the operation is on disk after its
    /// turn has come and its fom has committed its first transition.
    ///
    /// # Errors
    ///
    /// Fails with [`Refused`], which gives the operation back, if the queue is full or the runtime shuts down. An
    /// intake that [sheds](super::WhenFull::Shed) is never full.
    pub fn start(self) -> Result<Queued<O>, Refused<O>> {
        let queued = self.into_queued();
        queued.request.enter(false)?;
        Ok(queued)
    }

    /// Puts the operation into the queue, and drops its outcome.
    ///
    /// # Errors
    ///
    /// Fails with [`Refused`], like [`start`](Self::start).
    pub fn detach(self) -> Result<(), Refused<O>> {
        self.into_waiting().enter(false)?;
        Ok(())
    }

    /// Puts the operation into the queue when there is room. Waiting operations enter in the order in which their waits
    /// began. No other submission overtakes them, unless the intake [sheds](super::WhenFull::Shed).
    pub fn start_when_room(mut self) -> WaitForRoom<O> {
        let (tell, told) = oneshot::channel();
        self.parts.room = Some(tell);
        WaitForRoom::new(self.into_queued(), told)
    }

    /// Like [`start_when_room`](Self::start_when_room), but blocks the thread. Inside a phase function, the wait is a
    /// blocking section by itself.
    ///
    /// # Errors
    ///
    /// Fails with [`Refused`], which gives the operation back, if the runtime shuts down.
    ///
    /// # Panics
    ///
    /// Panics like [`Handle::wait`](fom_runtime::Handle::wait).
    pub fn start_blocking(self) -> Result<Queued<O>, Refused<O>> {
        block_on(self.start_when_room())
    }
}

impl<O: Operation> IntoFuture for AdmissionRequest<'_, O> {
    type Output = Result<Ended<O>, Failure<O>>;
    type IntoFuture = Queued<O>;

    fn into_future(self) -> Queued<O> {
        self.into_queued().entered()
    }
}
