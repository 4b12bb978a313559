//! The sleeps that only the holder of the core touches: their memory, in chunks.
//!
//! A sleep knows its nap by a key. So it may be dropped on any thread, or after its locality: only the holder of the
//! core looks for the nap. A key stays unique when its place is used again.

use std::{cell::Cell, num::NonZeroU64, ptr::NonNull, task::Waker};

use crate::fom::hand::timers::Timer;

/// Number of naps in a chunk: one for each bit of [`Chunk::free`].
const PER_CHUNK: usize = u64::BITS as usize;

/// Says which nap belongs to a sleep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NapKey {
    index: u32,
    serial: NonZeroU64,
}

/// What a sleep leaves in its locality, in a cache line of its own.
#[repr(C, align(64))]
pub(super) struct Nap {
    /// First, so that a pointer to the nap is a pointer to its timer, and to its node.
    timer: Timer,
    waker: Cell<Option<Waker>>,
    /// The serial of the key, or zero while the nap is free.
    serial: Cell<u64>,
    index: u32,
}

/// A place for a chunk.
#[derive(Default)]
struct Chunk {
    naps: Option<NonNull<[Nap; PER_CHUNK]>>,
    /// A bit for each nap that is free.
    free: u64,
}

/// All naps of a locality.
#[derive(Default)]
pub(super) struct Naps {
    chunks: Vec<Chunk>,
    /// The indexes of the chunks that have a free nap, or no memory.
    open: Vec<u32>,
    /// The last chunk that became empty, so that one sleep after the other needs no allocation.
    spare: Option<NonNull<[Nap; PER_CHUNK]>>,
    serial: u64,
}

impl Naps {
    /// Makes a nap. It does not move, and stays alive until [`end`](Self::end).
    pub(super) fn begin(&mut self, waker: Waker) -> (NonNull<Nap>, NapKey) {
        let place = self.open.last().copied().unwrap_or_else(|| {
            let place = u32::try_from(self.chunks.len()).expect("fewer sleeps than addresses");
            self.chunks.push(Chunk::default());
            self.open.push(place);
            place
        });
        let chunk = &mut self.chunks[place as usize];
        let naps = *chunk.naps.get_or_insert_with(|| {
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
        let pointer = nap_in(naps, offset as usize);
        // SAFETY: the chunk is alive, and only raw pointers lead to a free nap.
        unsafe {
            (*pointer.as_ptr()).index = index;
            (*pointer.as_ptr()).waker.set(Some(waker));
            (*pointer.as_ptr()).serial.set(serial.get());
        }
        (pointer, NapKey { index, serial })
    }

    /// Returns the nap, unless it has ended.
    pub(super) fn get(&self, key: NapKey) -> Option<NonNull<Nap>> {
        let index = key.index as usize;
        let naps = self.chunks.get(index / PER_CHUNK)?.naps?;
        let nap = nap_in(naps, index % PER_CHUNK);
        // SAFETY: the chunk is alive.
        (unsafe { nap.as_ref() }.serial.get() == key.serial.get()).then_some(nap)
    }

    /// Returns whether the nap goes on, and wakes this waker.
    pub(super) fn wakes(&self, key: NapKey, waker: &Waker) -> bool {
        self.get(key).is_some_and(|nap| {
            // SAFETY: `get` returns a nap that goes on.
            let cell = unsafe { &nap.as_ref().waker };
            let known = cell.take();
            let same = known.as_ref().is_some_and(|known| known.will_wake(waker));
            cell.set(known);
            same
        })
    }

    /// Ends a nap, whose timer is not armed, and returns its waker. The nap's memory may be gone afterwards.
    ///
    /// # Safety
    /// The nap goes on.
    pub(super) unsafe fn end(&mut self, nap: NonNull<Nap>) -> Option<Waker> {
        // SAFETY: the caller's promise.
        let nap = unsafe { nap.as_ref() };
        let waker = nap.waker.take();
        nap.serial.set(0);
        let index = nap.index as usize;
        let place = index / PER_CHUNK;
        let chunk = &mut self.chunks[place];
        if chunk.free == 0 {
            self.open.push(place as u32);
        }
        chunk.free |= 1 << (index % PER_CHUNK);
        if chunk.free == u64::MAX {
            // The place stays open, without memory.
            let empty = chunk.naps.take();
            if let Some(old) = std::mem::replace(&mut self.spare, empty) {
                free_chunk(old);
            }
        }
        waker
    }
}

impl Drop for Naps {
    fn drop(&mut self) {
        let naps = self.chunks.iter_mut().filter_map(|chunk| chunk.naps.take());
        naps.chain(self.spare.take()).for_each(free_chunk);
    }
}

fn new_chunk() -> NonNull<[Nap; PER_CHUNK]> {
    let naps = Box::new(std::array::from_fn(|_| Nap {
        timer: Timer::of_nap(),
        waker: Cell::new(None),
        serial: Cell::new(0),
        index: 0,
    }));
    let naps = NonNull::from(Box::leak(naps));
    // The wheel knows only the node, and `pop_due` makes the whole nap from it.
    naps.as_ptr().expose_provenance();
    naps
}

/// Takes a chunk that is in `Naps` no more.
fn free_chunk(naps: NonNull<[Nap; PER_CHUNK]>) {
    // SAFETY: the pointer came from the box of `new_chunk`, and its owner has just taken it out of `Naps`.
    drop(unsafe { Box::from_raw(naps.as_ptr()) });
}

fn nap_in(naps: NonNull<[Nap; PER_CHUNK]>, offset: usize) -> NonNull<Nap> {
    assert!(offset < PER_CHUNK);
    // SAFETY: the offset is inside the chunk.
    unsafe { naps.cast::<Nap>().add(offset) }
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
            .filter(|due| matches!(due, Due::Nap(Some(_))))
            .count()
    }

    #[test]
    fn a_key_outlives_its_nap() {
        let mut timers = Timers::new(0);
        let first = timers.arm_nap(waker(), 5);
        assert!(timers.nap_wakes(first, &waker()));
        assert_eq!(fires(&mut timers, 5), 1);
        let second = timers.arm_nap(waker(), 9);
        assert_eq!(first.index, second.index);
        assert!(!timers.nap_wakes(first, &waker()));
        assert!(timers.disarm_nap(first).is_none());
        assert!(timers.nap_wakes(second, &waker()));
        assert!(timers.disarm_nap(second).is_some());
        assert!(timers.disarm_nap(second).is_none());
        assert!(timers.is_empty());
    }

    #[test]
    fn a_burst_gives_its_memory_back() {
        const BURST: u64 = 10 * PER_CHUNK as u64;
        let mut timers = Timers::new(0);
        for _ in 0..2 {
            let keys: Vec<_> = (0..BURST).map(|at| timers.arm_nap(waker(), at)).collect();
            let has_memory = |timers: &Timers| {
                let chunks = timers.naps.chunks.iter();
                chunks.filter(|chunk| chunk.naps.is_some()).count()
            };
            assert_eq!(has_memory(&timers), 10);
            assert_eq!(fires(&mut timers, BURST / 2 - 1), BURST as usize / 2);
            let left = keys.into_iter().filter_map(|key| timers.disarm_nap(key));
            assert_eq!(left.count(), BURST as usize / 2);
            assert_eq!(has_memory(&timers), 0);
        }
        // The drop ends these.
        timers.arm_nap(waker(), 1);
        timers.arm_nap(waker(), u64::MAX);
    }
}
