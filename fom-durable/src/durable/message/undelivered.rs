//! Events that no fom takes: they wait in quarantine, or are dropped.

use fom_journal::{Batch, EntryId};

use crate::{
    durable::{
        Committer, Durable, RetryError, Types,
        buffer::Handover,
        message::{Message, Posted},
        quarantine::{has_no_receiver, is_event, listed},
    },
    entry::{entry_of, fom_of},
};
use fom_runtime::{
    __durability::{self as seam, Header, Shared},
    FomId, Key,
    observe::IncidentKind,
    snapshot::{QuarantineKind, Quarantined, RestoreError},
};

/// An event that no fom takes for now, and the reason.
pub(crate) struct Undelivered {
    pub(super) posted: Posted,
    pub(super) reason: RestoreError,
}

impl Undelivered {
    /// Whether the event is for a fom that has ended, and is not kept then.
    pub(crate) fn is_not_there(&self) -> bool {
        self.posted.if_there && has_no_receiver(&self.reason)
    }
}

impl Durable {
    /// Begins to try a quarantined entry again. For a fom, events wait from now on until it [is back](Self::is_back) or
    /// [stays](Self::stays_quarantined).
    pub(crate) fn try_again(&self, id: FomId) -> Result<Quarantined, RetryError> {
        let committer = self.committer().ok_or(RetryError::NotQuarantined(id))?;
        let mut orphans = committer.orphans.lock();
        let quarantined = self.quarantine.try_again(id)?;
        if !is_event(&quarantined) {
            orphans.entry(id).or_default();
        }
        Ok(quarantined)
    }

    /// Delivers the events that waited for a fom that never comes back. Without another receiver they stay in
    /// quarantine.
    pub(crate) fn never_comes(&self, shared: &Shared, id: FomId) {
        for event in self.quarantine.events_for(id) {
            let Some(quarantined) = self.quarantine.take(event) else {
                continue;
            };
            if let Err(still) = Types::take_in(shared, entry_of(event), &quarantined.bytes) {
                self.quarantine.put(*still);
            }
        }
    }

    /// Notes that the fom still cannot run, and why.
    pub(crate) fn stays_quarantined(&self, shared: &Shared, still: Quarantined) {
        let (id, key) = (still.id, still.key.clone());
        let Some(committer) = self.committer() else {
            return;
        };
        let waiting = {
            let mut orphans = committer.orphans.lock();
            // A failed operation has not left the list.
            if still.kind() != QuarantineKind::Failed {
                self.quarantine.put(still);
            }
            self.quarantine.tried(id);
            orphans.remove(&id)
        };
        for posted in waiting.into_iter().flatten() {
            let reason = RestoreError::ReceiverQuarantined(id);
            self.quarantine_event(shared, key.as_ref(), Undelivered { posted, reason });
        }
    }

    /// Quarantines an event that no fom takes. The event stays in the journal until it is taken or discarded. `key` is
    /// that of the receiver.
    #[cold]
    pub(crate) fn quarantine_event(
        &self,
        shared: &Shared,
        key: Option<&Key>,
        undelivered: Undelivered,
    ) {
        if undelivered.is_not_there() {
            self.drop_not_there(undelivered);
            return;
        }
        let has_room = self.quarantine.has_room_for(&undelivered.reason);
        self.quarantine_if(shared, key, undelivered, has_room);
    }

    /// As [`quarantine_event`](Self::quarantine_event), above the limit, too.
    pub(in crate::durable) fn quarantine_sent(
        &self,
        shared: &Shared,
        key: Option<&Key>,
        undelivered: Undelivered,
    ) {
        self.quarantine_if(shared, key, undelivered, true);
    }

    fn quarantine_if(
        &self,
        shared: &Shared,
        key: Option<&Key>,
        undelivered: Undelivered,
        has_room: bool,
    ) {
        let Undelivered { posted, reason } = undelivered;
        match posted.bytes(key) {
            Some(bytes) if has_room => {
                let id = fom_of(posted.entry);
                // The event is not lost in either case.
                let _ = self.put_event_in_quarantine(shared, self.quarantined(id, reason, &bytes));
            }
            bytes => self.drop_event(shared, posted.entry, bytes.is_some(), &reason),
        }
    }

    /// Drops an event that was sent only if its receiver is there.
    pub(super) fn drop_not_there(&self, undelivered: Undelivered) {
        self.count_not_there();
        self.drop_messages([undelivered.posted.entry]);
    }

    /// Counts an event that was sent only if its receiver is there.
    pub(in crate::durable) fn count_not_there(&self) {
        self.quarantine
            .count_dropped(|letters| letters.not_there += 1);
    }

    /// Drops an event that cannot wait. `kept`: the event is in the journal.
    fn drop_event(&self, shared: &Shared, entry: EntryId, kept: bool, reason: &RestoreError) {
        let why = match kept {
            true => ", since as many are quarantined as may be",
            false => ", since its sender is not kept in a journal",
        };
        self.quarantine.count_dropped(|letters| match kept {
            true => letters.above_limit += 1,
            false => letters.not_kept += 1,
        });
        seam::report(
            shared,
            IncidentKind::Lost,
            "an event",
            format!("an event was dropped{why}: {reason}"),
        );
        self.drop_messages([entry]);
    }

    /// Keeps an event for a fom that failed and is not listed yet, until the fom is tried again or discarded. `bytes` is
    /// its entry, if it has one.
    pub(crate) fn wait_for_failed(
        &self,
        shared: &Shared,
        receiver: FomId,
        entry: EntryId,
        bytes: Option<Vec<u8>>,
    ) {
        let reason = RestoreError::ReceiverQuarantined(receiver);
        match bytes {
            Some(bytes) => {
                let event = self.quarantined(fom_of(entry), reason, &bytes);
                self.quarantine.put(event);
            }
            None => self.drop_event(shared, entry, false, &reason),
        }
    }

    /// Lists an event, or delivers it if its receiver has come back since.
    pub(crate) fn put_event_in_quarantine(
        &self,
        shared: &Shared,
        mut quarantined: Quarantined,
    ) -> Result<(), RestoreError> {
        self.drop_old_events();
        loop {
            let reason = quarantined.reason.clone();
            let Err(missed) = self.quarantine.put_event(quarantined) else {
                return Err(reason);
            };
            match Types::take_in(shared, entry_of(missed.id), &missed.bytes) {
                Ok(_) => return Ok(()),
                Err(again) => quarantined = *again,
            }
        }
    }

    /// Returns an entry that cannot run, as it is listed. If it is an event that has no receiver from now on, its entry
    /// says so, and its age is counted.
    pub(in crate::durable) fn quarantined(
        &self,
        id: FomId,
        reason: RestoreError,
        bytes: &[u8],
    ) -> Quarantined {
        let schemas = self.committer().map(|committer| &committer.schemas);
        if has_no_receiver(&reason)
            && let Some(committer) = self.committer()
            && Message::since(bytes).is_none()
            && let Some(bytes) = Message::with_since(bytes, self.journal_now())
        {
            let mut batch = Batch::new();
            batch.put(entry_of(id), &bytes);
            batch.end_group();
            committer.take(Handover::owed(batch));
            return listed(id, reason, &bytes, schemas);
        }
        listed(id, reason, bytes, schemas)
    }

    /// Handles the events that an ended fom has not taken. `back`: the end is not in the journal, so the events may be
    /// for the fom that comes back.
    #[cold]
    pub(crate) fn messages_left(&self, fom: &Header, left: Vec<Posted>, back: bool) {
        let id = fom.id();
        if back {
            if let Some(committer) = self.committer() {
                // In front of the events that came since the fom was closed.
                let mut orphans = committer.orphans.lock();
                orphans.entry(id).or_default().splice(0..0, left);
            }
        } else {
            for posted in left {
                let operation = fom.type_name().to_owned();
                let reason = match fom.key().cloned() {
                    Some(key) => RestoreError::NoReceiver { operation, key },
                    None => RestoreError::NoFom { operation, id },
                };
                let undelivered = Undelivered { posted, reason };
                self.quarantine_event(seam::shared_of(fom), fom.key(), undelivered);
            }
        }
    }

    /// Drops the events that have no receiver for too long.
    pub(in crate::durable) fn drop_old_events(&self) {
        let old = self.quarantine.take_old_events(self.journal_now());
        self.drop_messages(old.into_iter().map(entry_of));
    }

    pub(in crate::durable) fn drop_messages(&self, entries: impl IntoIterator<Item = EntryId>) {
        if let Some(committer) = self.committer() {
            committer.drop_later(entries);
        }
    }
}

impl Committer {
    /// Queues entries that are no longer needed. They are deleted with the next batch.
    pub(crate) fn drop_later(&self, entries: impl IntoIterator<Item = EntryId>) {
        self.dropped.lock().extend(entries);
    }
}
