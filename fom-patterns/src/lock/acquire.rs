//! The future that waits for a lock.

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use fom_runtime::Cx;

use crate::lock::{
    LockError, LockGuard, LockMode, LongLock,
    of_fom::{FomLocks, LOCK},
    owner::{Owner, OwnerId},
    state::{Asked, Left},
};

/// Waits for a [`LongLock`]. The future joins the queue when it is first polled.
///
/// # Cancel safety
///
/// If the future is dropped, it leaves the queue, and the waiters behind it are checked again. If the lock was granted
/// in that moment, the lock is given back.
#[must_use = "it does nothing until it is awaited"]
pub struct Acquire {
    lock: LongLock,
    mode: LockMode,
    stage: Stage,
}

enum Stage {
    New(Owner),
    Queued(Owner, u64),
    Done,
}

impl fmt::Debug for Acquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Acquire({} to {})", self.lock, self.mode)
    }
}

impl Acquire {
    pub(super) fn new(lock: LongLock, mode: LockMode, owner: Owner) -> Self {
        Self {
            lock,
            mode,
            stage: Stage::New(owner),
        }
    }

    fn guard(&self, owner: OwnerId) -> LockGuard {
        LockGuard::new(self.lock.clone(), self.mode, owner)
    }

    fn again(&self, held: LockMode) -> LockError {
        LockError::again(&self.lock, held, self.mode)
    }

    /// Takes the lock at once, or fails.
    pub(super) fn at_once(mut self) -> Result<LockGuard, LockError> {
        let Stage::New(owner) = std::mem::replace(&mut self.stage, Stage::Done) else {
            unreachable!("it is new")
        };
        let id = owner.id();
        let asked = self.lock.state().ask(owner, self.mode);
        match asked {
            Asked::Granted => Ok(self.guard(id)),
            Asked::Again(held) => Err(self.again(held)),
            Asked::Busy(_) => Err(LockError::Busy {
                lock: self.lock.clone(),
            }),
        }
    }

    fn begin(&mut self, owner: Owner, cx: &Context<'_>) -> Poll<Result<LockGuard, LockError>> {
        let id = owner.id();
        let mut asked = self.lock.state().ask(owner, self.mode);
        if let Asked::Busy(owner) = asked {
            if let Some(held) = waits_already(&owner, &self.lock) {
                return Poll::Ready(Err(self.again(held)));
            }
            // Cloned without the mutex, because a waker may be the user's.
            let (waker, me) = (cx.waker().clone(), owner.clone());
            let queued = {
                let mut state = self.lock.state();
                asked = state.ask(owner, self.mode);
                match asked {
                    Asked::Busy(owner) => Err(state.queue(owner, self.mode, waker)),
                    other => Ok(other),
                }
            };
            asked = match queued {
                Err(ticket) => {
                    if let Some(fom) = me.fom() {
                        FomLocks::waits_for(fom, self.lock.clone(), self.mode, ticket);
                    }
                    self.stage = Stage::Queued(me, ticket);
                    return Poll::Pending;
                }
                Ok(asked) => asked,
            };
        }
        match asked {
            Asked::Granted => Poll::Ready(Ok(self.guard(id))),
            Asked::Again(held) => Poll::Ready(Err(self.again(held))),
            Asked::Busy(_) => unreachable!("it is in the queue"),
        }
    }

    /// Whether the request still waits. If so, the task of this poll is woken when that changes.
    fn waits(&self, ticket: u64, cx: &Context<'_>) -> bool {
        let waits = self
            .lock
            .state()
            .waker(ticket)
            .map(|waker| waker.will_wake(cx.waker()));
        if waits != Some(false) {
            return waits.is_some();
        }
        // Cloned and dropped without the mutex.
        let mut waker = cx.waker().clone();
        let mut state = self.lock.state();
        let place = state.waker(ticket);
        let waits = place.is_some();
        if let Some(place) = place {
            std::mem::swap(place, &mut waker);
        }
        drop(state);
        waits
    }
}

/// Returns how this owner already waits for the lock. Each request from outside of foms is another owner.
fn waits_already(owner: &Owner, lock: &LongLock) -> Option<LockMode> {
    FomLocks::mode(owner.fom()?, lock)
}

impl Future for Acquire {
    type Output = Result<LockGuard, LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (owner, ticket) = match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::New(owner) => {
                let polled = self.begin(owner, cx);
                if polled.is_pending() {
                    say_so(&self);
                }
                return polled;
            }
            Stage::Queued(owner, ticket) => (owner, ticket),
            Stage::Done => panic!("a long lock was polled after it was given"),
        };
        if self.waits(ticket, cx) {
            self.stage = Stage::Queued(owner, ticket);
            say_so(&self);
            return Poll::Pending;
        }
        let id = owner.id();
        let guard = self.guard(id);
        if let Some(fom) = owner.fom() {
            let waited = self.lock.state().holder(id).map_or(0, |hold| hold.waited);
            FomLocks::waited_for(fom, &self.lock, waited);
        }
        Poll::Ready(Ok(guard))
    }
}

/// Shows the wait in the listing, if the fom itself polls the future.
fn say_so(acquire: &Acquire) {
    let Stage::Queued(owner, _) = &acquire.stage else {
        return;
    };
    if let Some(fom) = owner.fom() {
        LOCK.record_for(fom);
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        let Stage::Queued(owner, ticket) = std::mem::replace(&mut self.stage, Stage::Done) else {
            return;
        };
        let mut left = Left::default();
        let waited = {
            let mut state = self.lock.state();
            let gave_up = state.give_up(ticket, &mut left);
            gave_up.unwrap_or_else(|| {
                let waited = state.holder(owner.id()).map_or(0, |hold| hold.waited);
                state.release(owner.id(), &mut left);
                waited
            })
        };
        if let Some(fom) = owner.fom() {
            FomLocks::waited_for(fom, &self.lock, waited);
        }
        left.settle();
    }
}

/// A future that waits for one or several locks.
pub(super) trait Attempt: Future<Output = Result<Self::Guard, LockError>> + Unpin {
    type Guard;
    /// Returns the current wait.
    fn current(&self) -> Option<&Acquire>;
}

impl Attempt for Acquire {
    type Guard = LockGuard;

    fn current(&self) -> Option<&Acquire> {
        Some(self)
    }
}

/// Waits for at most this time on the runtime's clock.
pub(super) async fn within<A: Attempt, E>(
    mut attempt: A,
    cx: &Cx<'_, E>,
    time: Duration,
) -> Result<A::Guard, LockError> {
    let mut sleep = cx.sleep(time);
    poll_fn(|cx| {
        if let Poll::Ready(done) = Pin::new(&mut attempt).poll(cx) {
            return Poll::Ready(done);
        }
        let slept = Pin::new(&mut sleep).poll(cx);
        let Some(current) = attempt.current() else {
            return Poll::Pending;
        };
        // The listing must show the lock, not the timer.
        say_so(current);
        slept.map(|()| {
            Err(LockError::TimedOut {
                lock: current.lock.clone(),
                after: time,
            })
        })
    })
    .await
}
