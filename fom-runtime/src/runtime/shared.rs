//! What all localities of a runtime share.

use std::{
    any::TypeId,
    ops::Deref,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak},
    time::Instant,
};

use crossbeam_utils::CachePadded;

use crate::{
    clock::Moved,
    fom::{
        AnyRef, Env, EnvRef, Header, Host, Order, PartTicket, RuntimeState,
        hand::context::runs_fom_of,
    },
    id::{FomId, Key, KeyOf},
    incident::IncidentKind,
    locality::{self, Localities, Locality, Owner},
    operation::Operation,
    runtime::{
        FomRef, Runtime,
        extension::{AllListed, Attachments, Daemons, fenced},
        keys::KeyIndex,
        resources::Resources,
    },
};
use fom_protocol::{
    FomState, InFlight, Reader, all_idle,
    sync::{
        Condvar, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

/// All that a runtime is. It derefs to its localities and what they share.
#[allow(missing_debug_implementations, reason = "hidden, for `fom-durable`")]
#[repr(C)]
pub struct Shared {
    /// First, because an [`EnvRef`] leads to its beginning.
    pub(crate) localities: Localities,
    me: Weak<Self>,
    pub(crate) resources: Resources,
    pub(crate) key_index: KeyIndex,
    /// Counts what is queued in front of the localities, which has no home yet.
    pub(crate) queued: InFlight,
    /// The parts that other packages bring.
    pub(super) attachments: Attachments,
    /// The named parts that other packages bring.
    pub(super) listed: Arc<AllListed>,
    /// The foms that a drain does not wait for.
    pub(super) daemons: Daemons,
    next_number: CachePadded<AtomicU64>,
    next_event: CachePadded<AtomicU64>,
    pub(crate) turn: CachePadded<AtomicUsize>,
    ends: Ends,
}

/// What the callers wait for: the end of all foms, and the end of the localities.
#[derive(Default)]
struct Ends {
    /// The number of localities that have ended.
    localities: Mutex<usize>,
    changed: Condvar,
    idle: tokio::sync::Notify,
}

pub(super) struct Settings {
    pub(super) localities: locality::Settings,
    pub(super) resources: Resources,
    pub(super) key_queue: usize,
}

impl Deref for Shared {
    type Target = Localities;

    #[inline]
    fn deref(&self) -> &Localities {
        &self.localities
    }
}

impl Host for Shared {
    fn env(&self) -> &Env {
        &self.localities.env
    }

    fn next_event(&self) -> u64 {
        Self::next_event(self)
    }

    fn leave_key(&self, fom: &Header) {
        self.key_index.leave(fom);
    }

    fn settle_key(&self, fom: &Header) {
        self.key_index.settle(fom);
    }

    fn enter_key(&self, fom: &Header, order: Order) {
        self.key_index.enter_late(fom, order);
    }

    fn poke(&self, home: usize) {
        self.localities[home].poke();
    }

    fn posted(&self, home: usize, reader: Reader) {
        self.localities[home].posted(reader);
    }

    fn regain(&self, fom: &Header) {
        locality::regain(fom);
    }

    fn panicked(&self, fom: &Header, message: &str) {
        let parts = self.attachments.all();
        if parts.is_empty() {
            return;
        }
        let (operation, id, phase) = (fom.type_name(), fom.id(), fom.phase_name());
        let what = format!("{operation} {id} panicked in phase {phase}: {message}");
        let runtime = Runtime::of(self);
        for part in parts {
            fenced(&runtime, || part.panicked(&runtime, &what));
        }
    }

    fn part_ended(&self, ticket: PartTicket) {
        // Without a core, the locality has ended, and its parts with it.
        let _ = locality::with_core(|core| core.parts.ended(ticket));
    }
}

impl Owner for Shared {
    fn tell_idle(&self) {
        self.end_resting();
        if self.is_idle() {
            // Under the lock: a waiter that saw a fom in flight is in its wait by then.
            let ended = self.ends.localities.lock();
            self.ends.changed.notify_all();
            drop(ended);
            // Last, because these wakers are the users' and may panic.
            let notify = || self.ends.idle.notify_waiters();
            if let Err(panic) = catch_unwind(AssertUnwindSafe(notify)) {
                self.env.report(
                    IncidentKind::Panicked,
                    "a waker",
                    format!(
                        "a waker panicked while the idle were told: {}",
                        fom_protocol::panic_message(panic)
                    ),
                );
            }
        }
    }

    fn locality_ended(&self) {
        let mut ended = self.ends.localities.lock();
        *ended += 1;
        self.ends.changed.notify_all();
        if *ended == self.localities.len() {
            if self.balance.moves_foms() {
                // Until now a moved fom may have lived in the memory of a locality that had ended.
                self.localities.iter().for_each(Locality::release);
            }
            self.block_watch.end();
            if let Some(recorder) = self.env.recorder() {
                recorder.close();
            }
        }
    }
}

impl Moved for Shared {
    fn moved(&self) {
        self.poke_recorder();
        self.localities.iter().for_each(Locality::poke);
    }
}

/// A caller that waits until no fom is in flight.
struct Waiter<'a>(&'a Shared);

impl<'a> Waiter<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.waiters.join();
        Self(shared)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.waiters.leave();
    }
}

impl Shared {
    pub(super) fn new(settings: Settings) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            localities: Localities::new(me, settings.localities),
            me: me.clone(),
            resources: settings.resources,
            key_index: KeyIndex::new(settings.key_queue),
            queued: InFlight::default(),
            attachments: Attachments::default(),
            listed: Arc::default(),
            daemons: Daemons::default(),
            next_number: CachePadded::new(AtomicU64::new(0)),
            next_event: CachePadded::new(AtomicU64::new(0)),
            turn: CachePadded::new(AtomicUsize::new(0)),
            ends: Ends::default(),
        })
    }

    /// Returns the runtime of a fom.
    #[inline]
    pub(crate) fn of(fom: &Header) -> &Self {
        Self::behind(fom.env())
    }

    /// Returns the runtime behind this reference.
    #[inline]
    pub(crate) fn behind(env: &EnvRef) -> &Self {
        env.host_of().expect("this crate has one host")
    }

    /// Returns an owned reference.
    ///
    /// # Panics
    ///
    /// Panics while the runtime is dropped.
    pub(crate) fn owned(&self) -> Arc<Self> {
        self.me.upgrade().expect("the runtime is borrowed")
    }

    /// Returns a reference that does not keep the runtime alive.
    pub(crate) fn weak(&self) -> Weak<Self> {
        self.me.clone()
    }

    /// Returns the id of the next fom that is submitted from outside the localities. The outside and each locality draw
    /// interleaved numbers, so that no thread shares a counter with a locality.
    pub(crate) fn next_id(&self) -> FomId {
        FomId(self.next_number.fetch_add(1, Ordering::Relaxed) * self.env.ways() + 1)
    }

    /// Returns the number of the next event that this thread sends. No other event of this run has it.
    #[cold]
    pub(crate) fn next_event(&self) -> u64 {
        let here = locality::with_core(|core| core.next_event(&self.env));
        let elsewhere = || self.next_event.fetch_add(1, Ordering::Relaxed) * self.env.ways() + 1;
        here.flatten().unwrap_or_else(elsewhere)
    }

    /// Numbers new foms from `first` on.
    pub(crate) fn number_from(&self, first: u64) {
        let round = first.div_ceil(self.env.ways());
        self.next_number.store(round, Ordering::Relaxed);
    }

    /// Returns whether there was a moment, just now, when no fom was in flight.
    pub(crate) fn is_idle(&self) -> bool {
        // No fom is missed: what leaves the queue is counted in its home first.
        let homes = self.localities.iter().map(|home| &home.counts);
        all_idle(homes.chain(std::iter::once(&self.queued)))
    }

    /// Returns the fom that has this key, and brings it back if it rests.
    pub(crate) fn find<O: Operation>(&self, key: &Key) -> Option<FomRef<O>> {
        let found = self.find_any(&KeyOf::key(TypeId::of::<O>(), key.clone()));
        found.as_ref().and_then(FomRef::of_any)
    }

    /// As [`find`](Self::find), for an operation type that is known by its id.
    pub(crate) fn find_any(&self, of: &KeyOf) -> Option<AnyRef> {
        let found = self.key_index.find_any(of);
        let recorder = self.env.recorder();
        let Some(recorder) = recorder.filter(|recorder| recorder.lets_foms_rest()) else {
            return found;
        };
        if found.is_some() {
            return found;
        }
        recorder.revive_key(of);
        // Even if no fom was resting: another thread may have brought it back after the first look.
        self.key_index.find_any(of)
    }

    /// Runs `what` inside the locality of this fom. Returns `false` if the fom is not in flight.
    ///
    /// No other address of the fom may exist, and then the fom counts on being alone.
    pub(super) fn tell(&self, id: FomId, what: fn(&AnyRef)) -> bool {
        let found = self.find_id_revived(id);
        // A fom that ends is in the directory until its outcome is known.
        let Some(fom) = found.filter(|fom| fom.token.state() != FomState::Finished) else {
            return false;
        };
        locality::at_home_of(fom, what);
        true
    }

    /// Returns the fom with this id. A resting fom comes back.
    pub(super) fn find_id_revived(&self, id: FomId) -> Option<AnyRef> {
        self.find_id(id).or_else(|| {
            let recorder = self.env.recorder()?;
            recorder.revive(id);
            recorder.lets_foms_rest().then(|| self.find_id(id))?
        })
    }

    /// Returns the fom with this id, if it does not rest. For [`tell`](Self::tell), or to read it.
    pub(crate) fn find_id(&self, id: FomId) -> Option<AnyRef> {
        let mut homes = self.localities.iter();
        homes.find_map(|home| home.pools.find(id))
    }

    /// Returns the index of the home of foms with this key.
    pub(crate) fn home_of(&self, key: &Key) -> usize {
        self.key_index.hash(key).home(self.localities.len())
    }

    /// Returns the index of the next home in round-robin order.
    pub(crate) fn next_home(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed) % self.localities.len()
    }

    /// Goes to a stricter mode, never back.
    pub(crate) fn close(&self, mode: RuntimeState) {
        self.env.raise_state(mode);
        self.poke_recorder();
        let runtime = Runtime::of(self);
        for part in self.attachments.all() {
            fenced(&runtime, || part.state_changed(&runtime));
        }
        // A submission that waits for room sees the new mode, or is seen here.
        self.key_index.dismiss(self);
        self.env.dismiss_waits_for_room();
    }

    /// Returns whether the runtime takes nothing more from this thread.
    pub(crate) fn is_late(&self) -> bool {
        match self.env.state() {
            RuntimeState::Open => false,
            RuntimeState::Draining => !runs_fom_of(&self.env),
            RuntimeState::Closed => true,
        }
    }

    fn poke_recorder(&self) {
        if let Some(recorder) = self.env.recorder() {
            recorder.poke();
        }
    }

    /// Ends the daemons if the runtime drains and nothing else is left.
    fn end_resting(&self) {
        if self.env.state() == RuntimeState::Draining {
            let in_flight = || {
                // Read first: what leaves the queue is counted in its home before that.
                let queued = self.queued.in_flight();
                let homes = self.localities.iter();
                queued + homes.map(|home| home.counts.in_flight()).sum::<usize>()
            };
            fenced(&Runtime::of(self), || self.daemons.end_if_alone(in_flight));
        }
    }

    /// Blocks until no fom is in flight, or until `by`.
    pub(super) fn wait_idle(&self, by: Instant) -> bool {
        let _waiter = Waiter::new(self);
        self.end_resting();
        self.wait_until(by, |_| self.is_idle())
    }

    /// Blocks until this many localities have ended, or until `by`.
    pub(super) fn wait_ended(&self, localities: usize, by: Instant) -> bool {
        self.wait_until(by, |ended| ended == localities)
    }

    fn wait_until(&self, by: Instant, done: impl Fn(usize) -> bool) -> bool {
        let ended = self.ends.localities.lock();
        let (_, is_done) = self
            .ends
            .changed
            .wait_until(ended, by, |ended| done(*ended));
        is_done
    }

    /// Resolves when no fom is in flight.
    pub(super) async fn idle(&self) {
        let _waiter = Waiter::new(self);
        loop {
            let notified = self.ends.idle.notified();
            let mut notified = std::pin::pin!(notified);
            notified.as_mut().enable();
            if self.env.resting() == 0 && self.is_idle() {
                return;
            }
            notified.await;
        }
    }
}
