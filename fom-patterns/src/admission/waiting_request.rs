//! A request in the queue, and the handle to it.

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
    Cause, Failure, FomRef, Handle, Key, Operation, Refused,
    error::RefusedReason,
    extension::{Inherited, block_on},
    submission::{Ended, Placement},
};
use tokio::sync::oneshot;

use crate::admission::{
    Request, Tags,
    intake::{Event, Shared},
};

/// A request from its submission on: until it starts or is answered, it holds the operation. `P` knows the type of the
/// operation.
pub(super) struct WaitingRequest<P: ?Sized = dyn AnyProgress> {
    pub(super) tags: Tags,
    /// The number of the policy that has the request, or gave it last.
    pub(super) policy: AtomicU64,
    pub(super) shared: Arc<Shared>,
    pub(super) progress: P,
}

/// How far an operation of any type has come.
pub(super) trait AnyProgress: Send + Sync {
    /// Ends the wait for room, if the caller still waits: the operation is in the queue now, or is given back.
    fn end_wait(&self, is_let_in: bool);
    /// Starts the operation: its turn has come. The fom keeps the request until it has ended.
    fn start(&self, request: Request);
    /// Answers the operation, which does not start.
    fn answer(&self, why: Unstarted);
}

/// Why a request is answered without having started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unstarted {
    Cancelled,
    Shutdown,
    Moved,
    Shed,
}

/// The parts of the submission that is made when the operation's turn comes, and the callers that wait for it.
pub(super) struct Parts<O: Operation> {
    pub(super) operation: O,
    pub(super) key: Option<Key>,
    pub(super) placement: Option<Placement>,
    /// What the fom carries, from the fom that submitted the operation.
    pub(super) carried: Inherited,
    /// The caller that wants the outcome, if there is one.
    pub(super) answer: Option<oneshot::Sender<Answer<O>>>,
    /// The caller that waits for room. Without a message, the operation was given back, or has left the queue already.
    pub(super) room: Option<oneshot::Sender<()>>,
}

/// The handle of the operation's fom, or the reason why there is none.
pub(super) type Answer<O> = Result<Handle<O>, Box<Failure<O>>>;

/// How far an operation has come.
pub(super) struct Progress<O: Operation>(Mutex<Stage<O>>);

/// The flags say whether the caller cancelled the operation. An operation that starts all the same is cancelled at
/// once.
enum Stage<O: Operation> {
    Queued(Parts<O>, bool),
    /// The operation is on its way into its locality.
    Launching(bool),
    Started(FomRef<O>),
    Gone,
}

impl<O: Operation> WaitingRequest<Progress<O>> {
    pub(super) fn new(shared: &Arc<Shared>, tags: Tags, parts: Parts<O>) -> Arc<Self> {
        Arc::new(Self {
            tags,
            policy: AtomicU64::new(u64::MAX),
            shared: Arc::clone(shared),
            progress: Progress(Mutex::new(Stage::Queued(parts, false))),
        })
    }

    /// Puts the request into the queue. A request that `waits` may wait for room instead. Returns whether the request
    /// is in the queue.
    pub(super) fn enter(self: &Arc<Self>, waits: bool) -> Result<bool, Refused<O>> {
        let entered = self.shared.submit(self.clone(), waits);
        entered.map_err(|reason| match self.progress.take_back() {
            Some(operation) => Refused::new(reason, operation),
            None => unreachable!("no other code has seen it"),
        })
    }
}

impl<O: Operation> Progress<O> {
    /// Returns the operation of a request that has not left the queue.
    pub(super) fn take_back(&self) -> Option<O> {
        Some(self.take(|_, _| Stage::Gone)?.operation)
    }

    /// Takes the parts out of a request that leaves the queue. `next` gets the parts, and whether the caller cancelled
    /// the operation.
    fn take(&self, next: impl FnOnce(&Parts<O>, bool) -> Stage<O>) -> Option<Parts<O>> {
        let mut stage = self.0.lock();
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

    /// Notes that the caller cancelled the operation. The operation may start before the dispatcher knows.
    fn cancel(&self) {
        let started = match &mut *self.0.lock() {
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
        let launching = mem::replace(&mut *self.0.lock(), Stage::Started(fom.clone()));
        if matches!(launching, Stage::Launching(true)) {
            fom.cancel();
        }
    }
}

impl<O: Operation> AnyProgress for Progress<O> {
    fn end_wait(&self, is_let_in: bool) {
        let room = match &mut *self.0.lock() {
            Stage::Queued(parts, _) => parts.room.take(),
            _ => None,
        };
        if let (Some(room), true) = (room, is_let_in) {
            // The caller may be gone.
            let _ = room.send(());
        }
    }

    fn start(&self, request: Request) {
        let mut is_wanted = false;
        let taken = self.take(|parts, cancelled| {
            // Under the lock: a caller that cancels and then drops its handle has set the flag, or is still there.
            let is_there = |answer: &oneshot::Sender<_>| !look(|| answer.is_closed());
            is_wanted = cancelled || parts.answer.as_ref().is_some_and(is_there);
            Stage::Launching(cancelled)
        });
        let Some(parts) = taken else { return };
        let answer = parts.answer;
        let shared = Arc::clone(&request.waiting().shared);
        let series = request.series().cloned();
        let submission = shared.runtime.submit(parts.operation);
        let mut submission = submission.priority(request.priority()).guard(request);
        submission = submission.inherited(parts.carried);
        if let Some(placement) = parts.placement {
            submission = submission.place(placement);
        }
        if let Some(key) = parts.key {
            submission = submission.key(key);
        }
        if let Some(series) = series {
            submission = submission.serial(series);
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
            // The operation was queued when the runtime ended, so it gets the answer of all queued operations.
            Err(refused) if refused.reason() == RefusedReason::ShuttingDown => {
                let operation = refused.into_operation();
                Err(Failure::unstarted(Cause::Shutdown, operation).into())
            }
            Err(refused) if refused.reason() == RefusedReason::Moved => {
                let operation = refused.into_operation();
                Err(Failure::unstarted(Cause::Moved, operation).into())
            }
            Err(refused) => Err(Box::new(refused.into())),
        };
        // The caller may be gone.
        drop(answer.map(|answer| answer.send(outcome)));
    }

    fn answer(&self, why: Unstarted) {
        let Some(parts) = self.take(|_, _| Stage::Gone) else {
            return;
        };
        let cause = match why {
            Unstarted::Cancelled => Cause::Cancelled,
            Unstarted::Shutdown => Cause::Shutdown,
            Unstarted::Moved => Cause::Moved,
            Unstarted::Shed => Cause::Shed,
        };
        let failure = Box::new(Failure::unstarted(cause, parts.operation));
        // The caller may be gone.
        drop(parts.answer.map(|answer| answer.send(Err(failure))));
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
    pub(super) request: Arc<WaitingRequest<Progress<O>>>,
    answer: oneshot::Receiver<Answer<O>>,
    /// The answer, once it was received.
    received: Option<Answer<O>>,
}

impl<O: Operation> fmt::Debug for Queued<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Queued").field(&self.request.tags).finish()
    }
}

impl<O: Operation> Queued<O> {
    pub(super) fn new(
        request: Arc<WaitingRequest<Progress<O>>>,
        answer: oneshot::Receiver<Answer<O>>,
    ) -> Self {
        Self {
            request,
            answer,
            received: None,
        }
    }

    /// Puts the request into the queue. If it is refused, that is the answer.
    pub(super) fn entered(mut self) -> Self {
        if let Err(refused) = self.request.enter(false) {
            self.received = Some(Err(Box::new(refused.into())));
        }
        self
    }

    /// Returns the tags that policies sort by.
    pub fn tags(&self) -> &Tags {
        &self.request.tags
    }

    /// Cancels the operation. In the queue, the operation is removed and fails with [`Cause::Cancelled`]; the failure
    /// holds the operation. After the start, the operation's fom [is cancelled](FomRef::cancel).
    pub fn cancel(&self) {
        match &self.received {
            Some(Ok(handle)) => handle.cancel(),
            Some(Err(_)) => {}
            None => {
                self.request.progress.cancel();
                self.deliver(Event::Cancel);
            }
        }
    }

    /// Moves the operation to the highest priority, if it is in the queue and its policy knows priorities. An operation
    /// moves once.
    pub fn promote(&self) {
        if self.received.is_none() {
            self.deliver(Event::Promote);
        }
    }

    fn deliver(&self, event: fn(Arc<WaitingRequest>) -> Event) {
        self.request.shared.deliver(event(self.request.clone()));
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
        if self.received.is_none() {
            match ready!(Pin::new(&mut self.answer).poll(cx)) {
                Ok(answer) => self.received = Some(answer),
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
        if let Some(Ok(handle)) = &mut this.received {
            return Pin::new(handle).poll(cx);
        }
        match this.received.take() {
            Some(Err(failure)) => Poll::Ready(Err(*failure)),
            _ => unreachable!("looked at above"),
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
        let handle = self
            .0
            .received
            .as_ref()
            .and_then(|answer| answer.as_ref().ok());
        Poll::Ready(handle.map(|handle| handle.fom().clone()))
    }
}
