//! The keys of a stream in one locality: which keys have requests in flight, what waits for each, and which key
//! has its turn.
//!
//! Most requests find their key idle, and run in the order in which they came, without any record of the key. So a
//! stream of requests over millions of keys costs no memory for them, and an idle key has nothing to release.
//!
//! A key gets its own queue in two cases: one of its requests waits for something, or the key has used a quantum.
//! Requests that then come for the key queue, and have their turns in the ring. Requests of other keys go on in the
//! order in which they came. The key loses the queue when it is empty and no request of the key is in flight. The next
//! request of the key is in line again. So no request is overtaken by a later one of its key.
//!
//! A few cells, common by many keys, count how long keys ran in this cycle. Two keys that share a cell may get their
//! queues a little earlier, each its own. That is all that a hash decides. A cycle is too short for keys that are not
//! hot to fill a cell together.
//!
//! Requests in line and the ring take turns: a quantum of the line, then one key's turn of the ring. A key may use up a
//! quantum in line and then get a queue. It then waits in the ring until others had a quantum of the line.

use std::collections::VecDeque;

use fom_protocol::shrink::{Shrink as _, room};
use hashbrown::HashTable;
use slab::Slab;

use crate::streams::inlet::{FullKeys, Item};

/// Number of cells that count how long keys ran.
const CELLS: usize = 256;
/// Number of quanta in one cycle.
const CYCLE: u64 = CELLS as u64 / 4;
/// Number of emptied queues that keep their memory for the next keys.
const SPARE: usize = 64;
/// Largest capacity of a queue that keeps its memory.
const LARGEST_SPARE: usize = 256;

/// A key with requests in flight.
struct Held<O, K> {
    hash: u64,
    key: K,
    waiting: VecDeque<O>,
    /// Whether a request of the key runs or waits for something.
    busy: bool,
    full: bool,
}

/// A request that has its turn.
pub(super) enum Who<K> {
    /// The key has no record.
    New { hash: u64, key: K },
    /// The place of the key's record.
    Held(usize),
    /// The request runs beside the others of its key.
    Beside { hash: u64 },
}

/// How long the keys of a cell ran in this cycle, in nanoseconds.
#[derive(Clone, Copy, Default)]
struct Cell {
    cycle: u32,
    spent: u32,
}

pub(super) struct Keys<O, K> {
    held: Slab<Held<O, K>>,
    places: HashTable<usize>,
    ring: VecDeque<usize>,
    /// The key that has its turn in the ring, and how long it ran in this turn.
    turn: Option<usize>,
    turn_spent: u64,
    /// The time of the requests in line since the last turn of the ring, and in this cycle. If a key gets a queue while
    /// the ring is empty, the former restarts from 0: that key itself used the time up.
    line_spent: u64,
    cycle_spent: u64,
    spare: Vec<VecDeque<O>>,
    cells: Box<[Cell; CELLS]>,
    cycle: u32,
    /// The time of a key's turn, a multiple of `least`. Each request counts for at least `least`.
    quantum: u64,
    least: u64,
    per_key: usize,
    /// Whether keys became full, or have room again, since the last report.
    changed: bool,
}

/// What happens to a request.
pub(super) enum Placed<O, K> {
    /// Its turn is now.
    Now(Who<K>, O),
    /// It waits in a queue.
    Later,
}

fn cell(hash: u64) -> usize {
    (hash >> 24) as usize % CELLS
}

impl<O, K: Eq + Clone> Keys<O, K> {
    pub(super) fn new(requests: u32, quantum: u64, per_key: usize) -> Self {
        let quantum = quantum.clamp(1, u64::from(u32::MAX / 2));
        // A request takes at least one nanosecond, so at most `quantum` requests fit.
        let requests = u64::from(requests.max(1)).min(quantum);
        // Rounded up, and the quantum is a multiple of it, so exactly this many requests fit.
        let least = quantum.div_ceil(requests);
        Self {
            held: Slab::new(),
            places: HashTable::new(),
            ring: VecDeque::new(),
            turn: None,
            turn_spent: 0,
            line_spent: 0,
            cycle_spent: 0,
            spare: Vec::new(),
            cells: Box::new([Cell::default(); CELLS]),
            cycle: 0,
            quantum: least * requests,
            least,
            per_key,
            changed: false,
        }
    }

    pub(super) fn has_ready(&self) -> bool {
        self.turn.is_some() || !self.ring.is_empty()
    }

    /// Returns whether a key in the ring goes before the requests in line.
    #[inline]
    pub(super) fn is_turn_of_ring(&self) -> bool {
        self.turn.is_some() || self.line_spent >= self.quantum && !self.ring.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    fn is_spent(&self, hash: u64) -> bool {
        let cell = &self.cells[cell(hash)];
        cell.cycle == self.cycle && u64::from(cell.spent) >= self.quantum
    }

    /// Places a request that has come in. Compares keys, which may panic; then nothing has changed.
    #[inline]
    pub(super) fn place(&mut self, item: Item<O, K>) -> Placed<O, K> {
        let Item {
            hash,
            key,
            operation,
        } = item;
        let found = if self.held.is_empty() {
            None
        } else {
            let held = &self.held;
            self.places
                .find(hash, |place| {
                    let other = &held[*place];
                    other.hash == hash && other.key == key
                })
                .copied()
        };
        match found {
            None if !self.is_spent(hash) => Placed::Now(Who::New { hash, key }, operation),
            None => {
                if self.ring.is_empty() {
                    self.line_spent = 0;
                }
                let place = self.hold(hash, key, false);
                self.held[place].waiting.push_back(operation);
                self.ring.push_back(place);
                Placed::Later
            }
            Some(place) => {
                let held = &mut self.held[place];
                held.waiting.push_back(operation);
                if !held.full && held.waiting.len() >= self.per_key {
                    held.full = true;
                    self.changed = true;
                }
                Placed::Later
            }
        }
    }

    /// Takes the next request that queues. `line_waits` means that requests in line wait; then the ring leaves them
    /// their turn. Drops keys, which may panic.
    #[inline]
    pub(super) fn next(&mut self, line_waits: bool) -> Option<(usize, O)> {
        loop {
            let place = match self.turn.take() {
                Some(place) => place,
                None if line_waits && self.line_spent < self.quantum => return None,
                None => {
                    self.turn_spent = 0;
                    self.ring.pop_front()?
                }
            };
            let held = &mut self.held[place];
            if let Some(operation) = held.waiting.pop_front() {
                self.line_spent = 0;
                held.busy = true;
                if held.full && held.waiting.len() <= self.per_key / 2 {
                    held.full = false;
                    self.changed = true;
                }
                return Some((place, operation));
            }
            let (hash, spent) = (held.hash, std::mem::take(&mut self.turn_spent));
            self.charge(hash, spent);
            self.release_memory(place);
        }
    }

    /// Takes the next request that queues for this key.
    pub(super) fn take(&mut self, place: usize) -> Option<O> {
        let held = self.held.get_mut(place)?;
        let taken = held.waiting.pop_front();
        if held.full && held.waiting.len() <= self.per_key / 2 {
            held.full = false;
            self.changed = true;
        }
        taken
    }

    /// Puts a request back that [`take`](Self::take) returned.
    pub(super) fn put_back(&mut self, place: usize, operation: O) {
        if let Some(held) = self.held.get_mut(place) {
            held.waiting.push_front(operation);
        }
    }

    /// Makes the record of a key that has none.
    pub(super) fn hold(&mut self, hash: u64, key: K, busy: bool) -> usize {
        let waiting = self.spare.pop().unwrap_or_default();
        let place = self.held.insert(Held {
            hash,
            key,
            waiting,
            busy,
            full: false,
        });
        let held = &self.held;
        self.places
            .insert_unique(hash, place, |place| held[*place].hash);
        place
    }

    /// Gives back the memory that many keys needed. Called when no key has a record.
    fn shrink(&mut self) {
        if room(0, self.held.capacity()).is_some() {
            self.held.shrink_to_fit();
            self.places.shrink_to(0, |_| 0);
            self.ring.shrink();
        }
    }

    /// Removes the record of a key with nothing in flight. Drops the key, which is user code.
    fn release_memory(&mut self, place: usize) {
        let held = self.held.remove(place);
        if let Ok(entry) = self.places.find_entry(held.hash, |other| *other == place) {
            entry.remove();
        }
        if self.held.is_empty() {
            self.shrink();
        }
        if held.full {
            self.changed = true;
        }
        let Held { key, waiting, .. } = held;
        if self.spare.len() < SPARE && waiting.capacity() <= LARGEST_SPARE {
            self.spare.push(waiting);
        }
        drop(key);
    }

    /// Notes that a request in line has ended, or waits for something. `took` is its time until then.
    #[inline]
    pub(super) fn ran_in_line(&mut self, hash: u64, took: u64) {
        let more = took.clamp(self.least, self.quantum);
        self.line_spent += more;
        self.cycle_spent += more;
        self.charge(hash, more);
    }

    /// Charges a key for this time. A key that ends a cycle takes its time into the next cycle, because it may go on at
    /// once.
    #[inline]
    fn charge(&mut self, hash: u64, more: u64) {
        let cell = &mut self.cells[cell(hash)];
        let before = if cell.cycle == self.cycle {
            cell.spent
        } else {
            0
        };
        if self.cycle_spent >= CYCLE * self.quantum {
            self.cycle_spent = 0;
            self.cycle = self.cycle.wrapping_add(1);
        }
        *cell = Cell {
            cycle: self.cycle,
            spent: before.saturating_add(more.min(self.quantum) as u32),
        };
    }

    /// Notes that a request which had its turn from the ring has ended in that turn, and how long it took.
    #[inline]
    pub(super) fn ended_in_turn(&mut self, place: usize, took: u64) {
        self.held[place].busy = false;
        self.turn_spent = self.turn_spent.saturating_add(took.max(self.least));
        if self.turn_spent < self.quantum || self.held[place].waiting.is_empty() {
            self.turn = Some(place);
        } else {
            self.ring.push_back(place);
        }
    }

    /// Notes that a request which had waited for something has ended.
    pub(super) fn ended_later(&mut self, place: usize) {
        self.held[place].busy = false;
        self.ring.push_back(place);
    }

    /// Returns whether the set of full keys has changed since the last call.
    pub(super) fn is_newly_full(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Returns the keys that are full. Clones keys.
    pub(super) fn full_keys(&self) -> FullKeys<K> {
        let full = self.held.iter().filter(|(_, held)| held.full);
        full.map(|(_, held)| (held.hash, held.key.clone()))
            .collect::<Vec<_>>()
            .into()
    }

    /// Takes all queued requests. Clones keys, which may panic; the requests not yet reached then stay.
    pub(super) fn take_all(&mut self, into: &mut Vec<(K, O)>) {
        for (_, held) in &mut self.held {
            while !held.waiting.is_empty() {
                let key = held.key.clone();
                into.extend(held.waiting.pop_front().map(|operation| (key, operation)));
            }
        }
    }

    /// Takes the remaining queued requests, without their keys.
    pub(super) fn take_rest(&mut self) -> Vec<O> {
        let queues = self
            .held
            .iter_mut()
            .map(|(_, held)| std::mem::take(&mut held.waiting));
        queues.flatten().collect()
    }
}
