//! The transitions of a fom that is kept in a journal: nobody hears of one, and the next phase is not entered, before it is
//! committed.

use std::panic::{AssertUnwindSafe, catch_unwind};

use fom_journal::{Batch, JournalError};

use crate::{
    durable::{
        Answer, Committer, Inner, Kept, Once, Stalled, Stored, Then, codec, encode_head, entry_of,
    },
    error::{Cause, SnapshotError},
    fom::{
        AnyRef, Standing, Typed, WaitingFor,
        course::{After, Course, Verdict},
        panic_message,
    },
    operation::{Codec, Durability, Operation},
    watch::TransitionCause,
};

impl<O: Operation> Typed<O> {
    /// What it has beside it if it is kept in a journal.
    #[inline]
    pub(super) fn journaled(&self) -> Option<(&Kept, Codec<O>)> {
        // Most types are asked in a runtime without a journal.
        match const { codec::<O>() } {
            Some(codec) if self.world().journaled => Some((self.kept()?, codec)),
            _ => None,
        }
    }

    /// Whether it is to wait until its last step is committed; it says so in the listing, too.
    pub(super) fn awaits_journal(&self) -> bool {
        let pending = self.journaled().is_some_and(|(kept, _)| kept.is_pending());
        if pending {
            self.set_waiting_for(WaitingFor::Journal);
        }
        pending
    }

    /// It has failed, and its last step was on its way: how it failed now, if that could not be committed.
    pub(super) fn end_answered(&self) -> Option<Cause<O::Error>> {
        let Answer::Failed(error) = self.journaled()?.0.take_answer() else {
            return None;
        };
        let (kept, _) = self.journaled()?;
        let mut group = Batch::new();
        match self.once().and_then(Once::take) {
            Some((answer, _)) => remember(self, &mut group, answer),
            None => group.delete(entry_of(self.id().get())),
        }
        delete_taken(kept, &mut group);
        group.end_group();
        self.stall(group, &error);
        Some(Cause::Journal(error))
    }

    /// A step that could not be committed is committed when the journal works again: but not before this fom is gone, since the
    /// one that goes on in its place has its key.
    fn stall(&self, group: Batch, error: &JournalError) {
        let Some((kept, _)) = self.journaled() else {
            return;
        };
        let place = self.key().map(|key| (self.type_id(), key.clone()));
        let locks = self.leave_declared();
        let announced = self.rare().map(|rare| rare.outbox.lock().take_announced());
        let announced = announced.unwrap_or_default();
        let stalled = Stalled::new(self.id(), group, error.clone(), place, locks, announced);
        self.world().list_stalled(&stalled);
        kept.inner().more_made().stalled = Some(stalled);
    }

    /// It fails in this phase: has it committed that it is no longer there, unless it is to be there after a restart.
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

    /// The last step of a fom that has left all tables, if it could not be committed: from now on it may come back.
    #[cold]
    pub(super) fn leave_stalled(&self) {
        let take = |kept: &Kept| kept.inner().more_mut()?.stalled.take();
        if let Some(stalled) = self.kept().and_then(take) {
            self.world().stall(stalled);
        }
    }

    /// Gives the key back without a wait for the last step. What the next fom with the key does in another locality
    /// enters the journal after that step.
    #[cold]
    pub(super) fn hand_over_end(&self) {
        if self.key().is_some() && self.world().localities.len() > 1 {
            crate::locality::with_core(|core| {
                if !core.commits.is_empty() {
                    core.hand_over(true);
                }
            });
        }
    }

    /// It takes no more events through outboxes; what becomes of those that it has.
    #[cold]
    pub(super) fn leave_messages(&self, cause: Option<&Cause<O::Error>>) {
        let Some((kept, _)) = self.journaled() else {
            return;
        };
        let left = kept.close();
        let back = match cause {
            // In the journal they stay until it comes back.
            Some(Cause::Shutdown) => return,
            Some(Cause::Journal(_)) => {
                let inner = kept.inner();
                let stalled = inner.more().and_then(|more| more.stalled.as_ref());
                stalled.is_some_and(Stalled::comes_back)
            }
            _ => false,
        };
        if !left.is_empty() {
            self.world().messages_left::<O>(self, left, back);
        }
    }
}

/// Writes a group down on the thread that holds the core of the fom's home. What `write` calls is the user's, and may panic.
fn group<O: Operation>(
    fom: &Typed<O>,
    waits: bool,
    write: impl FnOnce(&mut Batch) -> Result<(), SnapshotError>,
) -> Result<(), SnapshotError> {
    crate::locality::regain_leaked(fom);
    // Taken out: nothing of the user's runs with the core in hand.
    let batch = crate::locality::with_core(|core| core.commits.take_batch(waits));
    let mut batch = batch.flatten().unwrap_or_default();
    let written = catch_unwind(AssertUnwindSafe(|| write(&mut batch)))
        .unwrap_or_else(|panic| Err(SnapshotError::Panicked(panic_message(panic))));
    let written = written.and_then(|()| match fom.world().committer() {
        Some(committer) => committer.check_length(batch.longest()),
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
        if let Some(rare) = fom.rare() {
            for entry in rare.outbox.lock().entries() {
                core.commits.uses(entry.graph);
                sends = true;
            }
        }
        let now = core.now();
        core.commits.added(waits, batch, now);
        if sends && !waits {
            // It is sent at once, maybe to another locality: what becomes of it there comes into the journal after this.
            core.hand_over(true);
        }
    });
    written
}

/// Deletes the events that a fom which ends took since its last step.
fn delete_taken(kept: &Kept, batch: &mut Batch) {
    for message in kept.inner().taken() {
        batch.delete(*message);
    }
}

/// How it ended takes the place of its record.
fn remember<O: Operation>(fom: &Typed<O>, batch: &mut Batch, answer: Stored) {
    let Some(once) = fom.once() else { return };
    let world = fom.world();
    let expires = world.memory.expiry(world.journal_now());
    batch.put_with(entry_of(fom.id().get()), |out| {
        once.encode::<O>(answer, expires, out);
    });
}

impl<O: Operation> Course<O> {
    /// Has it committed that it stands where it stands by now.
    #[inline(never)]
    pub(super) fn commit(&mut self, fom: &Typed<O>, then: Then) -> After<O> {
        self.commit_for(fom, then, O::DURABILITY == Durability::Sync)
    }

    /// As [`commit`](Self::commit). `waits`: the fom goes on only when the step is durable.
    fn commit_for(&mut self, fom: &Typed<O>, then: Then, waits: bool) -> After<O> {
        let (Some((kept, _)), Some(committer)) = (fom.journaled(), fom.world().committer()) else {
            return self.proceed(fom, then);
        };
        if self.info().is_end() && !kept.is_recorded() {
            // It was never there.
            return self.proceed(fom, then);
        }
        let waits = waits || committer.is_behind();
        let was_there = matches!(then, Then::Enter { from: None, .. }) && kept.is_recorded();
        let written = group(fom, waits, |batch| {
            self.write(fom, batch, |inner| {
                // It is in the journal already, with the number of its first step.
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

    /// Commits a new fom that is kept in the journal before its first phase. A fom that came through an outbox is in
    /// the journal already. It begins at once, unless another fom with its key may precede it after a restart.
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

    /// Whether a fom that came through an outbox and has its key must record in the journal that it has begun.
    fn is_to_say_so(fom: &Typed<O>) -> bool {
        let committer = fom.world().committer();
        // It is unknown what the journal has of a failed batch until a later one succeeds. The fom that had the key
        // before may be in it.
        let fails = committer.is_some_and(|committer| committer.fails());
        fom.standing() == Standing::Overtakes || fails
    }

    /// Everything that is kept beside operation and phase, as it is after this step.
    fn write_down(&self, fom: &Typed<O>, inner: &mut Inner, then: Then, committer: &Committer) {
        inner.set_then(then);
        if !matches!(then, Then::Retry(_)) {
            inner.step += 1;
        }
        if const { O::GRAPH.has_locks() } {
            // One that failed before it had them again after a restart is still to have them first.
            let held = fom.holds_declared() || matches!(then, Then::Retry(_)) && inner.locked();
            inner.set_locked(held && self.info().holds_locks());
            if !matches!(then, Then::Retry(_)) {
                fom.forget_held_locks();
            }
        }
        let Some(timing) = fom.timing() else { return };
        let (causes, deadlines) = match then {
            Then::Enter { cause, .. } => {
                let resumed = cause == TransitionCause::Resumed;
                let saved = fom.extra().and_then(|extra| extra.saved.as_deref());
                let left = saved.and_then(|saved| saved.left).filter(|_| resumed);
                inner.attempt = 0;
                let now = fom.world().clock.nanos();
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

    /// What comes after a step of which it was written down that it is to be committed. None: there is none.
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

    /// Its step could not be committed: it is kept, unless it is its first, which is as if it had never been.
    #[cold]
    fn stall(&self, fom: &Typed<O>, kept: &Kept, error: &JournalError) {
        if !kept.is_recorded() || matches!(error, JournalError::Closed) {
            return;
        }
        let mut group = Batch::new();
        let written = catch_unwind(AssertUnwindSafe(|| self.write(fom, &mut group, |_| {})));
        // What could be written before can be written now; if not, what was committed before stays.
        if let Ok(Ok(())) = written {
            group.end_group();
            fom.stall(group, error);
        }
        fom.drop_outbox();
    }

    /// The group of the step by which it stands where it stands, after `step` has said how it does.
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
                // Without the lock: this is the user's.
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
        if let Some(rare) = fom.rare() {
            rare.outbox.lock().write(fom.world(), batch);
        }
        Ok(())
    }

    /// The step is committed, or need not be.
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

    /// It may have been told to end while it waited for the commit.
    pub(super) fn interrupted_or(&mut self, fom: &Typed<O>, after: After<O>) -> After<O> {
        match fom.interrupt() {
            Some(interrupt) => self.settle(fom, Verdict::Interrupted(interrupt)),
            None => after,
        }
    }
}
