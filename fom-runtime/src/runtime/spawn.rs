//! Makes foms of what is submitted, and of what the journal keeps.

use std::{mem, time::Duration};

use crate::{
    fom::{
        Back, Cold, NewFom, Order, Priority, Resident, Ticket,
        durability::{FomRecord, KeptFom, NewRecord},
    },
    id::{FomId, Key, KeyOf},
    locality::{Home, Sleep},
    operation::{Form, Operation, kept_codec},
    runtime::{Shared, keys::Claim, registered::Revival},
    snapshot::{Meta, RestoreError},
    typed::{Launched, Seed, build_here},
};
use fom_protocol::sync::Mutex;

/// Makes one fom.
pub(super) struct SpawnRequest<'a> {
    pub(super) shared: &'a Shared,
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
    pub(super) state: Option<Box<dyn KeptFom>>,
    /// The errors of its failed attempts.
    pub(super) causes: Vec<String>,
    pub(super) kept_deadline: Option<(u64, usize)>,
    pub(super) came_back: bool,
    /// Its operation id.
    pub(super) operation_id: Option<Key>,
    /// Dropped when the fom has ended.
    pub(super) ticket: Option<Ticket>,
    pub(super) order: Order,
    /// The delay before the fom begins.
    pub(super) after: Option<Duration>,
    /// The key that it has together with the fom that submits it.
    pub(super) chained: Option<KeyOf>,
}

/// Makes a fom of what was kept of it. It is in no queue yet.
pub(super) fn restore<O: Operation>(
    revival: Revival<'_>,
    operation: O,
    phase: O::Phase,
) -> Result<Resident, RestoreError> {
    let Revival {
        shared, id, number, ..
    } = revival;
    let (shares, queues) = (revival.shares_key, revival.queues);
    let key = revival.key;
    let at_phase = O::index(O::kind(&phase));
    let meta = Meta {
        id: id.get(),
        attempt: revival.attempt,
        left: revival.left,
        resumed: true,
    };
    let now = shared.env.clock.nanos();
    let kept_deadline = revival.kept_left.map(|(left, owner)| {
        // If that phase no longer exists, this is the deadline of the phase that the fom is in.
        let owner = O::GRAPH.place_ever(&owner);
        (now.saturating_add(left), owner.unwrap_or(at_phase))
    });
    let home = match &key {
        // In the home of foms that will be submitted with this key.
        Some(key) if !revival.placed => shared.key_index.hash(key) as usize,
        _ => revival.home,
    };
    let home = home % shared.localities.len();
    shared.localities[home].counts.one_sent();
    shared.env.room.take_again();
    let request = SpawnRequest {
        shared,
        index: home,
        here: false,
        phase: at_phase,
        wanted: false,
        settled: revival.placed || key.is_some(),
        placed: revival.placed,
        meta,
        priority: revival.priority,
        id: Some(id),
        state: Some(revival.state),
        causes: revival.causes,
        kept_deadline,
        came_back: true,
        operation_id: None,
        ticket: None,
        order: Order::Refuse,
        after: None,
        chained: None,
    };
    Ok(match key {
        None => request.make(operation, phase, None).0.resident,
        Some(key) => {
            let claim = Claim {
                id,
                number,
                shares,
                queues,
            };
            let Some(made) = claim.make(request, operation, phase, &key) else {
                shared.env.give_room();
                shared.localities[home].take_back();
                return Err(RestoreError::KeyInUse(key));
            };
            made
        }
    })
}

/// Returns what durability keeps beside a new fom of this type, if it keeps anything.
#[inline]
fn record<O: Operation>(shared: &Shared, mut new: NewRecord) -> Option<FomRecord> {
    new.is_kept = shared.env.journaled && const { kept_codec::<O>().is_some() };
    if new.is_kept || new.operation_id.is_some() {
        let recorder = shared.env.recorder()?;
        Some(recorder.begin(new))
    } else {
        None
    }
}

/// Returns the extra data of a fom that a part runs at once, in a runtime that keeps more of each fom.
#[cold]
pub(super) fn cold<O: Operation>(home: &Home) -> Option<Box<Cold>> {
    let shared = Shared::behind(home.env());
    shared.env.room.take_again();
    let new = NewRecord {
        is_kept: false,
        home: home.index,
        placed: true,
        priority: Priority::Normal,
        order: Order::Refuse,
        operation_id: None,
    };
    let state = record::<O>(shared, new);
    (state.is_some() || shared.env.history > 0)
        .then(|| Cold::new(None, shared.env.history, &Meta::default(), state))
}

impl SpawnRequest<'_> {
    #[inline]
    pub(super) fn make<O: Operation>(
        mut self,
        operation: O,
        phase: O::Phase,
        key: Option<Key>,
    ) -> (Launched<O>, FomId) {
        let shared = self.shared;
        let state = self.state.take().map(FomRecord::Kept).or_else(|| {
            record::<O>(
                shared,
                NewRecord {
                    is_kept: false,
                    home: self.index,
                    placed: self.placed,
                    priority: self.priority,
                    order: self.order,
                    operation_id: self.operation_id.take(),
                },
            )
        });
        let cold = self.cold::<O>(key, state);
        let mut birth = NewFom {
            // Without an id the locality or the runtime gives one.
            id: self.id.unwrap_or(FomId(0)),
            home: self.index,
            priority: self.priority,
            now: 0,
            phase: self.phase,
            settled: self.settled,
            resumed: self.meta.resumed,
            cold,
            wanted: self.wanted,
            ready: false,
        };
        if self.here {
            return build_here(&shared.env, self.id, birth, operation, phase);
        }
        let id = self.id.unwrap_or_else(|| shared.next_id());
        (birth.id, birth.now) = (id, shared.env.clock.nanos());
        let launched = O::Form::build(Seed {
            stocks: &mut shared.localities[self.index].outer.lock(),
            env: &shared.env,
            birth,
            operation,
            phase,
        });
        (launched, id)
    }

    /// Returns the cold state of the fom, if it needs any from the start.
    #[inline(always)]
    fn cold<O: Operation>(
        &mut self,
        key: Option<Key>,
        state: Option<FomRecord>,
    ) -> Option<Box<Cold>> {
        let shared = self.shared;
        let none = key.is_none()
            && shared.env.history == 0
            && !self.meta.resumed
            && state.is_none()
            && self.ticket.is_none()
            && self.after.is_none()
            && self.chained.is_none();
        if none {
            return None;
        }
        let mut cold = Cold::new(key, shared.env.history, &self.meta, state);
        if self.kept_deadline.is_some() {
            cold.saved.get_or_insert_default().kept_deadline = self.kept_deadline;
        }
        if !self.causes.is_empty() {
            cold.set_causes(mem::take(&mut self.causes));
        }
        let held_gate = const { O::GRAPH.has_gates() }
            && self.came_back
            && cold.kept().is_some_and(|kept| kept.held_gate());
        cold.back = Back::new(self.came_back, held_gate);
        cold.ticket = Mutex::new(self.ticket.take());
        cold.keys.chained = self.chained.take().map(Box::new);
        if let Some(after) = self.after {
            let home = Home::new(shared.env.owned(), self.index);
            cold.keys.delay(Sleep::new(home, after), self.order);
        }
        Some(cold)
    }
}
