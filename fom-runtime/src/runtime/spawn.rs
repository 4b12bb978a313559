//! Makes foms of what is submitted, and of what the journal keeps.

use std::{any::TypeId, time::Duration};

use crate::{
    attempt::Tried,
    fom::{
        Back, Cold, Delay, Guard, Initial, KeptValues, NewFom, Order, OtherTurn, Priority,
        Resident, WasSaved,
        durability::{FomRecord, KeptFom, NewRecord},
        hand::context::holding,
    },
    id::{FomId, Key, KeyHash, KeyOf},
    incident::IncidentKind,
    locality::{Home, Sleep},
    operation::{Form, Operation, kept_codec},
    runtime::{
        Shared,
        carry::{NewCarried, new_carried},
        keys::KeyClaim,
        registered::Revival,
    },
    snapshot::{Meta, RestoreError},
    typed::{Launched, Seed, build_here},
};
use fom_protocol::caught;

/// Makes one fom.
pub(super) struct SpawnRequest<'a> {
    pub(super) shared: &'a Shared,
    pub(super) place: Place,
    /// The index of its phase in the graph.
    pub(super) phase: usize,
    pub(super) wanted: bool,
    pub(super) priority: Priority,
    pub(super) order: Order,
    /// The hash of its own turn, if it is known.
    pub(super) hash: Option<KeyHash>,
    /// A box, because each byte here is copied for every fom.
    pub(super) rare: Option<Box<Rare>>,
}

/// What few new foms are made with.
#[derive(Default)]
pub(super) struct Rare {
    pub(super) meta: Meta,
    /// The id that a fom out of the journal had, and what was kept of it.
    pub(super) id: Option<FomId>,
    pub(super) state: Option<Box<dyn KeptFom>>,
    /// Set for a fom that comes back out of the journal.
    pub(super) back: Option<CameBack>,
    /// Its operation id.
    pub(super) operation_id: Option<Key>,
    /// Dropped when the fom has ended.
    pub(super) guard: Option<Guard>,
    /// What the fom carries.
    pub(super) carried: Option<Box<NewCarried>>,
    /// The delay before the fom begins.
    pub(super) after: Option<Duration>,
    /// The turn that is not the one of its key.
    pub(super) other: Option<OtherTurn>,
}

/// The home of a new fom.
pub(super) struct Place {
    pub(super) index: usize,
    /// Whether this thread holds the core of the home.
    pub(super) here: bool,
    pub(super) settled: bool,
    /// Whether the submission chose the home, other than by the key.
    pub(super) chosen: bool,
}

/// What the journal says of the visit of a fom that comes back.
pub(super) struct CameBack {
    /// The failed attempts.
    pub(super) tried: Vec<Tried>,
    /// The time of a deadline that an earlier phase keeps, and the index of that phase.
    pub(super) kept_deadline: Option<(u64, usize)>,
}

/// Makes a fom of what was kept of it. It is in no queue yet.
pub(super) fn restore<O: Operation>(
    revival: Revival<'_>,
    operation: O,
    phase: O::Phase,
) -> Result<Resident, RestoreError> {
    let Revival {
        shared,
        id,
        key,
        after,
        visit,
        home,
        carried,
        ..
    } = revival;
    let carriers = shared.env.carriers();
    let carried = match carriers.is_empty() {
        true => None,
        false => Some(Box::new(NewCarried {
            values: carriers.read(&carried)?,
            // Its record has them.
            saved: KeptValues::new(),
        })),
    };
    let at_phase = O::index(O::kind(&phase));
    let meta = Meta {
        id: id.get(),
        attempt: visit.attempt,
        left: visit.left,
        resumed: true,
    };
    let now = shared.env.clock.nanos();
    let kept_deadline = visit.kept_left.map(|(left, owner)| {
        // If that phase no longer exists, this is the deadline of the phase that the fom is in.
        let owner = O::GRAPH.place_ever(&owner);
        (now.saturating_add(left), owner.unwrap_or(at_phase))
    });
    let index = match key.as_ref().and_then(KeyClaim::home) {
        // In the home of foms that will be submitted with this key.
        Some(name) if !home.chosen => shared.home_of(name),
        _ => home.index % shared.localities.len(),
    };
    shared.localities[index].counts.one_sent();
    shared.env.room.take_again();
    let rare = Rare {
        meta,
        id: Some(id),
        state: Some(revival.state),
        back: Some(CameBack {
            tried: visit.tried,
            kept_deadline,
        }),
        carried,
        after,
        ..Rare::default()
    };
    let request = SpawnRequest {
        shared,
        place: Place {
            index,
            here: false,
            settled: home.chosen || key.is_some(),
            chosen: home.chosen,
        },
        phase: at_phase,
        wanted: false,
        priority: revival.priority,
        order: key.as_ref().map_or(Order::Refuse, KeyClaim::order),
        hash: None,
        rare: Some(Box::new(rare)),
    };
    let (times, heard_cancel, turned_back) = (visit.times, visit.heard_cancel, visit.turned_back);
    let fom = match key {
        None => request.make(operation, phase, None).0.resident,
        Some(claim) => claim.make(id, request, operation, phase).map_err(|key| {
            shared.env.give_room();
            shared.localities[index].take_back();
            RestoreError::KeyInUse(key)
        })?,
    };
    if heard_cancel {
        fom.hear_cancel();
    }
    if turned_back {
        fom.cold_made().rare_made().turn_back();
    }
    if let Some((submitted, since)) = times {
        fom.identity.was_submitted(submitted);
        fom.visit().began(since);
    }
    Ok(fom)
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
    let keeps = shared.env.journaled && const { kept_codec::<O>().is_some() };
    // A panic of the user's code must not leave the part half way.
    let operation = O::GRAPH.operation();
    let made = holding(|| caught(|| new_carried(shared, None, keeps, operation)));
    let mut carried = made.unwrap_or_else(|panic| {
        let text = format!(
            "what a {operation} carries could not be made, and it carries nothing: {panic}"
        );
        shared.env.report(IncidentKind::Panicked, operation, text);
        None
    });
    let saved = carried.as_mut().map(|it| std::mem::take(&mut it.saved));
    let new = NewRecord {
        of: TypeId::of::<O>(),
        is_kept: false,
        home: home.index,
        placed: true,
        priority: Priority::Normal,
        order: Order::Refuse,
        series: None,
        operation_id: None,
        carried: saved.unwrap_or_default(),
    };
    let state = record::<O>(shared, new);
    let is_needed = state.is_some() || shared.env.history > 0 || carried.is_some();
    is_needed.then(|| {
        let cold = Cold::new(None, None, shared.env.history, None, state);
        if let Some(carried) = carried {
            cold.rare_made().attachments.keep(carried.values);
        }
        cold
    })
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
        let rare = self.rare.as_ref();
        let id = rare.and_then(|rare| rare.id);
        let resumed = rare.is_some_and(|rare| rare.meta.resumed);
        let cold = match rare.is_none() && shared.env.is_plain() {
            true => key.map(|key| Cold::of_key(key, self.hash)),
            false => self.cold::<O>(key),
        };
        let mut birth = NewFom {
            // Without an id the locality or the runtime gives one.
            id: id.unwrap_or(FomId(0)),
            home: self.place.index,
            priority: self.priority,
            now: 0,
            phase: self.phase,
            settled: self.place.settled,
            resumed,
            cold,
            wanted: self.wanted,
            ready: false,
        };
        if self.place.here {
            return build_here(&shared.env, id, birth, operation, phase);
        }
        let id = id.unwrap_or_else(|| shared.next_id());
        (birth.id, birth.now) = (id, shared.env.clock.nanos());
        let launched = O::Form::build(Seed {
            stocks: &mut shared.localities[self.place.index].outer.lock(),
            env: &shared.env,
            birth,
            operation: || operation,
            phase,
        });
        (launched, id)
    }

    /// Returns the cold state of the fom, if it needs any from the start.
    fn cold<O: Operation>(&mut self, key: Option<Key>) -> Option<Box<Cold>> {
        let shared = self.shared;
        let mut nothing = None;
        let rare: &mut Rare = match &mut self.rare {
            Some(rare) => rare,
            None => nothing.insert(Rare::default()),
        };
        let state = rare.state.take().map(FomRecord::Kept).or_else(|| {
            record::<O>(
                shared,
                NewRecord {
                    of: TypeId::of::<O>(),
                    is_kept: false,
                    home: self.place.index,
                    placed: self.place.chosen,
                    priority: self.priority,
                    order: self.order,
                    series: rare.series().cloned(),
                    operation_id: rare.operation_id.take(),
                    carried: (rare.carried.as_mut())
                        .map_or_else(KeptValues::new, |it| std::mem::take(&mut it.saved)),
                },
            )
        });
        let none = key.is_none()
            && shared.env.history == 0
            && !rare.meta.resumed
            && state.is_none()
            && rare.guard.is_none()
            && rare.carried.is_none()
            && rare.after.is_none()
            && rare.other.is_none();
        if none {
            return None;
        }
        let initial = rare.initial(shared, self.place.index, self.order);
        let mut cold = Cold::new(key, self.hash, shared.env.history, initial, state);
        if let Some(back) = rare.back.take() {
            back.put::<O>(&mut cold);
        }
        cold.keys.other = rare.other.take().map(Box::new);
        if let Some(carried) = rare.carried.take() {
            cold.rare_made().attachments.keep(carried.values);
        }
        if rare.after.is_some() {
            cold.keys.asks_later(self.order);
        }
        Some(cold)
    }

    /// Returns the turn that the fom has together with the fom that submits it.
    pub(super) fn chained(&self) -> Option<&KeyOf> {
        match self.rare.as_ref()?.other.as_ref()? {
            OtherTurn::Chained(of) => Some(of),
            OtherTurn::Serial(_) => None,
        }
    }

    /// Returns whether the fom asks for its turn when its delay is over.
    pub(super) fn asks_later(&self) -> bool {
        let rare = self.rare.as_ref();
        rare.is_some_and(|rare| rare.after.is_some()) && self.order.queues()
    }
}

impl Rare {
    /// Returns the name of the series of the fom.
    fn series(&self) -> Option<&Key> {
        match self.other.as_ref()? {
            OtherTurn::Serial(of) => Some(&of.key),
            OtherTurn::Chained(_) => None,
        }
    }

    /// Returns what few foms are made with, if the fom is made with any of it.
    fn initial(&mut self, shared: &Shared, home: usize, order: Order) -> Option<Initial> {
        let kept_deadline = self.back.as_ref().and_then(|back| back.kept_deadline);
        let (left, tries) = (self.meta.left, self.meta.attempt);
        let was_saved = left.is_some() || tries > 0 || kept_deadline.is_some();
        if !was_saved && self.guard.is_none() && self.after.is_none() {
            return None;
        }
        let saved = WasSaved {
            left,
            tries,
            kept_deadline,
        };
        let delay = self.after.map(|after| {
            let home = Home::new(shared.env.owned(), home);
            Delay::new(Sleep::new(home, after), order)
        });
        Some(Initial::new(saved, delay, self.guard.take()))
    }
}

impl CameBack {
    /// Puts the visit into the cold state of the fom.
    #[cold]
    fn put<O: Operation>(self, cold: &mut Cold) {
        if !self.tried.is_empty() {
            cold.set_tried(self.tried);
        }
        let held_gate =
            const { O::GRAPH.needs().gates() } && cold.kept().is_some_and(KeptFom::held_gate);
        cold.back = Back::restored(held_gate);
    }
}
