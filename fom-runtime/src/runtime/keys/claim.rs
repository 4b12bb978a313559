//! How a new fom gets its key: a fom that is submitted, and a fom that comes back.

use std::any::TypeId;

use crate::{
    fom::{AnyRef, Full, Order, OtherTurn, RefusedReason, Resident},
    id::{FomId, Key, KeyOf},
    operation::Operation,
    runtime::{
        FomRef, Shared,
        keys::{Denied, Hashed, places::KeyPlace},
        spawn::SpawnRequest,
        submit::New,
    },
};

/// A new fom. The first part is there if the fom may begin. While another fom has its key, no reference of the runtime
/// exists: the thread that grants the key makes it anew, and enqueues the fom.
pub(in crate::runtime) type Entered<O> = (Option<Resident>, New<O>);

/// A refused operation, and the live fom that has its key.
pub(in crate::runtime) type KeyRefused<O> = (RefusedReason, O, Option<FomRef<O>>);

/// The names with which a fom is submitted.
pub(in crate::runtime) struct Names {
    pub(in crate::runtime) key: Option<Key>,
    pub(in crate::runtime) series: Option<Key>,
}

impl Names {
    /// Returns the turn that the fom needs: that of its series, or of its key.
    pub(in crate::runtime) fn turn(&self, of: TypeId) -> Option<KeyOf> {
        KeyOf::turn(of, self.key.as_ref(), self.series.as_ref())
    }

    /// Returns the key, if it is no more than a name.
    fn name_only(&self, of: TypeId) -> Option<KeyOf> {
        let key = self.series.as_ref().and(self.key.as_ref())?;
        Some(KeyOf::key(of, key.clone()))
    }
}

/// Makes a fom. If it needs a turn, the fom has the turn or waits for it. `number`: its number in the order of what outboxes
/// sent.
#[inline(always)]
pub(in crate::runtime) fn enter<O: Operation>(
    request: SpawnRequest<'_>,
    operation: O,
    phase: O::Phase,
    names: Names,
    number: Option<u64>,
) -> Result<Entered<O>, KeyRefused<O>> {
    let (shared, order) = (request.shared, request.order);
    match names {
        Names {
            key: None,
            series: None,
        } => {
            let chained = request.chained().cloned();
            let (made, id) = request.make(operation, phase, None);
            if let Some(of) = &chained {
                // The submitting fom has the key meanwhile.
                shared.key_index.chain(of, AnyRef::of(&made.resident));
            }
            Ok((Some(made.resident), (made.handle, id)))
        }
        Names {
            key: Some(key),
            series: None,
        } if !request.asks_later() => {
            let turn = KeyOf::key(TypeId::of::<O>(), key.clone());
            // A resting fom has its key, too.
            shared.env.revive_key(|| turn.clone());
            let turn = shared.key_index.hashed(turn, request.hash);
            let enter = |make: Make<'_>| shared.key_index.enter(turn, order, number, make);
            make_if(request, operation, phase, Some(key), enter)
        }
        names => enter_specially(request, operation, phase, names, number),
    }
}

/// As [`enter`], for a fom that is one of a series, or asks for its turn later.
#[inline(never)]
fn enter_specially<O: Operation>(
    request: SpawnRequest<'_>,
    operation: O,
    phase: O::Phase,
    names: Names,
    number: Option<u64>,
) -> Result<Entered<O>, KeyRefused<O>> {
    let (shared, order) = (request.shared, request.order);
    let of = TypeId::of::<O>();
    let name = names.name_only(of);
    let turn = names.turn(of).filter(|_| !request.asks_later());
    for of in name.iter().chain(&turn) {
        shared.env.revive_key(|| of.clone());
    }
    let turn = turn.map(|turn| shared.key_index.hashed(turn, request.hash));
    let enter = |make: Make<'_>| match (name, turn) {
        (Some(name), turn) => enter_series(shared, order, (name, turn), number, make),
        (None, Some(turn)) => shared.key_index.enter(turn, order, number, make),
        (None, None) => Ok(Some(make())),
    };
    make_if(request, operation, phase, names.key, enter)
}

/// Makes a fom. Called once.
type Make<'a> = &'a mut dyn FnMut() -> Resident;

/// Makes a fom that `enter` lets in, or makes wait.
#[inline(always)]
fn make_if<O: Operation>(
    request: SpawnRequest<'_>,
    operation: O,
    phase: O::Phase,
    key: Option<Key>,
    enter: impl FnOnce(Make<'_>) -> Result<Option<Resident>, Denied<AnyRef>>,
) -> Result<Entered<O>, KeyRefused<O>> {
    let shared = request.shared;
    let (mut parts, mut made) = (Some((request, operation, phase, key)), None);
    let entered = enter(&mut || {
        let (request, operation, phase, key) = parts.take().expect("called once");
        let (launched, id) = request.make(operation, phase, key);
        made = Some((launched.handle, id));
        launched.resident
    });
    match (entered, made, parts) {
        (Ok(ready), Some(made), _) => Ok((ready, made)),
        (Err(why), _, Some((_, operation, ..))) => {
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

/// Gives a new fom its name, and then its turn in its series. The locks of the two are never held together.
fn enter_series(
    shared: &Shared,
    order: Order,
    (name, turn): (KeyOf, Option<Hashed>),
    number: Option<u64>,
    make: Make<'_>,
) -> Result<Option<Resident>, Denied<AnyRef>> {
    let Some(turn) = turn else {
        return shared.key_index.take_name(name, make).map(Some);
    };
    // The place comes first: a fom that is made cannot be refused any more.
    let (order, place) = match order {
        Order::Queue {
            shares,
            full: Full::Refuse,
        } => {
            let place = KeyPlace::now(shared, &turn.of, shares).ok_or(Denied::Full)?;
            let full = Full::Ignore;
            (Order::Queue { shares, full }, Some(place))
        }
        order => (order, None),
    };
    let fom = shared.key_index.take_name(name, make)?;
    let ready = shared.key_index.enter_named(turn, order, number, fom);
    drop(place);
    Ok(ready)
}

/// The key of a fom that comes back, and what decides whether the fom gets it.
#[derive(Debug)]
pub struct KeyClaim {
    /// The key.
    pub key: Option<Key>,
    /// The series.
    pub series: Option<Key>,
    /// The number of the fom in the order of what outboxes sent, if the fom has not begun.
    pub number: Option<u64>,
    /// Whether the fom shares its key with others.
    pub shares: bool,
    /// Whether the fom queues for its key while another fom has the key.
    pub queues: bool,
}

impl KeyClaim {
    /// Returns what the fom does if its key is not free, when it asks for it.
    pub(in crate::runtime) fn order(&self) -> Order {
        match self.queues {
            true => Order::Queue {
                shares: self.shares,
                full: Full::Ignore,
            },
            false => Order::Refuse,
        }
    }

    /// Returns the name by which the home of the fom is chosen.
    pub(in crate::runtime) fn home(&self) -> Option<&Key> {
        self.series.as_ref().or(self.key.as_ref())
    }

    /// Makes a fom that has its key again, or waits for it. Returns the key if another fom has it.
    pub(in crate::runtime) fn make<O: Operation>(
        self,
        id: FomId,
        mut request: SpawnRequest<'_>,
        operation: O,
        phase: O::Phase,
    ) -> Result<Resident, Key> {
        let Self {
            key,
            series,
            number,
            shares,
            queues,
        } = self;
        let shared = request.shared;
        let key_index = &shared.key_index;
        let names = Names { key, series };
        let name = names.name_only(TypeId::of::<O>());
        let Some(turn) = names.turn(TypeId::of::<O>()) else {
            return Ok(request.make(operation, phase, None).0.resident);
        };
        if turn.is_serial {
            let rare = request.rare.get_or_insert_default();
            rare.other = Some(OtherTurn::Serial(turn.clone()));
        }
        let asks_later = request.asks_later();
        let key = names.key;
        let mut made = None;
        let make = || {
            let launched = request.make(operation, phase, key).0;
            AnyRef::of(made.insert(launched.resident))
        };
        if turn.is_serial {
            if let Some(name) = name {
                if !key_index.claim_again(&name, id, false, make) {
                    return Err(name.key);
                }
            } else {
                make();
            }
            let fom = made.ok_or(turn.key.clone())?;
            if asks_later {
                return Ok(fom);
            }
            key_index.go_on(&turn, number.filter(|_| queues), shares, &fom);
            return Ok(fom);
        }
        let claimed = match number {
            _ if asks_later => {
                drop(make());
                true
            }
            Some(number) if queues => {
                key_index.wait_again(&turn, number, shares, make);
                true
            }
            Some(number) => {
                // A fom that rests and has begun has its key. It must get the key first.
                shared.env.revive_key(|| turn.clone());
                key_index.claim_first(&turn, number, shares, make)
            }
            None => key_index.claim_again(&turn, id, shares, make),
        };
        made.filter(|_| claimed).ok_or(turn.key)
    }
}
