//! How a new fom gets its key: a fom that is submitted, and a fom that comes back.

use std::any::TypeId;

use crate::{
    fom::{AnyRef, Order, RefusedReason, Resident},
    id::{FomId, Key},
    operation::Operation,
    runtime::{FomRef, keys::Denied, spawn::SpawnRequest, submit::New},
};

/// A new fom. The first part is there if the fom may begin. While another fom has its key, no reference of the runtime
/// exists: the thread that grants the key makes it anew, and enqueues the fom.
pub(in crate::runtime) type Entered<O> = (Option<Resident>, New<O>);

/// A refused operation, and the live fom that has its key.
pub(in crate::runtime) type KeyRefused<O> = (RefusedReason, O, Option<FomRef<O>>);

/// Makes a fom. If it needs a key, the fom has the key or waits for it.
#[inline(always)]
pub(in crate::runtime) fn enter<O: Operation>(
    request: SpawnRequest<'_>,
    operation: O,
    phase: O::Phase,
    key: Option<Key>,
    number: Option<u64>,
) -> Result<Entered<O>, KeyRefused<O>> {
    // Such a fom asks for its key when its delay is over.
    let asks_later =
        request.begin.after.is_some() && matches!(request.begin.order, Order::Queue { .. });
    let Some(key) = key else {
        let (shared, chained) = (request.shared, request.begin.chained.clone());
        let (made, id) = request.make(operation, phase, None);
        if let Some(of) = &chained {
            // The submitting fom has the key meanwhile.
            shared.key_index.chain(of, AnyRef::of(&made.resident));
        }
        return Ok((Some(made.resident), (made.handle, id)));
    };
    if asks_later {
        let (made, id) = request.make(operation, phase, Some(key));
        return Ok((Some(made.resident), (made.handle, id)));
    }
    enter_with_key(request, operation, phase, key, number)
}

/// Makes a fom that has a key, or waits for it.
fn enter_with_key<O: Operation>(
    request: SpawnRequest<'_>,
    operation: O,
    phase: O::Phase,
    key: Key,
    number: Option<u64>,
) -> Result<Entered<O>, KeyRefused<O>> {
    let (shared, order) = (request.shared, request.begin.order);
    // A resting fom has its key, too.
    shared.env.revive_key(|| (TypeId::of::<O>(), key.clone()));
    let (mut operation, mut made) = (Some(operation), None);
    let entered = shared.key_index.enter::<O>(&key, order, number, || {
        let operation = operation.take().expect("called once");
        let (launched, id) = request.make(operation, phase, Some(key.clone()));
        made = Some((launched.handle, id));
        launched.resident
    });
    match (entered, made, operation) {
        (Ok(ready), Some(made), _) => Ok((ready, made)),
        (Err(why), _, Some(operation)) => {
            shared.env.give_room();
            let (reason, live) = match why {
                Denied::InUse(live) => (RefusedReason::KeyInUse, FomRef::of_any(&live)),
                Denied::Suspended => (RefusedReason::KeySuspended, None),
                Denied::Full => (RefusedReason::KeyFull, None),
            };
            Err((reason, operation, live))
        }
        _ => unreachable!("it is let in or turned away"),
    }
}

/// The key of a fom that comes back, and what decides whether the fom gets it.
#[derive(Debug)]
pub struct KeyClaim {
    /// The key.
    pub key: Key,
    /// The number of the fom in the order of what outboxes sent, if the fom has not begun.
    pub number: Option<u64>,
    /// Whether the fom shares its key with others.
    pub shares: bool,
    /// Whether the fom queues for its key while another fom has the key.
    pub queues: bool,
}

impl KeyClaim {
    /// Makes a fom that has its key again, or waits for it. Returns the key if another fom has it.
    pub(in crate::runtime) fn make<O: Operation>(
        self,
        id: FomId,
        request: SpawnRequest<'_>,
        operation: O,
        phase: O::Phase,
    ) -> Result<Resident, Key> {
        let Self {
            key,
            number,
            shares,
            queues,
        } = self;
        let shared = request.shared;
        let mut made = None;
        let make = || {
            let launched = request.make(operation, phase, Some(key.clone())).0;
            AnyRef::of(made.insert(launched.resident))
        };
        let key_index = &shared.key_index;
        let claimed = match number {
            Some(number) if queues => {
                key_index.wait_again::<O>(&key, number, shares, make);
                true
            }
            Some(number) => {
                // A fom that rests and has begun has its key. It must get the key first.
                shared.env.revive_key(|| (TypeId::of::<O>(), key.clone()));
                key_index.claim_first::<O>(&key, number, shares, make)
            }
            None => key_index.claim_again::<O>(&key, id, shares, make),
        };
        made.filter(|_| claimed).ok_or(key)
    }
}
