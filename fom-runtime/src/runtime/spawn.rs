//! Makes foms of what is submitted, and of what the journal keeps.

use std::{
    any::TypeId,
    mem::take,
    ptr::NonNull,
    sync::{Arc, OnceLock},
    time::Duration,
};

use crate::{
    durable::{self, DurableState, OperationId},
    fom::{
        AnyRef, Cold, ColdRare, Header, Launch, NewFom, Order, Priority, Resident, Seed, Stocks,
        Ticket,
    },
    id::{FomId, Key, KeyOf},
    locality::{Home, Sleep},
    operation::Operation,
    runtime::{Shared, keys::stored},
    snapshot::{Meta, RestoreError},
};
use fom_protocol::sync::Mutex;

/// Makes one fom.
pub(super) struct SpawnRequest<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) index: usize,
    /// Whether this thread holds the core of the home.
    pub(super) here: bool,
    /// The index of its phase in the graph.
    pub(super) phase: usize,
    pub(super) wanted: bool,
    pub(super) settled: bool,
    /// Whether the submission chose the home, other than by the key.
    pub(super) placed: bool,
    pub(super) meta: Meta,
    pub(super) priority: Priority,
    /// The id that a fom out of the journal had, and what was kept of it.
    pub(super) id: Option<FomId>,
    pub(super) kept: Option<Box<DurableState>>,
    pub(super) kept_deadline: Option<(u64, usize)>,
    pub(super) came_back: bool,
    /// Its operation id.
    pub(super) once: Option<Key>,
    /// Dropped when the fom has ended.
    pub(super) ticket: Option<Ticket>,
    pub(super) order: Order,
    /// The delay before the fom begins.
    pub(super) after: Option<Duration>,
    /// The key that it has together with the fom that submits it.
    pub(super) chained: Option<KeyOf>,
}

/// Makes a fom of what the journal keeps. It is in no queue yet.
pub(crate) fn restore<O: Operation>(
    shared: &Arc<Shared>,
    id: FomId,
    operation: O,
    phase: O::Phase,
    mut saved: durable::Meta,
) -> Result<Resident, RestoreError> {
    let (key, once) = (saved.key.take(), saved.once.take());
    let number = saved.number;
    let (is_chained, queues) = saved
        .cold_rare
        .as_deref()
        .map_or((false, false), |cold_rare| {
            (cold_rare.is_chained, cold_rare.queues)
        });
    let at_phase = O::index(O::kind(&phase));
    let (meta, kept_deadline, home, settled, priority) = {
        let left = |at: u64| shared.committer().map_or(0, |to| to.left_until(at));
        let meta = Meta {
            id: id.get(),
            attempt: saved.attempt,
            left: saved.due.map(left),
            resumed: true,
        };
        let now = shared.env.clock.nanos();
        let kept_deadline = saved.kept.as_deref().map(|(at, owner)| {
            // If that phase no longer exists, this is the deadline of the phase that the fom is in.
            let owner = O::GRAPH.place_ever(owner);
            let owner = owner.unwrap_or(at_phase);
            (now.saturating_add(left(*at)), owner)
        });
        let home = match &key {
            // In the home of foms that will be submitted with this key.
            Some(key) if !saved.settled => shared.key_index.hash(key) as usize,
            _ => usize::from(saved.home),
        };
        let priority = match saved.priority {
            0 => Priority::High,
            1 => Priority::Normal,
            _ => Priority::Low,
        };
        let home = home % shared.localities.len();
        (meta, kept_deadline, home, saved.settled, priority)
    };
    shared.localities[home].counts.one_sent();
    shared.take_room_again();
    let maker = SpawnRequest {
        shared,
        index: home,
        here: false,
        phase: at_phase,
        wanted: false,
        settled: settled || key.is_some(),
        placed: settled,
        meta,
        priority,
        id: Some(id),
        kept: Some(DurableState::new(saved, true)),
        kept_deadline,
        came_back: true,
        once: once.clone(),
        ticket: None,
        order: Order::Refuse,
        after: None,
        chained: None,
    };
    let made = match key {
        None => maker.make(operation, phase, None).0,
        Some(key) => {
            let mut made = None;
            let make = || {
                let fom = maker.make(operation, phase, Some(key.clone())).0;
                made = Some(fom);
                // SAFETY: just made and not enqueued yet, so it is alive.
                AnyRef::of(unsafe { fom.as_ref() })
            };
            let key_index = &shared.key_index;
            let claimed = match number {
                Some(number) if queues => {
                    key_index.wait_again::<O>(&key, number, is_chained, make);
                    true
                }
                Some(number) => {
                    if shared.passive.left() > 0 {
                        // A fom that rests and has begun has its key. It must get the key first.
                        let of = (TypeId::of::<O>(), key.clone());
                        shared.passive.revive_key(shared, &of);
                    }
                    key_index.claim_first::<O>(&key, number, is_chained, make)
                }
                None => key_index.claim_again::<O>(&key, id, is_chained, make),
            };
            match made {
                Some(made) if claimed => made,
                _ => {
                    shared.give_room();
                    shared.localities[home].take_back();
                    return Err(RestoreError::KeyInUse(key));
                }
            }
        }
    };
    if shared.passive.is_limited() {
        shared.passive.one_made();
    }
    if let Some(once) = once {
        // SAFETY: just made and not enqueued yet, so it is alive.
        let fom = AnyRef::of(unsafe { made.as_ref() });
        shared.memory.back((TypeId::of::<O>(), once), fom);
    }
    // SAFETY: just made, so this is the one resident reference.
    Ok(unsafe { Resident::new(made) })
}

impl SpawnRequest<'_> {
    #[inline]
    pub(super) fn make<O: Operation>(
        self,
        operation: O,
        phase: O::Phase,
        key: Option<Key>,
    ) -> (NonNull<Header>, FomId) {
        let shared = self.shared;
        let kept = self.kept.or_else(|| {
            let kept = shared.journaled && durable::codec::<O>().is_some();
            kept.then(|| {
                let meta = durable::Meta {
                    home: self.index as u16,
                    settled: self.placed,
                    priority: self.priority as u8,
                    cold_rare: stored(self.order, false),
                    ..durable::Meta::default()
                };
                DurableState::new(meta, false)
            })
        });
        let cold = if key.is_some()
            || shared.env.history > 0
            || self.meta.resumed
            || kept.is_some()
            || self.once.is_some()
            || self.ticket.is_some()
            || self.after.is_some()
            || self.chained.is_some()
        {
            let mut cold = Cold::new(key, shared.env.history, &self.meta, kept);
            if self.kept_deadline.is_some() {
                cold.saved.get_or_insert_default().kept_deadline = self.kept_deadline;
            }
            let kept = cold.kept.as_deref();
            let causes = kept.and_then(|kept| Some(take(&mut kept.inner().more_mut()?.causes)));
            if let Some(causes) = causes.filter(|causes| !causes.is_empty()) {
                cold.cold_rare = OnceLock::from(Box::new(ColdRare::with_causes(causes)));
            }
            cold.came_back = self.came_back;
            if const { O::GRAPH.has_gates() } && self.came_back {
                let kept = cold.kept.as_deref();
                let held = kept.is_some_and(|kept| kept.inner().held_gate());
                *cold.held_gate.get_mut() = held;
            }
            cold.once = self.once.map(OperationId::new);
            cold.ticket = Mutex::new(self.ticket);
            cold.chained = self.chained.map(Box::new);
            if let Some(after) = self.after {
                let home = Home::new(Arc::clone(shared), self.index);
                cold.delay(Sleep::new(home, after), self.order);
            }
            Some(cold)
        } else {
            None
        };
        let launch = |stocks: &mut Stocks, id, now| {
            let birth = NewFom {
                id,
                home: self.index,
                priority: self.priority,
                now,
                phase: self.phase,
                settled: self.settled,
                resumed: self.meta.resumed,
                cold,
                wanted: self.wanted,
                ready: false,
            };
            let launched = O::Form::launch(Seed {
                stocks,
                shared,
                birth,
                operation,
                phase,
            });
            (launched.0, id)
        };
        if self.here {
            // SAFETY: no code of the operation runs while the guard is held. A future is made, and does not run.
            let core = unsafe { crate::locality::peek() };
            let mut core = core.expect("looked at just now, on this thread");
            let (id, now) = match self.id {
                Some(id) => core.one_born_as(id),
                None => core.one_born(),
            };
            launch(&mut core.stocks, id, now)
        } else {
            let id = self.id.unwrap_or_else(|| shared.next_id());
            let now = shared.env.clock.nanos();
            launch(&mut shared.localities[self.index].outer.lock(), id, now)
        }
    }
}
