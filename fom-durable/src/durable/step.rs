//! How the steps of a fom get into the journal: a group of changes for each step, written on the thread that runs the
//! fom.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use fom_journal::{Batch, JournalError};

use crate::{
    durable::{
        Committer, Durable, DurableState, Inner, OutboxItems, Remembering, Stored, Uncommitted,
        encode_head, idempotency::Answered, outbox::with_outbox, state::Waited,
    },
    entry::entry_of,
};
use fom_protocol::{panic_message, sync::MutexGuard};
use fom_runtime::{
    __durability::{
        self as seam, Answer, AnyRef, Content, Effects, EventId, FailedAs, Function, Header,
        KeptFailed, KeptFom, KeptStep, LastStep, Then, TurnWait, Written,
    },
    context::Local,
    error::DurabilityError,
    observe::IncidentKind,
    snapshot::SnapshotError,
};

/// Whether a step could be written down, and whether entries of the outbox are in it. The error is boxed because it is
/// rare, which keeps the result small.
type Saved = Result<Sends, Box<SnapshotError>>;

/// Whether entries of the outbox are in a group.
type Sends = bool;

impl KeptFom for DurableState {
    fn is_recorded(&self) -> bool {
        self.is_recorded()
    }

    fn is_pending(&self) -> bool {
        self.is_pending()
    }

    fn is_committing(&self) -> bool {
        self.is_committing()
    }

    fn is_uncommitted(&self) -> bool {
        let inner = self.inner();
        inner.more().is_some_and(|more| more.uncommitted.is_some())
    }

    fn held_gate(&self) -> bool {
        self.inner().held_gate()
    }

    fn visit(&self) -> (u64, Option<EventId>) {
        self.visit()
    }

    fn took(&self, event: EventId) {
        self.took(event);
    }

    fn leave_event(&self) {
        self.leave_event();
    }

    fn next_part(&self) -> u32 {
        self.next_part()
    }

    fn hear_cancel(&self) {
        self.inner().more_made().rare.heard_cancel = true;
    }

    fn turn_back(&self) {
        self.inner().more_made().rare.turned_back = true;
    }

    fn enter(&self, function: Function) {
        self.enter(function);
    }

    fn take_event(
        &self,
        fom: &Header,
        keeps_failed: bool,
        takes: &dyn Fn(&dyn Any) -> bool,
    ) -> Option<Box<dyn Any + Send>> {
        self.take_message(keeps_failed, fom.key(), takes)
    }

    fn events(&self) -> usize {
        self.messages()
    }

    fn retry_at(&self, fom: &Header) -> Option<u64> {
        let due = self.inner().retry()?;
        let committer = Durable::of_fom(fom).committer()?;
        let now = seam::nanos(seam::clock(seam::shared_of(fom)));
        Some(now.saturating_add(committer.left_until(due)))
    }

    fn records_wait(&self, fom: &Header) -> bool {
        match seam::turn_wait(fom) {
            Some(TurnWait::Time { .. }) => !self.is_recorded(),
            Some(TurnWait::Line(_)) => !self.is_recorded() || self.inner().is_delayed(),
            None => false,
        }
    }

    fn begin(&self, fom: &Header) -> bool {
        let waited = self.inner().begins();
        // A fom that an outbox has sent, or that has waited, is in the journal already.
        !self.is_recorded()
            || match waited {
                Some(Waited::Numbered) => must_record_begin(fom),
                // After a restart it would take a place behind those that wait now.
                Some(Waited::Outside) => true,
                None => false,
            }
    }

    fn step(&self, fom: &Header, step: &mut KeptStep<'_>) -> Written {
        let durable = Durable::of_fom(fom);
        let Some(committer) = durable.committer() else {
            return Written::Now;
        };
        let executes = with_outbox(fom, |outbox| outbox.may_fail()).unwrap_or(false);
        let waits = step.waits || executes || committer.is_behind();
        let first = matches!(step.then, Then::Begin { .. });
        let was_there = first && self.is_recorded();
        let (ends, content) = (step.ends, step.content);
        let written = group(durable, committer, fom, waits, |batch| {
            let mut inner = self.inner();
            // The record of the fom is in the journal already, with the number of its first step.
            inner.step -= u64::from(was_there);
            if executes {
                inner.keep_before();
            }
            if matches!(step.then, Then::Wait) {
                inner.step -= u64::from(self.is_recorded());
                inner.waits(seam::turn_wait(fom), committer);
            }
            inner.stand_after(step, committer);
            if matches!(step.then, Then::Enter { .. }) {
                inner.leaves_phase(fom);
            }
            self.write(fom, committer, batch, inner, ends, content)
        });
        match written {
            Ok(_) if !waits => {
                self.went_on();
                Written::Now
            }
            Ok(_) => {
                self.begin_waiting();
                Written::Later
            }
            Err(error) => Written::Refused(*error),
        }
    }

    fn take_answer(&self) -> Option<Answer> {
        self.take_answer()
    }

    /// A first step is dropped, as if the fom had never existed.
    #[cold]
    fn keep_step(&self, fom: &Header, error: &DurabilityError, ends: bool, content: &dyn Content) {
        if !self.is_recorded() || is_final(error) {
            return;
        }
        let Some(committer) = Durable::of_fom(fom).committer() else {
            return;
        };
        let mut group = Batch::new();
        let write = || self.write(fom, committer, &mut group, self.inner(), ends, content);
        let written = catch_unwind(AssertUnwindSafe(write));
        // A state that could be written before can be written now. If not, the last committed state stays.
        if let Ok(Ok(_)) = written {
            group.end_group();
            self.keep(fom, group, error);
        }
        seam::drop_outbox(fom);
    }

    /// Replaces the fom's record: by an entry that keeps the failed fom, by the failure for its operation id, or by
    /// nothing.
    fn fail(
        &self,
        fom: &Header,
        failed: &FailedAs<'_>,
        kept: Option<&KeptFailed<'_>>,
        waits: bool,
    ) {
        let kept = kept.map(|kept| self.failed_entry(fom, failed, kept));
        if kept.is_none() && !self.is_recorded() && self.remembering().is_none() {
            return;
        }
        let durable = Durable::of_fom(fom);
        let Some(committer) = durable.committer() else {
            return;
        };
        let written = group(durable, committer, fom, waits, |batch| {
            match (&kept, self.remembering()) {
                (Some(entry), _) => batch.put(entry_of(fom.id()), entry),
                (None, Some(_)) => {
                    self.remember(
                        fom,
                        batch,
                        durable.answered_now(fom, Stored::failed(failed)),
                    );
                }
                (None, None) => batch.delete(entry_of(fom.id())),
            }
            if kept.is_none() {
                self.delete_taken(batch);
            }
            let mut inner = self.inner();
            inner.set_then(Then::Fail);
            if let Some(entry) = kept {
                inner.set_failed(entry);
                drop(inner);
                durable.leaves_failed(fom);
            }
            Ok(false)
        });
        if let Err(error) = written {
            // The record stays in the journal, as it is.
            drop(self.inner().more_mut().and_then(|more| more.failed.take()));
            drop(durable.quarantine.take(fom.id()));
            let what = format!("the failure of {} could not be written: {error}", fom.id());
            seam::report(
                seam::shared_of(fom),
                IncidentKind::Journal,
                "the journal",
                what,
            );
            return;
        }
        if waits {
            self.begin_waiting();
        }
        if !waits && self.inner().is_kept_failure() {
            // A retry or a discard enters the journal after this entry, although another thread hands it over.
            seam::with_local(|local| durable.hand_over_now(local));
        }
    }

    fn keep_failure(&self, fom: &Header, error: &DurabilityError) {
        let mut group = Batch::new();
        let kept = self.inner().more_mut().and_then(|more| more.failed.take());
        let answered = self.remembering().and_then(Remembering::take);
        if is_final(error) {
            return;
        }
        match (kept, answered) {
            (Some(failed), _) => failed.put(fom.id(), &mut group),
            (None, answered) => {
                match answered {
                    Some(answered) => self.remember(fom, &mut group, answered),
                    None => group.delete(entry_of(fom.id())),
                }
                self.delete_taken(&mut group);
            }
        }
        group.end_group();
        self.keep(fom, group, error);
    }

    fn leave_events(&self, fom: &Header, end: LastStep) {
        let mut left = self.close();
        if self.inner().keeps_left(&mut left) {
            return;
        }
        let back = match end {
            // These events stay in the journal until the fom comes back.
            LastStep::Shutdown => return,
            LastStep::NotCommitted => {
                let inner = self.inner();
                let uncommitted = inner.more().and_then(|more| more.uncommitted.as_ref());
                uncommitted.is_some_and(Uncommitted::is_receiver)
            }
            LastStep::Committed => false,
        };
        if !left.is_empty() {
            Durable::of_fom(fom).messages_left(fom, left, back);
        }
    }

    #[cold]
    fn leave(&self, fom: &Header) {
        let failed = self.inner().more_mut().and_then(|more| more.failed.take());
        if let Some(failed) = failed {
            failed.list(fom);
        }
        let take = || self.inner().more_mut()?.uncommitted.take();
        if let Some(uncommitted) = take() {
            Durable::of_fom(fom).stall(uncommitted);
        }
    }
}

/// Returns whether no later commit can succeed.
fn is_final(error: &DurabilityError) -> bool {
    let error = error.downcast_ref();
    matches!(error, Some(JournalError::Closed | JournalError::Fenced))
}

/// Returns whether a fom that came through an outbox and has its key must record in the journal that it has begun.
fn must_record_begin(fom: &Header) -> bool {
    let committer = Durable::of_fom(fom).committer();
    // After a failed batch it is unknown what the journal holds, until a later batch succeeds. The fom that had
    // the key before may be in it.
    let fails = committer.is_some_and(|committer| committer.fails());
    seam::overtakes(fom) || fails
}

/// Writes a group down on the thread that holds the core of the fom's home. `write` calls code of the user's, and may
/// panic.
fn group(
    durable: &Durable,
    committer: &Committer,
    fom: &Header,
    waits: bool,
    write: impl FnOnce(&mut Batch) -> Saved,
) -> Saved {
    seam::regain_leaked(fom);
    // The batch is taken out, because user code must not run with the core in hand.
    let take = |local: &mut Local<'_>| durable.buffer(local)?.take_batch(waits);
    let batch = seam::with_local(take);
    let mut batch = batch.flatten().unwrap_or_default();
    let fenced = AssertUnwindSafe(|| {
        let sends = write(&mut batch)?;
        committer.check_length(batch.longest_open_entry())?;
        Ok(sends)
    });
    let written = catch_unwind(fenced).unwrap_or_else(|panic| {
        let message = panic_message(panic);
        Err(Box::new(SnapshotError::Panicked(message)))
    });
    match written {
        Ok(_) => batch.end_group(),
        Err(_) => batch.drop_group(),
    }
    let sends = matches!(written, Ok(true));
    let waiting = (waits && written.is_ok()).then(|| AnyRef::of(fom));
    seam::with_local(|local| {
        let now = seam::last_look(local);
        let Some(buffer) = durable.buffer(local) else {
            return;
        };
        if let Some(fom) = waiting {
            buffer.waiting.push(fom);
        }
        buffer.uses(fom.graph());
        if sends {
            with_outbox(fom, |outbox| {
                outbox.entries().for_each(|entry| buffer.uses(entry.graph));
            });
        }
        buffer.added(waits, batch, now);
        local.ask_pause();
        if sends && !waits {
            // The outbox is sent at once, maybe to another locality. What its entries cause there enters the journal
            // after this step.
            durable.hand_over_now(local);
        }
    });
    written
}

impl DurableState {
    /// Keeps a step that could not be committed. The step must wait until this fom is gone, because the fom that
    /// continues in its place has its key.
    fn keep(&self, fom: &Header, group: Batch, error: &DurabilityError) {
        let names = seam::names_of(fom).collect();
        let gate = seam::leave_held_gate(fom);
        let announced = with_outbox(fom, OutboxItems::take_announced).unwrap_or_default();
        let uncommitted = Uncommitted::new(fom.id(), group, error.clone(), names, gate, announced);
        Durable::of_fom(fom).list_uncommitted(&uncommitted);
        self.inner().more_made().uncommitted = Some(uncommitted);
    }

    /// Deletes the events that the fom took since its last step.
    fn delete_taken(&self, batch: &mut Batch) {
        for message in self.inner().taken() {
            batch.delete(message);
        }
    }

    /// Replaces the record of the fom by its answer.
    fn remember(&self, fom: &Header, batch: &mut Batch, answered: Answered) {
        let Some(remembering) = self.remembering() else {
            return;
        };
        let series = self.inner().series().cloned();
        batch.put_with(entry_of(fom.id()), |out| {
            remembering.encode(fom.graph(), (fom.key(), series.as_ref()), answered, out);
        });
    }

    /// Writes the group of a step. `inner` is the state after the step.
    #[inline]
    fn write(
        &self,
        fom: &Header,
        committer: &Committer,
        batch: &mut Batch,
        inner: MutexGuard<'_, Inner>,
        ends: bool,
        content: &dyn Content,
    ) -> Saved {
        let entry = entry_of(fom.id());
        let took = inner.has_taken();
        if !ends {
            batch.put_with(entry, |out| {
                let once = self.once();
                let submitted = committer.past_to_journal(seam::submitted(fom));
                encode_head(&inner, Some(submitted), fom.key(), once, out);
                // Without the lock, because this is code of the user's.
                drop(inner);
                content.write(out).map_err(Box::new)
            })?;
        } else {
            drop(inner);
            if self.remembering().is_some() {
                let answer = content.snapshot().map(Stored::Ended);
                let answer = answer.map_err(|why| Box::new(SnapshotError::Operation(why)))?;
                self.remember(fom, batch, Durable::of_fom(fom).answered_now(fom, answer));
            } else {
                batch.delete(entry);
            }
        }
        if took {
            self.delete_taken(batch);
        }
        let sends = with_outbox(fom, |outbox| outbox.write(seam::shared_of(fom), batch));
        Ok(sends.unwrap_or(false))
    }
}

impl Inner {
    /// Takes the state after this step, with its times in the journal.
    fn stand_after(&mut self, step: &mut KeptStep<'_>, committer: &Committer) {
        let to_journal = |at| committer.to_journal(at);
        let then = step.then;
        self.set_then(then);
        self.since = committer.past_to_journal(step.since);
        if !matches!(then, Then::Retry(_)) {
            self.step += 1;
        }
        if let Some(held) = step.holds_gate {
            self.set_held_gate(held);
        }
        let Some(timing) = &mut step.timing else {
            return;
        };
        self.attempt = timing.attempt;
        self.set_retry(match then {
            Then::Retry(until) => Some(to_journal(until)),
            _ => None,
        });
        self.due = timing.due.map(&to_journal);
        let kept = timing
            .kept
            .map(|(at, owner)| (to_journal(at), owner.to_owned()));
        if self.more().is_some() || !timing.tried.is_empty() || kept.is_some() {
            let more = self.more_made();
            (more.tried, more.kept) = (
                committer.in_journal(std::mem::take(&mut timing.tried)),
                kept,
            );
        }
    }
}
