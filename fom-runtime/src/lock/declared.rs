//! The locks that a fom holds because its phases declare them. Only the thread that runs the fom touches them.

use std::{
    pin::Pin,
    task::{Context, Poll, Waker},
};

use crate::{
    fom::Header,
    lock::{AcquireSet, LockError, LockGuard, LockMode, LockSet, owner::Owner},
};

/// The locks of the fom's current phase.
#[derive(Default)]
pub(crate) struct Declared {
    held: Vec<LockGuard>,
    stage: Stage,
}

#[derive(Default)]
enum Stage {
    /// The locks of this visit were not asked for yet.
    #[default]
    New,
    Taking(AcquireSet),
    /// The locks cannot be taken.
    Failed(LockError),
    Ready,
}

impl Declared {
    /// Creates the state of a fom that goes on in the place of a fom that held these locks.
    pub(super) fn of(held: Vec<LockGuard>) -> Self {
        Self {
            held,
            stage: Stage::New,
        }
    }

    pub(super) fn leave(&mut self) -> Vec<LockGuard> {
        std::mem::take(&mut self.held)
    }

    pub(crate) fn holds_any(&self) -> bool {
        !self.held.is_empty()
    }

    pub(crate) fn is_new(&self) -> bool {
        matches!(self.stage, Stage::New)
    }

    /// Begins another visit.
    pub(crate) fn renew(&mut self) {
        self.stage = Stage::New;
    }

    /// Stops waiting.
    pub(crate) fn stop(&mut self) {
        if let Stage::Taking(_) = self.stage {
            self.stage = Stage::New;
        }
    }

    /// Gives back the locks that this visit does not name, and begins to take the further locks that it names.
    ///
    /// All new locks must come after all kept locks, in the order that is the same for all foms. So the fom never waits
    /// for another fom that could wait for the kept locks.
    pub(crate) fn begin(&mut self, wanted: &LockSet, fom: &Header) {
        let named = |guard: &mut LockGuard| !wanted.iter().any(|(lock, _)| lock == guard.lock());
        let unnamed: Vec<_> = self.held.extract_if(.., named).collect();
        drop(unnamed);
        let mut rest = LockSet::new();
        for (lock, mode) in wanted.iter() {
            match self.held.iter().find(|guard| guard.lock() == lock) {
                Some(guard) if guard.mode() >= mode => {}
                Some(_) => {
                    self.stage = Stage::Failed(LockError::again(lock, LockMode::Read, mode));
                    return;
                }
                None => rest = rest.with(lock, mode),
            }
        }
        let last = self
            .held
            .iter()
            .map(LockGuard::lock)
            .max_by_key(|lock| lock.order());
        if let (Some(last), Some((lock, _))) = (last, rest.iter().next())
            && lock.order() < last.order()
        {
            self.stage = Stage::Failed(LockError::Order {
                lock: lock.clone(),
                held: last.clone(),
            });
            return;
        }
        self.stage = Stage::Taking(rest.take_for(Owner::of_fom(fom)));
    }

    /// Waits until all locks are held.
    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<Result<(), LockError>> {
        let taking = match &mut self.stage {
            Stage::Taking(taking) => taking,
            Stage::Failed(error) => return Poll::Ready(Err(error.clone())),
            Stage::Ready => return Poll::Ready(Ok(())),
            Stage::New => unreachable!("it was begun"),
        };
        let polled = Pin::new(taking).poll(&mut Context::from_waker(waker));
        polled.map(|taken| match taken {
            Ok(set) => {
                self.held.extend(set.guards);
                self.stage = Stage::Ready;
                Ok(())
            }
            Err(error) => {
                self.stage = Stage::Failed(error.clone());
                Err(error)
            }
        })
    }
}
