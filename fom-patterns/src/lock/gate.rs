//! The locks that phases hold: a gate that opens when all of them are granted. The next phase takes over the locks that
//! it names, too.

use std::{
    any::Any,
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use fom_runtime::extension::{Gate, GateError};

use crate::lock::{AcquireSet, LockError, LockGuard, LockMode, LockSet, Locker, owner::Owner};

/// The name of the gate in [`Cause::name`](fom_runtime::Cause::name).
const NAME: &str = "locks";

/// The [`Gate`] of a phase that holds the locks of a [`LockSet`]. [`LockSet::gate`] makes one, and so does the key
/// `locks` of a phase.
///
/// If the phase before had such a gate, too, the locks that both name stay held without a gap. The error of the gate is
/// a [`LockError`].
pub struct LockGate {
    owner: Owner,
    wanted: LockSet,
    held: Vec<LockGuard>,
    stage: Stage,
}

enum Stage {
    /// The locks were not asked for yet.
    New,
    Taking(AcquireSet),
    /// The locks cannot be taken.
    Failed(LockError),
    Ready,
}

impl LockSet {
    /// Returns a gate that opens when this fom holds all locks of the set. An empty set opens at once.
    pub fn gate(self, who: &impl Locker) -> LockGate {
        LockGate {
            owner: who.owner(),
            wanted: self,
            held: Vec::new(),
            stage: Stage::New,
        }
    }
}

impl LockGate {
    /// Gives back the locks that the set does not name, and begins to take the further locks that it names.
    ///
    /// All new locks must come after all kept locks, in the order that is the same for all foms. So the fom never waits
    /// for another fom that could wait for the kept locks.
    fn begin(&mut self) -> Stage {
        let wanted = &self.wanted;
        let named = |guard: &mut LockGuard| !wanted.iter().any(|(lock, _)| lock == guard.lock());
        let unnamed: Vec<_> = self.held.extract_if(.., named).collect();
        drop(unnamed);
        let mut rest = LockSet::new();
        for (lock, mode) in wanted.iter() {
            match self.held.iter().find(|guard| guard.lock() == lock) {
                Some(guard) if guard.mode() >= mode => {}
                Some(_) => {
                    return Stage::Failed(LockError::again(lock, LockMode::Read, mode));
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
            return Stage::Failed(LockError::Order {
                lock: lock.clone(),
                held: last.clone(),
            });
        }
        Stage::Taking(rest.take_for(self.owner.clone()))
    }
}

impl Gate for LockGate {
    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), GateError>> {
        if let Stage::New = self.stage {
            self.stage = self.begin();
        }
        let taking = match &mut self.stage {
            Stage::Taking(taking) => taking,
            Stage::Failed(error) => return Poll::Ready(Err(GateError::new(NAME, error.clone()))),
            Stage::Ready => return Poll::Ready(Ok(())),
            Stage::New => unreachable!("it was begun"),
        };
        let Poll::Ready(taken) = Pin::new(taking).poll(cx) else {
            return Poll::Pending;
        };
        Poll::Ready(match taken {
            Ok(set) => {
                self.held.extend(set.guards);
                self.stage = Stage::Ready;
                Ok(())
            }
            Err(error) => {
                self.stage = Stage::Failed(error.clone());
                Err(GateError::new(NAME, error))
            }
        })
    }

    fn follow(&mut self, before: Box<dyn Gate>) {
        let before: Box<dyn Any> = before;
        if let Ok(before) = before.downcast::<Self>() {
            self.held = before.held;
            // This fom may be one that goes on in the place of the other fom.
            if before.owner != self.owner {
                for guard in &mut self.held {
                    guard.hand_to(self.owner.clone());
                }
            }
        }
    }

    fn stop(&mut self) {
        if let Stage::Taking(_) = self.stage {
            self.stage = Stage::New;
        }
    }

    fn is_held(&self) -> bool {
        !self.held.is_empty()
    }
}

impl fmt::Debug for LockGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGate")
            .field("wanted", &self.wanted)
            .field("held", &self.held)
            .finish_non_exhaustive()
    }
}
