//! What all localities of a runtime share.

use std::{
    any::TypeId,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use crossbeam_utils::CachePadded;

use crate::{
    balance::Balance,
    clock::{Clock, Moved},
    fom::{AnyRef, Env},
    heap::Heap,
    id::{FomId, Key, KeyOf},
    locality::{BlockWatch, BudgetLimits, IdleSet, Locality, Spawner},
    operation::Operation,
    runtime::{
        Budget, FomRef, Runtime,
        extension::{Attachments, Daemons, fenced},
        key_index::KeyIndex,
        keys::Rooms,
        resources::Resources,
    },
};
use fom_protocol::{
    InFlight, Waiters, all_idle,
    sync::{
        Condvar, Mutex,
        atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering},
    },
};

/// What a runtime takes. A runtime only goes to a later state, never back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum RuntimeState {
    /// All submissions.
    Open = 0,
    /// Only the submissions of foms in flight.
    Draining = 1,
    /// Nothing.
    Closed = 2,
}

/// What all localities of a runtime share.
#[allow(missing_debug_implementations, reason = "hidden, for `fom-durable`")]
pub struct Shared {
    /// What the foms share.
    pub(crate) env: Env,
    pub(crate) resources: Resources,
    pub(crate) key_index: KeyIndex,
    pub(crate) spawner: Spawner,
    pub(crate) block_watch: BlockWatch,
    pub(crate) budget: BudgetLimits,
    pub(crate) balance: Balance,
    /// The localities that want foms, if foms are moved.
    pub(crate) idle_set: IdleSet,
    /// Whether nothing that a fom submits is remembered, limited or journaled.
    plain: bool,
    /// How long a handler looks for work before it sleeps, in nanoseconds.
    #[cfg_attr(
        fom_shuttle,
        allow(dead_code, reason = "the model's reactor knows no time")
    )]
    pub(crate) spin: u64,
    capacity: usize,
    /// Counts what is queued in front of the localities, which has no home yet.
    pub(crate) queued: InFlight,
    /// The parts that other packages bring.
    pub(super) attachments: Attachments,
    /// How much of the capacity is taken. The counts of the localities do not serve for this: they go down only after
    /// the outcome was told, and a caller that hears of an end may rely on there being room.
    taken: CachePadded<AtomicUsize>,
    /// Foms that wait for their next attempt and have lent their room to others.
    paused: AtomicUsize,
    pub(super) rooms: Rooms,
    pub(crate) heap: Heap,
    pub(crate) localities: Box<[Locality]>,
    mode: AtomicU8,
    /// The foms that a drain does not wait for.
    pub(super) daemons: Daemons,
    /// The callers that wait until no fom is in flight.
    waiters: Waiters,
    next_number: CachePadded<AtomicU64>,
    next_event: CachePadded<AtomicU64>,
    pub(crate) turn: CachePadded<AtomicUsize>,
    ends: Mutex<Ends>,
    changed: Condvar,
    idle: tokio::sync::Notify,
}

#[derive(Default)]
struct Ends {
    localities: usize,
}

pub(super) struct Settings {
    pub(super) clock: Clock,
    pub(super) resources: Resources,
    pub(super) spawner: Spawner,
    pub(super) budget: Budget,
    pub(super) balance: Balance,
    pub(super) mailbox: usize,
    pub(super) history: usize,
    pub(super) capacity: usize,
    pub(super) key_queue: usize,
    pub(super) spin: Duration,
    pub(super) localities: Box<[Locality]>,
    pub(super) journaled: bool,
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
        let mut budget = BudgetLimits {
            phases: settings.budget.phases.try_into().unwrap_or(i32::MAX),
            nanos: fom_protocol::nanos(settings.budget.time),
        };
        if budget.nanos == 0 {
            // The first step uses up this budget. The next look at the clock would notice that too late.
            budget.phases = budget.phases.min(1);
        }
        Arc::new(Self {
            env: Env::new(
                settings.clock,
                settings.journaled,
                settings.mailbox,
                settings.history,
            ),
            resources: settings.resources,
            key_index: KeyIndex::new(settings.key_queue),
            spawner: settings.spawner,
            block_watch: BlockWatch::default(),
            budget,
            balance: settings.balance,
            idle_set: IdleSet::new(settings.localities.len()),
            plain: settings.capacity == usize::MAX && settings.history == 0 && !settings.journaled,
            capacity: settings.capacity,
            spin: fom_protocol::nanos(settings.spin),
            taken: CachePadded::new(AtomicUsize::new(0)),
            queued: InFlight::default(),
            attachments: Attachments::default(),
            paused: AtomicUsize::new(0),
            rooms: Rooms::default(),
            heap: Heap::default(),
            localities: settings.localities,
            mode: AtomicU8::new(RuntimeState::Open as u8),
            daemons: Daemons::default(),
            waiters: Waiters::default(),
            next_number: CachePadded::new(AtomicU64::new(0)),
            next_event: CachePadded::new(AtomicU64::new(0)),
            turn: CachePadded::new(AtomicUsize::new(0)),
            ends: Mutex::new(Ends::default()),
            changed: Condvar::default(),
            idle: tokio::sync::Notify::new(),
        })
    }

    /// Returns the id of the next fom that is submitted from outside the localities. The outside and each locality draw
    /// interleaved numbers, so that no thread shares a counter with a locality.
    pub(crate) fn next_id(&self) -> FomId {
        FomId(self.next_number.fetch_add(1, Ordering::Relaxed) * self.ways() + 1)
    }

    /// Returns the number of the next event that this thread sends. No other event of this run has it.
    #[cold]
    pub(crate) fn next_event(self: &Arc<Self>) -> u64 {
        let here = crate::locality::with_core(|core| core.next_event(self));
        let elsewhere = || self.next_event.fetch_add(1, Ordering::Relaxed) * self.ways() + 1;
        here.flatten().unwrap_or_else(elsewhere)
    }

    /// Numbers new foms from `first` on.
    pub(crate) fn number_from(&self, first: u64) {
        let round = first.div_ceil(self.ways());
        self.next_number.store(round, Ordering::Relaxed);
    }

    /// Returns how many counters number foms: one for each locality, and one for the outside.
    #[inline]
    pub(crate) fn ways(&self) -> u64 {
        self.localities.len() as u64 + 1
    }

    /// Returns whether the runtime takes everything that a fom submits, and keeps nothing of it.
    #[inline]
    pub(crate) fn takes_all(&self) -> bool {
        self.mode.load(Ordering::Relaxed) != RuntimeState::Closed as u8 && self.plain
    }

    /// Returns whether nothing of a fom is remembered, limited or journaled.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.plain
    }

    /// Returns whether there was a moment, just now, when no fom was in flight.
    pub(crate) fn is_idle(&self) -> bool {
        // No fom is missed: what leaves the queue is counted in its home first.
        let homes = self.localities.iter().map(|home| &home.counts);
        all_idle(homes.chain(std::iter::once(&self.queued)))
    }

    pub(super) fn state(&self) -> RuntimeState {
        match self.mode.load(Ordering::SeqCst) {
            0 => RuntimeState::Open,
            1 => RuntimeState::Draining,
            _ => RuntimeState::Closed,
        }
    }

    /// Returns the fom that has this key, and brings it back if it rests.
    pub(crate) fn find<O: Operation>(&self, key: &Key) -> Option<FomRef<O>> {
        let found = self.find_any(&(TypeId::of::<O>(), key.clone()));
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

    /// Returns whether the runtime takes nothing from outside.
    pub(crate) fn takes_nothing(&self) -> bool {
        self.state() != RuntimeState::Open
    }

    /// Returns whether nothing more may begin here.
    pub(crate) fn is_closed(&self) -> bool {
        self.state() == RuntimeState::Closed
    }

    /// Returns the index of the home of foms with this key.
    pub(crate) fn home_of(&self, key: &Key) -> usize {
        (self.key_index.hash(key) % self.localities.len() as u64) as usize
    }

    /// Returns the index of the next home in round-robin order.
    pub(crate) fn next_home(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed) % self.localities.len()
    }

    /// Goes to a stricter mode, never back.
    pub(super) fn close(self: &Arc<Self>, mode: RuntimeState) {
        self.mode.fetch_max(mode as u8, Ordering::SeqCst);
        self.poke_recorder();
        let runtime = Runtime::of(self);
        for part in self.attachments.all() {
            fenced(&runtime, || part.state_changed(&runtime));
        }
        // A submission that waits for room sees the new mode, or is seen here.
        self.key_index.dismiss(self);
        for one in self.rooms.dismiss() {
            self.told("the end of a wait for room", || {
                drop(one);
                true
            });
        }
    }

    /// Returns whether the runtime takes nothing more from this thread.
    pub(crate) fn is_late(&self) -> bool {
        match self.state() {
            RuntimeState::Open => false,
            RuntimeState::Draining => !crate::locality::runs_fom_of(self),
            RuntimeState::Closed => true,
        }
    }

    /// Takes room for one more fom, if there is any.
    pub(super) fn take_room(&self) -> bool {
        let one_more = |taken| (taken < self.capacity).then_some(taken + 1);
        self.capacity == usize::MAX
            || self
                .taken
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more)
                .is_ok()
    }

    /// Takes room for a fom even if there is none left.
    pub(crate) fn take_room_again(&self) {
        if self.capacity != usize::MAX {
            self.taken.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn poke_recorder(&self) {
        if let Some(recorder) = self.env.recorder() {
            recorder.poke();
        }
    }

    pub(crate) fn give_room(&self) {
        if self.capacity != usize::MAX {
            self.put_room_back();
            if self.rooms.any() {
                self.hand_out_room();
            }
        }
    }

    pub(super) fn put_room_back(&self) {
        self.taken.fetch_sub(1, Ordering::SeqCst);
    }

    /// Lends the room of a fom with a key that waits for its next attempt. At most as much room is lent as the
    /// capacity. Returns `false` if the fom keeps its room.
    pub(crate) fn pause_room(&self) -> bool {
        let one_more = |paused| (paused < self.capacity).then_some(paused + 1);
        let paused = self.capacity != usize::MAX
            && self
                .paused
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more)
                .is_ok();
        if paused {
            self.give_room();
        }
        paused
    }

    /// Takes room again for a fom that had lent it.
    pub(crate) fn resume_room(&self) {
        self.take_room_again();
        self.paused.fetch_sub(1, Ordering::AcqRel);
    }

    /// Wakes the callers that wait until no fom is in flight, if there is none. Called when a handler has nothing to
    /// run, and when a count went down.
    pub(crate) fn tell_idle(&self) {
        if !self.waiters.any() {
            return;
        }
        self.end_resting();
        if self.is_idle() {
            // Under the lock: a waiter that saw a fom in flight is in its wait by then.
            let ends = self.ends.lock();
            self.changed.notify_all();
            drop(ends);
            // Last, because these wakers are the users' and may panic.
            let notify = || self.idle.notify_waiters();
            if let Err(panic) = catch_unwind(AssertUnwindSafe(notify)) {
                self.env.report(format!(
                    "a waker panicked while the idle were told: {}",
                    fom_protocol::panic_message(panic)
                ));
            }
        }
    }

    pub(crate) fn locality_ended(&self) {
        let mut ends = self.ends.lock();
        ends.localities += 1;
        self.changed.notify_all();
        if ends.localities == self.localities.len() {
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

    /// Ends the daemons if the runtime drains and nothing else is left.
    fn end_resting(&self) {
        if self.state() == RuntimeState::Draining {
            self.daemons.end_if_alone(|| {
                // Read first: what leaves the queue is counted in its home before that.
                let queued = self.queued.in_flight();
                let homes = self.localities.iter();
                queued + homes.map(|home| home.counts.in_flight()).sum::<usize>()
            });
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
        self.wait_until(by, |ends| ends.localities == localities)
    }

    fn wait_until(&self, by: Instant, done: impl Fn(&Ends) -> bool) -> bool {
        let mut ends = self.ends.lock();
        loop {
            if done(&ends) {
                return true;
            }
            let left = by.saturating_duration_since(fom_protocol::sync::now());
            if left.is_zero() {
                return false;
            }
            (ends, _) = self
                .changed
                .wait_for(ends, left.min(Duration::from_secs(3600)));
        }
    }

    /// Resolves when no fom is in flight.
    pub(super) async fn idle(&self) {
        let _waiter = Waiter::new(self);
        loop {
            let notified = self.idle.notified();
            let mut notified = std::pin::pin!(notified);
            notified.as_mut().enable();
            if self.env.resting() == 0 && self.is_idle() {
                return;
            }
            notified.await;
        }
    }
}
