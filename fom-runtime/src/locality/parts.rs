//! The parts of a locality that packages on top of the runtime bring; see [`extension`](crate::extension).
//!
//! A part stays in the core while its turn runs foms. During a blocking section of such a fom, another thread has the
//! core, and may run the same part. So a turn keeps no reference to its part across a run: it looks the part up again.

use std::{
    collections::VecDeque,
    fmt,
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::{
    fom::{Header, PartPlace, PartTicket, hand::context::holding},
    locality::Core,
};

/// Runs one turn of a part of some type. The core is there before and after the call.
type RunTurn = fn(&mut Option<Box<Core>>, PartPlace);

/// A part of any type.
pub(crate) trait AnyPart: Send {
    /// Runs one turn. The core is there before and after the call.
    fn turn(core: &mut Option<Box<Core>>, id: PartId<Self>)
    where
        Self: Sized;
    fn goes_on(&mut self, took: u64) -> u64;
    fn ended(&mut self, number: u64);
    fn pause(&mut self, core: &mut Core, pause: Pause) -> bool;
    fn is_quiet(&self) -> bool;
}

/// A moment at which a part of a locality may hand over what it has gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pause {
    /// Between two runs of foms. Other foms may be ready.
    Passing,
    /// What foms of the locality did is about to be seen by other localities, where its effects must come later.
    Leaving,
    /// The locality has nothing to run. It sleeps after this.
    Idle,
    /// A fom enters a blocking section. No other thread may come to run the locality until the fom leaves the section.
    Blocking,
}

/// The address of a part in its locality.
pub struct PartId<P> {
    place: PartPlace,
    /// Invariant in `P`: the address of one type of part must not become that of another.
    _of: PhantomData<fn(P) -> P>,
}

impl<P> PartId<P> {
    /// The place must be that of a part of type `P`.
    fn of(place: PartPlace) -> Self {
        Self {
            place,
            _of: PhantomData,
        }
    }

    pub(crate) fn place(self) -> PartPlace {
        self.place
    }
}

impl<P> Clone for PartId<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for PartId<P> {}

impl<P> fmt::Debug for PartId<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PartId({})", self.place.id)
    }
}

/// The parts of one locality.
#[derive(Default)]
pub(crate) struct Parts {
    slots: Vec<Slot>,
    /// The part that was looked up last, or null. It spares the search, because a turn looks its part up often.
    last: Last,
    /// The places of the parts that want a turn. A place may be stale: its slot is then not `ready`.
    ready: VecDeque<u32>,
    /// Whether a part has something to hand over at the next pause.
    asks: bool,
    /// The fom that a turn runs, until it ends or leaves its turn.
    pub(super) running: Option<Running>,
    /// The number of foms that ended in a turn, and that the locality has not counted yet.
    pub(super) uncounted: u64,
}

/// A fom that runs in the turn of a part.
#[derive(Clone, Copy)]
pub(super) struct Running {
    pub(super) fom: NonNull<Header>,
    pub(super) part: PartPlace,
}

// SAFETY: `fom` points to a header, which is `Sync`.
unsafe impl Send for Running {}

#[derive(Default)]
struct Last {
    id: u64,
    part: Option<NonNull<()>>,
}

// SAFETY: the pointer is a copy of one of the owners in the slots, which are `Send`.
unsafe impl Send for Last {}

/// A part with what the runtime notes of it.
struct Slot {
    /// Zero if the slot is free.
    id: u64,
    /// `None` if the slot is free, and while the part's `pause` runs.
    part: Option<Owned>,
    turn: RunTurn,
    ready: bool,
}

/// A box of a part, as a pointer. A move of a `Box`, or an access through it, would invalidate the copy in [`Last`].
struct Owned(NonNull<dyn AnyPart>);

// SAFETY: the value owns the part, which is `Send`.
unsafe impl Send for Owned {}

impl Owned {
    fn new(part: impl AnyPart + 'static) -> Self {
        let part: Box<dyn AnyPart> = Box::new(part);
        Self(NonNull::from(Box::leak(part)))
    }

    fn get(&self) -> &dyn AnyPart {
        // SAFETY: the part lives until `self` is dropped. Each reference to it borrows its `Owned` or the whole
        // `Parts`.
        unsafe { self.0.as_ref() }
    }

    fn get_mut(&mut self) -> &mut dyn AnyPart {
        // SAFETY: as above.
        unsafe { self.0.as_mut() }
    }

    fn into_box(self) -> Box<dyn AnyPart> {
        // SAFETY: the pointer came from a box in `new`, and `self` is forgotten.
        let part = unsafe { Box::from_raw(self.0.as_ptr()) };
        std::mem::forget(self);
        part
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a box in `new`. `Parts` forgets its copy before it drops this.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl Parts {
    /// Returns whether a part wants a turn.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns whether a part has something to hand over at the next pause.
    #[inline]
    pub(crate) fn asks(&self) -> bool {
        self.asks
    }

    /// Asks for a call of `pause` after the current run.
    #[inline]
    pub(crate) fn ask(&mut self) {
        self.asks = true;
    }

    pub(crate) fn add<P: AnyPart + 'static>(&mut self, part: P) -> PartId<P> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let slot = Slot {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            part: Some(Owned::new(part)),
            turn: |core, place| P::turn(core, PartId::of(place)),
            ready: false,
        };
        let free = self.slots.iter().position(|slot| slot.id == 0);
        let at = free.unwrap_or(self.slots.len());
        let place = PartPlace {
            at: u32::try_from(at).expect("fewer than four billion parts"),
            id: slot.id,
        };
        match free {
            Some(at) => self.slots[at] = slot,
            None => self.slots.push(slot),
        }
        PartId::of(place)
    }

    #[inline]
    fn slot(&mut self, place: PartPlace) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(place.at as usize)?;
        (slot.id == place.id).then_some(slot)
    }

    /// Returns the part, unless it was removed or is in its `pause`.
    #[inline]
    pub(crate) fn get<P: AnyPart>(&mut self, id: PartId<P>) -> Option<&mut P> {
        if self.last.id != id.place.id {
            self.find(id.place);
        }
        let part = self.last.part?.cast();
        // SAFETY: no other part has this id, and `add` made the id for a part of type `P`. The pointer is a copy of the
        // owner, which lives. All references to parts borrow `self`, or the part is out of its slot.
        Some(unsafe { &mut *part.as_ptr() })
    }

    /// Makes `last` the part at this place, or null.
    #[inline(never)]
    fn find(&mut self, place: PartPlace) {
        let part = self.slot(place).and_then(|slot| slot.part.as_ref());
        self.last.part = part.map(|part| part.0.cast());
        self.last.id = place.id;
    }

    /// Takes the part out of its slot.
    fn take(&mut self, at: usize) -> Option<Owned> {
        self.last = Last::default();
        self.slots.get_mut(at)?.part.take()
    }

    /// Lets the part have a turn.
    pub(crate) fn wake(&mut self, place: PartPlace) {
        let Some(slot) = self.slot(place) else {
            return;
        };
        if !std::mem::replace(&mut slot.ready, true) {
            self.ready.push_back(place.at);
        }
    }

    /// Lets each part have a turn.
    pub(crate) fn wake_all(&mut self) {
        for (at, slot) in self.slots.iter_mut().enumerate() {
            if slot.id != 0 && !std::mem::replace(&mut slot.ready, true) {
                self.ready.push_back(at as u32);
            }
        }
    }

    /// Takes out a part.
    pub(crate) fn remove<P: AnyPart>(&mut self, id: PartId<P>) -> Option<Box<P>> {
        self.slot(id.place)?;
        let at = id.place.at as usize;
        let part = self.take(at)?.into_box();
        let slot = &mut self.slots[at];
        slot.id = 0;
        slot.ready = false;
        // SAFETY: as in `get`; the box is out of its slot.
        Some(unsafe { Box::from_raw(Box::into_raw(part).cast::<P>()) })
    }

    /// Takes out any part, at the end of the locality.
    pub(crate) fn pop(&mut self) -> Option<Box<dyn AnyPart>> {
        self.last = Last::default();
        loop {
            if let Some(part) = self.slots.pop()?.part {
                return Some(part.into_box());
            }
        }
    }

    /// Tells a part that a fom which had left its turn has ended. The part then has a turn.
    pub(crate) fn ended(&mut self, ticket: PartTicket) {
        let PartTicket {
            part: place,
            number,
        } = ticket;
        let Some(slot) = self.slot(place) else { return };
        if !std::mem::replace(&mut slot.ready, true) {
            self.ready.push_back(place.at);
        }
        if let Some(part) = self.slot(place).and_then(|slot| slot.part.as_mut()) {
            part.get_mut().ended(number);
        }
    }

    /// Returns whether no part waits for anything that makes foms ready.
    pub(crate) fn are_quiet(&self) -> bool {
        let mut parts = self.slots.iter().filter_map(|slot| slot.part.as_ref());
        parts.all(|part| part.get().is_quiet())
    }

    fn next_turn(&mut self) -> Option<(PartPlace, RunTurn)> {
        let at = self.ready.pop_front()?;
        let slot = self.slots.get_mut(at as usize)?;
        if !std::mem::take(&mut slot.ready) {
            return None;
        }
        Some((PartPlace { at, id: slot.id }, slot.turn))
    }
}

impl Core {
    /// Counts the foms that turns have run to their ends.
    #[inline]
    pub(crate) fn count_ended(&mut self) {
        let uncounted = std::mem::take(&mut self.parts.uncounted);
        self.home.counts.given_away(uncounted);
    }

    /// Tells the part of the fom that leaves its turn for a blocking section, if a turn runs one. Another thread has
    /// got the core of that section.
    #[cold]
    pub(super) fn leave_turn(&mut self) {
        let Self { home, parts, .. } = self;
        let Some(Running { fom, part }) = parts.running.take() else {
            return;
        };
        home.fenced("a part of", || {
            holding(|| {
                let slot = parts.slot(part);
                if let Some(owned) = slot.and_then(|slot| slot.part.as_mut()) {
                    let number = owned.get_mut().goes_on(0);
                    // SAFETY: a fom that is noted as running has not ended.
                    unsafe { fom.as_ref() }
                        .ticket()
                        .set_part(PartTicket { part, number });
                }
            })
        });
    }

    /// Lets the parts hand over what they have gathered, if one has asked for that.
    #[inline]
    pub(crate) fn pause_when_asked(&mut self) {
        if self.parts.asks() {
            self.pause(Pause::Passing);
        }
    }

    /// Lets the parts hand over what they have gathered, before other localities see what foms did here.
    #[inline]
    pub(crate) fn pause_before_others(&mut self) {
        if self.parts.asks() {
            self.pause(Pause::Leaving);
        }
    }

    /// Lets the parts hand over what they have gathered.
    #[inline]
    pub(crate) fn pause(&mut self, pause: Pause) {
        if !self.parts.slots.is_empty() {
            self.pause_parts(pause);
        }
    }

    #[cold]
    fn pause_parts(&mut self, pause: Pause) {
        self.parts.asks = false;
        for at in 0..self.parts.slots.len() {
            let id = self.parts.slots[at].id;
            let Some(mut part) = self.parts.take(at) else {
                continue;
            };
            let run = || holding(|| part.get_mut().pause(self, pause));
            match catch_unwind(AssertUnwindSafe(run)) {
                Ok(asks) => self.parts.asks |= asks,
                Err(panic) => self.home.report_panic("a part of", panic),
            }
            // A part that is out of its slot cannot be removed, so the slot is still its own.
            debug_assert_eq!(self.parts.slots[at].id, id);
            self.parts.last = Last::default();
            self.parts.slots[at].part = Some(part);
        }
    }
}

/// Runs one turn of each part that wants one.
#[cold]
#[inline(never)]
pub(super) fn run(core: Box<Core>) -> Box<Core> {
    let mut core = Some(core);
    let held = |core: Option<Box<Core>>| core.expect("a turn ends with the core");
    let most = core.as_ref().map_or(0, |core| core.parts.ready.len());
    for _ in 0..most {
        let mut here = held(core);
        // A part may wake itself forever, and the reactor has its turn all the same.
        here.turns.since += 1;
        let next = here.parts.next_turn();
        core = Some(here);
        if let Some((place, turn)) = next {
            turn(&mut core, place);
        }
    }
    held(core)
}
