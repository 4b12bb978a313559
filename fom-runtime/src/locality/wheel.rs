//! The timers of a locality: a hierarchical timer wheel whose lists go through what is armed.
//!
//! Arming and disarming link and unlink, whatever the number of timers; nothing is allocated, and nothing stays
//! behind.
//!
//! # Order
//!
//! [`Wheel::pop_due`] always gives the earliest of all nodes that are armed at that moment, and of those with equal
//! times the one that was armed first. That holds whatever was armed or disarmed since the call before, also for
//! past times.
//!
//! # How it works
//!
//! Time is cut into ticks. The wheel stands at one, `current`. What is armed for a later one is in a slot: one of
//! level 0 is for one tick, one of the next level for 64 of them, and so on, each beginning at a multiple of its
//! length. A level has the 64 slots after the one with `current` in it, so its places are used again round by
//! round. A node is put into the lowest level that surely reaches its tick.
//!
//! When the time comes to where a slot begins, its nodes go to lower levels, hence each at most as often as there
//! are levels; the wheel stands at the tick before then, and never jumps over a slot. One word a level says which
//! of its slots hold something, so ticks without timers cost nothing, however many the clock jumps over.
//!
//! What is in a slot of level 0 then goes to the [`Runs`], which are sorted, and so does what is armed for
//! `current` and earlier. All of it is earlier than all in the slots.
//!
//! # Why equal times keep their order
//!
//! Of two nodes for the same time, the one armed first is before the other one in the same list, or in a higher
//! level:
//!
//! - The wheel only comes nearer to a time, so what is armed for it later goes to the same level (and there to the
//!   same slot, to its end) or to a lower one.
//! - What is spread is put to the beginning of its new slots. Of slots that begin at the same tick, the lower one
//!   is spread first. Let a node come from level `k` to level `j`, and a younger one be between, in a slot of level
//!   `m` with `j < m < k`. That slot begins later than the one that is spread, so at least 64^`m` ticks later, and
//!   so is the time of both. But then level `m - 1` does not reach that far, and `j` would be `m` at least.
//! - A slot of level 0 is sorted when no slot of a higher level begins with its tick: all of that tick is in it.

mod ring;
mod runs;
#[cfg(all(test, not(any(fom_loom, fom_shuttle))))]
mod tests;

use std::ptr::NonNull;

pub(crate) use self::ring::Node;
use self::{
    ring::{Heads, Links},
    runs::Runs,
};

/// A tick is so many bits of a time: 262 µs.
const TICK: u32 = 18;
/// The slots of a level are numbered by so many bits of a tick; a slot of the next level is as long as all of them.
const DIGIT: u32 = 6;
const PER_LEVEL: usize = 1 << DIGIT;
/// All of 64 bits: there is no time that is too far.
const LEVELS: usize = (u64::BITS - TICK).div_ceil(DIGIT) as usize;
/// Of the highest level there are only those that a time can fall into.
const SLOTS: usize =
    1 + (u64::MAX >> TICK >> (DIGIT * (LEVELS as u32 - 1))) as usize + (LEVELS - 1) * PER_LEVEL;

/// Timers in the order of their times: see the module.
pub(crate) struct Wheel {
    /// Those of all levels, the lowest level first.
    slots: Heads<SLOTS>,
    /// What is armed for `current` and before.
    runs: Runs,
    /// The tick at which the wheel stands.
    current: u64,
    /// For each level which slots hold something.
    occupied: [u64; LEVELS],
    /// For each occupied slot of the lowest level a time that no node there is before. Exact until a node is
    /// disarmed.
    earliest: [u64; PER_LEVEL],
}

/// A slot that holds something.
struct Slot {
    level: usize,
    digit: usize,
    /// Its first tick.
    start: u64,
}

// SAFETY: `Wheel::arm` makes its caller promise that armed nodes are only touched by the thread that has the wheel.
unsafe impl Send for Wheel {}

impl Wheel {
    /// An empty wheel that stands at `now`, in nanoseconds. What is armed for a time before costs more: it is
    /// sorted at once.
    pub(crate) fn new(now: u64) -> Self {
        Self {
            slots: Heads::new(),
            runs: Runs::new(),
            current: now >> TICK,
            occupied: [0; LEVELS],
            earliest: [0; PER_LEVEL],
        }
    }

    /// Arms a node for a time in nanoseconds. One that is armed already is moved, as if it had been disarmed before.
    ///
    /// # Safety Until the node is disarmed or popped, or the wheel is dropped, it stays where it is and alive, and
    /// is touched only by the thread that has the wheel. It is in no other wheel. What [`pop_due`](Self::pop_due)
    /// gives is this very pointer: it is good for all that the caller will do with that.
    pub(crate) unsafe fn arm(&mut self, node: NonNull<Node>, at: u64) {
        // SAFETY: the node is alive, in this wheel or in none, and in none after it was disarmed.
        unsafe {
            self.disarm(node);
            node.as_ref().set_at(at);
            if at >> TICK <= self.current {
                self.runs.add(node);
            } else {
                ring::insert(node, self.slot_of(at));
            }
        }
    }

    /// Takes a node out; nothing happens when it is not armed.
    ///
    /// # Safety
    /// The node is alive, and armed in no other wheel.
    pub(crate) unsafe fn disarm(&mut self, node: NonNull<Node>) {
        // SAFETY: the node is alive.
        if unsafe { node.as_ref() }.is_armed() {
            // SAFETY: what is armed in this wheel is linked in a ring of it.
            unsafe { self.unlink(node) };
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.occupied.iter().all(|slots| *slots == 0)
    }

    /// A time that no armed node is before: that of the earliest one if it is near and none before it was disarmed,
    /// else one at which `pop_due` learns more. When `pop_due` says that nothing is due at a time, this one is
    /// later.
    pub(crate) fn next_at(&self) -> Option<u64> {
        if let Some(first) = self.runs.first() {
            // SAFETY: what is in a run is armed, so alive.
            return Some(unsafe { first.as_ref() }.at());
        }
        self.first_slots()
            .map(|slot| match slot.level {
                0 => self.earliest[slot.digit],
                _ => slot.start << TICK,
            })
            .min()
    }

    /// Takes out the earliest node if its time is not after `now`, in nanoseconds.
    pub(crate) fn pop_due(&mut self, now: u64) -> Option<NonNull<Node>> {
        loop {
            if let Some(first) = self.runs.first() {
                // SAFETY: what is in a run is armed, so alive and linked.
                unsafe {
                    if first.as_ref().at() > now {
                        return None;
                    }
                    self.unlink(first);
                }
                return Some(first);
            }
            // Of those that begin first, level 0 comes last.
            let slot = self
                .first_slots()
                .min_by_key(|slot| (slot.start, slot.level.wrapping_sub(1)));
            match slot {
                Some(slot) if slot.start <= now >> TICK => self.empty(slot),
                _ => {
                    // Before the beginning of every slot.
                    self.current = self.current.max(now >> TICK);
                    return None;
                }
            }
        }
    }

    /// The head of the slot for a time after the current tick. The slot counts as occupied from here on.
    fn slot_of(&mut self, at: u64) -> *mut Links {
        let tick = at >> TICK;
        let level = ((tick - self.current - 1) | 1).ilog2() / DIGIT;
        let digit = (tick >> (level * DIGIT)) as usize % PER_LEVEL;
        let level = level as usize;
        if level == 0 {
            let known = self.occupied[0] & (1 << digit) != 0;
            let earliest = &mut self.earliest[digit];
            *earliest = if known { at.min(*earliest) } else { at };
        }
        self.occupied[level] |= 1 << digit;
        self.slots.get(level * PER_LEVEL + digit)
    }

    /// Moves the wheel to a slot that no other begins before, and what is in there to lower levels or to the runs.
    fn empty(&mut self, slot: Slot) {
        let head = self.slots.get(slot.level * PER_LEVEL + slot.digit);
        self.occupied[slot.level] &= !(1 << slot.digit);
        if slot.level > 0 {
            self.current = slot.start - 1;
            self.spread(head);
        } else {
            self.current = slot.start;
            self.sort(head);
        }
    }

    /// Moves all nodes of a slot to lower levels.
    fn spread(&mut self, head: *mut Links) {
        // SAFETY: a ring is linked all round, and what is not its head is an armed node, so alive. It is in no ring
        // between `unlink` and `insert`. The scout is between the head and the node that is moved next.
        unsafe {
            // Memory is what is waited for here. A scout from the other side, until they meet, makes it two waits
            // at a time.
            let mut scout = Some(ring::next(head));
            while ring::prev(head) != head {
                let last = ring::prev(head);
                scout = scout
                    .filter(|member| *member != last)
                    .map(|member| ring::next(member))
                    .filter(|member| *member != last);
                let node = NonNull::new_unchecked(last.cast::<Node>());
                ring::unlink(node);
                let slot = self.slot_of(node.as_ref().at());
                ring::insert(node, ring::next(slot));
            }
        }
    }

    /// Moves all nodes of a slot to one run.
    fn sort(&mut self, head: *mut Links) {
        // SAFETY: as in `spread`. Runs that are said to be there are rings, and two of different ranks not the same.
        unsafe {
            while ring::next(head) != head {
                let node = NonNull::new_unchecked(ring::next(head).cast::<Node>());
                ring::unlink(node);
                self.runs.add(node);
            }
        }
        self.runs.join();
    }

    /// Of each level the slot that begins first of those that hold something.
    fn first_slots(&self) -> impl Iterator<Item = Slot> {
        let levels = self.occupied.iter().enumerate();
        levels
            .filter(|(_, slots)| **slots != 0)
            .map(|(level, slots)| {
                let shift = level as u32 * DIGIT;
                // The slots of a level that can hold something are the next 64 after that of the current tick.
                let next = (self.current >> shift) + 1;
                let ahead = slots.rotate_right(next as u32 % u64::BITS).trailing_zeros();
                let number = next + u64::from(ahead);
                Slot {
                    level,
                    digit: number as usize % PER_LEVEL,
                    start: number << shift,
                }
            })
    }

    /// # Safety
    /// The node is armed in this wheel.
    unsafe fn unlink(&mut self, node: NonNull<Node>) {
        // SAFETY: what is armed is linked.
        if let Some(head) = unsafe { ring::unlink(node) }
            && !self.runs.left_empty(head)
            && let Some(slot) = self.slots.index_of(head)
        {
            self.occupied[slot / PER_LEVEL] &= !(1 << (slot % PER_LEVEL));
        }
    }
}
