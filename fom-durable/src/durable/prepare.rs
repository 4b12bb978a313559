//! What is given to an outbox: written down at once, started or sent when it is committed.

use std::any::TypeId;

use crate::{
    durable::{
        Durable, DurableState, Entry, Item, Message, Meta, Posted, Receiver, Sequence, Written,
        address::To,
        encode_head,
        quarantine::keep_place,
        record::{Home, Times, stored},
        rewrite,
    },
    entry::entry_of,
};
use fom_runtime::{
    __durability::{self as seam, Recorded, Shared, Unsent},
    FomId, Key, Operation, Persistent, Refused, Submission,
    error::RefusedReason,
    machine::Savable,
    observe::IncidentKind,
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
    mut submission: Submission<'_, O>,
    sender_is_kept: bool,
) -> Result<Prepared, SnapshotError> {
    seam::inherit(&mut submission);
    let shared = seam::shared_for(&submission);
    let index = seam::home_index(&submission);
    let id = seam::new_id(shared);
    let mut entry = None;
    let mut kept = None;
    if let (true, true, Some(index)) = (sender_is_kept, seam::is_kept::<O>(), index) {
        let meta = meta_of(&submission, index);
        let submitted = meta.times.map(|times| times.submitted);
        let remembering = Durable::of(shared)
            .memory
            .remembering(TypeId::of::<O>(), None);
        let saved = DurableState::new(meta, true, remembering);
        let key = seam::key_of(&submission);
        let mut bytes = Vec::new();
        encode_head(&saved.inner(), submitted, key, None, &mut bytes);
        seam::save_submission(&submission, &mut bytes)?;
        entry = Some(Entry {
            id: entry_of(id),
            bytes,
            graph: O::GRAPH,
            order: seam::turn_of(&submission).map_or(Sequence::Free, Sequence::Key),
        });
        kept = Some(saved);
    }
    let recorded = index.map(|home| (home, kept));
    let unsent = Unsent::new(submission);
    // The announced number is withdrawn when the fom is in, or is quarantined.
    let send = Box::new(move |shared: &Shared, entry: Option<Entry>| {
        let number = entry.as_ref().and_then(Entry::number);
        let recorded = recorded.map(|(home, kept)| {
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
        if let Err(refused) = unsent.send(shared, recorded) {
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
    let shared = seam::shared_for(submission);
    let choices = seam::choices(submission);
    let now = seam::nanos(seam::clock(shared));
    let due = choices.within.map(|time| now.saturating_add(time));
    let committer = Durable::of(shared).committer();
    Meta {
        step: 1,
        times: committer.map(|committer| {
            let now = committer.to_journal(now);
            Times {
                submitted: now,
                since: now,
            }
        }),
        due: due
            .zip(committer)
            .map(|(at, committer)| committer.to_journal(at)),
        home: Home {
            index: home as u16,
            settled: choices.placed,
        },
        priority: choices.priority as u8,
        // The number is drawn later. This keeps its place in the record.
        number: seam::turn_of(submission).map(|_| 0),
        rare: stored(
            choices.order,
            seam::series_of(submission).cloned(),
            true,
            seam::save_carried_by(submission),
        ),
        ..Meta::default()
    }
}

/// Makes the outbox item of an event for the fom that has this key.
pub(super) fn post_event<O>(
    shared: &Shared,
    sender_is_kept: bool,
    key: Key,
    event: O::Event,
    if_there: bool,
) -> Result<Item, SnapshotError>
where
    O: Persistent,
    O::Event: Savable,
{
    let keeps = seam::is_journaled(shared) && seam::is_kept::<O>();
    let id = seam::new_id(shared);
    let entry = entry_of(id);
    if !keeps {
        let send = Box::new(move |shared: &Shared, _: Option<Entry>| {
            let sent = seam::find::<O>(shared, &key).map(|fom| fom.send(event));
            if matches!(sent, Some(Ok(()))) {
                return;
            }
            if if_there {
                Durable::of(shared).count_not_there();
            } else {
                seam::report(
                    shared,
                    IncidentKind::Lost,
                    format!("{} {key}", O::GRAPH.operation()),
                    format!(
                        "{} {key} did not get an event that was sent to it through an outbox",
                        O::GRAPH.operation()
                    ),
                );
            }
        });
        return Ok(Item { entry: None, send });
    }
    if sender_is_kept && !Durable::of(shared).types.takes::<O>() {
        return Err(SnapshotError::Generic(O::GRAPH.operation()));
    }
    let mut bytes = Vec::new();
    let to = To::Key(key.clone());
    Message::encode::<O>(&to, &event, if_there, &mut bytes).map_err(SnapshotError::Operation)?;
    let send = Box::new(move |shared: &Shared, sent: Option<Entry>| {
        let event = Box::new(event);
        let number = sent.and_then(|sent| sent.number());
        let written = match number {
            Some(number) => Written::By(number, rewrite::<O>),
            None => Written::Not(seam::next_event(shared)),
        };
        let posted = Posted {
            entry,
            if_there,
            event,
            written,
        };
        let durable = Durable::of(shared);
        if let Err(undelivered) = durable.deliver(shared, Receiver::of::<O>(), &to, posted) {
            durable.quarantine_event(shared, Some(&key), undelivered);
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
        (RefusedReason::ShuttingDown | RefusedReason::Moved, _, Some(_)) => {}
        (RefusedReason::KeyInUse, Some(live), Some(bytes)) => {
            let key = live.key().cloned().unwrap_or(Key::Int(0));
            let reason = RestoreError::KeyInUse(key);
            let durable = Durable::of(shared);
            let mut quarantined = durable.quarantined(id, reason, bytes);
            keep_place(&mut quarantined, shared);
            durable.quarantine.put(quarantined);
        }
        (reason, ..) => seam::report(
            shared,
            IncidentKind::Lost,
            format!("{} {id}", O::GRAPH.operation()),
            format!(
                "{} {id} was in an outbox and could not start: {reason}",
                O::GRAPH.operation()
            ),
        ),
    }
}
