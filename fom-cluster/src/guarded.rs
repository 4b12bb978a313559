//! Catches the panics of an engine. An engine is code of the user's, and must not take a thread of the node down.

use std::{
    any::TypeId,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use fom_protocol::panic_message;

use crate::{
    engine::{Append, Assignment, Beat, Claim, Claimed, Engine, EngineError, Settings, View},
    slot::Slot,
};

/// Catches the panics of an engine, and returns each as [`EngineError::Unknown`].
pub(crate) struct Guarded<E>(E);

impl<E: Engine> Guarded<E> {
    pub(crate) fn guard(engine: E) -> Arc<dyn Engine> {
        Arc::new(Self(engine))
    }

    fn guarded<T>(&self, ask: impl FnOnce(&E) -> Result<T, EngineError>) -> Result<T, EngineError> {
        let asked = catch_unwind(AssertUnwindSafe(|| ask(&self.0)));
        asked.unwrap_or_else(|panic| {
            let what = panic_message(panic);
            Err(EngineError::unknown(format!("it panicked: {what}")))
        })
    }
}

impl<E: Engine> Engine for Guarded<E> {
    fn open(&self, wanted: &Settings) -> Result<Settings, EngineError> {
        self.guarded(|engine| engine.open(wanted))
    }

    fn beat(&self, me: &Beat<'_>) -> Result<View, EngineError> {
        self.guarded(|engine| engine.beat(me))
    }

    fn evict(&self, incarnation: &str, beat: u64) -> Result<bool, EngineError> {
        self.guarded(|engine| engine.evict(incarnation, beat))
    }

    fn claim(&self, claim: &Claim<'_>) -> Result<Option<Claimed>, EngineError> {
        self.guarded(|engine| engine.claim(claim))
    }

    fn commit(&self, appends: &[Append]) -> Result<Vec<bool>, EngineError> {
        self.guarded(|engine| engine.commit(appends))
    }

    fn executes(&self) -> Option<TypeId> {
        self.guarded(|engine| Ok(engine.executes())).ok().flatten()
    }

    fn load(&self, slot: Slot, from: u64, to: u64) -> Result<Vec<(u64, Vec<u8>)>, EngineError> {
        self.guarded(|engine| engine.load(slot, from, to))
    }

    fn ends(&self, slots: u16) -> Result<Vec<u64>, EngineError> {
        self.guarded(|engine| engine.ends(slots))
    }

    fn delete_until(&self, slot: Slot, term: u64, last: u64) -> Result<(), EngineError> {
        self.guarded(|engine| engine.delete_until(slot, term, last))
    }

    fn note(&self, slot: Slot, term: u64, notes: &[u8]) -> Result<bool, EngineError> {
        self.guarded(|engine| engine.note(slot, term, notes))
    }

    fn assign(&self, assignment: &Assignment) -> Result<Assignment, EngineError> {
        self.guarded(|engine| engine.assign(assignment))
    }

    fn release(&self, slot: Slot, term: u64) -> Result<(), EngineError> {
        self.guarded(|engine| engine.release(slot, term))
    }

    fn leave(&self, incarnation: &str) -> Result<(), EngineError> {
        self.guarded(|engine| engine.leave(incarnation))
    }
}
