//! What is given to an outbox: written down at once, started or sent when it is committed.

use std::any::TypeId;

use crate::{
    durable::{
        Durable, DurableState, Entry, Item, Message, Meta, Posted, Receiver, Sequence, Written,
        encode_head, quarantine::keep_place, record::stored, rewrite,
    },
    fom::RefusedReason,
    id::{FomId, Key, entry_of},
    operation::{Operation, Persistent, kept_codec},
    runtime::{Recorded, Refused, Shared, Submission},
    savable::Savable,
    snapshot::{RestoreError, SnapshotError},
};

/// An operation that is in an outbox.
pub(super) struct Prepared {
    pub(super) id: FomId,
    pub(super) item: Item,
}

/// Makes the first record of an operation in an outbox, and the function that starts it after the commit.
///
/// If the sender is not kept, no record is committed with the sender's step. Then the operation is as if submitted when
/// it is sent.
pub(super) fn prepare<O: Operation>(
    submission: Submission<'_, O>,
    sender_is_kept: bool,
) -> Result<Prepared, SnapshotError> {
    let shared = submission.shared;
    let index = submission.home();
    let id = new_id(shared);
    let mut entry = None;
    let mut kept = None;
    if let (true, Some(codec), Some(index)) = (sender_is_kept, kept_codec::<O>(), index) {
        let saved = DurableState::new(meta_of(&submission, index), true);
        let key = submission.key.as_ref();
        let mut bytes = Vec::new();
        encode_head(&saved.inner(), key, None, &mut bytes);
        (codec.save_body)(&submission.operation, &submission.phase, &mut bytes)?;
        entry = Some(Entry {
            id: entry_of(id.get()),
            bytes,
            graph: O::GRAPH,
            order: key.map_or(Sequence::Free, |key| {
                Sequence::Key((TypeId::of::<O>(), key.clone()))
            }),
        });
        kept = Some(saved);
    }
    let recorded = index.map(|home| (home, kept));
    let Submission {
        operation,
        phase,
        key,
        placement,
        priority,
        order,
        special,
        ..
    } = submission;
    // The announced number is withdrawn when the fom is in, or is set aside.
    let send = Box::new(move |shared: &Shared, entry: Option<Entry>| {
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
        let number = entry.as_ref().and_then(Entry::number);
        submission.special().recorded = recorded.map(|(home, kept)| {
            if let (Some(number), Some(kept)) = (number, &kept) {
                // The number that the fom has in the journal.
                kept.inner().set_number(number);
            }
            Recorded {
                id,
                home,
                number: kept.as_ref().and_then(|kept| kept.inner().number()),
                state: kept.map(|kept| kept as _),
            }
        });
        if let Err(refused) = submission.launch_sent() {
            let bytes = entry.as_ref().map(|entry| &*entry.bytes);
            not_started(shared, id, &refused, bytes);
        }
    });
    Ok(Prepared {
        id,
        item: Item { entry, send },
    })
}

/// Returns what is kept of an operation in an outbox, beside the operation and its phase.
fn meta_of<O: Operation>(submission: &Submission<'_, O>, home: usize) -> Meta {
    let shared = submission.shared;
    let within = O::GRAPH.phases()[O::index(O::kind(&submission.phase))].within();
    let now = shared.env.clock.nanos();
    let due = within.map(|time| now.saturating_add(fom_protocol::nanos(time)));
    let committer = Durable::of(shared).committer();
    Meta {
        step: 1,
        due: due
            .zip(committer)
            .map(|(at, committer)| committer.to_journal(at)),
        home: home as u16,
        settled: submission.placement.is_some(),
        priority: submission.priority as u8,
        // The number is drawn later. This keeps its place in the record.
        number: submission.key.is_some().then_some(0),
        rare: stored(submission.order, true),
        ..Meta::default()
    }
}

/// Returns a new id, on a thread of a locality without a lock.
fn new_id(shared: &Shared) -> FomId {
    crate::locality::with_core(|core| core.one_numbered()).unwrap_or_else(|| shared.next_id())
}

/// Makes the outbox item of an event for the fom that has this key.
pub(super) fn post_event<O>(
    shared: &Shared,
    sender_is_kept: bool,
    key: Key,
    event: O::Event,
) -> Result<Item, SnapshotError>
where
    O: Persistent,
    O::Event: Savable,
{
    let keeps = shared.env.journaled && kept_codec::<O>().is_some();
    let id = new_id(shared);
    let entry = entry_of(id.get());
    if !keeps {
        let send = Box::new(move |shared: &Shared, _: Option<Entry>| {
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
    if sender_is_kept && !Durable::of(shared).types.takes::<O>() {
        return Err(SnapshotError::Generic(O::GRAPH.operation()));
    }
    let mut bytes = Vec::new();
    Message::encode::<O>(&key, &event, &mut bytes).map_err(SnapshotError::Operation)?;
    let send = Box::new(move |shared: &Shared, sent: Option<Entry>| {
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
        let durable = Durable::of(shared);
        if let Err(undelivered) = durable.deliver(shared, Receiver::of::<O>(), &key, posted) {
            durable.set_event_aside(shared, &key, undelivered);
        }
    });
    let entry = sender_is_kept.then_some(Entry {
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
            let durable = Durable::of(shared);
            let mut aside = durable.aside(id, reason, bytes);
            keep_place(&mut aside, shared);
            durable.set_aside.put(aside);
        }
        (reason, ..) => shared.env.report(format!(
            "{} {id} was in an outbox and could not start: {reason}",
            O::GRAPH.operation()
        )),
    }
}
