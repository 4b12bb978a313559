//! The slot for the outcome of one call. The outcome is put in once and taken out once.
//!
//! The lock is never held while user code runs: observers, wakers and drops.

use std::{
    mem,
    sync::Arc,
    task::{Poll, Waker},
};

use fom_protocol::{caught, sync::Mutex};
use fom_runtime::observe::IncidentKind;

use crate::active::{ActiveCallError, object_handle::ObjectHandle};

pub(super) type Outcome<T> = Result<T, ActiveCallError>;

/// A function that is called once with a reference to the outcome.
pub(super) type Observer<T> = Box<dyn FnOnce(Result<&T, &ActiveCallError>) + Send>;

/// A function that takes the outcome.
pub(super) type Consumer<T> = Box<dyn FnOnce(Outcome<T>) + Send>;

pub(super) struct Slot<T> {
    state: Mutex<State<T>>,
    /// The called object.
    pub(super) handle: Arc<dyn ObjectHandle>,
}

struct State<T> {
    stage: Stage<T>,
    waker: Option<Waker>,
    observers: Vec<Observer<T>>,
    /// Takes the outcome in place of a waiting caller.
    consumer: Option<Consumer<T>>,
}

enum Stage<T> {
    /// There is no outcome yet.
    Open,
    /// There is an outcome, and the observers are called.
    Telling,
    Here(Outcome<T>),
    Taken,
}

impl<T> Slot<T> {
    pub(super) fn new(handle: Arc<dyn ObjectHandle>) -> Self {
        Self {
            state: Mutex::new(State {
                stage: Stage::Open,
                waker: None,
                observers: Vec::new(),
                consumer: None,
            }),
            handle,
        }
    }

    /// Puts the outcome in. Only the first outcome counts; a later one is dropped.
    fn put(&self, outcome: Outcome<T>) {
        let mut state = self.state.lock();
        if !matches!(state.stage, Stage::Open) {
            return;
        }
        state.stage = Stage::Telling;
        drop(state);
        self.tell(outcome);
    }

    /// Calls the observers, including those added meanwhile. Then calls the consumer, or wakes the waiting caller.
    fn tell(&self, outcome: Outcome<T>) {
        loop {
            let mut state = self.state.lock();
            if state.observers.is_empty() {
                if let Some(consumer) = state.consumer.take() {
                    state.stage = Stage::Taken;
                    drop(state);
                    self.fenced("the callback of a call", || consumer(outcome));
                    return;
                }
                state.stage = Stage::Here(outcome);
                let waker = state.waker.take();
                drop(state);
                if let Some(waker) = waker {
                    self.fenced("a waker", || waker.wake());
                }
                return;
            }
            let observers = mem::take(&mut state.observers);
            drop(state);
            for observer in observers {
                self.fenced("an observer", || observer(outcome.as_ref()));
            }
        }
    }

    fn fenced(&self, what: &str, f: impl FnOnce()) {
        if let Err(message) = caught(f) {
            let name = self.handle.name();
            self.handle.runtime().report(
                IncidentKind::Panicked,
                format!("active object `{name}`"),
                format!("{what} of a call of `{name}` panicked: {message}"),
            );
        }
    }

    /// Calls `observer` with the outcome, now if it is available, else later.
    pub(super) fn observe(&self, observer: Observer<T>) {
        self.add(|state| state.observers.push(observer));
    }

    /// Gives the outcome to `consumer`, now if it is available, else later.
    pub(super) fn consume(&self, consumer: Consumer<T>) {
        self.add(|state| state.consumer = Some(consumer));
    }

    fn add(&self, add: impl FnOnce(&mut State<T>)) {
        let mut state = self.state.lock();
        add(&mut state);
        match mem::replace(&mut state.stage, Stage::Telling) {
            Stage::Here(outcome) => {
                drop(state);
                self.tell(outcome);
            }
            before => state.stage = before,
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.state.lock().stage, Stage::Telling | Stage::Here(_))
    }

    /// Takes the outcome, or stores the waker.
    pub(super) fn poll(&self, waker: &Waker) -> Poll<Outcome<T>> {
        let mut state = self.state.lock();
        match mem::replace(&mut state.stage, Stage::Taken) {
            Stage::Here(outcome) => Poll::Ready(outcome),
            Stage::Taken => {
                drop(state);
                panic!("a call was polled after it was ready")
            }
            before => {
                state.stage = before;
                if state.waker.as_ref().is_some_and(|old| old.will_wake(waker)) {
                    return Poll::Pending;
                }
                let old = state.waker.replace(waker.clone());
                drop(state);
                drop(old);
                Poll::Pending
            }
        }
    }
}

/// The duty to answer one call. If dropped, it answers with [`ActiveCallError::Ended`].
pub(super) struct Answer<T>(Option<Arc<Slot<T>>>);

impl<T> Answer<T> {
    pub(super) fn new(slot: Arc<Slot<T>>) -> Self {
        Self(Some(slot))
    }

    pub(super) fn send(mut self, outcome: Outcome<T>) {
        if let Some(slot) = self.0.take() {
            slot.put(outcome);
        }
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        if let Some(slot) = self.0.take() {
            slot.put(Err(ActiveCallError::Ended));
        }
    }
}
