//! Events that are sent to the id of a fom, and those that no fom takes.

use std::any::TypeId;

use fom_journal::Batch;

use crate::{
    durable::{
        Durable, DurableState, Message, Posted, Receiver,
        buffer::Handover,
        message::Undelivered,
        quarantine::{Stays, has_no_receiver, listed},
    },
    entry::entry_of,
};
use fom_runtime::{
    __durability::{self as seam, Header, Shared},
    FomId, Key,
    snapshot::{Quarantined, RestoreError},
};

/// Whether the fom has this operation type.
pub(super) fn is_of(fom: &Header, of: TypeId) -> bool {
    fom.type_id() == of
}

impl Durable {
    /// Delivers an event to the fom with this id.
    pub(super) fn deliver_to_id(
        &self,
        shared: &Shared,
        of: Receiver,
        id: FomId,
        posted: Posted,
    ) -> Result<(), Undelivered> {
        self.passive.revive(shared, id);
        let found = seam::find_id(shared, id).filter(|fom| is_of(fom, of.type_id));
        match found {
            Some(fom) => {
                // If the runtime ends first, the journal keeps the event until the fom is back.
                seam::at_home_of(fom, move |fom| {
                    let (shared, durable) = (seam::shared_of(fom), Self::of_fom(fom));
                    match durable.post(id, DurableState::of(fom), posted) {
                        Ok(()) => fom.wake(),
                        Err(left) => {
                            if let Err(left) = durable.wait_for_id(shared, of, id, left) {
                                durable.quarantine_event(shared, None, left);
                            }
                        }
                    }
                });
                Ok(())
            }
            None => self.wait_for_id(shared, of, id, posted),
        }
    }

    /// Keeps an event for the fom with this id, which is not in flight.
    fn wait_for_id(
        &self,
        shared: &Shared,
        of: Receiver,
        id: FomId,
        posted: Posted,
    ) -> Result<(), Undelivered> {
        if seam::is_closed(shared) {
            return Ok(());
        }
        match self.keep_for(id, posted) {
            Ok(()) => {
                // The fom may have come back before the event was kept.
                if let Some(fom) = seam::find_id(shared, id) {
                    seam::at_home_of(fom, move |fom| {
                        Self::of_fom(fom).give_kept(id, DurableState::of(fom));
                        fom.wake();
                    });
                }
                Ok(())
            }
            Err((posted, stays)) => {
                let reason = match stays {
                    Stays::No => RestoreError::NoFom {
                        operation: of.graph.operation().to_owned(),
                        id,
                    },
                    _ => RestoreError::ReceiverQuarantined(id),
                };
                Err(Undelivered { posted, reason })
            }
        }
    }

    /// As [`quarantine_event`](Self::quarantine_event), above the limit, too.
    pub(super) fn quarantine_sent(
        &self,
        shared: &Shared,
        key: Option<&Key>,
        undelivered: Undelivered,
    ) {
        self.quarantine_if(shared, key, undelivered, true);
    }

    /// Drops an event that was sent only if its receiver is there.
    pub(super) fn drop_not_there(&self, undelivered: Undelivered) {
        self.count_not_there();
        self.drop_messages([undelivered.posted.entry]);
    }

    /// Counts an event that was sent only if its receiver is there.
    pub(super) fn count_not_there(&self) {
        self.quarantine
            .count_dropped(|letters| letters.not_there += 1);
    }

    /// Returns an entry that cannot run, as it is listed. If it is an event that has no receiver from now on, its entry
    /// says so, and its age is counted.
    pub(super) fn quarantined(&self, id: FomId, reason: RestoreError, bytes: &[u8]) -> Quarantined {
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

    /// Drops the events that have no receiver for too long.
    pub(super) fn drop_old_events(&self) {
        let old = self.quarantine.take_old_events(self.journal_now());
        self.drop_messages(old.into_iter().map(entry_of));
    }
}
