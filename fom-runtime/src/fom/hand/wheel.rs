//! The timers of a locality: a hierarchical timer wheel of lists that link the armed nodes.
//!
//! Arming and disarming only link and unlink, whatever the number of timers. Nothing is allocated, and nothing stays
//! behind.
//!
//! # Order
//!
//! [`Wheel::pop_due`] always returns the earliest of all nodes armed at that moment. Of nodes with equal times it
//! returns the one armed first. Both hold whatever was armed or disarmed since the last call, and also for past
//! times.
//!
//! # How it works
//!
//! Time is cut into ticks. The wheel stands at one tick, `current`. A node armed for a later tick is in a slot. A
//! slot of level 0 covers one tick, a slot of level 1 covers 64 ticks, and so on. Each slot begins at a multiple of
//! its length. A level has the 64 slots after the one that contains `current`, so its places are used again round by
//! round. A node goes into the lowest level that surely reaches its tick.
//!
//! When the time reaches the beginning of a slot, the slot's nodes go to lower levels. So a node moves at most as
//! often as there are levels. At that moment the wheel stands at the tick before, and it never jumps over a slot.
//! One word per level says which of its slots hold nodes. So ticks without timers cost nothing, however many the
//! clock skips.
//!
//! In the lowest levels, a slot has several rings, each for an equal part of its time. Nodes lie anywhere in memory, so
//! most of the time goes into reaching them. The members of one ring are reached one after the other, those of different
//! rings at once.
//!
//! The nodes of a slot of level 0 then go to the [`Runs`], which are sorted. So do nodes armed for `current` or
//! earlier. All nodes in the runs are earlier than all nodes in the slots.
//!
//! # Why equal times keep their order
//!
//! Of two nodes for the same time, the node armed first precedes the other in the same list, or is in a higher
//! level:
//!
//! - The wheel only comes nearer to a time. So a node armed later for that time goes to a lower level, or to the end
//!   of the same slot.
//! - Nodes that are spread go to the beginning of their new slots. Of slots that begin at the same tick, the lower
//!   one is spread first. Suppose a node moves from level `k` to level `j`, and a younger node is in a slot of level
//!   `m` with `j < m < k`. The younger node's slot begins later than the slot that is spread, so at least 64^`m`
//!   ticks later. So does the time of both nodes. But then level `m - 1` does not reach that far, and `j` would be
//!   at least `m`.
//! - A slot of level 0 is sorted when no slot of a higher level begins with its tick. So the slot holds all nodes of
//!   that tick.

mod ring;
mod runs;
#[cfg(all(test, not(fom_shuttle)))]
mod tests;

use std::ptr::NonNull;

pub(crate) use self::ring::Node;
use self::{
    ring::{Heads, Links},
    runs::Runs,
};

/// Number of time bits below a tick. A tick is 262 µs.
const TICK: u32 = 18;
/// Number of tick bits that number the slots of a level. A slot of the next level is as long as all slots of this
/// level.
const DIGIT: u32 = 6;
const PER_LEVEL: usize = 1 << DIGIT;
/// Number of levels. They cover all 64 bits, so no time is too far.
const LEVELS: usize = (u64::BITS - TICK).div_ceil(DIGIT) as usize;
/// The highest level has only the slots that a time can fall into.
const SLOTS: usize =
    1 + (u64::MAX >> TICK >> (DIGIT * (LEVELS as u32 - 1))) as usize + (LEVELS - 1) * PER_LEVEL;
/// Number of levels with several rings in a slot. All timers come through them that are not disarmed long before.
const WIDE: usize = 2;
/// Number of rings in a slot of those levels.
const WAYS: usize = 1 << WAY;
const WAY: u32 = 3;
const RINGS: usize = SLOTS + WIDE * PER_LEVEL * (WAYS - 1);

/// Timers in the order of their times; see the module.
pub(crate) struct Wheel {
    /// The rings of the slots of all levels, the lowest level first.
    rings: Heads<RINGS>,
    /// The nodes armed for `current` and before.
    runs: Runs,
    /// The tick at which the wheel stands.
    current: u64,
    /// For each level, a bit for each slot that holds nodes.
    occupied: [u64; LEVELS],
    /// For each occupied slot of the lowest level, a time that none of its nodes is before. Exact until a node is
    /// disarmed.
    earliest: [u64; PER_LEVEL],
}

/// Returns the number of rings in a slot of this level.
const fn ways(level: usize) -> usize {
    if level < WIDE { WAYS } else { 1 }
}

/// Returns the ring of its slot that a node for this time goes to: each ring has an equal part of the slot's time.
fn way_of(at: u64, level: usize) -> usize {
    let below = TICK + level as u32 * DIGIT - WAY;
    (at >> below) as usize % ways(level)
}

/// A slot that holds nodes.
struct Slot {
    level: usize,
    digit: usize,
    /// The first tick of the slot.
    start: u64,
}

// SAFETY: `Wheel::arm` makes its caller promise that only the thread that has the wheel touches armed nodes.
unsafe impl Send for Wheel {}

impl Wheel {
    /// Creates an empty wheel that stands at `now`, in nanoseconds. Arming a node for an earlier time costs more,
    /// because the node is sorted immediately.
    pub(crate) fn new(now: u64) -> Self {
        Self {
            rings: Heads::new(),
            runs: Runs::new(),
            current: now >> TICK,
            occupied: [0; LEVELS],
            earliest: [0; PER_LEVEL],
        }
    }

    /// Arms a node for a time in nanoseconds. A node that is armed already is disarmed first.
    ///
    /// # Safety
    ///
    /// Until the node is disarmed or popped, or the wheel is dropped, the node stays in place and alive. Only the
    /// thread that has the wheel touches it, and it is in no other wheel. [`pop_due`](Self::pop_due) returns this
    /// very pointer, so the pointer must be valid for all that the caller will do with the result.
    // SAFETY (caller): as the section above says.
    pub(crate) unsafe fn arm(&mut self, node: NonNull<Node>, at: u64) {
        // SAFETY: the node is alive. It is in this wheel or in none, and in none once it is disarmed.
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

    /// Takes a node out of the wheel. Does nothing if the node is not armed.
    ///
    /// # Safety
    /// The node is alive, and armed in no other wheel.
    pub(crate) unsafe fn disarm(&mut self, node: NonNull<Node>) {
        // SAFETY: the node is alive.
        if unsafe { node.as_ref() }.is_armed() {
            // SAFETY: a node armed in this wheel is linked in one of its rings.
            unsafe { self.unlink(node) };
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.occupied.iter().all(|slots| *slots == 0)
    }

    /// Returns a time that no armed node is before, or `None` if the wheel is empty. If the earliest node is near
    /// and no earlier one was disarmed, this is the time of that node. Otherwise it is a time at which `pop_due`
    /// learns more. Once `pop_due` returns `None` for a time, the result is later than that time.
    pub(crate) fn next_at(&self) -> Option<u64> {
        if let Some(first) = self.runs.first() {
            // SAFETY: a node in a run is armed, so it is alive.
            return Some(unsafe { first.as_ref() }.at());
        }
        self.first_slots()
            .map(|slot| match slot.level {
                0 => self.earliest[slot.digit],
                _ => slot.start << TICK,
            })
            .min()
    }

    /// Takes out and returns the earliest node if its time is not after `now`, in nanoseconds.
    pub(crate) fn pop_due(&mut self, now: u64) -> Option<NonNull<Node>> {
        loop {
            if let Some(first) = self.runs.first() {
                // SAFETY: a node in a run is armed, so it is alive and linked.
                unsafe {
                    if first.as_ref().at() > now {
                        return None;
                    }
                    self.unlink(first);
                }
                return Some(first);
            }
            // Of the slots that begin first, the one of level 0 comes last.
            let slot = self
                .first_slots()
                .min_by_key(|slot| (slot.start, slot.level.wrapping_sub(1)));
            match slot {
                Some(slot) if slot.start <= now >> TICK => self.empty(slot),
                _ => {
                    // All slots begin later.
                    self.current = self.current.max(now >> TICK);
                    return None;
                }
            }
        }
    }

    /// Returns the head of the slot for a time after the current tick. The slot counts as occupied from here on.
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
        self.ring(level, digit, way_of(at, level))
    }

    /// Returns the head of a ring of a slot.
    fn ring(&self, level: usize, digit: usize, way: usize) -> *mut Links {
        self.rings.get(match level < WIDE {
            true => (level * PER_LEVEL + digit) * WAYS + way,
            false => level * PER_LEVEL + digit + RINGS - SLOTS,
        })
    }

    /// Returns the heads of the rings of a slot, in the order of their times, and their number.
    fn rings_of(&self, level: usize, digit: usize) -> ([*mut Links; WAYS], usize) {
        let ways = ways(level);
        let heads = std::array::from_fn(|way| self.ring(level, digit, way % ways));
        (heads, ways)
    }

    /// Moves the wheel to a slot before which no other begins, and the slot's nodes to lower levels or to the runs.
    fn empty(&mut self, slot: Slot) {
        self.occupied[slot.level] &= !(1 << slot.digit);
        if slot.level > 0 {
            self.current = slot.start - 1;
            self.spread(slot.level, slot.digit);
        } else {
            self.current = slot.start;
            self.sort(slot.digit);
        }
    }

    /// Moves all nodes of a slot to lower levels.
    fn spread(&mut self, level: usize, digit: usize) {
        let (heads, ways) = self.rings_of(level, digit);
        let heads = &heads[..ways];
        // SAFETY: a ring is linked all round. A member other than the head is an armed node, so it is alive. A node
        // is in no ring between `unlink` and `insert`. A scout is between the head and the node that is moved next.
        unsafe {
            // Memory accesses take the time here. A scout from the other side of each ring makes it two at a time,
            // until the two meet.
            let mut scouts = [None; WAYS];
            for (head, scout) in heads.iter().zip(&mut scouts) {
                *scout = Some(ring::next(*head));
            }
            let mut goes_on = true;
            while goes_on {
                goes_on = false;
                for (head, scout) in heads.iter().zip(&mut scouts) {
                    let last = ring::prev(*head);
                    if last == *head {
                        continue;
                    }
                    goes_on = true;
                    *scout = scout
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
    }

    /// Moves all nodes of a slot of level 0 to one run.
    fn sort(&mut self, digit: usize) {
        let (heads, _) = self.rings_of(0, digit);
        // SAFETY: as in `spread`. Each rank marked in `there` has a ring, and different ranks have different rings.
        unsafe {
            ring::reach(&heads);
            for head in heads {
                while ring::next(head) != head {
                    let node = NonNull::new_unchecked(ring::next(head).cast::<Node>());
                    ring::unlink(node);
                    self.runs.add(node);
                }
            }
        }
        self.runs.join();
    }

    /// Returns, for each level, the slot that begins first among those that hold nodes.
    fn first_slots(&self) -> impl Iterator<Item = Slot> {
        let levels = self.occupied.iter().enumerate();
        levels
            .filter(|(_, slots)| **slots != 0)
            .map(|(level, slots)| {
                let shift = level as u32 * DIGIT;
                // Only the next 64 slots of a level, after the one of the current tick, can hold nodes.
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
        // SAFETY: an armed node is linked.
        if let Some(head) = unsafe { ring::unlink(node) }
            && !self.runs.left_empty(head)
            && let Some(ring) = self.rings.index_of(head)
        {
            let slot = match ring < WIDE * PER_LEVEL * WAYS {
                true => ring / WAYS,
                false => ring - (RINGS - SLOTS),
            };
            let (level, digit) = (slot / PER_LEVEL, slot % PER_LEVEL);
            let (heads, ways) = self.rings_of(level, digit);
            // SAFETY: heads are linked.
            let is_empty = |head: &*mut Links| unsafe { ring::is_empty(*head) };
            if heads[..ways].iter().all(is_empty) {
                self.occupied[level] &= !(1 << digit);
            }
        }
    }
}
