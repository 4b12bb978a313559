//! An operation on its way into the queue, with what policies sort by.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::{Arc, atomic::AtomicU64},
    task::{Context, Poll},
    time::Duration,
};

use crate::{
    admission::{
        Queued, Sorted, Tags, WaitForRoom,
        gate::Shared,
        place::{Entry, Parts, Place},
    },
    error::{Cause, Failure, Refused, RefusedInner, RefusedReason},
    id::Key,
    operation::Operation,
    runtime::{Ended, Placement, Priority},
};

/// An operation that is to be queued, with what policies sort by. It goes in by [`start`](Self::start), by one of those that
/// wait for room, or when it is awaited.
#[must_use = "an operation is not queued until it is started or awaited"]
pub struct Tagged<'a, O: Operation> {
    shared: &'a Arc<Shared>,
    tags: Tags,
    parts: Parts<O>,
}

impl<O: Operation> fmt::Debug for Tagged<'_, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tagged").field(&self.tags).finish()
    }
}

impl<'a, O: Operation> Tagged<'a, O> {
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
            since: shared.world.clock.now(),
        };
        let parts = Parts {
            operation,
            key: None,
            placement: None,
        };
        Self {
            shared,
            tags,
            parts,
        }
    }

    /// Who submits it. Those without one count as one client.
    pub fn client(mut self, client: impl Into<Key>) -> Self {
        self.tags.client = Some(client.into());
        self
    }

    /// Its class of service.
    pub fn class(mut self, class: impl Into<Key>) -> Self {
        self.tags.class = Some(class.into());
        self
    }

    /// What it works on, and where in that.
    pub fn object(mut self, object: impl Into<Key>, sort_key: u64) -> Self {
        self.tags.object = Some(object.into());
        self.tags.sort_key = sort_key;
        self
    }

    /// The same, as the operation type says it.
    pub fn sorted(mut self) -> Self
    where
        O: Sorted,
    {
        self.tags.object = self.parts.operation.object();
        self.tags.sort_key = self.parts.operation.sort_key();
        self
    }

    /// By when, from now on, it should have started. Only [`DeadlineFirst`](super::DeadlineFirst) sorts by it; one that is late
    /// is not dropped.
    pub fn deadline(mut self, within: Duration) -> Self {
        self.tags.deadline = Some(self.tags.since.saturating_add(within));
        self
    }

    /// Its priority: in the queue, where the policy knows priorities, and as
    /// [`Submission::priority`](crate::Submission::priority) in its locality.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.tags.priority = priority;
        self
    }

    /// As [`Submission::key`](crate::Submission::key), when its turn has come: it fails with
    /// [`RefusedReason::KeyInUse`] while another fom of its type has the key then.
    pub fn key(mut self, key: impl Into<Key>) -> Self {
        self.parts.key = Some(key.into());
        self
    }

    /// Where it is to live. By default by its key; without one, one locality after the other, also inside of a fom.
    pub fn place(mut self, placement: Placement) -> Self {
        self.parts.placement = Some(match placement {
            // Whoever starts it may be anywhere.
            Placement::Here => crate::locality::here_in(&self.shared.world)
                .map_or(Placement::RoundRobin, Placement::Locality),
            placement => placement,
        });
        self
    }

    fn into_place(mut self, wanted: bool, outside: bool) -> Arc<Place<O>> {
        if self.parts.key.is_none() && self.parts.placement.is_none() {
            self.parts.placement = Some(Placement::RoundRobin);
        }
        let shared = Arc::clone(self.shared);
        Arc::new(Place::new(shared, self.tags, self.parts, wanted, outside))
    }

    fn enter(self, wanted: bool) -> Result<Arc<Place<O>>, Refused<O>> {
        let place = self.into_place(wanted, false);
        let entry: Arc<dyn Entry> = place.clone();
        match place.shared.submit(&entry) {
            Ok(()) => Ok(place),
            Err(reason) => match place.take_back() {
                Some(operation) => Err(refused(reason, operation)),
                None => unreachable!("nobody else has seen it"),
            },
        }
    }

    /// Puts it into the queue.
    ///
    /// # Errors
    ///
    /// [`Refused`], with the operation given back: the queue is full, or the runtime is shutting down. An intake that
    /// [sheds](super::WhenFull::Shed) is never full.
    pub fn start(self) -> Result<Queued<O>, Refused<O>> {
        self.enter(true).map(Queued::new)
    }

    /// Puts it into the queue and wants no outcome.
    ///
    /// # Errors
    ///
    /// [`Refused`], as for [`start`](Self::start).
    pub fn detach(self) -> Result<(), Refused<O>> {
        self.enter(false).map(drop)
    }

    /// Puts it into the queue when there is room. Those who wait go in in the order in which their waits began, and nobody
    /// overtakes them.
    pub fn start_when_room(self) -> WaitForRoom<O> {
        WaitForRoom::new(self.into_place(true, true))
    }

    /// The same, blocking the thread. Inside a phase function this is a blocking section by itself.
    ///
    /// # Errors
    ///
    /// [`Refused`], with the operation given back: the runtime is shutting down.
    ///
    /// # Panics
    ///
    /// As [`Handle::wait`](crate::Handle::wait).
    pub fn start_blocking(self) -> Result<Queued<O>, Refused<O>> {
        crate::runtime::block_on(self.start_when_room())
    }
}

pub(super) fn refused<O: Operation>(reason: RefusedReason, operation: O) -> Refused<O> {
    Refused(Box::new(RefusedInner {
        reason,
        operation,
        live: None,
    }))
}

impl<O: Operation> IntoFuture for Tagged<'_, O> {
    type Output = Result<Ended<O>, Failure<O>>;
    type IntoFuture = Entered<O>;

    fn into_future(self) -> Entered<O> {
        Entered(self.start().map_err(Some))
    }
}

/// An operation that went into the queue by being awaited.
pub struct Entered<O: Operation>(Result<Queued<O>, Option<Refused<O>>>);

impl<O: Operation> fmt::Debug for Entered<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entered")
    }
}

// A refused operation in here is only ever moved out, never pinned.
impl<O: Operation> Unpin for Entered<O> {}

impl<O: Operation> Future for Entered<O> {
    type Output = Result<Ended<O>, Failure<O>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Ok(queued) => Pin::new(queued).poll(cx),
            Err(refused) => match refused.take() {
                Some(refused) => Poll::Ready(Err(Failure::new(
                    Cause::Refused(refused.reason()),
                    O::GRAPH.phases()[O::index(O::kind(&O::start()))].name(),
                    Some(refused.into_operation()),
                ))),
                None => panic!("polled after it was ready"),
            },
        }
    }
}
