//! A fom of a known operation type: its events, its durable state, its outcome and its listeners.
//!
//! The layers below know a fom by its header only. [`Typed`] begins with that header, so each pointer to a fom is a
//! pointer to its `Typed`, if the type is known.

mod failure;
mod kept;
mod launch;
mod listeners;
mod outcome;
mod reference;

use std::{any::Any, cell::UnsafeCell, ops::Deref};

pub use failure::Failure;
pub(crate) use kept::text;
pub(crate) use launch::{
    FirstRun, GoesOn, Launched, RunInPlace, Seed, Served, build_here, start_here,
};
pub use listeners::{Interpose, TransitionOf};
pub(crate) use listeners::{after, before, interpose, interposes, listen_to, tell};
pub use outcome::{AtEnd, Ended, Outcome};
pub(crate) use outcome::{settle, with_untaken};
pub(crate) use reference::TypedRef;

use crate::{
    fom::{Interrupt, Mailed, Timing},
    operation::Operation,
};

/// A fom of a known operation type.
#[repr(C)]
pub(crate) struct Typed<O: Operation> {
    /// First: a pointer to the whole is a pointer to this field.
    pub(crate) mailed: Mailed<O::Event>,
    /// The phase that events are taken for, or `None` if it takes none. Only the thread that runs the fom touches this.
    pub(crate) takes: UnsafeCell<Option<O::Kind>>,
}

impl<O: Operation> Deref for Typed<O> {
    type Target = Mailed<O::Event>;

    #[inline]
    fn deref(&self) -> &Mailed<O::Event> {
        &self.mailed
    }
}

impl<O: Operation> Typed<O> {
    /// Sets the phase that events are taken for. Only the thread that runs the fom calls this.
    pub(crate) fn set_takes(&self, kind: Option<O::Kind>) {
        // SAFETY: only the thread that runs the fom touches the field. The kind is `Copy`, so no reference is kept.
        unsafe { *self.takes.get() = kind }
    }

    /// Takes the oldest event that the current phase takes. Only the thread that runs the fom calls this.
    pub(crate) fn take_event(&self) -> Option<O::Event> {
        let (event, _) = self.take_event_sent();
        event.or_else(|| {
            // SAFETY: as above.
            let kind = unsafe { *self.takes.get() }?;
            let takes = |event: &dyn Any| match event.downcast_ref() {
                Some(event) => O::takes(kind, event),
                None => false,
            };
            let event = self
                .journaled()?
                .take_event(self, O::KEEPS_FAILED, &takes)?;
            event.downcast().ok().map(|event| *event)
        })
    }

    /// Like [`take_event`](Self::take_event), for a running function: from then on its step key names this event.
    pub(crate) fn take_further_event(&self) -> Option<O::Event> {
        let event = self.take_event()?;
        if let Some(cold) = self.cold() {
            cold.next_effect();
        }
        Some(event)
    }

    /// Like [`take_event`](Self::take_event), without events in a journal. Also returns whether other events are left.
    #[inline(always)]
    pub(crate) fn take_event_sent(&self) -> (Option<O::Event>, bool) {
        // SAFETY: as above.
        match unsafe { *self.takes.get() } {
            Some(kind) => {
                let takes = |event: &O::Event| O::takes(kind, event);
                self.mail.take(takes, |id| self.visit().took(id))
            }
            None => (None, true),
        }
    }

    /// Returns the deadlines, if the machine has any.
    #[inline(always)]
    pub(crate) fn timing(&self) -> Option<&Timing> {
        if const { O::GRAPH.needs().deadlines() } {
            self.mailed.timing()
        } else {
            None
        }
    }

    /// Like [`Header::interrupt`], but checks for deadlines only if the type has any.
    #[inline(always)]
    pub(crate) fn interrupt(&self) -> Option<Interrupt> {
        if const { O::GRAPH.needs().deadlines() } {
            self.mailed.interrupt()
        } else {
            self.told_to_end()
        }
    }
}

// SAFETY: only one thread at a time touches `takes`, the one that runs the fom, and `Kind` is `Send`.
unsafe impl<O: Operation> Sync for Typed<O> {}
