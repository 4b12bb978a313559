//! What a fom holds because its phases declare it. Only the thread that runs the fom touches it.

use std::{
    pin::Pin,
    task::{Context, Poll, Waker},
};

use crate::{
    fom::Header,
    lock::{AcquireSet, LockError, LockGuard, LockMode, LockSet, owner::Owner},
};

/// The locks of the phase that it is in.
#[derive(Default)]
pub(crate) struct Declared {
    held: Vec<LockGuard>,
    stage: Stage,
}

#[derive(Default)]
enum Stage {
    /// What this visit needs was not asked for yet.
    #[default]
    New,
    Taking(AcquireSet),
    /// They cannot be had.
    Failed(LockError),
    Ready,
}

impl Declared {
    /// Of a fom that goes on in the place of one that held these.
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

    /// Another visit begins.
    pub(crate) fn renew(&mut self) {
        self.stage = Stage::New;
    }

    /// Waits no more.
    pub(crate) fn stop(&mut self) {
        if let Stage::Taking(_) = self.stage {
            self.stage = Stage::New;
        }
    }

    /// Gives back what this visit does not name, and begins to take what it names besides.
    ///
    /// All that is new comes after all that stays, in the one order that everybody has: so this waits for nobody who could wait
    /// for what stays.
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

    /// Ready when all of them are held.
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
