//! The lanes in a locality: the state in its core, and the lanes' part of the handler's round.
//!
//! A request becomes a fom when it has its turn, and runs at once, in place: it is in no inbox and no run queue. Most
//! requests end there. A request that waits, or has used up its budget, goes on as a fom and keeps its key until it
//! ends. The lanes go on with the next key.
//!
//! While a request is in a blocking section, another thread may have the core and run these lanes. So no part of the
//! lanes is on the stack of the thread that runs a request. A turn that finds a request noted as running knows that the
//! request is away.

use std::{collections::VecDeque, ptr::NonNull, sync::Arc};

use crate::{
    durable::{self, DurableState},
    fom::{Cold, Header, Launch, NewFom, Priority, Progress, Resident, Seed},
    lanes::{
        Common, LaneKey,
        inlet::Item,
        keys::{Keys, Placed, Who},
        sets::{AnyLanes, LanePlace, Reached, Turn},
    },
    locality::{Core, Home, context},
    operation::Operation,
    snapshot::Meta,
};
use fom_protocol::shrink::Shrink as _;

/// Maximum number of requests run in one turn of a set of lanes. Then the other work of the locality has its turn.
const TURN: u32 = 64;
/// Maximum number of requests put into queues in one turn.
const MOVES: u32 = 4_096;

/// A request that runs.
struct Current<K> {
    fom: NonNull<Header>,
    who: Who<K>,
}

/// One set of lanes in one locality.
pub(super) struct Lanes<O: Operation, K> {
    common: Arc<Common<O, K>>,
    index: usize,
    /// Requests taken out of the inlet and not placed yet.
    batch: VecDeque<Item<O, K>>,
    keys: Keys<O, K>,
    current: Option<Current<K>>,
    /// Number of ended requests not yet reported to the inlet.
    ended: usize,
    /// Number of these that the locality has not counted yet.
    uncounted: u64,
    /// Whether a request is being placed. It is lost if that panics.
    looking: bool,
}

// SAFETY: `current` points to a header, which is `Sync`; all other fields are `Send` themselves.
unsafe impl<O: Operation, K: Send> Send for Lanes<O, K> {}

impl<O: Operation, K: LaneKey> AnyLanes for Lanes<O, K> {
    fn address(&self) -> usize {
        Arc::as_ptr(&self.common).addr()
    }

    fn turn(&self) -> Turn {
        turn::<O, K>
    }

    fn ended_later(&mut self, key: usize) {
        self.ended += 1;
        self.keys.ended_later(key);
    }
}

impl<O: Operation, K: LaneKey> Lanes<O, K> {
    pub(super) fn new(common: Arc<Common<O, K>>, index: usize) -> Self {
        let options = &common.options;
        let quantum = fom_protocol::nanos(options.time);
        Self {
            keys: Keys::new(options.requests, quantum, options.per_key),
            common,
            index,
            batch: VecDeque::new(),
            current: None,
            ended: 0,
            uncounted: 0,
            looking: false,
        }
    }

    /// Reports ended requests to the inlet. If the batch is empty, takes the requests that have come. If nothing is
    /// left at all, the next request sends a signal.
    fn exchange(&mut self, home: &Home) {
        let inlet = &self.common.inlets[self.index];
        let mut others_full = false;
        if self.keys.is_newly_full() {
            let keys = &mut self.keys;
            home.fenced("a key of lanes of", || {
                inlet.set_full_keys(keys.full_keys());
                others_full = true;
            });
        }
        let mut state = inlet.lock();
        state.taken -= std::mem::take(&mut self.ended);
        if self.batch.is_empty() && !state.arrived.is_empty() {
            std::mem::swap(&mut state.arrived, &mut self.batch);
            state.taken += self.batch.len();
        }
        let rests = self.batch.is_empty() && !self.keys.has_ready();
        if rests {
            self.batch.shrink();
            state.arrived.shrink();
            state.rest();
            inlet.set_resting(true);
        }
        let bound = self.common.options.bound;
        // Waiting callers are told of several places at a time, as long as the locality then still has work.
        let enough = if rests { bound - 1 } else { bound / 2 };
        let tell = state.awaited && (others_full || state.in_flight() <= enough);
        if tell {
            state.awaited = false;
        }
        drop(state);
        if tell {
            inlet.tell_room(home);
        }
    }

    /// Refuses all queued requests because the runtime is closed. `take_refused` returns them.
    #[cold]
    fn refuse_all(&mut self, home: &Home) {
        let inlet = &self.common.inlets[self.index];
        let mut refused = Vec::new();
        let keys = &mut self.keys;
        home.fenced("a key of lanes of", || keys.take_all(&mut refused));
        // Requests with a key that cannot be cloned.
        let rest = self.keys.take_rest();
        let lost = rest.len();
        home.fenced("a request of lanes of", || context::holding(|| drop(rest)));
        let mut state = inlet.lock();
        let arrived = std::mem::take(&mut state.arrived);
        let new = arrived.len();
        let items = std::mem::take(&mut self.batch).into_iter().chain(arrived);
        refused.extend(items.map(|item| (item.key, item.operation)));
        let gone = refused.len() + lost;
        state.taken -= gone - new + std::mem::take(&mut self.ended);
        state.refused.append(&mut refused);
        state.closed = true;
        state.awaited = false;
        drop(state);
        inlet.tell_room(home);
        home.counts
            .given_away(gone as u64 + std::mem::take(&mut self.uncounted));
    }

    /// Returns whether these lanes have work left.
    fn has_work(&self) -> bool {
        !self.batch.is_empty() || self.keys.has_ready()
    }

    /// Records the key of a request that leaves its turn, for a blocking section or for good. `took` is the time of the
    /// request until then, as far as it is known.
    fn promote(&mut self, place: usize, took: u64) {
        let Some(Current { fom, who }) = self.current.take() else {
            return;
        };
        let key = match who {
            Who::New { hash, key } => {
                self.keys.ran_in_line(hash, took);
                self.keys.hold(hash, key, true)
            }
            Who::Held(key) => key,
        };
        // SAFETY: the fom is noted as running, so it has not ended.
        let fom = unsafe { fom.as_ref() };
        fom.set_lane(LanePlace::new(place, key));
    }

    /// Takes the next request that may run.
    #[inline]
    fn next(&mut self, moves: &mut u32) -> Option<(Who<K>, O)> {
        let held = |(key, operation)| (Who::Held(key), operation);
        if self.keys.is_turn_of_ring()
            && let Some(next) = self.keys.next(!self.batch.is_empty())
        {
            return Some(held(next));
        }
        while *moves > 0
            && let Some(item) = self.batch.pop_front()
        {
            self.looking = true;
            let placed = self.keys.place(item);
            self.looking = false;
            match placed {
                Placed::Now(who, operation) => return Some((who, operation)),
                Placed::Later => *moves -= 1,
            }
        }
        self.keys.next(false).map(held)
    }
}

/// Runs one turn of each set of lanes that is ready.
#[cold]
#[inline(never)]
pub(crate) fn run(mut core: Box<Core>) -> Box<Core> {
    for _ in 0..core.lanes.ready() {
        let Some((place, turn)) = core.lanes.next_turn() else {
            break;
        };
        core = turn(core, place);
    }
    core
}

fn turn<O: Operation, K: LaneKey>(mut core: Box<Core>, place: usize) -> Box<Core> {
    let home = core.home.clone();
    let reached = core.lanes.of::<O, K>(place);
    let lanes = reached.get(&mut core);
    lanes.promote(place, 0);
    if home.shared().is_closed() {
        lanes.refuse_all(&home);
        return retire(core, place, reached);
    }
    lanes.exchange(&home);
    let mut moves = MOVES;
    for _ in 0..TURN {
        let lanes = reached.get(&mut core);
        lanes.promote(place, 0);
        let mut next = None;
        home.fenced("a key of lanes of", || next = lanes.next(&mut moves));
        let Some((who, operation)) = next else {
            if !std::mem::take(&mut lanes.looking) {
                break;
            }
            // Comparing its key panicked, and the request is gone.
            lanes.ended += 1;
            home.counts.given_away(1);
            continue;
        };
        core = run_one(core, &home, (place, &reached), who, operation);
        core.hand_over_when_due();
        // After the runtime is closed, the next turn refuses the queued requests.
        if home.is_awaited() || home.shared().is_closed() {
            break;
        }
    }
    let lanes = reached.get(&mut core);
    home.counts.given_away(std::mem::take(&mut lanes.uncounted));
    if !lanes.has_work() {
        lanes.exchange(&home);
    }
    if lanes.has_work() {
        core.lanes.make_ready(place);
        return core;
    }
    retire(core, place, reached)
}

/// Removes the set if no handle pushes any more and nothing is in flight.
fn retire<O: Operation, K: LaneKey>(
    mut core: Box<Core>,
    place: usize,
    reached: Reached<O, K>,
) -> Box<Core> {
    let lanes = reached.get(&mut core);
    let empty = lanes.keys.is_empty() && lanes.current.is_none();
    if empty && let Some(set) = core.lanes.take_retired(place) {
        let home = core.home.clone();
        // Refused requests may still be in the set.
        home.fenced("lanes of", || context::holding(|| drop(set)));
    }
    core
}

/// Makes a fom of a request and runs it in its turn, without the run queue.
#[inline]
fn run_one<O: Operation, K: LaneKey>(
    mut core: Box<Core>,
    home: &Home,
    (place, reached): (usize, &Reached<O, K>),
    who: Who<K>,
    operation: O,
) -> Box<Core> {
    let shared = home.shared();
    core.begin_run();
    let before = core.now();
    let phase = O::start();
    let birth = NewFom {
        id: core.one_numbered(),
        home: home.index,
        priority: Priority::Normal,
        now: before,
        phase: O::index(O::kind(&phase)),
        settled: true,
        resumed: false,
        cold: if shared.is_plain() {
            None
        } else {
            cold::<O>(home)
        },
        wanted: false,
        ready: true,
    };
    let launched = O::Form::launch(Seed {
        stocks: &mut core.stocks,
        shared,
        birth,
        operation,
        phase,
    });
    let slot = launched.0;
    reached.get(&mut core).current = Some(Current { fom: slot, who });
    // SAFETY: the fom was just made and is ready. `around` puts it into Running and lays the core down.
    let (mut core, served) = context::around(core, slot, || unsafe { O::Form::serve(&launched) });
    let progress = served.progress;
    let took = core.now().saturating_sub(before);
    let lanes = reached.get(&mut core);
    lanes.uncounted += u64::from(served.uncounted);
    match lanes.current.take_if(|current| current.fom == slot) {
        // The request was away meanwhile, and another turn has recorded its place.
        None => {}
        Some(Current { who, .. }) if progress == Progress::Finished => {
            lanes.ended += 1;
            match who {
                Who::New { hash, key } => {
                    lanes.keys.ran_in_line(hash, took);
                    if const { std::mem::needs_drop::<K>() } {
                        home.fenced("a key of lanes of", || drop(key));
                    }
                }
                Who::Held(key) => lanes.keys.ended_in_turn(key, took),
            }
        }
        Some(current) => {
            lanes.current = Some(current);
            lanes.promote(place, took);
        }
    }
    if progress != Progress::Finished {
        // SAFETY: the fom has not ended, and this is the one resident reference.
        core.after_run(Some(unsafe { Resident::new(slot) }), progress);
    }
    core
}

/// Returns the extra data of a fom, in a runtime that keeps more of each fom.
#[cold]
fn cold<O: Operation>(home: &Home) -> Option<Box<Cold>> {
    let shared = home.shared();
    shared.take_room_again();
    let kept = (shared.journaled && durable::codec::<O>().is_some()).then(|| {
        let meta = durable::Meta {
            home: home.index as u16,
            settled: true,
            priority: Priority::Normal as u8,
            ..durable::Meta::default()
        };
        DurableState::new(meta, false)
    });
    (kept.is_some() || shared.env.history > 0)
        .then(|| Cold::new(None, shared.env.history, &Meta::default(), kept))
}
