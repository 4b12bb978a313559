//! What all localities of a runtime share.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use crossbeam_utils::CachePadded;

use crate::{
    Clock,
    locality::{Locality, Spawner},
    runtime::{Budget, directory::Directory, resources::Resources},
    sync::{
        Condvar, Mutex, RwLock,
        atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering},
    },
    watch::Hooks,
};

/// How many incidents are kept.
const INCIDENTS: usize = 64;

/// What a runtime takes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Mode {
    Open = 0,
    /// Only what foms in flight submit.
    Draining = 1,
    Closed = 2,
}

pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) hooks: Hooks,
    pub(crate) resources: Resources,
    pub(crate) directory: Directory,
    pub(crate) spawner: Spawner,
    pub(crate) budget: Budget,
    /// Events kept at most for one fom.
    pub(crate) mailbox: usize,
    /// Phases kept of each fom.
    pub(crate) history: usize,
    capacity: usize,
    /// How much of the capacity is taken. Not `live`, which goes down only after the outcome was told: whoever hears of an
    /// end may rely on there being room.
    taken: CachePadded<AtomicUsize>,
    /// For foms, who find their runtime here. A circle, cut when the last locality has ended.
    localities: RwLock<Option<Arc<[Arc<Locality>]>>>,
    live: CachePadded<AtomicUsize>,
    mode: AtomicU8,
    next_number: CachePadded<AtomicU64>,
    pub(super) turn: AtomicUsize,
    ends: Mutex<Ends>,
    changed: Condvar,
    idle: tokio::sync::Notify,
    incidents: Mutex<VecDeque<String>>,
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
    pub(super) mailbox: usize,
    pub(super) history: usize,
    pub(super) capacity: usize,
}

impl World {
    pub(super) fn new(settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            clock: settings.clock,
            hooks: Hooks::default(),
            resources: settings.resources,
            directory: Directory::default(),
            spawner: settings.spawner,
            budget: settings.budget,
            mailbox: settings.mailbox,
            history: settings.history,
            capacity: settings.capacity,
            taken: CachePadded::new(AtomicUsize::new(0)),
            localities: RwLock::new(None),
            live: CachePadded::new(AtomicUsize::new(0)),
            mode: AtomicU8::new(Mode::Open as u8),
            next_number: CachePadded::new(AtomicU64::new(1)),
            turn: AtomicUsize::new(0),
            ends: Mutex::new(Ends::default()),
            changed: Condvar::default(),
            idle: tokio::sync::Notify::new(),
            incidents: Mutex::new(VecDeque::new()),
        })
    }

    pub(super) fn settle(&self, localities: &Arc<[Arc<Locality>]>) {
        *self.localities.write() = Some(Arc::clone(localities));
    }

    pub(super) fn unsettle(&self) {
        let localities = self.localities.write().take();
        drop(localities);
    }

    /// `None` when all have ended.
    pub(crate) fn localities(&self) -> Option<Arc<[Arc<Locality>]>> {
        self.localities.read().clone()
    }

    /// A number that no other fom or timer of this runtime has.
    pub(crate) fn next_number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn live(&self) -> usize {
        self.live.load(Ordering::Acquire)
    }

    pub(super) fn mode(&self) -> Mode {
        match self.mode.load(Ordering::SeqCst) {
            0 => Mode::Open,
            1 => Mode::Draining,
            _ => Mode::Closed,
        }
    }

    /// Whether nothing more may begin here.
    pub(crate) fn is_closed(&self) -> bool {
        self.mode() == Mode::Closed
    }

    /// Goes to a stricter mode; never back.
    pub(super) fn close(&self, mode: Mode) {
        self.mode.fetch_max(mode as u8, Ordering::SeqCst);
    }

    /// Counts a submission in, before it is decided whether it is taken: a shutdown that begins meanwhile waits for it.
    pub(super) fn count_in(&self) {
        self.live.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes room for one more fom, if there is any.
    pub(super) fn take_room(&self) -> bool {
        let one_more = |taken| (taken < self.capacity).then_some(taken + 1);
        self.capacity == usize::MAX
            || self
                .taken
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more)
                .is_ok()
    }

    pub(crate) fn give_room(&self) {
        if self.capacity != usize::MAX {
            self.taken.fetch_sub(1, Ordering::AcqRel);
        }
    }

    pub(crate) fn count_out(&self) {
        if self.live.fetch_sub(1, Ordering::SeqCst) == 1 {
            // Under the lock: a waiter that saw a number above zero is in its wait by then.
            let ends = self.ends.lock();
            self.changed.notify_all();
            drop(ends);
            // Last, since these wakers are the users', and may panic.
            self.idle.notify_waiters();
        }
    }

    pub(crate) fn locality_ended(&self) {
        let mut ends = self.ends.lock();
        ends.localities += 1;
        let all = self.localities.read().as_ref().map_or(0, |all| all.len());
        if ends.localities == all {
            self.unsettle();
        }
        self.changed.notify_all();
    }

    /// Blocks until no fom is in flight, at most until `by`.
    pub(super) fn wait_idle(&self, by: Instant) -> bool {
        self.wait_until(by, |_| self.live() == 0)
    }

    /// Blocks until so many localities have ended, at most until `by`.
    pub(super) fn wait_ended(&self, localities: usize, by: Instant) -> bool {
        self.wait_until(by, |ends| ends.localities == localities)
    }

    fn wait_until(&self, by: Instant, done: impl Fn(&Ends) -> bool) -> bool {
        let mut ends = self.ends.lock();
        loop {
            if done(&ends) {
                return true;
            }
            let left = by.saturating_duration_since(Instant::now());
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
        loop {
            let notified = self.idle.notified();
            let mut notified = std::pin::pin!(notified);
            notified.as_mut().enable();
            if self.live() == 0 {
                return;
            }
            notified.await;
        }
    }

    /// Something went wrong that ends no operation and that somebody should know of.
    pub(crate) fn incident(&self, what: String) {
        let mut incidents = self.incidents.lock();
        if incidents.len() == INCIDENTS {
            incidents.pop_front();
        }
        incidents.push_back(what);
    }

    pub(crate) fn incidents(&self) -> Vec<String> {
        self.incidents.lock().iter().cloned().collect()
    }
}
