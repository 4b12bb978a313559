//! The sleeps that only the holder of the core touches: their memory, in chunks.
//!
//! A sleep knows its entry by a key. So it may be dropped on any thread, or after its locality: only the holder of the
//! core looks for the entry. A key stays unique when its place is used again.

use std::{cell::Cell, num::NonZeroU64, ptr::NonNull, task::Waker};

use crate::fom::hand::timers::Timer;

/// Number of entries in a chunk: one for each bit of [`Chunk::free`].
const PER_CHUNK: usize = u64::BITS as usize;

/// Says which entry belongs to a sleep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimerKey {
    index: u32,
    serial: NonZeroU64,
}

/// What a sleep leaves in its locality, in a cache line of its own.
#[repr(C, align(64))]
pub(super) struct TimerEntry {
    /// First, so that a pointer to the entry is a pointer to its timer, and to its node.
    timer: Timer,
    waker: Cell<Option<Waker>>,
    /// The serial of the key, or zero while the entry is free.
    serial: Cell<u64>,
    index: u32,
}

/// A place for a chunk.
#[derive(Default)]
struct Chunk {
    entries: Option<NonNull<[TimerEntry; PER_CHUNK]>>,
    /// A bit for each entry that is free.
    free: u64,
}

/// All entries of a locality.
#[derive(Default)]
pub(super) struct TimerSlab {
    chunks: Vec<Chunk>,
    /// The indexes of the chunks that have a free entry, or no memory.
    open: Vec<u32>,
    /// The last chunk that became empty, so that one sleep after the other needs no allocation.
    spare: Option<NonNull<[TimerEntry; PER_CHUNK]>>,
    serial: u64,
}

impl TimerSlab {
    /// Makes an entry. It does not move, and stays alive until [`end`](Self::end).
    pub(super) fn begin(&mut self, waker: Waker) -> (NonNull<TimerEntry>, TimerKey) {
        let place = self.open.last().copied().unwrap_or_else(|| {
            let place = u32::try_from(self.chunks.len()).expect("fewer sleeps than addresses");
            self.chunks.push(Chunk::default());
            self.open.push(place);
            place
        });
        let chunk = &mut self.chunks[place as usize];
        let entries = *chunk.entries.get_or_insert_with(|| {
            chunk.free = u64::MAX;
            self.spare.take().unwrap_or_else(new_chunk)
        });
        let offset = chunk.free.trailing_zeros();
        chunk.free &= chunk.free - 1;
        if chunk.free == 0 {
            self.open.pop();
        }
        self.serial += 1;
        let serial = NonZeroU64::new(self.serial).expect("fewer sleeps than numbers");
        let index = place
            .checked_mul(PER_CHUNK as u32)
            .expect("fewer sleeps than numbers")
            + offset;
        let pointer = entry_in(entries, offset as usize);
        // SAFETY: the chunk is alive, and only raw pointers lead to a free entry.
        unsafe {
            (*pointer.as_ptr()).index = index;
            (*pointer.as_ptr()).waker.set(Some(waker));
            (*pointer.as_ptr()).serial.set(serial.get());
        }
        (pointer, TimerKey { index, serial })
    }

    /// Returns the entry, unless it has ended.
    pub(super) fn get(&self, key: TimerKey) -> Option<NonNull<TimerEntry>> {
        let index = key.index as usize;
        let entries = self.chunks.get(index / PER_CHUNK)?.entries?;
        let entry = entry_in(entries, index % PER_CHUNK);
        // SAFETY: the chunk is alive.
        (unsafe { entry.as_ref() }.serial.get() == key.serial.get()).then_some(entry)
    }

    /// Returns whether the entry wakes this waker, or `None` if it has ended.
    pub(super) fn wakes(&self, key: TimerKey, waker: &Waker) -> Option<bool> {
        self.get(key).map(|entry| {
            // SAFETY: `get` returns an entry that goes on.
            let cell = unsafe { &entry.as_ref().waker };
            let known = cell.take();
            let same = known.as_ref().is_some_and(|known| known.will_wake(waker));
            cell.set(known);
            same
        })
    }

    /// Ends an entry, whose timer is not armed, and returns its waker. The entry's memory may be gone afterwards.
    ///
    /// # Safety
    /// The entry goes on.
    pub(super) unsafe fn end(&mut self, entry: NonNull<TimerEntry>) -> Option<Waker> {
        // SAFETY: the caller's promise.
        let entry = unsafe { entry.as_ref() };
        let waker = entry.waker.take();
        entry.serial.set(0);
        let index = entry.index as usize;
        let place = index / PER_CHUNK;
        let chunk = &mut self.chunks[place];
        if chunk.free == 0 {
            self.open.push(place as u32);
        }
        chunk.free |= 1 << (index % PER_CHUNK);
        if chunk.free == u64::MAX {
            // The place stays open, without memory.
            let empty = chunk.entries.take();
            if let Some(old) = std::mem::replace(&mut self.spare, empty) {
                free_chunk(old);
            }
        }
        waker
    }
}

impl Drop for TimerSlab {
    fn drop(&mut self) {
        let entries = self
            .chunks
            .iter_mut()
            .filter_map(|chunk| chunk.entries.take());
        entries.chain(self.spare.take()).for_each(free_chunk);
    }
}

fn new_chunk() -> NonNull<[TimerEntry; PER_CHUNK]> {
    let entries = Box::new(std::array::from_fn(|_| TimerEntry {
        timer: Timer::of_entry(),
        waker: Cell::new(None),
        serial: Cell::new(0),
        index: 0,
    }));
    let entries = NonNull::from(Box::leak(entries));
    // The wheel knows only the node, and `pop_due` makes the whole entry from it.
    entries.as_ptr().expose_provenance();
    entries
}

/// Takes a chunk that is in `TimerSlab` no more.
fn free_chunk(entries: NonNull<[TimerEntry; PER_CHUNK]>) {
    // SAFETY: the pointer came from the box of `new_chunk`, and its owner has just taken it out of `TimerSlab`.
    drop(unsafe { Box::from_raw(entries.as_ptr()) });
}

fn entry_in(entries: NonNull<[TimerEntry; PER_CHUNK]>, offset: usize) -> NonNull<TimerEntry> {
    assert!(offset < PER_CHUNK);
    // SAFETY: the offset is inside the chunk.
    unsafe { entries.cast::<TimerEntry>().add(offset) }
}

#[cfg(all(test, not(fom_shuttle)))]
mod tests {
    use super::*;
    use crate::fom::hand::timers::{Due, Timers};

    fn waker() -> Waker {
        Waker::noop().clone()
    }

    fn fires(timers: &mut Timers, now: u64) -> usize {
        std::iter::from_fn(|| timers.pop_due(now))
            .filter(|due| matches!(due, Due::Entry(Some(_))))
            .count()
    }

    #[test]
    fn a_key_outlives_its_entry() {
        let mut timers = Timers::new(0);
        let first = timers.arm_entry(waker(), 5);
        assert_eq!(timers.entry_wakes(first, &waker()), Some(true));
        assert_eq!(fires(&mut timers, 5), 1);
        let second = timers.arm_entry(waker(), 9);
        assert_eq!(first.index, second.index);
        assert_eq!(timers.entry_wakes(first, &waker()), None);
        assert!(timers.disarm_entry(first).is_none());
        assert_eq!(timers.entry_wakes(second, &waker()), Some(true));
        assert!(timers.disarm_entry(second).is_some());
        assert!(timers.disarm_entry(second).is_none());
        assert!(timers.is_empty());
    }

    #[test]
    fn a_burst_gives_its_memory_back() {
        const BURST: u64 = 10 * PER_CHUNK as u64;
        let mut timers = Timers::new(0);
        for _ in 0..2 {
            let keys: Vec<_> = (0..BURST).map(|at| timers.arm_entry(waker(), at)).collect();
            let has_memory = |timers: &Timers| {
                let chunks = timers.slab.chunks.iter();
                chunks.filter(|chunk| chunk.entries.is_some()).count()
            };
            assert_eq!(has_memory(&timers), 10);
            assert_eq!(fires(&mut timers, BURST / 2 - 1), BURST as usize / 2);
            let left = keys.into_iter().filter_map(|key| timers.disarm_entry(key));
            assert_eq!(left.count(), BURST as usize / 2);
            assert_eq!(has_memory(&timers), 0);
        }
        // The drop ends these.
        timers.arm_entry(waker(), 1);
        timers.arm_entry(waker(), u64::MAX);
    }
}
