//! Events that come from outside and are in the journal before their send returns.

use std::{
    any::{Any, TypeId},
    error::Error,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Weak,
};

use fom_journal::{Batch, JournalError};
use tokio::sync::oneshot;

use crate::{
    durable::{
        Address, Committer, Durable, DurableState, Handover, Message, Posted, Receiver, Written,
        address::To,
        committed::handed_over,
        message::is_of,
        record::set_number,
        sent::{Mark, SentBefore, SentIds, SentPlace},
    },
    entry::entry_of,
};
use fom_protocol::panic_message;
use fom_runtime::{
    __durability::{self as seam, AnyRef, KeyOf, Shared},
    Key, Operation, Persistent,
    error::DurabilityError,
    machine::{Durability, Savable},
    observe::IncidentKind,
    snapshot::{RestoreError, SnapshotError},
};

/// How [`send_durably`](crate::DurableExt::send_durably) succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sent {
    /// The event is in the journal.
    Now,
    /// An event with this id was sent to this receiver before. This one is dropped.
    Before,
}

/// An event that was not sent, and why.
#[non_exhaustive]
pub struct NotSent<E> {
    /// The event.
    pub event: E,
    /// Why it was not sent.
    pub reason: NotSentReason,
}

/// Why an event was not sent durably.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotSentReason {
    /// No operation of this type is there under the address: it has ended, or was never submitted.
    #[error(
        "no `{operation}` is there under {address}; `Runtime::outcome` says how it ended, if that is remembered"
    )]
    NoReceiver {
        /// The operation type.
        operation: &'static str,
        /// The address.
        address: Address,
    },
    /// The first transition of the operation is not on disk, so a crash would lose the operation and keep the event.
    #[error("the operation is not on disk yet; await `committed()` of its handle, and send again")]
    NotAccepted,
    /// The journal does not keep the operation: the runtime has no journal, or the machine says so.
    #[error("the journal does not keep `{0}`; use `FomRef::send`")]
    NotKept(&'static str),
    /// The event cannot be saved, or could not be read again.
    #[error(transparent)]
    NotSaved(SnapshotError),
    /// The operation failed and is quarantined, and as many events are kept as may be.
    #[error(
        "as many events are quarantined as may be; try the operation again or discard it, or raise `Builder::keep_events`"
    )]
    QuarantineFull,
    /// The commit failed. The event may be in the journal. A send with the same id does not send it twice.
    #[error("it is not known to be on disk; send it again with the same id: {0}")]
    Journal(#[source] DurabilityError),
}

impl<E> fmt::Debug for NotSent<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotSent")
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

impl<E> fmt::Display for NotSent<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the event was not sent: {}", self.reason)
    }
}

impl<E> Error for NotSent<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.reason)
    }
}

/// Sends an event durably; see [`DurableExt::send_durably`](crate::DurableExt::send_durably).
pub(super) async fn send_durably<O>(
    shared: &Shared,
    address: Address,
    event: O::Event,
    once: Key,
) -> Result<Sent, NotSent<O::Event>>
where
    O: Persistent,
    O::Event: Savable,
{
    let durable = Durable::of(shared);
    let failed = |error| NotSentReason::Journal(DurabilityError::new(error));
    let checked = match check::<O>(durable, shared, address, once) {
        Ok(Some(checked)) => checked,
        Ok(None) => return Ok(Sent::Before),
        Err(reason) => return Err(NotSent { event, reason }),
    };
    if let Some(fom) = checked.lazy
        && let Err(error) = handed_over(fom).await
    {
        let reason = failed(error);
        return Err(NotSent { event, reason });
    }
    let committer = checked.committer;
    let prepared = match prepare::<O>(durable, committer, checked.place, &event) {
        Ok(prepared) => prepared,
        Err(error) => {
            let reason = NotSentReason::NotSaved(error);
            return Err(NotSent { event, reason });
        }
    };
    let place = &prepared.place;
    let before = match durable.memory.begin_send(place, durable.journal_now()) {
        SentBefore::Yes => return Ok(Sent::Before),
        SentBefore::Now(told) => {
            return match told.await.unwrap_or(Err(JournalError::Closed)) {
                Ok(()) => Ok(Sent::Before),
                Err(error) => Err(NotSent {
                    event,
                    reason: failed(error),
                }),
            };
        }
        SentBefore::No(before) => before,
    };
    let told = prepared.commit::<O>(shared, committer, event, before);
    match told.await {
        // The delivery is its drop.
        Ok(Ok(delivery)) => drop(delivery),
        Ok(Err((error, event))) => {
            // No other type was given to it.
            if let Ok(event) = event.downcast() {
                let (event, reason) = (*event, failed(error));
                return Err(NotSent { event, reason });
            }
        }
        // The runtime is gone, with the event, which is in the journal.
        Err(_) => {}
    }
    Ok(Sent::Now)
}

/// A durable send to a receiver that is there.
struct Checked<'a> {
    committer: &'a Committer,
    place: SentPlace,
    /// A lazy receiver. The event must not be in the journal before it.
    lazy: Option<AnyRef>,
}

/// Checks that the receiver is there. Returns `None` if the event was sent before.
fn check<'a, O>(
    durable: &'a Durable,
    shared: &Shared,
    address: Address,
    once: Key,
) -> Result<Option<Checked<'a>>, NotSentReason>
where
    O: Persistent,
{
    let operation = O::GRAPH.operation();
    let committer = durable.committer().filter(|_| seam::is_kept::<O>());
    let committer = committer.ok_or(NotSentReason::NotKept(operation))?;
    if !durable.types.takes::<O>() {
        return Err(NotSentReason::NotSaved(SnapshotError::Generic(operation)));
    }
    let no_receiver = || NotSentReason::NoReceiver {
        operation,
        address: address.clone(),
    };
    let of = TypeId::of::<O>();
    let to = durable.receiver(of, address.clone());
    let place = (of, to.ok_or_else(no_receiver)?, once);
    if durable.memory.was_sent(&place, durable.journal_now()) {
        return Ok(None);
    }
    let live = durable.check_receiver::<O>(shared, &place.1, no_receiver)?;
    Ok(Some(Checked {
        committer,
        place,
        lazy: live.filter(|_| O::DURABILITY == Durability::Lazy),
    }))
}

/// A durable send with its entries.
struct Prepared {
    place: SentPlace,
    bytes: Vec<u8>,
    mark: Vec<u8>,
    expires: u64,
}

/// Writes the entries of a send.
fn prepare<O>(
    durable: &Durable,
    committer: &Committer,
    place: SentPlace,
    event: &O::Event,
) -> Result<Prepared, SnapshotError>
where
    O: Persistent,
    O::Event: Savable,
{
    let mut bytes = Vec::new();
    let save = || Message::encode::<O>(&place.1, event, false, &mut bytes);
    // The user's code writes the event.
    let saved = catch_unwind(AssertUnwindSafe(save));
    let saved = saved.map_err(|panic| SnapshotError::Panicked(panic_message(panic)))?;
    saved.map_err(SnapshotError::Operation)?;
    committer.check_length(bytes.len())?;
    let expires = durable.memory.bounds().sent_expiry(durable.journal_now());
    let mut mark = Vec::new();
    Mark::encode(O::GRAPH, &place, expires, &mut mark);
    Ok(Prepared {
        place,
        bytes,
        mark,
        expires,
    })
}

/// The answer to a caller: what delivers the event, or the event.
type Told = Result<Delivery, (JournalError, Box<dyn Any + Send>)>;

impl Prepared {
    /// Hands the entries over. From here on, the event is sent even if the caller is gone.
    fn commit<O>(
        mut self,
        shared: &Shared,
        committer: &Committer,
        event: O::Event,
        before: Option<SentIds>,
    ) -> oneshot::Receiver<Told>
    where
        O: Persistent,
    {
        let ids = before.unwrap_or_else(|| SentIds {
            event: seam::new_id(shared),
            mark: seam::new_id(shared),
        });
        set_number(&mut self.bytes, seam::next_number(shared));
        let mut batch = Batch::new();
        batch.put(entry_of(ids.event), &self.bytes);
        batch.put(entry_of(ids.mark), &self.mark);
        batch.end_group();
        let (tell, told) = oneshot::channel();
        let pending = Pending(Some(Sending {
            place: self.place.clone(),
            ids,
            expires: self.expires,
            delivery: Delivery {
                shared: seam::weak(shared),
                of: Receiver::of::<O>(),
                to: self.place.1,
                posted: Some(Posted {
                    entry: entry_of(ids.event),
                    if_there: false,
                    event: Box::new(event),
                    written: Written::Bytes(self.bytes.into()),
                }),
            },
            tell,
        }));
        let answered = move |answer: &Result<(), JournalError>| pending.answered(answer.clone());
        committer.take(Handover::answered(batch, Box::new(answered)));
        told
    }
}

/// A send that is on its way into the journal.
struct Sending {
    place: SentPlace,
    ids: SentIds,
    expires: u64,
    delivery: Delivery,
    tell: oneshot::Sender<Told>,
}

/// Answers the send, also if the thread that commits ends by a panic.
struct Pending(Option<Sending>);

impl Pending {
    fn answered(mut self, answer: Result<(), JournalError>) {
        self.answer(answer);
    }

    fn answer(&mut self, answer: Result<(), JournalError>) {
        let Some(sending) = self.0.take() else { return };
        let Sending {
            place,
            ids,
            expires,
            mut delivery,
            tell,
        } = sending;
        let waiting = delivery.shared.upgrade().map(|shared| {
            let memory = &Durable::of(&shared).memory;
            memory.sent(place, ids, expires, answer.is_ok())
        });
        let told = match &answer {
            Ok(()) => Ok(delivery),
            // Taken out, so that its drop delivers nothing.
            Err(error) => match delivery.posted.take() {
                Some(posted) => Err((error.clone(), posted.event)),
                None => Ok(delivery),
            },
        };
        // Without a caller, the event is delivered here, or dropped, which is the user's code.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(tell.send(told))));
        for waits in waiting.into_iter().flatten() {
            // The caller may have gone.
            let _ = waits.send(answer.clone());
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.answer(Err(JournalError::Closed));
    }
}

/// An event that is in the journal. Its drop delivers it, so the event arrives even if its sender is gone.
struct Delivery {
    shared: Weak<Shared>,
    of: Receiver,
    to: To,
    posted: Option<Posted>,
}

impl Drop for Delivery {
    fn drop(&mut self) {
        let (Some(posted), Some(shared)) = (self.posted.take(), self.shared.upgrade()) else {
            return;
        };
        let deliver = || Durable::of(&shared).deliver_sent(&shared, self.of, &self.to, posted);
        // The user's code may read a resting fom.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(deliver)) {
            let what = panic_message(panic);
            let what = format!("a durable send panicked, and is taken after a restart: {what}");
            seam::report(&shared, IncidentKind::Panicked, "a durable send", what);
        }
    }
}

impl Durable {
    /// Delivers an event that was sent durably. If its receiver has ended since, the event is quarantined, even above the
    /// limit, because its sender has the answer that the event is kept.
    fn deliver_sent(&self, shared: &Shared, of: Receiver, to: &To, posted: Posted) {
        if let Err(undelivered) = self.deliver(shared, of, to, posted) {
            self.quarantine_sent(shared, to.key(), undelivered);
        }
    }

    /// Checks that an event for this receiver would be taken, now or later. Returns the receiver if it is in flight.
    fn check_receiver<O: Operation>(
        &self,
        shared: &Shared,
        to: &To,
        no_receiver: impl Fn() -> NotSentReason,
    ) -> Result<Option<AnyRef>, NotSentReason> {
        let of = TypeId::of::<O>();
        let (rests, find): (_, Box<dyn Fn() -> Option<AnyRef>>) = match to {
            To::Key(key) => {
                let place = KeyOf::key(of, key.clone());
                let rests = self.passive.with_key(&place).is_some();
                (rests, Box::new(move || seam::find_awake(shared, &place)))
            }
            To::Id(id) => {
                let rests = self.passive.type_of(shared, *id) == Some(of);
                let find = || seam::find_id(shared, *id).filter(|fom| is_of(fom, of));
                (rests, Box::new(find))
            }
        };
        if rests {
            return Ok(None);
        }
        let check = |fom: AnyRef| {
            let kept = DurableState::of(&fom).ok_or(NotSentReason::NotKept(fom.type_name()))?;
            match kept.is_recorded() {
                true => Ok(Some(fom)),
                false => Err(NotSentReason::NotAccepted),
            }
        };
        if let Some(fom) = find() {
            return check(fom);
        }
        let kept = match to {
            To::Key(key) => self.quarantine.of(O::GRAPH, key),
            To::Id(id) => self.quarantine.is_of(*id, O::GRAPH).then_some(*id),
        };
        match kept {
            Some(receiver) => {
                let waits = RestoreError::ReceiverQuarantined(receiver);
                match self.quarantine.has_room_for(&waits) {
                    true => Ok(None),
                    false => Err(NotSentReason::QuarantineFull),
                }
            }
            // A fom that comes back is found before it leaves the list.
            None => find().map_or_else(|| Err(no_receiver()), check),
        }
    }
}
