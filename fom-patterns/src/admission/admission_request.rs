//! An operation on its way into the queue, with the tags that policies sort by.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::{Arc, atomic::AtomicU64},
    task::{Context, Poll},
    time::Duration,
};

use fom_runtime::{
    Cause, Failure, Key, Operation, Refused,
    extension::block_on,
    submission::{Ended, Placement, Priority},
};
use pin_project::pin_project;
use tokio::sync::oneshot;

use crate::admission::{
    Queued, Sorted, Tags, WaitForRoom,
    intake::Shared,
    waiting_request::{Entry, Parts, WaitingRequest},
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
            sort_key: 0,
            deadline: None,
            priority: Priority::Normal,
            since: shared.runtime.now(),
        };
        let parts = Parts {
            operation,
            key: None,
            placement: None,
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
        self.tags.deadline = Some(self.tags.since.saturating_add(within));
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

    /// Sets the locality. The default is by key; without a key, one locality after the other, also inside a fom.
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

    fn into_waiting(mut self) -> Arc<WaitingRequest<O>> {
        if self.parts.key.is_none() && self.parts.placement.is_none() {
            self.parts.placement = Some(Placement::RoundRobin);
        }
        let shared = Arc::clone(self.shared);
        Arc::new(WaitingRequest::new(shared, self.tags, self.parts))
    }

    fn enter(self) -> Result<Arc<WaitingRequest<O>>, Refused<O>> {
        let request = self.into_waiting();
        let entry: Arc<dyn Entry> = request.clone();
        match request.shared.submit(&entry) {
            Ok(()) => Ok(request),
            Err(reason) => match request.take_back() {
                Some(operation) => Err(Refused::new(reason, operation)),
                None => unreachable!("no other code has seen it"),
            },
        }
    }

    /// Puts the operation into the queue.
    ///
    /// # Errors
    ///
    /// Fails with [`Refused`], which gives the operation back, if the queue is full or the runtime shuts down. An
    /// intake that [sheds](super::WhenFull::Shed) is never full.
    pub fn start(mut self) -> Result<Queued<O>, Refused<O>> {
        let (tell, told) = oneshot::channel();
        self.parts.answer = Some(tell);
        self.enter().map(|request| Queued::new(request, told))
    }

    /// Puts the operation into the queue, and drops its outcome.
    ///
    /// # Errors
    ///
    /// Fails with [`Refused`], like [`start`](Self::start).
    pub fn detach(self) -> Result<(), Refused<O>> {
        self.enter().map(drop)
    }

    /// Puts the operation into the queue when there is room. Waiting operations enter in the order in which their waits
    /// began. No other submission overtakes them, unless the intake [sheds](super::WhenFull::Shed).
    pub fn start_when_room(mut self) -> WaitForRoom<O> {
        let (tell, told) = oneshot::channel();
        let (let_in, room) = oneshot::channel();
        self.parts.answer = Some(tell);
        self.parts.room = Some(let_in);
        WaitForRoom::new(Queued::new(self.into_waiting(), told), room)
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
    type IntoFuture = Entered<O>;

    fn into_future(self) -> Entered<O> {
        let (queued, refused) = match self.start() {
            Ok(queued) => (Some(queued), None),
            Err(refused) => (None, Some(refused)),
        };
        Entered { queued, refused }
    }
}

/// An operation that an `.await` puts into the queue.
#[pin_project]
pub struct Entered<O: Operation> {
    /// The operation in the queue, unless it was refused.
    #[pin]
    queued: Option<Queued<O>>,
    refused: Option<Refused<O>>,
}

impl<O: Operation> fmt::Debug for Entered<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entered")
    }
}

impl<O: Operation> Future for Entered<O> {
    type Output = Result<Ended<O>, Failure<O>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Some(queued) = this.queued.as_pin_mut() {
            return queued.poll(cx);
        }
        let refused = this.refused.take().expect("polled after it was ready");
        Poll::Ready(Err(Failure::new(
            Cause::Refused(refused.reason()),
            O::GRAPH.phases()[O::index(O::kind(&O::start()))].name(),
            Some(refused.into_operation()),
        )))
    }
}
