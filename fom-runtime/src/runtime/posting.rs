//! What is given to an outbox: written down at once, started or sent when it is committed.

use std::{any::TypeId, sync::Arc};

use crate::{
    durable::{self, DurableState, Item, Message, Posted, Sequence, Written, encode_head, rewrite},
    fom::RefusedReason,
    id::{FomId, Key, entry_of},
    operation::{Operation, Persistent, Savable},
    runtime::{Refused, Shared, Submission, keys::stored},
    snapshot::{RestoreError, SnapshotError},
};

/// An operation that is in an outbox.
pub(crate) struct Prepared {
    pub(crate) id: FomId,
    pub(crate) item: Item,
}
impl<O: Operation> Submission<'_, O> {
    /// Makes the first record of an operation in an outbox, and the function that starts it after the commit.
    ///
    /// If the sender is not kept, no record is committed with the sender's step. Then the operation is as if submitted
    /// when it is sent.
    pub(crate) fn prepare(mut self, sender_is_kept: bool) -> Result<Prepared, SnapshotError> {
        let shared = self.shared;
        let index = self.home();
        let id = crate::locality::with_core(|core| core.one_numbered())
            .unwrap_or_else(|| shared.next_id());
        let mut entry = None;
        let mut kept = None;
        if let (true, Some(codec), Some(committer), Some(index)) = (
            sender_is_kept,
            durable::codec::<O>(),
            shared.committer(),
            index,
        ) {
            let within = O::GRAPH.phases()[O::index(O::kind(&self.phase))].within();
            let now = shared.env.clock.nanos();
            let due = within.map(|time| now.saturating_add(fom_protocol::nanos(time)));
            let meta = durable::Meta {
                step: 1,
                due: due.map(|at| committer.to_journal(at)),
                home: index as u16,
                settled: self.placement.is_some(),
                priority: self.priority as u8,
                // The number is drawn later. This keeps its place in the record.
                number: self.key.is_some().then_some(0),
                cold_rare: stored(self.order, true),
                ..durable::Meta::default()
            };
            let mut bytes = Vec::new();
            let saved = DurableState::new(meta, true);
            encode_head(&saved.inner(), self.key.as_ref(), None, &mut bytes);
            (codec.save_body)(&self.operation, &self.phase, &mut bytes)?;
            let key = self.key.as_ref();
            entry = Some(durable::Entry {
                id: entry_of(id.get()),
                bytes,
                graph: O::GRAPH,
                order: key.map_or(Sequence::Free, |key| {
                    Sequence::Key((TypeId::of::<O>(), key.clone()))
                }),
            });
            kept = Some(saved);
        }
        self.special().recorded = index.map(|index| (id, index, kept));
        let Self {
            operation,
            phase,
            key,
            placement,
            priority,
            order,
            special,
            ..
        } = self;
        // The announced number is withdrawn when the fom is in, or is set aside.
        let send = Box::new(move |shared: &Arc<Shared>, entry: Option<durable::Entry>| {
            let mut submission = Submission {
                shared,
                operation,
                phase,
                key,
                placement,
                priority,
                order,
                special,
            };
            submission.number(entry.as_ref().and_then(durable::Entry::number));
            if let Err(turned) = submission.launch_anywhere(false) {
                let bytes = entry.as_ref().map(|entry| &*entry.bytes);
                not_started(shared, id, &turned.refuse(), bytes);
            }
        });
        Ok(Prepared {
            id,
            item: Item { entry, send },
        })
    }

    /// Sets the number that the fom has in the journal.
    fn number(&mut self, number: Option<u64>) {
        let recorded = self.special.as_ref().and_then(|it| it.recorded.as_ref());
        if let (Some(number), Some((.., Some(kept)))) = (number, recorded) {
            kept.inner().set_number(number);
        }
    }
}

/// Makes the outbox item of an event for the fom that has this key.
pub(crate) fn post_event<O>(
    shared: &Arc<Shared>,
    sender_is_kept: bool,
    key: Key,
    event: O::Event,
) -> Result<Item, SnapshotError>
where
    O: Persistent,
    O::Event: Savable,
{
    let keeps = shared.journaled && durable::codec::<O>().is_some();
    let id =
        crate::locality::with_core(|core| core.one_numbered()).unwrap_or_else(|| shared.next_id());
    let entry = entry_of(id.get());
    if !keeps {
        let send = Box::new(move |shared: &Arc<Shared>, _: Option<durable::Entry>| {
            let sent = shared.find::<O>(&key).map(|fom| fom.send(event));
            if !matches!(sent, Some(Ok(()))) {
                shared.env.report(format!(
                    "{} {key} did not get an event that was sent to it through an outbox",
                    O::GRAPH.operation()
                ));
            }
        });
        return Ok(Item { entry: None, send });
    }
    if sender_is_kept && !shared.types.takes::<O>() {
        return Err(SnapshotError::Generic(O::GRAPH.operation()));
    }
    let mut bytes = Vec::new();
    Message::encode::<O>(&key, &event, &mut bytes).map_err(SnapshotError::Operation)?;
    let send = Box::new(move |shared: &Arc<Shared>, sent: Option<durable::Entry>| {
        let event = Box::new(event);
        let number = sent.and_then(|sent| sent.number());
        let written = match number {
            Some(number) => Written::By(number, rewrite::<O>),
            None => Written::Not(shared.next_event()),
        };
        let posted = Posted {
            entry,
            event,
            written,
        };
        if let Err(undelivered) = shared.deliver::<O>(&key, posted) {
            shared.set_event_aside(&key, undelivered);
        }
    });
    let entry = sender_is_kept.then_some(durable::Entry {
        id: entry,
        bytes,
        graph: O::GRAPH,
        order: Sequence::Event,
    });
    Ok(Item { entry, send })
}

/// Reports an operation of an outbox that could not start. Its journal record stays.
#[cold]
fn not_started<O: Operation>(
    shared: &Shared,
    id: FomId,
    refused: &Refused<O>,
    bytes: Option<&[u8]>,
) {
    match (refused.reason(), refused.live(), bytes) {
        // It comes back with the next start.
        (RefusedReason::ShuttingDown, _, Some(_)) => {}
        (RefusedReason::KeyInUse, Some(live), Some(bytes)) => {
            let key = live.key().cloned().unwrap_or(Key::Int(0));
            let reason = RestoreError::KeyInUse(key);
            let mut aside = shared.aside(id, reason, bytes);
            aside.keep_place(shared);
            shared.set_aside.put(aside);
        }
        (reason, ..) => shared.env.report(format!(
            "{} {id} was in an outbox and could not start: {reason}",
            O::GRAPH.operation()
        )),
    }
}
