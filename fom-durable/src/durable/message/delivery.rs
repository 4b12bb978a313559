//! The delivery of an event: to the fom with a key or an id, or to the events that wait until that fom is back.

use std::any::TypeId;

use fom_journal::EntryId;

use crate::{
    durable::{
        Durable, DurableState,
        address::To,
        message::{Message, Posted, Undelivered},
        quarantine::Stays,
    },
    entry::{entry_of, fom_of},
};
use fom_protocol::shrink::Shrink as _;
use fom_runtime::{
    __durability::{self as seam, Header, KeyOf, Shared},
    FomId, Key, Operation,
    machine::Graph,
    snapshot::RestoreError,
};

/// The type of a fom that gets an event.
#[derive(Clone, Copy)]
pub(crate) struct Receiver {
    pub(in crate::durable) type_id: TypeId,
    pub(in crate::durable) graph: &'static Graph,
}

impl Receiver {
    pub(crate) fn of<O: Operation>() -> Self {
        Self {
            type_id: TypeId::of::<O>(),
            graph: O::GRAPH,
        }
    }
}

/// Whether the fom has this operation type.
pub(in crate::durable) fn is_of(fom: &Header, of: TypeId) -> bool {
    fom.type_id() == of
}

impl Message {
    /// Delivers the event in this entry after a restart, to the fom that has its key.
    pub(crate) fn deliver_again(
        shared: &Shared,
        entry: EntryId,
        bytes: &[u8],
    ) -> Result<(), RestoreError> {
        let (message, of, reader) = Self::open(shared, bytes)?;
        let to = message.to()?;
        // The event is kept until its receiver is back, in front of events that arrive later.
        let durable = Durable::of(shared);
        let quarantine = &durable.quarantine;
        let waits_for = quarantine.owner(fom_of(entry)).or_else(|| match &to {
            To::Id(id) => Some(*id),
            To::Key(key) => {
                let receiver = quarantine.of(of.graph(), key)?;
                let is_alive =
                    || seam::find_any(shared, &KeyOf::key(of.type_id(), key.clone())).is_some();
                // Another fom may have the key of a failed operation.
                (!quarantine.is_failed(receiver) || !is_alive()).then_some(receiver)
            }
        });
        if let Some(receiver) = waits_for
            && quarantine.stays(receiver) == Stays::Quarantined
        {
            return Err(RestoreError::ReceiverQuarantined(receiver));
        }
        let posted = message.read(reader, entry, bytes)?;
        let of = Receiver {
            type_id: of.type_id(),
            graph: of.graph(),
        };
        match durable.deliver(shared, of, &to, posted) {
            Err(undelivered) if undelivered.is_not_there() => {
                durable.drop_not_there(undelivered);
                Ok(())
            }
            done => done.map_err(|undelivered| undelivered.reason),
        }
    }
}

impl Durable {
    /// Delivers an event to its receiver.
    pub(crate) fn deliver(
        &self,
        shared: &Shared,
        of: Receiver,
        to: &To,
        posted: Posted,
    ) -> Result<(), Undelivered> {
        match to {
            To::Key(key) => self.deliver_to_key(shared, of, key, posted),
            To::Id(id) => self.deliver_to_id(shared, of, *id, posted),
        }
    }

    /// Delivers an event to the fom with this key.
    fn deliver_to_key(
        &self,
        shared: &Shared,
        of: Receiver,
        key: &Key,
        mut posted: Posted,
    ) -> Result<(), Undelivered> {
        let place = KeyOf::key(of.type_id, key.clone());
        let mut looked = false;
        loop {
            if let Some(fom) = seam::find_any(shared, &place) {
                match self.post(fom.id(), DurableState::of(&fom), posted) {
                    Ok(()) => {
                        fom.wake();
                        return Ok(());
                    }
                    Err(left) => posted = left,
                }
            }
            // The fom with this key may have ended only together with the runtime. Then it comes back after a restart,
            // and the journal keeps the event until then.
            if seam::is_closed(shared) {
                return Ok(());
            }
            let reason = match self.quarantine.of(of.graph, key) {
                Some(receiver) => match self.keep_for(receiver, posted) {
                    Ok(()) => {
                        // The fom may have come back before the event was kept.
                        if let Some(fom) = seam::find_awake(shared, &place) {
                            self.give_kept(fom.id(), DurableState::of(&fom));
                            fom.wake();
                        }
                        return Ok(());
                    }
                    Err((left, stays)) => {
                        posted = left;
                        if stays == Stays::No {
                            continue;
                        }
                        RestoreError::ReceiverQuarantined(receiver)
                    }
                },
                // A fom that comes back is in the key index before it leaves the list.
                None if !std::mem::replace(&mut looked, true) => continue,
                None => RestoreError::NoReceiver {
                    operation: of.graph.operation().to_owned(),
                    key: key.clone(),
                },
            };
            return Err(Undelivered { posted, reason });
        }
    }

    /// Delivers an event to the fom with this id.
    fn deliver_to_id(
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

    /// Keeps an event for a fom that is about to come back. Returns the event if the fom does not come back, or is
    /// already back.
    fn keep_for(&self, receiver: FomId, posted: Posted) -> Result<(), (Posted, Stays)> {
        let Some(committer) = self.committer() else {
            return Err((posted, Stays::Quarantined));
        };
        // The lock stays held: while the fom comes back, no other thread may take the events that wait for it.
        let mut orphans = committer.orphans.lock();
        match self.quarantine.stays(receiver) {
            Stays::ComesBack => {
                orphans.entry(receiver).or_default().push(posted);
                Ok(())
            }
            stays => Err((posted, stays)),
        }
    }

    /// Queues an event for a live fom, behind the events that waited until it was back. Returns the event if the fom
    /// has ended.
    fn post(&self, id: FomId, kept: Option<&DurableState>, message: Posted) -> Result<(), Posted> {
        let (Some(kept), Some(committer)) = (kept, self.committer()) else {
            return Err(message);
        };
        let mut orphans = committer.orphans.lock();
        match orphans.get_mut(&id) {
            Some(waiting) => {
                waiting.push(message);
                Ok(())
            }
            None => kept.post(message),
        }
    }

    /// Gives a fom that came back the events that waited for it.
    pub(crate) fn give_kept(&self, id: FomId, kept: Option<&DurableState>) {
        self.give(id, kept, Vec::new(), false);
    }

    /// Notes that the fom can be read now. The fom gets the events that were quarantined for it, and then the events that
    /// were sent since.
    pub(crate) fn is_back(&self, shared: &Shared, id: FomId, kept: Option<&DurableState>) {
        let mut before = Vec::new();
        for event in self.quarantine.events_for(id) {
            let Some(quarantined) = self.quarantine.take(event) else {
                continue;
            };
            match Message::read_again(shared, entry_of(event), &quarantined.bytes) {
                Ok(posted) => before.push(posted),
                Err(reason) => {
                    self.quarantine
                        .put(self.quarantined(event, reason, &quarantined.bytes))
                }
            }
        }
        self.give(id, kept, before, true);
    }

    /// Gives a fom the events that were sent before, and then the events that waited for it. `tried`: the fom is back
    /// because it was tried again.
    fn give(&self, id: FomId, kept: Option<&DurableState>, before: Vec<Posted>, tried: bool) {
        let Some(committer) = self.committer() else {
            return;
        };
        let left: Vec<_> = {
            // Held meanwhile, so that events that are sent now come behind them.
            let mut orphans = committer.orphans.lock();
            if tried {
                self.quarantine.tried(id);
            } else if kept.is_none() || self.quarantine.is_tried(id) {
                return;
            }
            let waiting = orphans.remove(&id).unwrap_or_default();
            orphans.shrink();
            let all = before.into_iter().chain(waiting);
            let posted = all.map(|message| match kept {
                Some(kept) => kept.post(message),
                None => Err(message),
            });
            posted.filter_map(Result::err).collect()
        };
        self.drop_messages(left.iter().map(|message| message.entry));
    }
}
