//! The streams in a locality: the part of each stream there, and how a request becomes a fom.
//!
//! A request becomes a fom when it has its turn, and runs at once, in place: it is in no inbox and no run queue. Most
//! requests end there. A request that waits, or has used up its budget, goes on as a fom and keeps its key until it
//! ends. The stream goes on with the next key.
//!
//! While a request is in a blocking section, another thread may have the locality and give the part another turn. So a
//! turn keeps nothing of the part across a run.

use std::{collections::VecDeque, sync::Arc};

use fom_protocol::{nanos, shrink::Shrink as _};
use fom_runtime::{
    Operation,
    extension::{Part, Pieces, Ran, Turn, hold_locality},
};

use crate::streams::{
    Common, StreamKey, fenced,
    inlet::Item,
    keys::{Keys, Placed, Who},
    rules::Merge,
};

/// Maximum number of requests run in one turn. Then the other work of the locality has its turn.
const TURN: u32 = 64;
/// Maximum number of requests put into queues in one turn.
const MOVES: u32 = 4_096;
/// Stands for the key of a request that runs beside the others of its key.
const BESIDE: usize = u32::MAX as usize;

/// The part of a stream in one locality.
pub(super) struct StreamPart<O: Operation, K> {
    common: Arc<Common<O, K>>,
    index: usize,
    /// Requests taken out of the inlet and not placed yet.
    batch: VecDeque<Item<O, K>>,
    keys: Keys<O, K>,
    /// The count of the requests in the batch and in the queues of the keys.
    pieces: Pieces,
    /// The key of the request that runs in its turn.
    current: Option<Who<K>>,
    /// Number of ended requests not yet reported to the inlet.
    ended: usize,
    /// Number of requests that run beside the others of their key, and wait for something.
    beside: usize,
    /// Whether a request is being placed. It is lost if that panics.
    looking: bool,
    /// Whether no handle can push any more. The part goes when it is empty.
    pub(super) retired: bool,
}

impl<O: Operation, K: StreamKey> Part for StreamPart<O, K> {
    fn turn(turn: &mut Turn<'_, Self>) {
        if turn.is_closed() {
            refuse_all(turn);
        } else if run(turn) {
            return turn.wake();
        }
        retire(turn);
    }

    fn goes_on(&mut self, took: u64) -> u64 {
        let key = match self.current.take() {
            Some(Who::New { hash, key }) => {
                self.keys.ran_in_line(hash, took);
                self.keys.hold(hash, key, true)
            }
            Some(Who::Held(key)) => key,
            Some(Who::Beside { hash }) => {
                self.keys.ran_in_line(hash, took);
                self.beside += 1;
                BESIDE
            }
            None => unreachable!("a request that runs has a key"),
        };
        key as u64
    }

    fn ended(&mut self, key: u64) {
        self.ended += 1;
        match key as usize {
            BESIDE => self.beside -= 1,
            key => self.keys.ended_later(key),
        }
    }
}

impl<O: Operation, K: StreamKey> StreamPart<O, K> {
    pub(super) fn new(common: Arc<Common<O, K>>, index: usize) -> Self {
        let options = &common.options;
        Self {
            keys: Keys::new(options.requests, nanos(options.time), options.per_key),
            common,
            index,
            batch: VecDeque::new(),
            pieces: Pieces::default(),
            current: None,
            ended: 0,
            beside: 0,
            looking: false,
            retired: false,
        }
    }

    /// Reports ended requests to the inlet. If the batch is empty, takes the requests that have come. If nothing is
    /// left at all, the next request sends a signal.
    fn exchange(&mut self) {
        let inlet = &self.common.inlets[self.index];
        let mut others_full = false;
        if self.keys.is_newly_full() {
            let keys = &mut self.keys;
            self.common.fenced("a key of a stream in", self.index, || {
                inlet.set_full_keys(keys.full_keys());
                others_full = true;
            });
        }
        let mut state = inlet.lock();
        state.taken -= std::mem::take(&mut self.ended);
        if self.batch.is_empty() && !state.arrived.is_empty() {
            std::mem::swap(&mut state.arrived, &mut self.batch);
            state.taken += self.batch.len();
            self.pieces.append(std::mem::take(&mut state.pieces));
        }
        let passes = state.passes_barrier();
        let rests = self.batch.is_empty() && !self.keys.has_ready();
        if rests {
            self.batch.shrink();
            state.arrived.shrink();
            state.rest();
            inlet.set_resting(true);
        }
        let bound = self.common.options.bound;
        // Waiting callers learn of several places at a time, as long as the locality then still has work.
        let enough = if rests { bound - 1 } else { bound / 2 };
        let tell = state.awaited && (others_full || state.in_flight() <= enough);
        if tell {
            state.awaited = false;
        }
        drop(state);
        if passes {
            self.common.passed_barrier();
        }
        if tell {
            self.common.tell_room(self.index);
        }
    }

    /// Returns whether there is work left.
    fn has_work(&self) -> bool {
        !self.batch.is_empty() || self.keys.has_ready()
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
            if let Some(beside) = self.common.rules.beside
                && beside(&item.operation)
            {
                self.looking = false;
                return Some((Who::Beside { hash: item.hash }, item.operation));
            }
            let placed = self.keys.place(item);
            self.looking = false;
            match placed {
                Placed::Now(who, operation) => return Some((who, operation)),
                Placed::Later => *moves -= 1,
            }
        }
        self.keys.next(false).map(held)
    }

    /// Notes that the request which had its turn has ended in that turn.
    #[inline]
    fn ended_in_turn(&mut self, took: u64) {
        self.ended += 1;
        match self.current.take() {
            Some(Who::New { hash, key }) => {
                self.keys.ran_in_line(hash, took);
                if const { std::mem::needs_drop::<K>() } {
                    let drop = || drop(key);
                    self.common.fenced("a key of a stream in", self.index, drop);
                }
            }
            Some(Who::Held(key)) => self.keys.ended_in_turn(key, took),
            Some(Who::Beside { hash }) => self.keys.ran_in_line(hash, took),
            None => {}
        }
    }

    /// Merges the requests that queue for the key into this one, as far as they let themselves be merged. Returns how
    /// many are gone.
    fn merge(&mut self, merge: Merge<O>, key: usize, operation: &mut O) -> usize {
        let mut merged = 0;
        while let Some(next) = self.keys.take(key) {
            let mut back = None;
            self.common
                .fenced("a merge of a stream in", self.index, || {
                    back = merge(operation, next);
                });
            if let Some(back) = back {
                self.keys.put_back(key, back);
                break;
            }
            merged += 1;
        }
        self.ended += merged;
        merged
    }
}

/// Runs requests. Returns whether there is work left.
fn run<O: Operation, K: StreamKey>(turn: &mut Turn<'_, StreamPart<O, K>>) -> bool {
    let part = turn.part();
    let (common, index) = (Arc::clone(&part.common), part.index);
    part.exchange();
    let (mut left, mut moves) = (TURN, MOVES);
    loop {
        let mut is_over = false;
        // One fence for all of them: the foms have fences of their own.
        common.fenced("a key of a stream in", index, || {
            run_requests(turn, common.rules.merge, &mut left, &mut moves);
            is_over = true;
        });
        let part = turn.part();
        if is_over || !std::mem::take(&mut part.looking) {
            break;
        }
        // Comparing its key panicked, and the request is gone.
        part.ended += 1;
        let lost = part.pieces.split(1);
        turn.local().leave(lost);
    }
    turn.count_ended();
    let part = turn.part();
    if !part.has_work() {
        part.exchange();
    }
    part.has_work()
}

/// Runs requests until none may run, the turn is over, or user code panics: the comparison of keys, or a rule.
#[inline]
fn run_requests<O: Operation, K: StreamKey>(
    turn: &mut Turn<'_, StreamPart<O, K>>,
    merge: Option<Merge<O>>,
    left: &mut u32,
    moves: &mut u32,
) {
    while *left > 0 {
        *left -= 1;
        let part = turn.part();
        let Some((who, mut operation)) = part.next(moves) else {
            return;
        };
        if let (Some(merge), Who::Held(key)) = (merge, &who) {
            let merged = part.merge(merge, *key, &mut operation);
            if merged > 0 {
                let pieces = part.pieces.split(merged);
                turn.local().leave(pieces);
            }
        }
        let part = turn.part();
        part.current = Some(who);
        let piece = part.pieces.split(1);
        if let Ran::Ended { nanos } = turn.run_here(operation, piece) {
            turn.part().ended_in_turn(nanos);
        }
        // After the runtime is closed, the next turn refuses the queued requests.
        if turn.should_end() {
            return;
        }
    }
}

/// Refuses all queued requests because the runtime is closed. `take_refused` returns them.
#[cold]
fn refuse_all<O: Operation, K: StreamKey>(turn: &mut Turn<'_, StreamPart<O, K>>) {
    let part = turn.part();
    let (common, index) = (Arc::clone(&part.common), part.index);
    let mut refused = Vec::new();
    let keys = &mut part.keys;
    common.fenced("a key of a stream in", index, || {
        keys.take_all(&mut refused)
    });
    // Requests with a key that cannot be cloned.
    let rest = part.keys.take_rest();
    let lost = rest.len();
    common.fenced("a request of a stream in", index, || {
        hold_locality(|| drop(rest));
    });
    let mut pieces = std::mem::take(&mut part.pieces);
    let mut state = common.inlets[index].lock();
    pieces.append(std::mem::take(&mut state.pieces));
    let arrived = std::mem::take(&mut state.arrived);
    let new = arrived.len();
    let items = std::mem::take(&mut part.batch).into_iter().chain(arrived);
    refused.extend(items.map(|item| (item.key, item.operation)));
    state.taken -= refused.len() + lost - new + std::mem::take(&mut part.ended);
    state.refused.append(&mut refused);
    for behind in std::mem::take(&mut state.behind) {
        pieces.append(behind.pieces);
        let items = behind.items.into_iter();
        state
            .refused
            .extend(items.map(|item| (item.key, item.operation)));
    }
    state.closed = true;
    state.awaited = false;
    drop(state);
    // Waiting callers are woken without the lock.
    let barriers = std::mem::take(&mut *common.barriers.lock());
    drop(barriers);
    common.tell_room(index);
    turn.local().leave(pieces);
}

/// Removes the part if no handle pushes any more and nothing is in flight. The caller has just emptied the inlet.
fn retire<O: Operation, K: StreamKey>(turn: &mut Turn<'_, StreamPart<O, K>>) {
    let part = turn.part();
    let is_idle = part.keys.is_empty() && part.beside == 0;
    if !part.retired || !is_idle || !part.common.inlets[part.index].lock().behind.is_empty() {
        return;
    }
    let (runtime, index) = (part.common.runtime.clone(), part.index);
    let id = turn.id();
    let removed = turn.local().remove_part(id);
    // Refused requests may still be in the stream, which may go with its last part.
    fenced(&runtime, "a stream in", index, || {
        hold_locality(|| drop(removed));
    });
}
