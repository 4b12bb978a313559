//! A request that waits in the queue. It holds the operation until the start, then the fom or the answer.

use std::{
    fmt,
    future::Future,
    mem,
    pin::Pin,
    sync::{Arc, atomic::AtomicU64},
    task::{Context, Poll, ready},
};

use fom_protocol::sync::{Mutex, look};
use fom_runtime::{
    Cause, Failure, FomRef, Handle, Key, Operation,
    error::RefusedReason,
    extension::block_on,
    submission::{Ended, Placement},
};
use tokio::sync::oneshot;

use crate::admission::{
    Tags,
    intake::{Event, Shared},
    request::Unstarted,
};

/// A waiting request of any operation type.
pub(super) trait Entry: Send + Sync {
    fn tags(&self) -> &Tags;
    /// Returns the number of the policy that has the request.
    fn slot(&self) -> &AtomicU64;
    /// Notes that the operation waited for room, and is in the queue now.
    fn let_in(&self);
    /// Starts the operation: its turn has come.
    fn start(&self, permit: Permit);
    /// Answers the operation, which does not start.
    fn answer(&self, why: Unstarted);
}

pub(super) struct WaitingRequest<O: Operation> {
    tags: Tags,
    slot: AtomicU64,
    pub(super) shared: Arc<Shared>,
    stage: Mutex<Stage<O>>,
}

/// The parts of the submission that is made when the operation's turn comes, and the callers that wait for it.
pub(super) struct Parts<O: Operation> {
    pub(super) operation: O,
    pub(super) key: Option<Key>,
    pub(super) placement: Option<Placement>,
    /// The caller that wants the outcome, if there is one.
    pub(super) answer: Option<oneshot::Sender<Answer<O>>>,
    /// The caller that waits for room, until the operation is in the queue.
    pub(super) room: Option<oneshot::Sender<LetIn<O>>>,
}

/// The handle of the operation's fom, or the reason why there is none.
pub(super) type Answer<O> = Result<Handle<O>, Box<Failure<O>>>;

/// The end of a wait for room: the operation is in the queue, or was refused.
pub(super) type LetIn<O> = Result<(), (RefusedReason, O)>;

/// The flags say whether the caller cancelled the operation. An operation that starts all the same is cancelled at
/// once.
enum Stage<O: Operation> {
    Queued(Parts<O>, bool),
    /// The operation is on its way into its locality.
    Launching(bool),
    Started(FomRef<O>),
    Gone,
}

/// The permit of one fom of the intake to run. The permit is dropped, and so freed, when the fom has ended or could not
/// be made.
pub(super) struct Permit {
    shared: Arc<Shared>,
    entry: Option<Arc<dyn Entry>>,
    policy: u64,
}

impl Permit {
    pub(super) fn new(shared: Arc<Shared>, entry: Arc<dyn Entry>, policy: u64) -> Self {
        Self {
            shared,
            entry: Some(entry),
            policy,
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            self.shared.deliver(Event::Ended(entry, self.policy));
        }
    }
}

impl<O: Operation> WaitingRequest<O> {
    pub(super) fn new(shared: Arc<Shared>, tags: Tags, parts: Parts<O>) -> Self {
        Self {
            tags,
            slot: AtomicU64::new(u64::MAX),
            shared,
            stage: Mutex::new(Stage::Queued(parts, false)),
        }
    }

    /// Returns the operation of a request that was not let in.
    pub(super) fn take_back(&self) -> Option<O> {
        Some(self.take(|_, _| Stage::Gone)?.operation)
    }

    /// Takes the parts out of a request that leaves the queue. `next` gets the parts, and whether the caller cancelled
    /// the operation.
    fn take(&self, next: impl FnOnce(&Parts<O>, bool) -> Stage<O>) -> Option<Parts<O>> {
        let mut stage = self.stage.lock();
        match mem::replace(&mut *stage, Stage::Gone) {
            Stage::Queued(parts, cancelled) => {
                *stage = next(&parts, cancelled);
                Some(parts)
            }
            other => {
                *stage = other;
                None
            }
        }
    }

    fn failure(why: Unstarted, operation: O) -> Box<Failure<O>> {
        let cause = match why {
            Unstarted::Cancelled => Cause::Cancelled,
            Unstarted::Shutdown => Cause::Shutdown,
            Unstarted::Shed => Cause::Shed,
            Unstarted::Refused(reason) => Cause::Refused(reason),
        };
        let start = O::GRAPH.phases()[O::index(O::kind(&O::start()))].name();
        Box::new(Failure::new(cause, start, Some(operation)))
    }

    /// Notes that the caller cancelled the operation. The operation may start before the dispatcher knows.
    fn cancel(&self) {
        let started = match &mut *self.stage.lock() {
            Stage::Queued(_, cancelled) | Stage::Launching(cancelled) => {
                *cancelled = true;
                None
            }
            Stage::Started(fom) => Some(fom.clone()),
            Stage::Gone => None,
        };
        if let Some(fom) = started {
            fom.cancel();
        }
    }

    /// Notes that the operation has a fom. Cancels the fom if the caller cancelled the operation meanwhile.
    fn started(&self, fom: &FomRef<O>) {
        let launching = mem::replace(&mut *self.stage.lock(), Stage::Started(fom.clone()));
        if matches!(launching, Stage::Launching(true)) {
            fom.cancel();
        }
    }
}

impl<O: Operation> Entry for WaitingRequest<O> {
    fn tags(&self) -> &Tags {
        &self.tags
    }

    fn slot(&self) -> &AtomicU64 {
        &self.slot
    }

    fn let_in(&self) {
        let room = match &mut *self.stage.lock() {
            Stage::Queued(parts, _) => parts.room.take(),
            _ => None,
        };
        if let Some(room) = room {
            // The caller may be gone.
            let _ = room.send(Ok(()));
        }
    }

    fn start(&self, permit: Permit) {
        let mut is_wanted = false;
        let taken = self.take(|parts, cancelled| {
            // Under the lock: a caller that cancels and then drops its handle has set the flag, or is still there.
            let is_there = |answer: &oneshot::Sender<_>| !look(|| answer.is_closed());
            is_wanted = cancelled || parts.answer.as_ref().is_some_and(is_there);
            Stage::Launching(cancelled)
        });
        let Some(parts) = taken else { return };
        let answer = parts.answer;
        let runtime = &self.shared.runtime;
        let mut submission = runtime
            .submit(parts.operation)
            .priority(self.tags.priority)
            .guard(permit);
        if let Some(placement) = parts.placement {
            submission = submission.place(placement);
        }
        if let Some(key) = parts.key {
            submission = submission.key(key);
        }
        let started = if is_wanted {
            submission.start().map(Some)
        } else {
            submission.detach().map(|_| None)
        };
        let outcome = match started {
            Ok(None) => return,
            Ok(Some(handle)) => {
                self.started(handle.fom());
                Ok(handle)
            }
            Err(refused) => {
                let why = match refused.reason() {
                    // The operation was queued when the runtime ended, so it gets the answer of all queued operations.
                    RefusedReason::ShuttingDown => Unstarted::Shutdown,
                    reason => Unstarted::Refused(reason),
                };
                Err(Self::failure(why, refused.into_operation()))
            }
        };
        // The caller may be gone.
        drop(answer.map(|answer| answer.send(outcome)));
    }

    fn answer(&self, why: Unstarted) {
        let Some(parts) = self.take(|_, _| Stage::Gone) else {
            return;
        };
        // The caller may be gone.
        match (why, parts.room) {
            (Unstarted::Refused(reason), Some(room)) => {
                drop(room.send(Err((reason, parts.operation))));
            }
            _ => {
                let failure = Self::failure(why, parts.operation);
                drop(parts.answer.map(|answer| answer.send(Err(failure))));
            }
        }
    }
}

/// A handle to an operation in the queue, and later to its fom. The handle gets the outcome: await it, or use
/// [`wait`](Self::wait) in a plain thread. Dropping the handle does not stop the operation, but drops the outcome.
///
/// # Cancel safety
///
/// As a future, a `Queued` is cancel safe: the outcome stays until it is taken.
#[must_use = "the outcome of the operation is dropped with its handle"]
pub struct Queued<O: Operation> {
    pub(super) request: Arc<WaitingRequest<O>>,
    answer: oneshot::Receiver<Answer<O>>,
    /// The answer, once it was received.
    handle: Option<Handle<O>>,
    failure: Option<Box<Failure<O>>>,
}

impl<O: Operation> fmt::Debug for Queued<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Queued").field(&self.request.tags).finish()
    }
}

impl<O: Operation> Queued<O> {
    pub(super) fn new(
        request: Arc<WaitingRequest<O>>,
        answer: oneshot::Receiver<Answer<O>>,
    ) -> Self {
        Self {
            request,
            answer,
            handle: None,
            failure: None,
        }
    }

    /// Returns the tags that policies sort by.
    pub fn tags(&self) -> &Tags {
        &self.request.tags
    }

    /// Cancels the operation. In the queue, the operation is removed and fails with [`Cause::Cancelled`]; the failure
    /// holds the operation. After the start, the operation's fom [is cancelled](FomRef::cancel).
    pub fn cancel(&self) {
        match &self.handle {
            Some(handle) => handle.cancel(),
            None => {
                self.request.cancel();
                self.deliver(Event::Cancel);
            }
        }
    }

    /// Moves the operation to the highest priority, if it is in the queue and its policy knows priorities. An operation
    /// moves once.
    pub fn promote(&self) {
        if self.handle.is_none() {
            self.deliver(Event::Promote);
        }
    }

    fn deliver(&self, event: fn(Arc<dyn Entry>) -> Event) {
        let request: Arc<dyn Entry> = self.request.clone();
        self.request.shared.deliver(event(request));
    }

    /// Waits until the operation has started, and returns its fom. Returns `None` if the operation never starts;
    /// awaiting the `Queued` then returns the reason.
    pub fn started(&mut self) -> Starting<'_, O> {
        Starting(self)
    }

    /// Blocks the thread until the operation has ended. Inside a phase function, the wait is a blocking section by
    /// itself.
    ///
    /// # Errors
    ///
    /// Fails with the fom's [`Failure`], or with the reason why the operation did not start: cancelled, shed, refused
    /// or shut down.
    ///
    /// # Panics
    ///
    /// Panics like [`Handle::wait`].
    pub fn wait(self) -> Result<Ended<O>, Failure<O>> {
        block_on(self)
    }

    /// Is ready when the operation has started, or never starts.
    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.handle.is_none() && self.failure.is_none() {
            match ready!(Pin::new(&mut self.answer).poll(cx)) {
                Ok(Ok(handle)) => self.handle = Some(handle),
                Ok(Err(failure)) => self.failure = Some(failure),
                Err(_) => panic!(
                    "the operation could not be started, because its code panicked; the incidents of the runtime have \
                     the panic"
                ),
            }
        }
        Poll::Ready(())
    }
}

impl<O: Operation> Future for Queued<O> {
    type Output = Result<Ended<O>, Failure<O>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        ready!(this.poll_answer(cx));
        match (&mut this.handle, this.failure.take()) {
            (Some(handle), _) => Pin::new(handle).poll(cx),
            (None, Some(failure)) => Poll::Ready(Err(*failure)),
            (None, None) => unreachable!("one of them is the answer"),
        }
    }
}

/// A wait until an operation has started; see [`Queued::started`].
///
/// # Cancel safety
///
/// Cancel safe.
#[must_use = "a wait does nothing until it is awaited"]
#[derive(Debug)]
pub struct Starting<'a, O: Operation>(&'a mut Queued<O>);

impl<O: Operation> Future for Starting<'_, O> {
    type Output = Option<FomRef<O>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        ready!(self.0.poll_answer(cx));
        Poll::Ready(self.0.handle.as_ref().map(|handle| handle.fom().clone()))
    }
}
