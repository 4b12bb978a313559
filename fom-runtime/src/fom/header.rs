//! What any thread may know of a fom.

use std::{any::TypeId, collections::VecDeque, sync::Arc, time::Duration};

use crate::{
    Graph, PhaseInfo,
    fom::Progress,
    id::{FomId, Key},
    locality::{Locality, Parcel},
    protocol::{Cancelled, Link, Token},
    runtime::{Priority, TypeEntry, World},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
};

/// A fom whose operation type is of no interest.
pub(crate) trait AnyFom: Parcel {
    fn header(&self) -> &Header;
    /// Runs it once. Only in Running, on the thread that holds its home locality's core.
    fn run(self: Arc<Self>) -> Progress;
    /// Answers whoever waits, although the fom cannot be stopped.
    fn abandon(&self);
    fn parked_events(&self) -> usize;
    /// The size of its allocation.
    fn bytes(&self) -> usize;
}

/// What a fom waits for, as one number: small, and readable from any thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitingFor {
    Nothing,
    Future,
    Event,
    Timer,
    Retry,
    Blocking,
    /// An answer of the resource at this place of the table.
    Resource(u32),
}

const RESOURCES_FROM: u32 = 16;

impl WaitingFor {
    fn encode(self) -> u32 {
        match self {
            Self::Nothing => 0,
            Self::Future => 1,
            Self::Event => 2,
            Self::Timer => 3,
            Self::Retry => 4,
            Self::Blocking => 5,
            Self::Resource(place) => RESOURCES_FROM + place,
        }
    }

    fn decode(code: u32) -> Self {
        match code {
            1 => Self::Future,
            2 => Self::Event,
            3 => Self::Timer,
            4 => Self::Retry,
            5 => Self::Blocking,
            place if place >= RESOURCES_FROM => Self::Resource(place - RESOURCES_FROM),
            _ => Self::Nothing,
        }
    }
}

/// Why a fom is not to go on with its phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupt {
    Late,
    Cancelled,
    Shutdown,
}

const NO_DEADLINE: u64 = u64::MAX;
/// `late_of`: no deadline passed.
const NOT_LATE: u16 = u16::MAX;

/// The most lines of history that are allocated with the fom; more come as they are needed.
const HISTORY_AT_ONCE: usize = 64;

/// One line of a fom's history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) phase: u16,
    pub(crate) at: u64,
}

pub(crate) struct Header {
    pub(crate) id: FomId,
    pub(crate) token: Token,
    pub(crate) home: Arc<Locality>,
    pub(crate) priority: Priority,
    pub(crate) key: Option<Key>,
    pub(crate) entry: Arc<TypeEntry>,
    pub(crate) submitted: u64,
    link: Link<dyn Parcel>,
    phase: AtomicU16,
    since: AtomicU64,
    waiting: AtomicU32,
    attempt: AtomicU32,
    /// The phase whose deadline passed in this visit.
    late_of: AtomicU16,
    /// The deadline of this visit, and one that an earlier phase keeps over it with the phase that armed it.
    deadline: AtomicU64,
    kept: AtomicU64,
    kept_by: AtomicU16,
    /// The key of the timer in the core's wheel.
    armed: AtomicU64,
    shutdown: AtomicBool,
    /// It has entered its first phase.
    begun: AtomicBool,
    /// Somebody waits for a phase of it.
    pub(crate) watched: AtomicBool,
    /// Threads that it has blocked at this moment: 0 or 1.
    blocked: AtomicU8,
    slot: AtomicUsize,
    history: Option<Box<Mutex<VecDeque<Seen>>>>,
}

impl Header {
    pub(crate) fn new(
        id: FomId,
        home: Arc<Locality>,
        priority: Priority,
        key: Option<Key>,
        entry: Arc<TypeEntry>,
        phase: usize,
    ) -> Self {
        let now = home.world.clock.nanos();
        let history = home.world.history;
        Self {
            id,
            token: Token::new(),
            home,
            priority,
            key,
            entry,
            submitted: now,
            link: Link::new(),
            phase: AtomicU16::new(phase as u16),
            since: AtomicU64::new(now),
            waiting: AtomicU32::new(0),
            attempt: AtomicU32::new(0),
            late_of: AtomicU16::new(NOT_LATE),
            deadline: AtomicU64::new(NO_DEADLINE),
            kept: AtomicU64::new(NO_DEADLINE),
            kept_by: AtomicU16::new(0),
            armed: AtomicU64::new(NO_DEADLINE),
            shutdown: AtomicBool::new(false),
            begun: AtomicBool::new(false),
            watched: AtomicBool::new(false),
            blocked: AtomicU8::new(0),
            slot: AtomicUsize::new(usize::MAX),
            history: (history > 0).then(|| {
                Box::new(Mutex::new(VecDeque::with_capacity(
                    history.min(HISTORY_AT_ONCE),
                )))
            }),
        }
    }

    pub(crate) fn link(&self) -> &Link<dyn Parcel> {
        &self.link
    }

    pub(crate) fn world(&self) -> &Arc<World> {
        &self.home.world
    }

    pub(crate) fn graph(&self) -> &'static Graph {
        self.entry.graph
    }

    pub(crate) fn type_name(&self) -> &'static str {
        self.entry.graph.operation()
    }

    pub(crate) fn type_id(&self) -> TypeId {
        self.entry.type_id
    }

    pub(crate) fn phase_index(&self) -> usize {
        self.phase.load(Ordering::Acquire).into()
    }

    pub(crate) fn phase_info(&self) -> &'static PhaseInfo {
        &self.graph().phases()[self.phase_index()]
    }

    pub(crate) fn phase_name(&self) -> &'static str {
        self.phase_info().name()
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    pub(crate) fn since(&self) -> u64 {
        self.since.load(Ordering::Acquire)
    }

    pub(crate) fn attempt(&self) -> u32 {
        self.attempt.load(Ordering::Relaxed)
    }

    pub(crate) fn set_attempt(&self, attempt: u32) {
        self.attempt.store(attempt, Ordering::Relaxed);
    }

    pub(crate) fn waiting_for(&self) -> WaitingFor {
        WaitingFor::decode(self.waiting.load(Ordering::Relaxed))
    }

    pub(crate) fn set_waiting_for(&self, what: WaitingFor) {
        self.waiting.store(what.encode(), Ordering::Relaxed);
    }

    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn set_blocked(&self, blocked: bool) {
        self.blocked.store(blocked.into(), Ordering::Relaxed);
    }

    pub(crate) fn slot(&self) -> &AtomicUsize {
        &self.slot
    }

    pub(crate) fn history(&self) -> Vec<Seen> {
        self.history
            .as_ref()
            .map(|log| log.lock().iter().copied().collect())
            .unwrap_or_default()
    }

    /// Wakes it at `at`, or before if a deadline is nearer.
    pub(crate) fn arm_until(&self, at: u64) {
        self.arm(self.deadline().map_or(at, |deadline| deadline.min(at)));
    }

    /// Back to the deadlines alone, after something else used the timer.
    pub(crate) fn arm_deadline(&self) {
        self.arm(self.deadline().unwrap_or(NO_DEADLINE));
    }

    /// The nearest deadline that stands over this visit.
    pub(crate) fn deadline(&self) -> Option<u64> {
        let nearest = self
            .deadline
            .load(Ordering::Relaxed)
            .min(self.kept.load(Ordering::Relaxed));
        (nearest != NO_DEADLINE).then_some(nearest)
    }

    /// Begins a visit of the phase at `index`: deadlines first, so that who hears of the visit may move the clock.
    pub(crate) fn enter(&self, index: usize, now: u64, left: Option<u64>) {
        let graph = self.graph();
        let info = &graph.phases()[index];
        let from = self.phase_index();
        let keeps = |owner: usize| {
            graph.phases()[owner]
                .kept_in_indexes()
                .contains(&(index as u16))
        };
        // Which deadlines of before go on: an old kept one, and the one of the phase that is left. The earlier stays.
        let kept_by = usize::from(self.kept_by.load(Ordering::Relaxed));
        let mut kept = self.kept.load(Ordering::Relaxed);
        let mut owner = kept_by;
        if kept != NO_DEADLINE && !keeps(kept_by) {
            kept = NO_DEADLINE;
        }
        let left_behind = self.deadline.load(Ordering::Relaxed);
        if left_behind < kept && from != index && keeps(from) {
            kept = left_behind;
            owner = from;
        }
        let own = match (left, info.within()) {
            (Some(left), _) => now.saturating_add(left),
            (None, Some(within)) => now.saturating_add(crate::clock::nanos(within)),
            (None, None) => NO_DEADLINE,
        };
        self.kept.store(kept, Ordering::Relaxed);
        self.kept_by.store(owner as u16, Ordering::Relaxed);
        self.deadline.store(own, Ordering::Relaxed);
        self.late_of.store(NOT_LATE, Ordering::Relaxed);
        self.arm(own.min(kept));
        self.since.store(now, Ordering::Release);
        self.phase.store(index as u16, Ordering::Release);
        self.waiting.store(0, Ordering::Relaxed);
        self.begun.store(true, Ordering::Release);
        if let Some(log) = &self.history {
            let mut log = log.lock();
            if log.len() == self.world().history {
                log.pop_front();
            }
            log.push_back(Seen {
                phase: index as u16,
                at: now,
            });
        }
    }

    /// Wakes it at this time of the clock, instead of at the time armed before. Only while it runs.
    ///
    /// A timer belongs to one visit: leaving the phase takes it out, on the thread that would fire it.
    pub(crate) fn arm(&self, at: u64) {
        let before = self.armed.swap(at, Ordering::Relaxed);
        if before == at {
            return;
        }
        let id = self.id.0;
        crate::locality::with_core(|core| {
            if before != NO_DEADLINE {
                core.timers.disarm_fom(before, id);
            }
            if at != NO_DEADLINE
                && let Some(fom) = &core.running
            {
                core.timers.arm_fom(at, id, Arc::clone(fom));
            }
        });
    }

    /// The timer fired: the fom is late in this visit if a deadline of it has passed. Only on the core's thread.
    pub(crate) fn timer_fired(&self, now: u64) {
        self.armed.store(NO_DEADLINE, Ordering::Relaxed);
        if self.deadline.load(Ordering::Relaxed) <= now {
            self.late_of
                .store(self.phase.load(Ordering::Relaxed), Ordering::Relaxed);
        } else if self.kept.load(Ordering::Relaxed) <= now {
            self.late_of
                .store(self.kept_by.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// The phase whose deadline passed.
    pub(crate) fn late_of(&self) -> &'static str {
        let index = self.late_of.load(Ordering::Relaxed);
        self.graph()
            .phases()
            .get(usize::from(index))
            .map_or("", PhaseInfo::name)
    }

    /// The lateness was taken notice of: the late function runs without any deadline. One that an earlier phase keeps and
    /// that has not passed goes on after it.
    pub(crate) fn clear_late(&self) {
        self.late_of.store(NOT_LATE, Ordering::Relaxed);
        self.deadline.store(NO_DEADLINE, Ordering::Relaxed);
        if self.kept.load(Ordering::Relaxed) <= self.world().clock.nanos() {
            self.kept.store(NO_DEADLINE, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.shutdown.load(Ordering::Acquire)
    }

    pub(crate) fn interrupt(&self) -> Option<Interrupt> {
        // The token first: `shut_down` says why before it cancels, so that who sees the cancel sees why.
        if self.token.is_cancelled() {
            Some(if self.shutdown.load(Ordering::Acquire) {
                Interrupt::Shutdown
            } else {
                Interrupt::Cancelled
            })
        } else if self.late_of.load(Ordering::Relaxed) != NOT_LATE {
            Some(Interrupt::Late)
        } else {
            None
        }
    }

    /// The end of a fom's life in the tables, before its outcome is told.
    pub(crate) fn leave(&self, failed: bool) {
        let armed = self.armed.swap(NO_DEADLINE, Ordering::Relaxed);
        if armed != NO_DEADLINE {
            let id = self.id.0;
            crate::locality::with_core(|core| core.timers.disarm_fom(armed, id));
        }
        let world = self.world();
        if let Some(key) = &self.key {
            world.directory.remove(self.type_id(), key, self.id);
        }
        self.home.registry.remove(self.slot.load(Ordering::Relaxed));
        // Its home does not end before this run is over, which is the last to look at it.
        self.home.live.fetch_sub(1, Ordering::AcqRel);
        world.give_room();
        self.entry
            .ended(failed, world.clock.nanos().saturating_sub(self.submitted));
    }

    /// The very last step: from here on the runtime may be gone.
    pub(crate) fn count_out(&self) {
        self.world().count_out();
    }

    pub(crate) fn age(&self, now: u64) -> Duration {
        Duration::from_nanos(now.saturating_sub(self.since()))
    }
}

/// Tells a fom to end; what it does is dropped at its next wait.
pub(crate) fn cancel(fom: Arc<dyn AnyFom>) {
    if fom.header().token.cancel() == Cancelled::Enqueue {
        crate::locality::enqueue(fom);
    }
}

/// As [`cancel`], because the runtime shuts down.
pub(crate) fn shut_down(fom: Arc<dyn AnyFom>) {
    fom.header().shutdown.store(true, Ordering::Release);
    cancel(fom);
}
