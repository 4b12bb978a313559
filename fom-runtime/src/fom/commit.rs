//! The transitions of a fom that is kept. A transition is told, and the next phase entered, only when the transition is
//! committed.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use crate::{
    defaults::BoxError,
    fom::{
        Cause, End, Failure, Then, Typed, WaitingFor,
        durability::{
            Answer, Content, FailedAs, KeptFom, KeptStep, LastStep, SavedTiming, Written,
        },
        next::{Next, Step, Visit, next_cold},
        run::{Decided, Failed},
        transition::Instance,
    },
    operation::{Durability, Operation, kept_codec},
    snapshot::{Meta, Snapshot, SnapshotError},
};
use fom_protocol::panic_message;

impl<O: Operation> Typed<O> {
    /// Returns the state of the fom's transitions, if they are kept.
    #[inline]
    pub(super) fn journaled(&self) -> Option<&dyn KeptFom> {
        // Most types are asked in a runtime without a journal.
        if const { kept_codec::<O>().is_some() } && self.env().journaled {
            self.kept()
        } else {
            None
        }
    }

    /// Returns whether the fom must wait until its last step is committed. If so, the listing shows this.
    pub(super) fn awaits_journal(&self) -> bool {
        let pending = self.journaled().is_some_and(|kept| kept.is_pending());
        if pending {
            self.set_waiting_for(WaitingFor::Journal);
        }
        pending
    }

    /// Returns the new cause of a failed fom if its last step could not be committed.
    pub(super) fn end_answered(&self) -> Option<Cause<O::Error>> {
        let kept = self.journaled()?;
        let Answer::Failed(error) = kept.take_answer() else {
            return None;
        };
        kept.keep_failure(self, &error);
        Some(Cause::Journal(error))
    }

    /// Writes down that the fom fails in this phase. A fom that must come back after a restart keeps its record.
    #[cold]
    pub(super) fn commit_failure(&self, phase: &str, cause: &Cause<O::Error>) {
        if let Some(kept) = self.journaled()
            && !matches!(cause, Cause::Shutdown | Cause::Journal(_))
        {
            let describe = || describe::<O>(cause);
            let failed = FailedAs {
                phase,
                describe: &describe,
            };
            kept.fail(self, &failed, O::DURABILITY == Durability::Sync);
        }
    }

    /// Hands the last step over, so that the fom releases its key without waiting for that step. If the next fom with
    /// the key runs in another locality, its steps enter the journal after that step.
    #[cold]
    pub(super) fn hand_over_end(&self) {
        if self.key().is_some() && self.env().homes.len() > 1 {
            crate::locality::with_core(|core| core.pause_before_others());
        }
    }

    /// Stops taking events through outboxes, and settles the events that are left.
    #[cold]
    pub(super) fn leave_messages(&self, cause: Option<&Cause<O::Error>>) {
        if let Some(kept) = self.journaled() {
            let end = match cause {
                Some(Cause::Shutdown) => LastStep::Shutdown,
                Some(Cause::Journal(_)) => LastStep::NotCommitted,
                _ => LastStep::Committed,
            };
            kept.leave_events(self, end);
        }
    }

    /// Tells durability how the fom ended. Returns a function that tells other callers, for later.
    #[cold]
    pub(super) fn end_recorded(
        &self,
        ended: Result<(&O, &O::Phase), Option<&Failure<O>>>,
    ) -> Option<Box<dyn FnOnce()>> {
        let state = self.cold()?.durable.as_deref()?;
        match ended {
            Ok((operation, phase)) => state.ended(self, End::Phase(&|| saved(operation, phase))),
            Err(None) => state.ended(self, End::Shutdown),
            Err(Some(failure)) => match &failure.cause {
                Cause::Shutdown => state.ended(self, End::Shutdown),
                Cause::Journal(error) => state.ended(self, End::NotCommitted(error)),
                cause => {
                    let failed = FailedAs {
                        phase: failure.phase,
                        describe: &|| describe::<O>(cause),
                    };
                    state.ended(self, End::Failed(&failed))
                }
            },
        }
    }
}

/// Returns operation and phase as a snapshot. Catches a panic of the user's code.
fn saved<O: Operation>(operation: &O, phase: &O::Phase) -> Result<Snapshot, String> {
    let Some(codec) = O::CODEC else {
        return Err("its machine is transient".to_owned());
    };
    let save = || (codec.save)(operation, phase, Meta::default());
    match catch_unwind(AssertUnwindSafe(save)) {
        Ok(Ok(snapshot)) => Ok(snapshot),
        Ok(Err(error)) => Err(error.to_string()),
        Err(panic) => Err(format!("it panicked: {}", panic_message(panic))),
    }
}

/// Returns a cause as text.
fn describe<O: Operation>(cause: &Cause<O::Error>) -> String {
    let Cause::Error(original) = cause else {
        return cause.text();
    };
    let error: &dyn Any = original;
    let text = || match error.downcast_ref::<BoxError>() {
        Some(error) => error.to_string(),
        None => (O::DESCRIBE)(original),
    };
    // The user's code formats the error.
    catch_unwind(AssertUnwindSafe(text)).unwrap_or_else(panic_message)
}

impl<O: Operation> Content for Instance<O> {
    fn is_end(&self) -> bool {
        self.info().is_end()
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<(), SnapshotError> {
        match kept_codec::<O>() {
            Some(codec) => (codec.save_body)(&self.operation, &self.phase, out),
            None => Ok(()),
        }
    }

    fn snapshot(&self) -> Result<Snapshot, String> {
        saved(&self.operation, &self.phase)
    }
}

impl<O: Operation> Instance<O> {
    /// Writes down the current state of the fom, to be committed.
    #[inline(never)]
    pub(super) fn commit(&mut self, fom: &Typed<O>, then: Then) -> Decided<O> {
        let Some(kept) = fom.journaled() else {
            return Ok(Next::Proceed(then));
        };
        if self.info().is_end() && !kept.is_recorded() {
            // The journal has no record of it.
            return Ok(Next::Proceed(then));
        }
        let was_there = matches!(then, Then::Begin { .. }) && kept.is_recorded();
        let mut step = KeptStep {
            then,
            waits: O::DURABILITY == Durability::Sync || was_there,
            holds_gate: self.keeps_gate(fom, kept, then),
            timing: self.timing_after(fom, then),
            content: self,
        };
        let waits = match kept.step(fom, &mut step) {
            Written::Now => false,
            Written::Later => true,
            Written::Refused(error) => {
                fom.drop_outbox();
                return Err(Box::new(Cause::NotSaved(error)));
            }
        };
        Ok(next_cold(Step::Written { then, waits }))
    }

    /// Returns whether the fom must be committed before its first phase, because it is kept in the journal. A fom that
    /// came through an outbox is in the journal already. It begins at once, unless another fom with its key may precede
    /// it after a restart.
    #[inline]
    pub(super) fn is_begin_durable(&self, fom: &Typed<O>) -> bool {
        fom.journaled().is_some_and(|kept| kept.begin(fom))
    }

    /// Returns whether the fom holds the gate of its phase after this step.
    fn keeps_gate(&self, fom: &Typed<O>, kept: &dyn KeptFom, then: Then) -> Option<bool> {
        if !const { O::GRAPH.has_gates() } {
            return None;
        }
        let retries = matches!(then, Then::Retry(_));
        // A fom that held its gate before a restart, and failed before the gate was open again, must still go first.
        let held = fom.holds_gate() || retries && kept.held_gate();
        if !retries {
            fom.forget_held_gate();
        }
        Some(held && self.info().is_gated())
    }

    /// Returns the attempts and deadlines after this step.
    fn timing_after(&self, fom: &Typed<O>, then: Then) -> Option<SavedTiming> {
        let timing = fom.timing()?;
        let (attempt, causes, deadlines) = match then {
            Then::Begin { .. } | Then::Enter { .. } => {
                let resumed = matches!(then, Then::Begin { resumed: true });
                let saved = fom.cold().and_then(|cold| cold.saved.as_deref());
                let left = saved.and_then(|saved| saved.left).filter(|_| resumed);
                let now = fom.env().clock.nanos();
                let deadlines = timing.preview(fom, self.index(), now, left);
                (0, Vec::new(), deadlines)
            }
            Then::Stay | Then::Retry(_) | Then::Fail => {
                (timing.attempt(), fom.causes(), timing.deadlines())
            }
        };
        Some(SavedTiming {
            attempt,
            causes,
            due: deadlines.own,
            kept: deadlines
                .kept
                .map(|(at, owner)| (at, O::GRAPH.phases()[owner].name())),
        })
    }

    /// Returns the next action after a step that was written down to be committed, or `None` if there is no such step.
    pub(super) fn committed(&mut self, fom: &Typed<O>) -> Result<Option<Next>, Failed<O>> {
        let Some(kept) = fom.journaled() else {
            return Ok(None);
        };
        let step = match kept.take_answer() {
            Answer::Calm => return Ok(None),
            Answer::Pending => Step::Visit(Visit {
                committing: true,
                ..Visit::CALM
            }),
            Answer::Committed(then) => Step::Written { then, waits: false },
            Answer::Failed(error) => {
                kept.keep_step(fom, &error, self);
                return Err(Box::new(Cause::Journal(error)));
            }
        };
        Ok(Some(next_cold(step)))
    }
}
