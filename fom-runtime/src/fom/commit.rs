//! The transitions of a fom that is kept in a journal. A transition is told, and the next phase entered, only when
//! the transition is committed.

use std::panic::{AssertUnwindSafe, catch_unwind};

use fom_journal::{Batch, JournalError};

use crate::{
    durable::{
        Answer, Committer, DurableState, Inner, OperationId, Stored, Then, Uncommitted, codec,
        encode_head,
    },
    fom::{
        AnyRef, Cause, KeyWait, TransitionCause, Typed, WaitingFor,
        transition::{After, Instance, Verdict},
    },
    id::entry_of,
    operation::{Codec, Durability, Operation},
    snapshot::SnapshotError,
};
use fom_protocol::panic_message;

impl<O: Operation> Typed<O> {
    /// Returns the journal state of the fom and its codec, if the fom is kept in a journal.
    #[inline]
    pub(super) fn journaled(&self) -> Option<(&DurableState, Codec<O>)> {
        // Most types are asked in a runtime without a journal.
        match const { codec::<O>() } {
            Some(codec) if self.shared().journaled => Some((self.kept()?, codec)),
            _ => None,
        }
    }

    /// Returns whether the fom must wait until its last step is committed. If so, the listing shows this.
    pub(super) fn awaits_journal(&self) -> bool {
        let pending = self.journaled().is_some_and(|(kept, _)| kept.is_pending());
        if pending {
            self.set_waiting_for(WaitingFor::Journal);
        }
        pending
    }

    /// Returns the new cause of a failed fom if its last step could not be committed.
    pub(super) fn end_answered(&self) -> Option<Cause<O::Error>> {
        let Answer::Failed(error) = self.journaled()?.0.take_answer() else {
            return None;
        };
        let (kept, _) = self.journaled()?;
        let mut group = Batch::new();
        match self.once().and_then(OperationId::take) {
            Some((answer, _)) => remember(self, &mut group, answer),
            None => group.delete(entry_of(self.id().get())),
        }
        delete_taken(kept, &mut group);
        group.end_group();
        self.stall(group, &error);
        Some(Cause::Journal(error))
    }

    /// Keeps a step that could not be committed, to be committed when the journal works again. The step must wait
    /// until this fom is gone, because the fom that continues in its place has its key.
    fn stall(&self, group: Batch, error: &JournalError) {
        let Some((kept, _)) = self.journaled() else {
            return;
        };
        let place = self.key().map(|key| (self.type_id(), key.clone()));
        let gate = self.leave_held_gate();
        let announced = self
            .cold_rare()
            .map(|cold_rare| cold_rare.outbox.lock().take_announced());
        let announced = announced.unwrap_or_default();
        let uncommitted = Uncommitted::new(self.id(), group, error.clone(), place, gate, announced);
        self.shared().list_uncommitted(&uncommitted);
        kept.inner().more_made().uncommitted = Some(uncommitted);
    }

    /// Writes down that the fom fails in this phase: deletes its record, or records the failure for its operation id.
    /// A fom that must come back after a restart keeps its record.
    #[cold]
    pub(super) fn commit_failure(&self, phase: &str, cause: &Cause<O::Error>) {
        let Some((kept, _)) = self.journaled() else {
            return;
        };
        let is_to_be = kept.is_recorded() || self.once().is_some();
        if matches!(cause, Cause::Shutdown | Cause::Journal(_)) || !is_to_be {
            return;
        }
        let waits = O::DURABILITY == Durability::Sync;
        let written = group(self, waits, |batch| {
            match self.once() {
                Some(_) => remember(self, batch, Stored::failed::<O>(cause, phase)),
                None => batch.delete(entry_of(self.id().get())),
            }
            delete_taken(kept, batch);
            kept.inner().set_then(Then::Fail);
            Ok(())
        });
        if waits && written.is_ok() {
            kept.begin();
        }
    }

    /// Hands over the last step of a fom that has left all tables, if the step could not be committed. From now on
    /// the fom may come back.
    #[cold]
    pub(super) fn leave_uncommitted(&self) {
        let take = |kept: &DurableState| kept.inner().more_mut()?.uncommitted.take();
        if let Some(uncommitted) = self.kept().and_then(take) {
            self.shared().stall(uncommitted);
        }
    }

    /// Hands the last step over, so that the fom releases its key without waiting for that step. If the next fom with
    /// the key runs in another locality, its steps enter the journal after that step.
    #[cold]
    pub(super) fn hand_over_end(&self) {
        if self.key().is_some() && self.shared().localities.len() > 1 {
            crate::locality::with_core(|core| {
                if !core.commits.is_empty() {
                    core.hand_over(true);
                }
            });
        }
    }

    /// Stops taking events through outboxes, and settles the events that are left.
    #[cold]
    pub(super) fn leave_messages(&self, cause: Option<&Cause<O::Error>>) {
        let Some((kept, _)) = self.journaled() else {
            return;
        };
        let left = kept.close();
        let back = match cause {
            // These events stay in the journal until the fom comes back.
            Some(Cause::Shutdown) => return,
            Some(Cause::Journal(_)) => {
                let inner = kept.inner();
                let uncommitted = inner.more().and_then(|more| more.uncommitted.as_ref());
                uncommitted.is_some_and(Uncommitted::comes_back)
            }
            _ => false,
        };
        if !left.is_empty() {
            self.shared().messages_left::<O>(self, left, back);
        }
    }
}

/// Writes a group down on the thread that holds the core of the fom's home. `write` calls code of the user's, and may
/// panic.
fn group<O: Operation>(
    fom: &Typed<O>,
    waits: bool,
    write: impl FnOnce(&mut Batch) -> Result<(), SnapshotError>,
) -> Result<(), SnapshotError> {
    crate::locality::regain_leaked(fom);
    // The batch is taken out, because user code must not run with the core in hand.
    let batch = crate::locality::with_core(|core| core.commits.take_batch(waits));
    let mut batch = batch.flatten().unwrap_or_default();
    let written = catch_unwind(AssertUnwindSafe(|| write(&mut batch)))
        .unwrap_or_else(|panic| Err(SnapshotError::Panicked(panic_message(panic))));
    let written = written.and_then(|()| match fom.shared().committer() {
        Some(committer) => committer.check_length(batch.longest_open_entry()),
        None => Ok(()),
    });
    match written {
        Ok(()) => batch.end_group(),
        Err(_) => batch.drop_group(),
    }
    let waiting = (waits && written.is_ok()).then(|| AnyRef::of(fom));
    crate::locality::with_core(|core| {
        core.commits.waiting.extend(waiting);
        core.commits.uses(O::GRAPH);
        let mut sends = false;
        if let Some(cold_rare) = fom.cold_rare() {
            for entry in cold_rare.outbox.lock().entries() {
                core.commits.uses(entry.graph);
                sends = true;
            }
        }
        let now = core.now();
        core.commits.added(waits, batch, now);
        if sends && !waits {
            // The outbox is sent at once, maybe to another locality. What its entries cause there enters the journal
            // after this step.
            core.hand_over(true);
        }
    });
    written
}

/// Deletes the events that an ending fom took since its last step.
fn delete_taken(kept: &DurableState, batch: &mut Batch) {
    for message in kept.inner().taken() {
        batch.delete(*message);
    }
}

/// Replaces the record of the fom by its answer.
fn remember<O: Operation>(fom: &Typed<O>, batch: &mut Batch, answer: Stored) {
    let Some(once) = fom.once() else { return };
    let shared = fom.shared();
    let expires = shared.memory.expiry(shared.journal_now());
    batch.put_with(entry_of(fom.id().get()), |out| {
        once.encode::<O>(answer, expires, out);
    });
}

impl<O: Operation> Instance<O> {
    /// Writes down the current state of the fom, to be committed.
    #[inline(never)]
    pub(super) fn commit(&mut self, fom: &Typed<O>, then: Then) -> After<O> {
        self.commit_for(fom, then, O::DURABILITY == Durability::Sync)
    }

    /// Like [`commit`](Self::commit). `waits`: the fom continues only when the step is durable.
    fn commit_for(&mut self, fom: &Typed<O>, then: Then, waits: bool) -> After<O> {
        let (Some((kept, _)), Some(committer)) = (fom.journaled(), fom.shared().committer()) else {
            return self.proceed(fom, then);
        };
        if self.info().is_end() && !kept.is_recorded() {
            // The journal has no record of it.
            return self.proceed(fom, then);
        }
        let waits = waits || committer.is_behind();
        let was_there = matches!(then, Then::Enter { from: None, .. }) && kept.is_recorded();
        let written = group(fom, waits, |batch| {
            self.write(fom, batch, |inner| {
                // The record of the fom is in the journal already, with the number of its first step.
                inner.step -= u64::from(was_there);
                self.write_down(fom, inner, then, committer)
            })
        });
        match written {
            Ok(()) if !waits => {
                kept.went_on();
                self.proceed(fom, then)
            }
            Ok(()) => {
                kept.begin();
                After::Commit
            }
            Err(error) => {
                fom.drop_outbox();
                After::failed(Cause::NotSaved(error))
            }
        }
    }

    /// Before the first phase, commits a new fom that is kept in the journal. A fom that came through an outbox is in the
    /// journal already. It begins at once, unless another fom with its key may precede it after a restart.
    #[inline]
    pub(super) fn first_commit(&mut self, fom: &Typed<O>) -> Option<After<O>> {
        let (kept, _) = fom.journaled()?;
        let number = kept.inner().begins();
        if kept.is_recorded() && number.is_none_or(|_| !Self::is_to_say_so(fom)) {
            return None;
        }
        let cause = if fom.is_resumed() {
            TransitionCause::Resumed
        } else {
            TransitionCause::Started
        };
        let waits = O::DURABILITY == Durability::Sync || kept.is_recorded();
        Some(self.commit_for(fom, Then::Enter { from: None, cause }, waits))
    }

    /// Returns whether a fom that came through an outbox and has its key must record in the journal that it has begun.
    fn is_to_say_so(fom: &Typed<O>) -> bool {
        let committer = fom.shared().committer();
        // After a failed batch it is unknown what the journal holds, until a later batch succeeds. The fom that had
        // the key before may be in it.
        let fails = committer.is_some_and(|committer| committer.fails());
        fom.key_wait() == KeyWait::Overtakes || fails
    }

    /// Writes down all that is kept beside operation and phase, in the state after this step.
    fn write_down(&self, fom: &Typed<O>, inner: &mut Inner, then: Then, committer: &Committer) {
        inner.set_then(then);
        if !matches!(then, Then::Retry(_)) {
            inner.step += 1;
        }
        if const { O::GRAPH.has_gates() } {
            // A fom that held its gate before a restart, and failed before the gate was open again, must still go
            // first.
            let held = fom.holds_gate() || matches!(then, Then::Retry(_)) && inner.held_gate();
            inner.set_held_gate(held && self.info().is_gated());
            if !matches!(then, Then::Retry(_)) {
                fom.forget_held_gate();
            }
        }
        let Some(timing) = fom.timing() else { return };
        let (causes, deadlines) = match then {
            Then::Enter { cause, .. } => {
                let resumed = cause == TransitionCause::Resumed;
                let saved = fom.cold().and_then(|cold| cold.saved.as_deref());
                let left = saved.and_then(|saved| saved.left).filter(|_| resumed);
                inner.attempt = 0;
                let now = fom.shared().env.clock.nanos();
                (Vec::new(), timing.preview(fom, self.index(), now, left))
            }
            Then::Stay | Then::Retry(_) | Then::Fail => {
                inner.attempt = timing.attempt();
                (fom.causes(), timing.deadlines())
            }
        };
        inner.set_retry(match then {
            Then::Retry(until) => Some(committer.to_journal(until)),
            _ => None,
        });
        inner.due = deadlines.own.map(|at| committer.to_journal(at));
        let kept = deadlines.kept.map(|(at, owner)| {
            let owner = O::GRAPH.phases()[owner].name();
            (committer.to_journal(at), owner.to_owned())
        });
        if inner.more().is_some() || !causes.is_empty() || kept.is_some() {
            let more = inner.more_made();
            (more.causes, more.kept) = (causes, kept);
        }
    }

    /// Returns what to do after a step that was written down to be committed, or `None` if there is no such step.
    pub(super) fn committed(&mut self, fom: &Typed<O>) -> Option<After<O>> {
        let (kept, _) = fom.journaled()?;
        match kept.take_answer() {
            Answer::Calm => None,
            Answer::Pending => Some(After::Commit),
            Answer::Committed(then) => Some(self.proceed(fom, then)),
            Answer::Failed(error) => {
                self.stall(fom, kept, &error);
                Some(After::failed(Cause::Journal(error)))
            }
        }
    }

    /// Keeps a step that could not be committed. A first step is dropped, as if the fom had never existed.
    #[cold]
    fn stall(&self, fom: &Typed<O>, kept: &DurableState, error: &JournalError) {
        if !kept.is_recorded() || matches!(error, JournalError::Closed) {
            return;
        }
        let mut group = Batch::new();
        let written = catch_unwind(AssertUnwindSafe(|| self.write(fom, &mut group, |_| {})));
        // A state that could be written before can be written now. If not, the last committed state stays.
        if let Ok(Ok(())) = written {
            group.end_group();
            fom.stall(group, error);
        }
        fom.drop_outbox();
    }

    /// Writes the group of a step. `step` first updates the state that is written.
    fn write(
        &self,
        fom: &Typed<O>,
        batch: &mut Batch,
        step: impl FnOnce(&mut Inner),
    ) -> Result<(), SnapshotError> {
        let Some((kept, codec)) = fom.journaled() else {
            return Ok(());
        };
        let entry = entry_of(fom.id().get());
        let ends = self.info().is_end();
        let mut done = Vec::new();
        let stand = || {
            let mut inner = kept.inner();
            step(&mut inner);
            done.extend_from_slice(inner.taken());
            inner
        };
        if !ends {
            batch.put_with(entry, |out| {
                let once = fom.once().map(|once| &once.id);
                encode_head(&stand(), fom.key(), once, out);
                // Without the lock, because this is code of the user's.
                (codec.save_body)(&self.operation, &self.phase, out)
            })?;
        } else {
            drop(stand());
            if fom.once().is_some() {
                let answer = Stored::ended(&self.operation, &self.phase);
                remember(fom, batch, answer.map_err(SnapshotError::Operation)?);
            } else {
                batch.delete(entry);
            }
        }
        for message in done {
            batch.delete(message);
        }
        if let Some(cold_rare) = fom.cold_rare() {
            cold_rare.outbox.lock().write(fom.shared(), batch);
        }
        Ok(())
    }

    /// Goes on after a step that is committed, or that needs no commit.
    fn proceed(&mut self, fom: &Typed<O>, then: Then) -> After<O> {
        match then {
            Then::Enter { from, cause } => {
                if cause == TransitionCause::Resumed {
                    let then = self.resume(fom);
                    if let Some(after) = self.call_resumed(fom, TransitionCause::Returned) {
                        return after;
                    }
                    if !self.info().is_end() {
                        return self.interrupted_or(fom, then);
                    }
                } else {
                    self.enter(fom, from.map(usize::from), cause, None);
                }
                if self.info().is_end() {
                    return After::Ended;
                }
            }
            Then::Stay => {
                fom.send_outbox();
                return self.interrupted_or(fom, After::Stay);
            }
            Then::Retry(until) => return self.interrupted_or(fom, After::Retry(until)),
            Then::Fail => {}
        }
        self.interrupted_or(fom, After::Enter)
    }

    /// Ends the fom if it was told to end while it waited for the commit.
    pub(super) fn interrupted_or(&mut self, fom: &Typed<O>, after: After<O>) -> After<O> {
        match fom.interrupt() {
            Some(interrupt) => self.settle(fom, Verdict::Interrupted(interrupt)),
            None => after,
        }
    }
}
