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
    id::{FomId, Key, KeyOf},
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
    pub(super) meta: Meta,
    pub(super) priority: Priority,
    /// The id that a fom out of the journal had, and what was kept of it.
    pub(super) id: Option<FomId>,
    pub(super) state: Option<Box<dyn KeptFom>>,
    /// Set for a fom that comes back out of the journal.
    pub(super) back: Option<CameBack>,
    /// Its operation id.
    pub(super) operation_id: Option<Key>,
    pub(super) brought: Brought,
    pub(super) begin: Begin,
}

/// What a new fom brings along.
#[derive(Default)]
pub(super) struct Brought {
    /// Dropped when the fom has ended.
    pub(super) guard: Option<Guard>,
    /// What the fom carries.
    pub(super) carried: Option<Box<NewCarried>>,
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

/// When a new fom may begin.
pub(super) struct Begin {
    pub(super) order: Order,
    /// The delay before the fom begins.
    pub(super) after: Option<Duration>,
    /// The turn that is not the one of its key.
    pub(super) other: Option<OtherTurn>,
}

impl Begin {
    /// Returns the turn that the fom has together with the fom that submits it.
    pub(super) fn chained(&self) -> Option<&KeyOf> {
        match self.other.as_ref()? {
            OtherTurn::Chained(of) => Some(of),
            OtherTurn::Serial(_) => None,
        }
    }

    /// Returns the name of the series of the fom.
    fn series(&self) -> Option<&Key> {
        match self.other.as_ref()? {
            OtherTurn::Serial(of) => Some(&of.key),
            OtherTurn::Chained(_) => None,
        }
    }

    /// Notes the series of the fom, if this is the name of one.
    pub(super) fn set_series(&mut self, of: &KeyOf) {
        if of.is_serial {
            self.other = Some(OtherTurn::Serial(of.clone()));
        }
    }
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
        Some(name) if !home.chosen => shared.key_index.hash(name) as usize,
        _ => home.index,
    };
    let index = index % shared.localities.len();
    shared.localities[index].counts.one_sent();
    shared.env.room.take_again();
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
        meta,
        priority: revival.priority,
        id: Some(id),
        state: Some(revival.state),
        back: Some(CameBack {
            tried: visit.tried,
            kept_deadline,
        }),
        operation_id: None,
        brought: Brought {
            guard: None,
            carried,
        },
        begin: Begin {
            order: key.as_ref().map_or(Order::Refuse, KeyClaim::order),
            after,
            other: None,
        },
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
        let cold = Cold::new(None, shared.env.history, None, state);
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
        let state = self.state.take().map(FomRecord::Kept).or_else(|| {
            record::<O>(
                shared,
                NewRecord {
                    of: TypeId::of::<O>(),
                    is_kept: false,
                    home: self.place.index,
                    placed: self.place.chosen,
                    priority: self.priority,
                    order: self.begin.order,
                    series: self.begin.series().cloned(),
                    operation_id: self.operation_id.take(),
                    carried: (self.brought.carried.as_mut())
                        .map_or_else(KeptValues::new, |it| std::mem::take(&mut it.saved)),
                },
            )
        });
        let cold = self.cold::<O>(key, state);
        let mut birth = NewFom {
            // Without an id the locality or the runtime gives one.
            id: self.id.unwrap_or(FomId(0)),
            home: self.place.index,
            priority: self.priority,
            now: 0,
            phase: self.phase,
            settled: self.place.settled,
            resumed: self.meta.resumed,
            cold,
            wanted: self.wanted,
            ready: false,
        };
        if self.place.here {
            return build_here(&shared.env, self.id, birth, operation, phase);
        }
        let id = self.id.unwrap_or_else(|| shared.next_id());
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
            && self.brought.guard.is_none()
            && self.brought.carried.is_none()
            && self.begin.after.is_none()
            && self.begin.other.is_none();
        if none {
            return None;
        }
        let mut cold = Cold::new(key, shared.env.history, self.initial(), state);
        if let Some(back) = self.back.take() {
            back.put::<O>(&mut cold);
        }
        cold.keys.other = self.begin.other.take().map(Box::new);
        if let Some(carried) = self.brought.carried.take() {
            cold.rare_made().attachments.keep(carried.values);
        }
        if self.begin.after.is_some() {
            cold.keys.asks_later(self.begin.order);
        }
        Some(cold)
    }

    /// Returns what few foms are made with, if the fom is made with any of it.
    #[inline]
    fn initial(&mut self) -> Option<Initial> {
        let kept_deadline = self.back.as_ref().and_then(|back| back.kept_deadline);
        let (left, tries) = (self.meta.left, self.meta.attempt);
        let was_saved = left.is_some() || tries > 0 || kept_deadline.is_some();
        if !was_saved && self.brought.guard.is_none() && self.begin.after.is_none() {
            return None;
        }
        let saved = WasSaved {
            left,
            tries,
            kept_deadline,
        };
        let delay = self.begin.after.map(|after| {
            let home = Home::new(self.shared.env.owned(), self.place.index);
            Delay::new(Sleep::new(home, after), self.begin.order)
        });
        Some(Initial::new(saved, delay, self.brought.guard.take()))
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
