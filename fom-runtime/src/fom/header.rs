//! The state of a fom that any thread may read: one cache line, the same for every operation type.
//!
//! The memory stays a header until its page is freed, even without a fom in it. A listing of a locality may read it
//! at any time. So all fields are atomic. Fields that only the thread that runs the fom writes are written with plain
//! stores.

mod flags;
mod visit;
mod waiting;

use std::{any::TypeId, ptr::NonNull, time::Duration};

pub(crate) use self::{
    flags::Flags,
    waiting::{WaitCell, WaitingFor},
};
use crate::{
    fom::{Cold, ColdRare, EnvRef, Pool, Priority, Timing, durability::KeptFom},
    graph::{Graph, PhaseInfo},
    id::{FomId, Key},
};
use fom_protocol::{
    Link, OutcomeBits, StateCell,
    sync::atomic::{AtomicPtr, AtomicU16, AtomicU32, AtomicU64, Ordering},
};

/// The reason why a fom must leave its phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupt {
    Late,
    Cancelled,
    Shutdown,
}

/// A line of a fom's history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) phase: u16,
    pub(crate) at: u64,
}

/// The part of a fom that does not depend on its type. The other parts lie behind it.
#[allow(missing_debug_implementations, reason = "hidden, for `fom-durable`")]
#[repr(C)]
pub struct Header {
    /// Links the fom into the inbox, a run queue or the pool's free list. First, so that it has the header's address.
    pub(super) link: Link,
    /// Null if this is not a fom: see [`Parcel`](crate::fom::hand::Parcel).
    pub(super) pool: *const Pool,
    /// The references: the runtime's until the fom has ended, and one for each address, handle and waker.
    pub(crate) refs: AtomicU32,
    pub(crate) token: StateCell,
    /// Whether the outcome is there, and which waiters it has.
    pub(crate) marks: OutcomeBits,
    phase: AtomicU16,
    id: AtomicU64,
    submitted: AtomicU64,
    since: AtomicU64,
    /// The state that few foms have.
    pub(super) cold: AtomicPtr<Cold>,
    /// The locality that the fom lives in.
    home: AtomicU16,
    pub(crate) waiting: WaitCell,
    pub(crate) flags: Flags,
}

// SAFETY: `pool` never changes once the header is made, and a pool is `Sync`; the rest is atomic.
unsafe impl Sync for Header {}
// SAFETY: as above.
unsafe impl Send for Header {}

/// The initial header state of a new fom.
pub(crate) struct NewFom {
    pub(crate) id: FomId,
    pub(crate) home: usize,
    pub(crate) priority: Priority,
    pub(crate) now: u64,
    pub(crate) phase: usize,
    pub(crate) settled: bool,
    pub(crate) resumed: bool,
    pub(crate) cold: Option<Box<Cold>>,
    /// There is a handle.
    pub(crate) wanted: bool,
    /// The fom goes straight into the run queue.
    pub(crate) ready: bool,
}

impl Header {
    /// Creates the header of a slot without a fom.
    pub(crate) fn vacant(pool: *const Pool) -> Self {
        Self {
            link: Link::new(),
            pool,
            refs: AtomicU32::new(0),
            token: StateCell::new(),
            marks: OutcomeBits::default(),
            phase: AtomicU16::new(0),
            id: AtomicU64::new(0),
            submitted: AtomicU64::new(0),
            since: AtomicU64::new(0),
            cold: AtomicPtr::new(std::ptr::null_mut()),
            home: AtomicU16::new(0),
            waiting: WaitCell::default(),
            flags: Flags::default(),
        }
    }

    /// Initializes the header for a new fom. No other thread may see the fom before its references are counted.
    #[inline(always)]
    pub(crate) fn init(&self, birth: NewFom) {
        self.token.reset(birth.ready);
        self.marks.reset(birth.wanted);
        self.phase.store(birth.phase as u16, Ordering::Relaxed);
        self.id.store(birth.id.0, Ordering::Relaxed);
        self.submitted.store(birth.now, Ordering::Relaxed);
        self.since.store(birth.now, Ordering::Relaxed);
        self.home.store(birth.home as u16, Ordering::Relaxed);
        self.waiting.reset();
        let history = birth
            .cold
            .as_ref()
            .is_some_and(|cold| cold.history.is_some());
        self.flags
            .reset(birth.priority, birth.settled, birth.resumed, history);
        self.cold.store(
            birth.cold.map_or(std::ptr::null_mut(), Box::into_raw),
            Ordering::Relaxed,
        );
    }

    /// Returns a pointer to the whole fom, which begins with this header.
    #[inline]
    pub(crate) fn whole(&self) -> NonNull<Self> {
        let address = std::ptr::from_ref(self).addr();
        // SAFETY: the address of a reference is not null. The page exposed its memory when it was made.
        unsafe { NonNull::new_unchecked(std::ptr::with_exposed_provenance_mut(address)) }
    }

    pub(crate) fn pool(&self) -> &Pool {
        // SAFETY: a fom's header is in a slot of this pool, and a pool lives as long as any slot of it is in use.
        unsafe { &*self.pool }
    }

    /// Returns the runtime, and what its foms share.
    #[inline]
    pub(crate) fn env(&self) -> &EnvRef {
        &self.pool().env
    }

    /// Returns the index of the locality that the fom lives in.
    #[inline]
    pub(crate) fn home_index(&self) -> usize {
        self.home.load(Ordering::Relaxed).into()
    }

    /// Returns the id.
    pub fn id(&self) -> FomId {
        FomId(self.id.load(Ordering::Relaxed))
    }

    pub(crate) fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Relaxed)
    }

    /// Returns the machine.
    pub fn graph(&self) -> &'static Graph {
        self.pool().graph
    }

    /// Returns the name of the operation type.
    pub fn type_name(&self) -> &'static str {
        self.graph().operation()
    }

    /// Returns the type of the operation.
    pub fn type_id(&self) -> TypeId {
        self.pool().type_id
    }

    /// Returns the key that the fom was submitted with. The caller must hold a reference, as for all of `cold`.
    pub fn key(&self) -> Option<&Key> {
        self.cold().and_then(|cold| cold.key.as_ref())
    }

    /// Returns the key that the fom shares with the fom that submitted it.
    pub(crate) fn chained(&self) -> Option<&(TypeId, Key)> {
        self.cold().and_then(|cold| cold.chained.as_deref())
    }

    /// Returns whether the fom has this key, alone or shared with the fom that submitted it. Only the thread that
    /// runs the fom calls this.
    pub(crate) fn has_key(&self, of: &(TypeId, Key)) -> bool {
        let own = || self.type_id() == of.0 && self.key() == Some(&of.1);
        own() || self.chained() == Some(of)
    }

    /// Returns the journal state, if the fom is kept in a journal.
    pub fn kept(&self) -> Option<&dyn KeptFom> {
        self.cold()?.kept()
    }

    /// Returns whether the last step is on its way into the journal. The answer wakes the fom, and an earlier wake is
    /// useless.
    pub(crate) fn awaits_commit(&self) -> bool {
        self.kept().is_some_and(|kept| kept.is_pending())
    }

    pub(crate) fn cold(&self) -> Option<&Cold> {
        // SAFETY: the pointer is set once, from a `Box`, and the box is freed when the last reference goes.
        unsafe { self.cold.load(Ordering::Acquire).as_ref() }
    }

    #[inline]
    pub(crate) fn cold_rare(&self) -> Option<&ColdRare> {
        self.cold()?.cold_rare.get().map(|cold_rare| &**cold_rare)
    }

    /// Returns the [`ColdRare`] state, and makes it if there is none.
    pub(crate) fn cold_rare_made(&self) -> &ColdRare {
        self.cold_made().cold_rare.get_or_init(Box::default)
    }

    /// Returns the [`Cold`] state, and makes it if there is none.
    pub(crate) fn cold_made(&self) -> &Cold {
        match self.cold() {
            Some(cold) => cold,
            None => self.cold_or(Box::default()),
        }
    }

    /// Makes this the [`Cold`] state if there is none. Returns the state that the fom has then.
    pub(super) fn cold_or(&self, new: Box<Cold>) -> &Cold {
        let new = Box::into_raw(new);
        match self.cold.compare_exchange(
            std::ptr::null_mut(),
            new,
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            // SAFETY: the box is ours until the exchange, and the fom's after it; see `cold`.
            Ok(_) => unsafe { &*new },
            Err(theirs) => {
                // SAFETY: no other thread has seen the box.
                drop(unsafe { Box::from_raw(new) });
                // SAFETY: as in `cold`.
                unsafe { &*theirs }
            }
        }
    }

    pub(crate) fn phase_index(&self) -> usize {
        self.phase.load(Ordering::Acquire).into()
    }

    pub(crate) fn phase_info(&self) -> &'static PhaseInfo {
        &self.graph().phases()[self.phase_index()]
    }

    /// Returns the name of the phase.
    pub fn phase_name(&self) -> &'static str {
        self.phase_info().name()
    }

    /// Only the handler that moves the fom to its new home calls this. The fom is in none of that handler's queues.
    pub(crate) fn set_home(&self, index: usize) {
        self.home.store(index as u16, Ordering::Relaxed);
    }

    /// Returns whether the fom may move to another locality. A fom in an adaptive phase may not: each locality
    /// measures these phases itself.
    pub(crate) fn may_move(&self) -> bool {
        !self.flags.is_settled() && self.timing().is_none_or(|timing| !timing.is_measured())
    }

    pub(crate) fn since(&self) -> u64 {
        self.since.load(Ordering::Acquire)
    }

    /// Returns the number of failed attempts in this visit.
    pub(crate) fn attempt(&self) -> u32 {
        self.timing().map_or(0, Timing::attempt)
    }

    pub(crate) fn history(&self) -> Vec<Seen> {
        self.cold()
            .and_then(|cold| cold.history.as_ref())
            .map(|log| log.lock().iter().copied().collect())
            .unwrap_or_default()
    }

    /// Returns the deadlines, if the machine has any.
    #[inline]
    pub(crate) fn timing(&self) -> Option<&Timing> {
        self.pool().timing_of(self)
    }

    /// Returns the nearest deadline of this visit.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.timing().and_then(Timing::deadline)
    }

    /// Begins a visit of the phase at `index`.
    #[inline]
    pub(crate) fn enter(&self, index: usize, now: u64) {
        self.since.store(now, Ordering::Relaxed);
        self.phase.store(index as u16, Ordering::Release);
    }

    /// Returns whether the transitions need extra work: for a waiter for a phase, or for the history.
    #[inline]
    pub(crate) fn is_noted(&self) -> bool {
        self.flags.is_noted() || self.marks.is_observed()
    }

    #[inline]
    pub(crate) fn interrupt(&self) -> Option<Interrupt> {
        self.told_to_end().or_else(|| {
            self.timing()
                .is_some_and(Timing::is_late)
                .then_some(Interrupt::Late)
        })
    }

    /// Returns the reason if the fom must end early.
    #[inline(always)]
    pub(crate) fn told_to_end(&self) -> Option<Interrupt> {
        // This is checked before the cancel, because a shutdown first closes the runtime.
        if self.env().is_closed() {
            Some(Interrupt::Shutdown)
        } else if self.token.is_cancelled() {
            Some(Interrupt::Cancelled)
        } else {
            None
        }
    }

    /// Returns whether no address of the fom exists. Then only the thread that runs the fom touches its token.
    #[inline]
    pub(crate) fn is_alone(&self) -> bool {
        self.refs.load(Ordering::Acquire) == 1
    }

    pub(crate) fn age(&self, now: u64) -> Duration {
        Duration::from_nanos(now.saturating_sub(self.since()))
    }
}

#[cfg(all(test, not(fom_shuttle)))]
mod tests {
    use super::*;

    /// The memory of every fom besides its operation and phase.
    #[test]
    fn a_header_is_one_cache_line() {
        assert_eq!(size_of::<Header>(), 64);
    }
}
