//! The durable state of a fom of a known operation type.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{
    fom::{
        Cause, DurabilityError, WaitingFor,
        durability::{Answer, Content, End, FailedAs, KeptFailed, KeptFom, LastStep},
    },
    operation::{Durability, Operation, kept_codec},
    snapshot::{Meta, Schema, Snapshot},
    typed::{Failure, Typed},
};
use fom_protocol::panic_message;

impl<O: Operation> Typed<O> {
    /// Returns whether the fom's transitions are kept.
    #[inline]
    pub(crate) fn is_journaled(&self) -> bool {
        self.env().journaled && const { kept_codec::<O>().is_some() }
    }

    /// Returns the state of the fom's transitions, if they are kept.
    #[inline]
    pub(crate) fn journaled(&self) -> Option<&dyn KeptFom> {
        // Most types are asked in a runtime without a journal.
        if self.is_journaled() {
            self.kept()
        } else {
            None
        }
    }

    /// Returns whether the fom must wait until its last step is committed. If so, the listing shows this.
    pub(crate) fn awaits_journal(&self) -> bool {
        let pending = self.journaled().is_some_and(|kept| kept.is_pending());
        if pending {
            self.waiting.set(WaitingFor::Journal);
        }
        pending
    }

    /// Returns the new cause of a failed fom if its last step could not be committed.
    pub(crate) fn end_answered(&self) -> Option<Cause<O::Error>> {
        let kept = self.journaled()?;
        let Some(Answer::Failed(error)) = kept.take_answer() else {
            return None;
        };
        kept.keep_failure(self, &error);
        Some(self.not_committed(error))
    }

    /// Returns why a fom ends whose last step could not be committed.
    #[cold]
    pub(crate) fn not_committed(&self, error: DurabilityError) -> Cause<O::Error> {
        match self.env().has_moved() {
            true => Cause::Moved,
            false => Cause::Journal(error),
        }
    }

    /// Writes down that the fom fails in this phase. A fom that must come back after a restart keeps its record.
    /// `content` writes the operation, if it still exists.
    #[cold]
    pub(crate) fn commit_failure(
        &self,
        phase: &str,
        cause: &Cause<O::Error>,
        content: Option<&dyn Content>,
    ) {
        let cannot_be_saved = matches!(cause, Cause::NotSaved(_));
        let is_failure = cause.is_of_phase() || cannot_be_saved;
        if is_failure && !(O::KEEPS_FAILED && self.is_journaled()) {
            let snapshot = || content?.snapshot().ok();
            let failures = self.env().failures();
            failures.keep(self, phase, || describe::<O>(cause), snapshot);
        }
        if let Some(kept) = self.journaled()
            && !matches!(cause, Cause::Shutdown | Cause::Moved | Cause::Journal(_))
        {
            let describe = || describe::<O>(cause);
            let failed = FailedAs {
                phase,
                describe: &describe,
            };
            let is_kept = O::KEEPS_FAILED && is_failure;
            let tried = self.visit().tried();
            let operation = is_kept.then(|| KeptFailed {
                tried: &tried,
                content: content.filter(|_| !cannot_be_saved),
            });
            let waits = O::DURABILITY == Durability::Sync;
            kept.fail(self, &failed, operation.as_ref(), waits);
        }
    }

    /// Stops taking events through outboxes, and settles the events that are left.
    #[cold]
    pub(crate) fn leave_messages(&self, cause: Option<&Cause<O::Error>>) {
        if let Some(kept) = self.journaled() {
            let end = match cause {
                Some(Cause::Shutdown | Cause::Moved) => LastStep::Shutdown,
                Some(Cause::Journal(_)) => LastStep::NotCommitted,
                _ => LastStep::Committed,
            };
            kept.leave_events(self, end);
        }
    }

    /// Returns operation and phase as a snapshot. Catches a panic of the user's code.
    pub(crate) fn saved(&self, operation: &O, phase: &O::Phase) -> Result<Snapshot, String> {
        let Some(codec) = O::CODEC else {
            return Err("its machine is transient".to_owned());
        };
        let save = || {
            let mut body = Vec::new();
            (codec.save_body)(operation, phase, &mut body)?;
            if const { O::KEEPS_UNKNOWN } {
                self.put_back_unread(&mut body, 0);
            }
            Snapshot::of(&Schema::bytes_of(O::GRAPH), &body, Meta::default())
        };
        match catch_unwind(AssertUnwindSafe(save)) {
            Ok(Ok(snapshot)) => Ok(snapshot),
            Ok(Err(error)) => Err(error.to_string()),
            Err(panic) => Err(format!("it panicked: {}", panic_message(panic))),
        }
    }

    /// Puts what this release does not know of the fom back into the body that begins at `begin`.
    #[cold]
    pub(crate) fn put_back_unread(&self, out: &mut Vec<u8>, begin: usize) {
        if let Some(rare) = self.cold().and_then(|cold| cold.rare())
            && let Some(unread) = &*rare.unread.lock()
        {
            let fields = |index: u8| O::GRAPH.phases()[usize::from(index)].fields().len();
            unread.put_back(out, begin, fields);
        }
    }

    /// Forgets what this release does not know of the phase, because the fom leaves the phase.
    #[cold]
    pub(crate) fn leave_unread_phase(&self) {
        if let Some(rare) = self.cold().and_then(|cold| cold.rare())
            && let Some(unread) = &mut *rare.unread.lock()
        {
            unread.leave_phase();
        }
    }

    /// Tells durability how the fom ended. Returns a function that tells other callers, for later.
    #[cold]
    pub(crate) fn end_recorded(
        &self,
        ended: Result<(&O, &O::Phase), Option<&Failure<O>>>,
    ) -> Option<Box<dyn FnOnce()>> {
        let state = self.cold()?.durable()?;
        match ended {
            Ok((operation, phase)) => {
                state.ended(self, End::Phase(&|| self.saved(operation, phase)))
            }
            Err(None) => state.ended(self, End::Shutdown),
            Err(Some(failure)) => match &failure.cause {
                Cause::Shutdown | Cause::Moved => state.ended(self, End::Shutdown),
                Cause::Journal(error) => state.ended(self, End::NotCommitted(error)),
                cause => {
                    let failed = FailedAs {
                        phase: failure.phase_name(),
                        describe: &|| describe::<O>(cause),
                    };
                    state.ended(self, End::Failed(&failed))
                }
            },
        }
    }
}

/// Returns a cause as text, with the sources of its error. Runs the user's code, which may panic.
pub(crate) fn text<O: Operation>(cause: &Cause<O::Error>) -> String {
    match cause {
        Cause::Error(error) => (O::DESCRIBE)(error).text(),
        other => other.text(),
    }
}

/// Returns a cause as text. Catches a panic of the user's code.
fn describe<O: Operation>(cause: &Cause<O::Error>) -> String {
    catch_unwind(AssertUnwindSafe(|| text::<O>(cause))).unwrap_or_else(panic_message)
}
