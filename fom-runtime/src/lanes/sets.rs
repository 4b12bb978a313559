//! All lanes of one locality: which value owns them, and how a turn reaches the lanes that it runs.
//!
//! A turn knows the type of its lanes, and finds them once for all of its requests. While a request is in a blocking
//! section, another thread has the core. That thread reaches the same lanes, through [`LaneSets`] or in a turn of its
//! own. So a turn must keep neither a reference nor a pointer that was made from a reference: the next reference of the
//! other thread would invalidate it. The turn keeps a copy of the pointer that owns the lanes. Each reference is made
//! from that pointer and borrows the core, so there is never more than one.

use std::{collections::VecDeque, ptr::NonNull, sync::Arc};

use slab::Slab;

use crate::{
    lanes::{Common, LaneKey, home::Lanes},
    locality::Core,
    operation::Operation,
};

/// A function that runs one turn of lanes of some type.
pub(super) type Turn = fn(Box<Core>, usize) -> Box<Core>;

/// All lanes of one locality.
#[derive(Default)]
pub(crate) struct LaneSets {
    sets: Slab<Set>,
    /// The lanes with requests to run, or with an inlet to read.
    ready: VecDeque<usize>,
}

struct Set {
    lanes: Owned,
    ready: bool,
    /// Whether no handle can push any more. The set goes when it is empty.
    retired: bool,
}

/// Lanes of any type.
pub(super) trait AnyLanes: Send {
    /// The address of what the lanes share. It identifies them.
    fn address(&self) -> usize;
    fn turn(&self) -> Turn;
    fn ended_later(&mut self, key: usize);
}

/// A box of lanes, as a pointer. Moving a `Box`, or access through it, would invalidate the pointer that a turn keeps.
pub(super) struct Owned(NonNull<dyn AnyLanes>);

// SAFETY: the value owns the lanes, which are `Send`.
unsafe impl Send for Owned {}

impl Owned {
    fn new(lanes: impl AnyLanes + 'static) -> Self {
        let lanes: Box<dyn AnyLanes> = Box::new(lanes);
        Self(NonNull::from(Box::leak(lanes)))
    }

    fn get(&self) -> &dyn AnyLanes {
        // SAFETY: the lanes live until `self` is dropped. A turn's reference borrows the core, and `self` is in the
        // core.
        unsafe { self.0.as_ref() }
    }

    fn get_mut(&mut self) -> &mut dyn AnyLanes {
        // SAFETY: as above.
        unsafe { self.0.as_mut() }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a box in `new`. Nothing else reaches the lanes: a set goes with the core, or
        // when it has no turn and no request in flight.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// The lanes of the current turn, found once for the whole turn.
pub(super) struct Reached<O: Operation, K: LaneKey> {
    lanes: NonNull<Lanes<O, K>>,
    place: usize,
}

impl<O: Operation, K: LaneKey> Reached<O, K> {
    /// Returns the lanes, and borrows the core for as long. All other code that reaches these lanes needs the core too.
    #[inline]
    pub(super) fn get<'a>(&'a self, core: &'a mut Core) -> &'a mut Lanes<O, K> {
        debug_assert!(
            core.lanes.owns(self.place, self.lanes.cast()),
            "lanes are reached that are gone, or of another locality"
        );
        let mut lanes = self.lanes;
        // SAFETY: the turn of a set made the pointer, and the set has this type. The set lives as long as this turn,
        // and as long as each request in flight. The pointer is a copy of the one that owns the lanes. All other
        // references to the lanes have ended: each of them borrowed the core, as this one does.
        unsafe { lanes.as_mut() }
    }
}

impl LaneSets {
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns how many sets have work.
    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Takes the next set that has work.
    pub(super) fn next_turn(&mut self) -> Option<(usize, Turn)> {
        let place = self.ready.pop_front()?;
        let set = &mut self.sets[place];
        set.ready = false;
        Some((place, set.lanes.get().turn()))
    }

    pub(super) fn make_ready(&mut self, place: usize) {
        let set = &mut self.sets[place];
        if !std::mem::replace(&mut set.ready, true) {
            self.ready.push_back(place);
        }
    }

    /// Makes all sets ready, so that each notices that the runtime is closed.
    pub(crate) fn make_all_ready(&mut self) {
        let places: Vec<_> = self.sets.iter().map(|(place, _)| place).collect();
        for place in places {
            self.make_ready(place);
        }
    }

    /// Returns the lanes at this place, for their turn, which knows their type.
    pub(super) fn of<O: Operation, K: LaneKey>(&self, place: usize) -> Reached<O, K> {
        Reached {
            lanes: self.sets[place].lanes.0.cast(),
            place,
        }
    }

    fn owns(&self, place: usize, lanes: NonNull<()>) -> bool {
        let set = self.sets.get(place);
        set.is_some_and(|set| set.lanes.0.cast() == lanes)
    }

    /// Notes that a request that had waited has ended. Called on the thread that holds the core.
    pub(crate) fn ended_later(&mut self, ticket: LanePlace) {
        let lanes = &mut self.sets[ticket.place()].lanes;
        lanes.get_mut().ended_later(ticket.key());
        self.make_ready(ticket.place());
    }

    fn find(&self, address: usize) -> Option<usize> {
        let mut sets = self.sets.iter();
        sets.find(|(_, set)| set.lanes.get().address() == address)
            .map(|(place, _)| place)
    }

    /// Notes that the inlet of these lanes is no longer empty.
    pub(super) fn signal<O: Operation, K: LaneKey>(
        &mut self,
        common: Arc<Common<O, K>>,
        index: usize,
    ) {
        let place = self.find(Arc::as_ptr(&common).addr()).unwrap_or_else(|| {
            self.sets.insert(Set {
                lanes: Owned::new(Lanes::new(common, index)),
                ready: false,
                retired: false,
            })
        });
        self.make_ready(place);
    }

    /// Notes that no handle pushes to these lanes any more.
    pub(super) fn retire<O: Operation, K: LaneKey>(&mut self, common: &Arc<Common<O, K>>) {
        if let Some(place) = self.find(Arc::as_ptr(common).addr()) {
            self.sets[place].retired = true;
            self.make_ready(place);
        }
    }

    /// Takes a set out if no handle pushes to it any more and it has no work. The caller has checked that nothing is in
    /// flight.
    pub(super) fn take_retired(&mut self, place: usize) -> Option<Owned> {
        let set = &self.sets[place];
        (set.retired && !set.ready).then(|| self.sets.remove(place).lanes)
    }
}

/// The place of a fom's key in its lanes, as one number. It is kept with the fom while the fom waits.
#[derive(Clone, Copy)]
pub(crate) struct LanePlace(u64);

impl LanePlace {
    pub(super) fn new(place: usize, key: usize) -> Self {
        // Zero stands for no place.
        Self((place as u64) << 40 | (key as u64 + 1))
    }

    pub(crate) fn from_word(word: u64) -> Option<Self> {
        (word != 0).then_some(Self(word))
    }

    pub(crate) fn word(self) -> u64 {
        self.0
    }

    fn place(self) -> usize {
        (self.0 >> 40) as usize
    }

    fn key(self) -> usize {
        (self.0 & ((1 << 40) - 1)) as usize - 1
    }
}
