//! A request that waits in the queue. It holds the operation until the start, then the fom or the answer.

use std::{
    fmt,
    future::Future,
    mem,
    pin::Pin,
    sync::{Arc, atomic::AtomicU64},
    task::{Context, Poll, Waker},
};

use fom_protocol::sync::{Mutex, MutexGuard};
use fom_runtime::{
    Cause, Failure, FomRef, Handle, Key, Operation,
    error::RefusedReason,
    extension::block_on,
    submission::{Ended, Placement},
};

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

/// The parts of the submission that is made when the operation's turn comes.
pub(super) struct Parts<O> {
    pub(super) operation: O,
    pub(super) key: Option<Key>,
    pub(super) placement: Option<Placement>,
}

enum Stage<O: Operation> {
    Queued(Parts<O>, Watch),
    /// The operation is on its way into its locality.
    Launching(Watch),
    Started(FomRef<O>, Option<Handle<O>>),
    Failed(Box<Failure<O>>),
    /// The operation waited for room, and was refused.
    Turned(RefusedReason, O),
    Gone,
}

/// The caller that waits for the operation.
struct Watch {
    waker: Option<Waker>,
    /// The caller wants the outcome.
    wanted: bool,
    /// The caller cancelled the operation. An operation that starts all the same is cancelled at once.
    cancelled: bool,
    /// The operation waits for room, and is not in the queue yet.
    outside: bool,
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
    pub(super) fn new(
        shared: Arc<Shared>,
        tags: Tags,
        parts: Parts<O>,
        wanted: bool,
        outside: bool,
    ) -> Self {
        let watch = Watch {
            waker: None,
            wanted,
            cancelled: false,
            outside,
        };
        Self {
            tags,
            slot: AtomicU64::new(u64::MAX),
            shared,
            stage: Mutex::new(Stage::Queued(parts, watch)),
        }
    }

    /// Returns the operation of a request that was not let in.
    pub(super) fn take_back(&self) -> Option<O> {
        let stage = mem::replace(&mut *self.stage.lock(), Stage::Gone);
        match stage {
            Stage::Queued(parts, _) => Some(parts.operation),
            _ => None,
        }
    }

    /// Is ready when the operation is in the queue, or was. Fails if the operation was refused while it waited for
    /// room.
    pub(super) fn poll_let_in(&self, waker: &Waker) -> Poll<Result<(), (RefusedReason, O)>> {
        let mut stage = self.stage.lock();
        let old = match &mut *stage {
            Stage::Queued(_, watch) if watch.outside => watch.waker.replace(waker.clone()),
            Stage::Turned(..) => match mem::replace(&mut *stage, Stage::Gone) {
                Stage::Turned(reason, operation) => {
                    return Poll::Ready(Err((reason, operation)));
                }
                _ => unreachable!("just looked at"),
            },
            _ => return Poll::Ready(Ok(())),
        };
        drop(stage);
        // The waker may be user code: dropped without the lock.
        drop(old);
        Poll::Pending
    }

    fn failure(why: Unstarted, operation: O) -> Failure<O> {
        let cause = match why {
            Unstarted::Cancelled => Cause::Cancelled,
            Unstarted::Shutdown => Cause::Shutdown,
            Unstarted::Shed => Cause::Shed,
            Unstarted::Refused(reason) => Cause::Refused(reason),
        };
        let start = O::GRAPH.phases()[O::index(O::kind(&O::start()))].name();
        Failure::new(cause, start, Some(operation))
    }

    /// Notes that the caller cancelled the operation. The operation may start before the dispatcher knows.
    fn cancel(&self) {
        let started = match &mut *self.stage.lock() {
            Stage::Queued(_, watch) | Stage::Launching(watch) => {
                watch.cancelled = true;
                None
            }
            Stage::Started(fom, _) => Some(fom.clone()),
            Stage::Failed(_) | Stage::Turned(..) | Stage::Gone => None,
        };
        if let Some(fom) = started {
            fom.cancel();
        }
    }

    /// Stores the next stage, and wakes the caller that waits. The old stage was taken under the same lock
    /// `stage`, so a caller finds the old stage or the next one.
    fn settle(mut stage: MutexGuard<'_, Stage<O>>, watch: Watch, next: Stage<O>) {
        let cancelled = match &next {
            Stage::Started(fom, _) if watch.cancelled => Some(fom.clone()),
            _ => None,
        };
        let mut unwanted = next;
        if watch.wanted {
            mem::swap(&mut *stage, &mut unwanted);
        }
        drop(stage);
        if let Some(fom) = cancelled {
            fom.cancel();
        }
        // User code: dropped without the lock.
        drop(unwanted);
        if let Some(waker) = watch.waker {
            waker.wake();
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
        let mut waker = None;
        if let Stage::Queued(_, watch) = &mut *self.stage.lock() {
            watch.outside = false;
            waker = watch.waker.take();
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn start(&self, permit: Permit) {
        let mut stage = self.stage.lock();
        let (parts, wanted) = match mem::replace(&mut *stage, Stage::Gone) {
            Stage::Queued(parts, watch) => {
                let wanted = watch.wanted || watch.cancelled;
                *stage = Stage::Launching(watch);
                (parts, wanted)
            }
            other => {
                *stage = other;
                return;
            }
        };
        drop(stage);
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
        let started = if wanted {
            submission.start().map(Some)
        } else {
            submission.detach().map(|_| None)
        };
        let next = match started {
            Ok(Some(handle)) => Stage::Started(handle.fom().clone(), Some(handle)),
            Ok(None) => Stage::Gone,
            Err(refused) => {
                let why = match refused.reason() {
                    // The operation was queued when the runtime ended, so it gets the answer of all queued operations.
                    RefusedReason::ShuttingDown => Unstarted::Shutdown,
                    reason => Unstarted::Refused(reason),
                };
                let failure = Self::failure(why, refused.into_operation());
                Stage::Failed(Box::new(failure))
            }
        };
        let mut stage = self.stage.lock();
        if let Some(watch) = stage.take_watch() {
            Self::settle(stage, watch, next);
        }
    }

    fn answer(&self, why: Unstarted) {
        let mut stage = self.stage.lock();
        match mem::replace(&mut *stage, Stage::Gone) {
            Stage::Queued(parts, watch) => {
                let next = match why {
                    Unstarted::Refused(reason) if watch.outside => {
                        Stage::Turned(reason, parts.operation)
                    }
                    why => Stage::Failed(Box::new(Self::failure(why, parts.operation))),
                };
                Self::settle(stage, watch, next);
            }
            other => *stage = other,
        }
    }
}

impl<O: Operation> Stage<O> {
    fn take_watch(&mut self) -> Option<Watch> {
        match mem::replace(self, Self::Gone) {
            Self::Launching(watch) => Some(watch),
            other => {
                *self = other;
                None
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
    request: Arc<WaitingRequest<O>>,
    handle: Option<Handle<O>>,
}

impl<O: Operation> fmt::Debug for Queued<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Queued").field(&self.request.tags).finish()
    }
}

impl<O: Operation> Queued<O> {
    pub(super) fn new(request: Arc<WaitingRequest<O>>) -> Self {
        Self {
            request,
            handle: None,
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

    /// Takes the handle out when the operation has started. Before the start, stores `waker`, which is woken when
    /// something happens.
    fn look(&mut self, waker: &Waker) -> Poll<Option<Box<Failure<O>>>> {
        if self.handle.is_some() {
            return Poll::Ready(None);
        }
        let mut stage = self.request.stage.lock();
        let old = match &mut *stage {
            Stage::Queued(_, watch) | Stage::Launching(watch) => watch.waker.replace(waker.clone()),
            Stage::Started(_, handle) => {
                self.handle = handle.take();
                return Poll::Ready(None);
            }
            Stage::Failed(_) => match mem::replace(&mut *stage, Stage::Gone) {
                Stage::Failed(failure) => return Poll::Ready(Some(failure)),
                _ => unreachable!("just looked at"),
            },
            Stage::Turned(..) | Stage::Gone => panic!("polled after it gave its outcome"),
        };
        drop(stage);
        // The waker may be user code: dropped without the lock.
        drop(old);
        Poll::Pending
    }
}

impl<O: Operation> Future for Queued<O> {
    type Output = Result<Ended<O>, Failure<O>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.look(cx.waker()) {
            Poll::Ready(Some(failure)) => Poll::Ready(Err(*failure)),
            Poll::Ready(None) => match &mut self.handle {
                Some(handle) => Pin::new(handle).poll(cx),
                None => Poll::Pending,
            },
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<O: Operation> Drop for Queued<O> {
    fn drop(&mut self) {
        let old = {
            let mut stage = self.request.stage.lock();
            match &mut *stage {
                Stage::Queued(_, watch) | Stage::Launching(watch) => {
                    watch.wanted = false;
                    (watch.waker.take(), None)
                }
                _ => (None, Some(mem::replace(&mut *stage, Stage::Gone))),
            }
        };
        // User code: dropped without the lock.
        drop(old);
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
        let queued = &mut *self.0;
        match queued.look(cx.waker()) {
            Poll::Ready(None) => Poll::Ready(queued.handle.as_ref().map(|it| it.fom().clone())),
            Poll::Ready(Some(failure)) => {
                // For a caller that awaits the outcome after this.
                *queued.request.stage.lock() = Stage::Failed(failure);
                Poll::Ready(None)
            }
            Poll::Pending => Poll::Pending,
        }
    }
}
