//! All lanes of one locality: who owns them, and how a turn reaches those that it runs.
//!
//! A turn knows the type of its lanes, and finds them once for all of its requests. While a request is in a blocking section, another
//! thread has the core, and reaches the same lanes: through [`LaneSets`] or in a turn of its own. So a turn must not keep a reference,
//! and no pointer that was made from one: the next reference of the other thread would end it. It keeps a copy of the pointer that
//! owns the lanes. All references are made from that, and each borrows the core, so there is never more than one.

use std::{collections::VecDeque, ptr::NonNull, sync::Arc};

use slab::Slab;

use crate::{
    lanes::{LaneKey, Shared, home::Lanes},
    locality::Core,
    operation::Operation,
};

/// A turn of lanes of some type.
pub(super) type Turn = fn(Box<Core>, usize) -> Box<Core>;

/// All lanes of one locality.
#[derive(Default)]
pub(crate) struct LaneSets {
    sets: Slab<Set>,
    /// Those that have something to run, or to look for.
    ready: VecDeque<usize>,
}

struct Set {
    lanes: Owned,
    ready: bool,
    /// Nobody can push any more: it goes when it is empty.
    retired: bool,
}

/// Lanes of any type.
pub(super) trait AnyLanes: Send {
    /// Of what they share, to be found by.
    fn address(&self) -> usize;
    fn turn(&self) -> Turn;
    fn ended_later(&mut self, key: usize);
}

/// A box of lanes, taken apart: a `Box` that is moved or looked into would end the pointer that a turn keeps.
pub(super) struct Owned(NonNull<dyn AnyLanes>);

// SAFETY: it owns what it points to, which is `Send`.
unsafe impl Send for Owned {}

impl Owned {
    fn new(lanes: impl AnyLanes + 'static) -> Self {
        let lanes: Box<dyn AnyLanes> = Box::new(lanes);
        Self(NonNull::from(Box::leak(lanes)))
    }

    fn get(&self) -> &dyn AnyLanes {
        // SAFETY: it is there until this is dropped. A turn's reference borrows the core, in which this lies.
        unsafe { self.0.as_ref() }
    }

    fn get_mut(&mut self) -> &mut dyn AnyLanes {
        // SAFETY: as above.
        unsafe { self.0.as_mut() }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: it came out of a box in `new`, and nobody reaches it any more: a set goes when it has no turn and nothing of it is in
        // flight, or with the core.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// The lanes that have their turn, found once for all of it.
pub(super) struct Reached<O: Operation, K: LaneKey> {
    lanes: NonNull<Lanes<O, K>>,
    place: usize,
}

impl<O: Operation, K: LaneKey> Reached<O, K> {
    /// With the core in hand, which is borrowed as long: everybody else who reaches these lanes needs it, too.
    #[inline]
    pub(super) fn get<'a>(&'a self, core: &'a mut Core) -> &'a mut Lanes<O, K> {
        debug_assert!(
            core.lanes.owns(self.place, self.lanes.cast()),
            "lanes are reached that are gone, or of another locality"
        );
        let mut lanes = self.lanes;
        // SAFETY: it was made by the turn of a set, which is of this type. The set goes when nothing of it is in flight and it has no
        // turn: so it is there as long as this turn has not ended, and as long as a request that it runs has not. It is a copy of the
        // pointer that owns the lanes, and every other reference to them has ended: who makes one borrows the core, as this does.
        unsafe { lanes.as_mut() }
    }
}

impl LaneSets {
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// How many have something to do.
    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// The next one that has something to do.
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

    /// The runtime is closed: all look at that.
    pub(crate) fn make_all_ready(&mut self) {
        let places: Vec<_> = self.sets.iter().map(|(place, _)| place).collect();
        for place in places {
            self.make_ready(place);
        }
    }

    /// The lanes in this place, for their turn, which knows of what type they are.
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

    /// A request that had waited for something has ended, on the thread that holds the core.
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

    /// There is something in the inlet.
    pub(super) fn signal<O: Operation, K: LaneKey>(
        &mut self,
        shared: Arc<Shared<O, K>>,
        index: usize,
    ) {
        let place = self.find(Arc::as_ptr(&shared).addr()).unwrap_or_else(|| {
            self.sets.insert(Set {
                lanes: Owned::new(Lanes::new(shared, index)),
                ready: false,
                retired: false,
            })
        });
        self.make_ready(place);
    }

    /// Nobody pushes any more.
    pub(super) fn retire<O: Operation, K: LaneKey>(&mut self, shared: &Arc<Shared<O, K>>) {
        if let Some(place) = self.find(Arc::as_ptr(shared).addr()) {
            self.sets[place].retired = true;
            self.make_ready(place);
        }
    }

    /// Takes a set out that has nothing in flight, if nobody pushes any more and it has nothing to do.
    pub(super) fn take_retired(&mut self, place: usize) -> Option<Owned> {
        let set = &self.sets[place];
        (set.retired && !set.ready).then(|| self.sets.remove(place).lanes)
    }
}

/// Where the key of a fom stands that came from lanes: one number, kept beside the fom while it waits.
#[derive(Clone, Copy)]
pub(crate) struct LanePlace(u64);

impl LanePlace {
    pub(super) fn new(place: usize, key: usize) -> Self {
        // None is zero.
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
