//! What a fom touches of its locality while it runs: the time, its budget, the run queue, the timers and the memory.
//!
//! The [`Hand`] is the first part of the locality's core. The thread that runs a fom has it within reach: see
//! [`peek`](context::peek). So a step, a wake and a submission at home call nothing above.

mod budget;
pub(crate) mod context;
mod estimates;
mod parcel;
mod prefetch;
mod queue;
mod timer_slab;
mod timers;
mod wheel;

use std::{collections::VecDeque, ptr::NonNull, sync::Arc, task::Waker};

pub(crate) use self::{
    budget::BudgetLimits,
    estimates::{Estimate, Estimates, Gauge, Gauges, estimate},
    parcel::{Message, Parcel},
    prefetch::prefetch_fom,
    timer_slab::TimerKey,
    timers::{Due, Sleeper, Timer, Timers},
};
use self::{budget::RunBudget, context::peek, queue::RunQueue};
use crate::{
    fom::{Env, EnvRef, Header, LocalFoms, Resident, Stocks, flight::Kind, reference::of_waker},
    id::FomId,
};
use fom_protocol::{FomState, Reader, TraceRing, sync::atomic::Ordering};

/// What a fom touches of its locality while it runs. Only the thread that holds the locality's core touches it.
pub(crate) struct Hand {
    env: EnvRef,
    /// The index of the locality.
    index: usize,
    foms: Arc<LocalFoms>,
    /// The fom that runs on the thread that holds the core. While the core lies in the slot, the fom of that section.
    pub(crate) running: Option<NonNull<Header>>,
    pub(crate) run_budget: RunBudget,
    pub(crate) queue: RunQueue,
    /// Messages that were taken out of the inbox.
    pub(crate) messages: VecDeque<Message>,
    pub(crate) timers: Timers,
    /// How long visits of adaptive phases take here.
    pub(crate) estimates: Estimates,
    /// Memory for foms that are submitted here.
    pub(crate) stocks: Stocks,
    numbers: Numbers,
    /// The ring of the flight recorder, if there is a recorder.
    pub(super) flight: Option<Arc<TraceRing>>,
}

/// The numbers that a locality gives.
struct Numbers {
    /// The distance to the next number of each kind.
    ways: u64,
    /// The id of the last fom that was submitted here.
    fom: u64,
    /// The number of the last event that this locality sent to a fom with event ids.
    event: u64,
}

// SAFETY: `running` points to a header, which is `Sync`; all other fields are `Send` themselves.
unsafe impl Send for Hand {}

impl Hand {
    /// Creates the hand of this locality.
    pub(crate) fn new(env: EnvRef, index: usize, now: u64, budget: BudgetLimits) -> Self {
        let ways = env.ways();
        let last = (index as u64 + 2).wrapping_sub(ways);
        Self {
            index,
            foms: Arc::clone(&env.homes[index]),
            flight: env.flight().map(|flight| flight.ring(index)),
            env,
            running: None,
            run_budget: RunBudget::new(budget),
            queue: RunQueue::default(),
            messages: VecDeque::new(),
            timers: Timers::new(now),
            estimates: Estimates::default(),
            stocks: Stocks::of_core(),
            numbers: Numbers {
                ways,
                fom: last,
                event: last,
            },
        }
    }

    /// Returns whether this is locality `index` of this runtime.
    #[inline]
    pub(crate) fn is(&self, env: &Env, index: usize) -> bool {
        self.env.is(env) && self.index == index
    }

    /// Returns the index of the locality.
    #[inline]
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Returns the index of the locality, if it is one of this runtime.
    #[inline]
    pub(crate) fn index_in(&self, env: &Env) -> Option<usize> {
        self.env.is(env).then_some(self.index)
    }

    /// Returns the time as of the last look.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.run_budget.now()
    }

    /// Begins a run of a fom.
    #[inline]
    pub(crate) fn begin_run(&mut self) {
        self.run_budget.begin(&self.env.clock);
    }

    #[cold]
    #[inline(never)]
    fn fall_due(&mut self) -> (u64, bool) {
        self.run_budget.fall_due(&self.env.clock)
    }

    /// Reads the clock.
    pub(crate) fn look(&mut self) -> u64 {
        self.run_budget.look(&self.env.clock)
    }

    /// Returns the fom that runs.
    pub(crate) fn running(&self) -> Option<&Header> {
        // SAFETY: a fom does not end while it is noted in `running`.
        self.running.map(|fom| unsafe { fom.as_ref() })
    }

    /// Takes in the parcels of the inbox.
    pub(crate) fn drain(&mut self) {
        let mail = self.foms.inbox.drain();
        let mut arrived = 0;
        for parcel in mail {
            arrived += 1;
            match parcel {
                Parcel::Fom(fom) => {
                    self.record(Kind::Arrived, &fom);
                    self.enqueue(fom);
                }
                Parcel::Message(message) => self.messages.push_back(message),
            }
        }
        self.foms.arrived.store(arrived, Ordering::Relaxed);
    }

    /// Queues the fom at the tail of its run queue.
    #[inline]
    pub(crate) fn enqueue(&mut self, fom: Resident) {
        if fom.token.state() == FomState::Init {
            fom.token.admit(fom.is_alone());
        }
        self.queue.push(fom);
    }

    /// Queues the fom at the tail of its run queue, from the thread that runs here. That thread may have put parcels
    /// into the inbox while its core was out of reach (`Cx::local`). Those parcels come first.
    #[inline]
    pub(crate) fn enqueue_after_mail(&mut self, fom: Resident) {
        if self.foms.inbox.has_mail() {
            self.drain();
        }
        self.enqueue(fom);
    }

    /// As [`enqueue_after_mail`](Self::enqueue_after_mail), for a fom that was born ready or was just woken. It needs
    /// no admission.
    #[inline]
    pub(crate) fn enqueue_ready(&mut self, fom: Resident) {
        if self.foms.inbox.has_mail() {
            self.drain();
        }
        debug_assert_ne!(fom.token.state(), FomState::Init);
        self.queue.push(fom);
    }

    /// Wakes a fom. A fom that lives here goes straight into its run queue.
    #[inline]
    pub(crate) fn wake(&mut self, fom: &Header) {
        if !self.is(fom.env(), fom.home_index()) {
            fom.wake();
        } else if fom.wake_here() {
            // SAFETY: the fom's token was just taken from Waiting to Ready.
            self.enqueue_woken(unsafe { Resident::new(fom.whole()) });
        }
    }

    /// Queues a fom that was just woken. If the runtime has a recorder, records the wake.
    #[inline]
    fn enqueue_woken(&mut self, fom: Resident) {
        if self.is_recorded() {
            self.enqueue_recorded(fom);
        } else {
            self.enqueue_ready(fom);
        }
    }

    /// A separate function, so that a runtime without a recorder does not pay for it.
    #[inline(never)]
    fn enqueue_recorded(&mut self, fom: Resident) {
        self.record_by_running(Kind::Woken, &fom);
        self.enqueue_ready(fom);
    }

    /// Wakes the fom of a timer that has fired.
    pub(crate) fn fire(&mut self, header: NonNull<Header>, now: u64) {
        // SAFETY: the timer was armed until just now, so the fom had not ended. A fom ends in a run, and none came between.
        let fom = unsafe { header.as_ref() };
        if let Some(timing) = fom.timing() {
            timing.fired(fom, now);
        }
        self.wake_by_timer(fom);
    }

    /// Wakes a fom because a timer has fired.
    pub(crate) fn wake_by_timer(&mut self, fom: &Header) {
        if fom.wake_here() {
            self.record(Kind::TimerFired, fom);
            // SAFETY: the fom's token was just taken from Waiting to Ready.
            self.enqueue(unsafe { Resident::new(fom.whole()) });
        }
    }

    /// Wakes the fom of this waker at once, if it lives here. Returns `false` if the waker must be woken.
    pub(crate) fn wake_sleeping(&mut self, waker: &Waker) -> bool {
        let fom = of_waker(waker).filter(|fom| self.is(fom.env(), fom.home_index()));
        if let Some(fom) = fom {
            self.wake_by_timer(fom);
        }
        fom.is_some()
    }

    /// Counts a fom that is submitted here. Returns its id, and the time as of the last look.
    #[inline]
    pub(crate) fn one_born(&mut self) -> (FomId, u64) {
        self.foms.counts.one_born();
        (self.one_numbered(), self.now())
    }

    /// Counts a fom that already has its id.
    pub(crate) fn one_born_as(&mut self, id: FomId) -> (FomId, u64) {
        self.foms.counts.one_born();
        (id, self.now())
    }

    /// Returns the id for a fom that will be submitted.
    pub(crate) fn one_numbered(&mut self) -> FomId {
        let Numbers { ways, fom, .. } = &mut self.numbers;
        *fom = fom.wrapping_add(*ways);
        FomId(*fom)
    }

    /// Returns the number for an event that is sent from here, if this is a locality of this runtime.
    pub(crate) fn next_event(&mut self, of: &Env) -> Option<u64> {
        self.env.is(of).then(|| {
            let Numbers { ways, event, .. } = &mut self.numbers;
            *event = event.wrapping_add(*ways);
            *event
        })
    }

    /// Makes the following ids `first` or higher.
    pub(crate) fn number_from(&mut self, first: u64) {
        let ways = self.numbers.ways;
        let round = first.div_ceil(ways);
        self.numbers.fom = (round * ways + self.index as u64 + 2).wrapping_sub(ways);
    }
}

/// Queues a fom that was just woken, on the home's own thread straight into the run queue. The caller keeps the runtime
/// alive, because the fom may be gone as soon as it is queued.
#[inline(never)]
pub(crate) fn enqueue_woken(env: &EnvRef, fom: Resident) {
    let index = fom.home_index();
    // SAFETY: only pointers are queued; no user code runs before the guard drops.
    if let Some(mut hand) = unsafe { peek() }
        && hand.is(env, index)
    {
        hand.enqueue_woken(fom);
        return;
    }
    post(env, index, fom);
}

/// Puts a fom into the inbox of its home.
#[cold]
#[inline(never)]
fn post(env: &EnvRef, index: usize, fom: Resident) {
    // SAFETY: only numbers are copied.
    if let Some(hand) = unsafe { peek() } {
        hand.record_by_running(Kind::Woken, &fom);
    }
    let home = &env.homes[index];
    let reader = home.inbox.push(Parcel::Fom(fom));
    if reader != Reader::Awake || home.is_closed() {
        env.host().posted(index, reader);
    }
}

/// Counts a step of a fom against its budget. Returns the time as of a few steps ago, and whether the fom must go to
/// the tail.
#[inline]
pub(crate) fn step(env: &Env) -> (u64, bool) {
    // SAFETY: the clock is the runtime's own, so no user code runs.
    match unsafe { peek() } {
        Some(mut hand) => {
            let now = hand.run_budget.step();
            now.unwrap_or_else(|| hand.fall_due())
        }
        // User code has leaked the guard of a blocking section. That state ends with the run.
        None => (away(env), true),
    }
}

/// Returns the time for a thread that has no core.
#[cold]
#[inline(never)]
fn away(env: &Env) -> u64 {
    env.clock.nanos()
}

/// Notes the first step of a fom, which is free. Otherwise a thread might lose its processor just before that step. A
/// fom that has not run at all would then go to the tail, behind foms submitted after it.
#[inline]
pub(crate) fn first_step(env: &Env) -> u64 {
    // SAFETY: as in `step`.
    match unsafe { peek() } {
        Some(mut hand) => {
            let now = hand.run_budget.free_step();
            now.unwrap_or_else(|| hand.fall_due()).0
        }
        None => away(env),
    }
}

/// Reads the clock.
pub(crate) fn look(env: &Env) -> u64 {
    // SAFETY: as in `step`.
    match unsafe { peek() } {
        Some(mut hand) => hand.look(),
        None => away(env),
    }
}

/// Returns whether the running fom must go to the tail.
#[inline]
pub(crate) fn spent() -> bool {
    // SAFETY: only a number is read.
    unsafe { peek() }.is_none_or(|hand| hand.run_budget.spent())
}

/// Returns the time as of a few steps ago, on a thread that holds a core.
#[inline]
pub(crate) fn now(env: &Env) -> u64 {
    // SAFETY: as in `spent`.
    unsafe { peek() }.map_or_else(|| away(env), |hand| hand.now())
}

/// Returns whether this thread holds the core of this locality.
#[inline]
pub(crate) fn holds(env: &Env, index: usize) -> bool {
    // SAFETY: only pointers are compared.
    unsafe { peek() }.is_some_and(|hand| hand.is(env, index))
}

/// Returns the locality of this runtime of which this thread holds the core.
#[inline]
pub(crate) fn here_in(env: &Env) -> Option<usize> {
    // SAFETY: as in `holds`.
    unsafe { peek() }?.index_in(env)
}

/// Takes the core back if the code of the fom returned without ending its blocking section: its guard was leaked.
#[inline]
pub fn regain_leaked(fom: &Header) {
    if !context::has_core() {
        regain(fom);
    }
}

#[cold]
#[inline(never)]
fn regain(fom: &Header) {
    if context::runs(fom) {
        fom.env().host().regain(fom);
    }
}
