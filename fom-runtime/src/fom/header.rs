//! The state of a fom that any thread may read: one cache line, the same for every operation type.
//!
//! The memory stays a header until its page is freed, even without a fom in it. A listing of a locality may read it
//! at any time. So all fields are atomic. Fields that only the thread that runs the fom writes are written with plain
//! stores.

mod flags;
mod identity;
mod outbox;
mod visit;
mod waiting;

use std::{any::TypeId, ptr::NonNull};

pub(crate) use self::{
    flags::Flags,
    identity::Identity,
    outbox::Outbox,
    visit::Visit,
    waiting::{WaitCell, WaitingFor},
};
use crate::{
    fom::{
        CancelEffect, CancelledFom, Cold, ColdRare, EnvRef, Pool, Priority, Timing,
        durability::KeptFom, failure::VisitFailure, gate::FomGate, key_wait::FomTurn,
        outcome::Waiters, ticket::EndTicket,
    },
    graph::Graph,
    id::{FomId, Key},
};
use fom_protocol::{
    LazyBox, Link, OutcomeBits, StateCell,
    sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering},
};

/// The reason why a fom must leave its phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupt {
    Late,
    Cancelled,
    Shutdown,
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
    pub(crate) identity: Identity,
    since: AtomicU64,
    /// The state that few foms have.
    pub(super) cold: LazyBox<Cold>,
    /// The locality that the fom lives in.
    home: AtomicU16,
    /// What the fom waits for.
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
            identity: Identity::default(),
            since: AtomicU64::new(0),
            cold: LazyBox::default(),
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
        self.identity.reset(birth.id, birth.now);
        self.since.store(birth.now, Ordering::Relaxed);
        self.home.store(birth.home as u16, Ordering::Relaxed);
        self.waiting.reset();
        let history = birth
            .cold
            .as_ref()
            .is_some_and(|cold| cold.history().is_some());
        self.flags
            .reset(birth.priority, birth.settled, birth.resumed, history);
        self.cold.reset(birth.cold);
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
        self.identity.id()
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
        self.cold().and_then(|cold| cold.keys.own.as_ref())
    }

    /// Returns the journal state, if the fom is kept in a journal.
    #[inline]
    pub fn kept(&self) -> Option<&dyn KeptFom> {
        self.cold()?.kept()
    }

    /// Returns whether the last step is on its way into the journal. The answer wakes the fom, and an earlier wake is
    /// useless.
    pub(crate) fn awaits_commit(&self) -> bool {
        self.kept().is_some_and(|kept| kept.is_pending())
    }

    /// Returns the state that few foms have, if this fom has it.
    #[inline]
    pub(crate) fn cold(&self) -> Option<&Cold> {
        self.cold.get()
    }

    /// Returns the [`Cold`] state, and makes it if there is none.
    pub(crate) fn cold_made(&self) -> &Cold {
        self.cold.made()
    }

    /// Returns the name of the phase.
    pub fn phase_name(&self) -> &'static str {
        self.visit().info().name()
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

    /// Returns the deadlines, if the machine has any.
    #[inline]
    pub(crate) fn timing(&self) -> Option<&Timing> {
        self.pool().timing_of(self)
    }

    /// Returns whether the transitions need extra work: for a waiter for a phase, or for the history. Such a fom has a
    /// [`Cold`] state, so most foms need only one look.
    #[inline(always)]
    pub(crate) fn is_noted(&self) -> bool {
        self.cold().is_some() && (self.flags.is_noted() || self.marks.is_observed())
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
        } else if self.token.is_cancelled() && must_end(self) {
            Some(Interrupt::Cancelled)
        } else {
            None
        }
    }

    /// Notes that the fom takes a way out of a cancel. Later cancels do nothing. Only the thread that runs the fom, or
    /// makes it, calls this.
    #[cold]
    pub(crate) fn hear_cancel(&self) {
        self.cold_made().rare_made().hear_cancel();
    }

    /// Returns whether no address of the fom exists. Then only the thread that runs the fom touches its token.
    #[inline]
    pub(crate) fn is_alone(&self) -> bool {
        self.refs.load(Ordering::Acquire) == 1
    }
}

/// Returns whether a cancelled fom must leave its phase now.
#[cold]
fn must_end(header: &Header) -> bool {
    let rare = header.cold().and_then(Cold::rare);
    let fom = CancelledFom {
        aborted: header.token.is_aborted(),
        heard: rare.is_some_and(ColdRare::has_heard_cancel),
        turned_back: rare.is_some_and(ColdRare::has_turned_back),
        begun: header.flags.has_begun(),
        leaves: header.failure().asked() > 0,
        phase: header.visit().info().exits.on_cancel,
    };
    let effect = fom.effect();
    if effect == CancelEffect::Waits {
        // The next transition looks at this fom, and wakes it if its phase hears the cancel.
        header.flags.note();
        header.cold_made().rare_made();
    }
    effect == CancelEffect::Interrupts
}

/// The parts of the fom that have functions of their own. The compiler removes these calls.
impl Header {
    #[inline]
    pub(crate) fn visit(&self) -> Visit<'_> {
        Visit(self)
    }

    #[inline]
    pub(crate) fn outbox(&self) -> Outbox<'_> {
        Outbox(self)
    }

    #[inline]
    pub(crate) fn failure(&self) -> VisitFailure<'_> {
        VisitFailure(self)
    }

    #[inline]
    pub(crate) fn gate(&self) -> FomGate<'_> {
        FomGate(self)
    }

    #[inline]
    pub(crate) fn turn(&self) -> FomTurn<'_> {
        FomTurn(self)
    }

    #[inline]
    pub(crate) fn waiters(&self) -> Waiters<'_> {
        Waiters(self)
    }

    #[inline]
    pub(crate) fn ticket(&self) -> EndTicket<'_> {
        EndTicket(self)
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
