//! What handles share with a fom of a known type: its mailbox, its outcome, and who waits for a phase of it.

use std::{collections::VecDeque, sync::Arc, task::Waker};

use tokio::sync::oneshot;

use crate::{
    Ended,
    error::{Failure, SendError},
    fom::AnyFom,
    operation::Operation,
    sync::Mutex,
};

/// How a fom ended.
pub(crate) type Outcome<O> = Result<Ended<O>, Failure<O>>;

/// A fom that takes events of a known type.
pub(crate) trait EventFom<E>: AnyFom {
    /// The oldest event that the current phase takes.
    fn take_event(&self) -> Option<E>;
    /// Keeps the event for the fom and wakes it.
    fn send(self: Arc<Self>, event: E) -> Result<(), SendError<E>>;
    /// Itself, to be kept.
    fn strong(&self) -> Arc<dyn EventFom<E>>;
    fn as_any(&self) -> &dyn AnyFom;
}

/// A fom of a known operation type.
pub(crate) trait TypedFom<O: Operation>: EventFom<O::Event> {
    fn typed(&self) -> &Typed<O>;
}

/// Somebody who waits for one of a set of phases.
pub(crate) struct Watcher {
    phases: Vec<usize>,
    tell: Option<oneshot::Sender<Told>>,
}

/// What a [`Watcher`] is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Phase(usize),
    Ended,
}

impl Watcher {
    pub(crate) fn new(phases: Vec<usize>, tell: oneshot::Sender<Told>) -> Self {
        Self {
            phases,
            tell: Some(tell),
        }
    }

    /// Whether this is what it waits for, or it waits no more.
    fn hears(&self, told: Told) -> bool {
        !matches!(told, Told::Phase(index) if !self.phases.contains(&index)) || self.is_gone()
    }

    fn is_gone(&self) -> bool {
        self.tell.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    fn tell(&mut self, told: Told) {
        if let Some(tell) = self.tell.take() {
            // Who waited may have given up; then there is nobody to tell.
            let _ = tell.send(told);
        }
    }
}

pub(crate) struct Typed<O: Operation>(Mutex<Inner<O>>);

struct Inner<O: Operation> {
    events: VecDeque<O::Event>,
    /// The phase that events are taken for; only kept while it takes any.
    takes: Option<O::Kind>,
    answer: Answer<O>,
    waker: Option<Waker>,
    watchers: Vec<Watcher>,
    /// Set at the end: the phase in which it ended, `None` in it for the standard failed outcome.
    ended: Option<Option<usize>>,
}

enum Answer<O: Operation> {
    Pending,
    /// Nobody will ask: the handle is gone.
    Unwanted,
    Given(Box<Outcome<O>>),
    Taken,
}

impl<O: Operation> Typed<O> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Inner {
            events: VecDeque::new(),
            takes: None,
            answer: Answer::Pending,
            waker: None,
            watchers: Vec::new(),
            ended: None,
        }))
    }

    pub(crate) fn push_event(
        &self,
        event: O::Event,
        most: usize,
    ) -> Result<(), SendError<O::Event>> {
        let mut inner = self.0.lock();
        if inner.ended.is_some() {
            return Err(SendError::Ended(event));
        }
        if inner.events.len() >= most {
            return Err(SendError::Full(event));
        }
        inner.events.push_back(event);
        Ok(())
    }

    /// The oldest event that the phase takes; those before it stay where they are.
    pub(crate) fn take_event(&self) -> Option<O::Event> {
        let mut inner = self.0.lock();
        let kind = inner.takes?;
        let at = inner
            .events
            .iter()
            .position(|event| O::takes(kind, event))?;
        inner.events.remove(at)
    }

    pub(crate) fn takes(&self, kind: Option<O::Kind>) {
        self.0.lock().takes = kind;
    }

    pub(crate) fn events_kept(&self) -> usize {
        self.0.lock().events.len()
    }

    /// Takes no more events, and gives those that no phase took. `ended`: the end phase, none for the failed outcome.
    pub(crate) fn close(&self, ended: Option<usize>) -> Vec<O::Event> {
        let mut inner = self.0.lock();
        inner.ended.get_or_insert(ended);
        std::mem::take(&mut inner.events).into()
    }

    /// Gives the outcome, once; a second one is dropped. After [`close`](Self::close).
    pub(crate) fn answer(&self, mut outcome: Outcome<O>, untaken: Vec<O::Event>) {
        let ended = outcome
            .as_ref()
            .ok()
            .map(|ended| O::index(O::kind(&ended.phase)));
        match &mut outcome {
            Ok(ended) => ended.untaken = untaken,
            Err(failure) => failure.untaken = untaken,
        }
        let (waker, watchers, unwanted) = {
            let mut inner = self.0.lock();
            let mut unwanted = None;
            if matches!(inner.answer, Answer::Pending) {
                inner.answer = Answer::Given(Box::new(outcome));
            } else {
                unwanted = Some(outcome);
            }
            (
                inner.waker.take(),
                std::mem::take(&mut inner.watchers),
                unwanted,
            )
        };
        for mut watcher in watchers {
            watcher.tell(
                ended
                    .map(Told::Phase)
                    .filter(|told| watcher.hears(*told))
                    .unwrap_or(Told::Ended),
            );
        }
        if let Some(waker) = waker {
            waker.wake();
        }
        // What is the user's is dropped without the lock.
        drop(unwanted);
    }

    /// The outcome if it is there; else `waker` is told when it is.
    pub(crate) fn poll_outcome(&self, waker: &Waker) -> Option<Outcome<O>> {
        let mut inner = self.0.lock();
        match std::mem::replace(&mut inner.answer, Answer::Taken) {
            Answer::Given(outcome) => Some(*outcome),
            Answer::Taken => panic!("a handle was polled after it gave its outcome"),
            other => {
                inner.answer = other;
                let old = inner.waker.replace(waker.clone());
                drop(inner);
                // It may be the last of a task of the user's.
                drop(old);
                None
            }
        }
    }

    /// The handle goes: nobody will ask for the outcome.
    pub(crate) fn detach(&self) {
        let left = {
            let mut inner = self.0.lock();
            (
                inner.waker.take(),
                std::mem::replace(&mut inner.answer, Answer::Unwanted),
            )
        };
        drop(left);
    }

    /// Tells those who wait for this phase.
    pub(crate) fn arrived(&self, index: usize) {
        let told: Vec<_> = self
            .0
            .lock()
            .watchers
            .extract_if(.., |watcher| watcher.hears(Told::Phase(index)))
            .collect();
        // Without the lock: whoever is woken may do anything with this fom at once.
        for mut watcher in told {
            watcher.tell(Told::Phase(index));
        }
    }

    /// Registers a wait, or answers it when the fom has ended; says whether it was registered. Whoever waits for the phase
    /// that the fom is in already is told by a call of [`arrived`](Self::arrived) on the thread that runs its locality.
    pub(crate) fn watch(&self, mut watcher: Watcher) -> bool {
        let mut inner = self.0.lock();
        let told = match inner.ended {
            Some(Some(index)) if watcher.hears(Told::Phase(index)) => Told::Phase(index),
            Some(_) => Told::Ended,
            None => {
                // Instead of growing: a fom may stay in one phase for long, while wait after wait for it times out.
                if inner.watchers.len() == inner.watchers.capacity() {
                    inner.watchers.retain(|watcher| !watcher.is_gone());
                }
                inner.watchers.push(watcher);
                return true;
            }
        };
        drop(inner);
        watcher.tell(told);
        false
    }
}

#[cfg(all(test, not(any(fom_loom, fom_shuttle))))]
mod tests {
    use super::*;
    use crate::prelude::*;

    struct Rock;

    #[fom(operation(Rock), transient)]
    enum Age {
        #[phase(start, to(Sand), sync)]
        Stone,
        #[phase(end)]
        Sand,
    }

    impl AgeTransitions for Rock {
        fn stone(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
            Ok(())
        }
    }

    /// A wait that is over leaves nothing behind for long, also when the fom does not move.
    #[test]
    fn waits_that_were_given_up_do_not_pile_up() {
        let typed = Typed::<Rock>::new();
        let (tell, _kept) = oneshot::channel();
        typed.watch(Watcher::new(vec![1], tell));
        for _ in 0..1000 {
            let (tell, _) = oneshot::channel();
            typed.watch(Watcher::new(vec![1], tell));
        }
        assert!(typed.0.lock().watchers.len() <= 4);
    }
}
