//! The parts of a locality that packages on top of the runtime bring; see [`extension`](crate::extension).
//!
//! A part stays in the core while its turn runs foms. During a blocking section of such a fom, another thread has the
//! core, and may run the same part. So a turn keeps no reference to its part across a run: it looks the part up again.

use std::{
    collections::VecDeque,
    fmt,
    marker::PhantomData,
    ptr::{self, NonNull},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::{
    fom::{Header, PartPlace, PartTicket},
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
    fn goes_on(&mut self, took: Duration) -> u64;
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
    _of: PhantomData<fn() -> P>,
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
    /// The places of the parts that want a turn. A place may be stale: its slot is then not `ready`.
    ready: VecDeque<u32>,
    /// Whether a part has something to hand over at the next pause.
    asks: bool,
}

/// A part with what the runtime notes of it.
struct Slot {
    /// Zero if the slot is free.
    id: u64,
    /// `None` if the slot is free, and while the part's `pause` runs.
    part: Option<Box<dyn AnyPart>>,
    turn: RunTurn,
    ready: bool,
    runs: Runs,
}

/// What the turns of a part have run.
#[derive(Default)]
pub(crate) struct Runs {
    /// The fom that a turn runs. Until it returns to its turn or ends, it is in a blocking section or in user code.
    pub(crate) running: Option<NonNull<Header>>,
    /// The number of ended foms that the locality has not counted yet.
    pub(crate) uncounted: u64,
}

// SAFETY: `running` points to a header, which is `Sync`.
unsafe impl Send for Runs {}

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
            part: Some(Box::new(part)),
            turn: |core, place| P::turn(core, PartId::of(place)),
            ready: false,
            runs: Runs::default(),
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
        let part = self.slot(id.place)?.part.as_deref_mut()?;
        // SAFETY: no other part has this id, and `add` made the id for a part of type `P`.
        Some(unsafe { &mut *ptr::from_mut(part).cast::<P>() })
    }

    /// Returns what the turns of the part have run.
    #[inline]
    pub(crate) fn runs(&mut self, place: PartPlace) -> Option<&mut Runs> {
        Some(&mut self.slot(place)?.runs)
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

    fn remove<P: AnyPart>(&mut self, id: PartId<P>) -> Option<Box<P>> {
        let slot = self.slot(id.place)?;
        let part = slot.part.take()?;
        slot.id = 0;
        slot.ready = false;
        // SAFETY: as in `get`; the box is out of its slot.
        Some(unsafe { Box::from_raw(Box::into_raw(part).cast::<P>()) })
    }

    /// Takes out any part, at the end of the locality.
    pub(crate) fn pop(&mut self) -> Option<Box<dyn AnyPart>> {
        loop {
            if let Some(part) = self.slots.pop()?.part {
                return Some(part);
            }
        }
    }

    /// Tells a part that a fom which had left its turn has ended. The part then has a turn.
    pub(crate) fn ended(&mut self, ticket: PartTicket) {
        let PartTicket { part, number } = ticket;
        if let Some(part) = self.slot(part).and_then(|slot| slot.part.as_deref_mut()) {
            part.ended(number);
        }
        self.wake(part);
    }

    /// Returns whether no part waits for anything that makes foms ready.
    pub(crate) fn are_quiet(&self) -> bool {
        let mut parts = self.slots.iter().filter_map(|slot| slot.part.as_deref());
        parts.all(AnyPart::is_quiet)
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
    /// Takes out a part.
    pub(crate) fn remove_part<P: AnyPart>(&mut self, id: PartId<P>) -> Option<Box<P>> {
        self.count_ended(id.place);
        self.parts.remove(id)
    }

    /// Counts the foms that the turns of the part have run to their ends.
    pub(crate) fn count_ended(&mut self, place: PartPlace) {
        if let Some(runs) = self.parts.runs(place) {
            let uncounted = std::mem::take(&mut runs.uncounted);
            self.home.counts.given_away(uncounted);
        }
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
        let home = self.home.clone();
        self.parts.asks = false;
        for at in 0..self.parts.slots.len() {
            let slot = &mut self.parts.slots[at];
            let id = slot.id;
            let Some(mut part) = slot.part.take() else {
                continue;
            };
            let mut asks = false;
            home.fenced("a part of", || asks = part.pause(self, pause));
            self.parts.asks |= asks;
            match self.parts.slots.get_mut(at) {
                Some(slot) if slot.id == id => slot.part = Some(part),
                _ => home.fenced("a part of", || drop(part)),
            }
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
        let next = here.parts.next_turn();
        core = Some(here);
        if let Some((place, turn)) = next {
            turn(&mut core, place);
        }
    }
    held(core)
}
