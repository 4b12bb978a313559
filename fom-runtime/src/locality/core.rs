//! The core: all that belongs to one locality alone. The thread that holds the core is the handler.

use std::{any::Any, collections::VecDeque, ptr::NonNull};

use tokio::sync::oneshot;

use crate::{
    fom::{Env, Header, Progress, Resident, Stocks},
    id::FomId,
    locality::{
        Chores, Estimates, Home, Job, Parcel, Reactor, block_guess::BlockGuess, budget::RunBudget,
        context, move_foms::Busy, parts::Parts, queue::RunQueue, timers::Timers,
    },
};
use fom_protocol::{FomState, Stopped, sync::atomic::Ordering};

/// Aligned to cache lines of its own, because another locality's core may be next to it.
#[repr(align(128))]
pub(crate) struct Core {
    pub(crate) home: Home,
    pub(crate) timers: Timers,
    /// How long visits of adaptive phases take here.
    pub(crate) estimates: Estimates,
    /// Memory for foms that are submitted here.
    pub(crate) stocks: Stocks,
    pub(crate) jobs: VecDeque<Job>,
    pub(super) chores: Chores,
    /// The parts that other packages bring.
    pub(crate) parts: Parts,
    /// The fom that runs on the thread that holds the core. While the core lies in the slot, the fom of that section.
    pub(crate) running: Option<NonNull<Header>>,
    /// The locality's own data, one value per type.
    pub(crate) data: Vec<Box<dyn Any + Send>>,
    /// Number of runs of foms and jobs so far.
    pub(crate) runs: u64,
    /// The id of the last fom that was submitted here, and the distance to the next id.
    next_id: u64,
    ways: u64,
    /// The number of the last event that this locality sent to a fom with event ids.
    next_event: u64,
    /// Callers that wait until there is nothing to run here.
    pub(crate) quiet: Vec<oneshot::Sender<u64>>,
    /// Whether foms are moved to idle localities, what is known of the load here, and whether any fom was moved away.
    pub(super) moves_foms: bool,
    pub(super) busy: Busy,
    pub(super) gave: bool,
    /// Whether processors are borrowed and lent, and when the handler last checked whether it needs some.
    pub(super) moves_processors: bool,
    pub(super) looked_at_share: u64,
    pub(super) run_budget: RunBudget,
    pub(super) block_guess: BlockGuess,
    pub(super) queue: RunQueue,
    pub(super) reactor: Reactor,
    pub(super) since_turn: u32,
    /// Whether the memory chore rests because nothing in the memory changes.
    pub(super) rests: bool,
}

// SAFETY: `running` points to a header, which is `Sync`; all other fields are `Send` themselves.
unsafe impl Send for Core {}

impl Core {
    pub(super) fn new(home: Home, reactor: Reactor) -> Self {
        let now = home.env().clock.nanos();
        let ways = home.env().ways();
        let next_id = (home.index as u64 + 2).wrapping_sub(ways);
        Self {
            moves_foms: home.localities().balance.moves_foms(),
            busy: Busy::default(),
            gave: false,
            moves_processors: home.bound && home.localities().balance.moves_processors(),
            looked_at_share: now,
            home,
            timers: Timers::new(now),
            estimates: Estimates::default(),
            stocks: Stocks::of_core(),
            jobs: VecDeque::new(),
            chores: Chores::default(),
            parts: Parts::default(),
            running: None,
            data: Vec::new(),
            runs: 0,
            next_id,
            ways,
            next_event: next_id,
            quiet: Vec::new(),
            run_budget: RunBudget::default(),
            block_guess: BlockGuess::default(),
            queue: RunQueue::default(),
            reactor,
            since_turn: 0,
            rests: false,
        }
    }

    /// Begins a run of a fom.
    #[inline]
    pub(crate) fn begin_run(&mut self) {
        let localities = self.home.localities();
        self.run_budget
            .begin(&localities.env.clock, &localities.budget);
        self.runs += 1;
        self.since_turn += 1;
    }

    /// Decides what happens to a fom that has run.
    #[inline]
    pub(crate) fn after_run(&mut self, fom: Option<Resident>, progress: Progress) {
        match (progress, fom) {
            (Progress::Waiting, Some(fom)) => {
                if fom.token.stop(fom.is_alone()) == Stopped::Ready {
                    self.enqueue(fom);
                } else if self.home.env().is_closed() && !fom.awaits_commit() && fom.wake_here() {
                    // The fom began to wait after the shutdown had looked for waiting foms.
                    self.enqueue(fom);
                }
            }
            (_, Some(fom)) => {
                fom.token.again(fom.is_alone());
                self.enqueue(fom);
            }
            (_, None) => {}
        }
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
        if self.home.inbox.has_mail() {
            self.drain();
        }
        self.enqueue(fom);
    }

    /// As [`enqueue_after_mail`](Self::enqueue_after_mail), for a fom that was born ready or was just woken. It needs
    /// no admission.
    #[inline]
    pub(crate) fn enqueue_ready(&mut self, fom: Resident) {
        if self.home.inbox.has_mail() {
            self.drain();
        }
        debug_assert_ne!(fom.token.state(), FomState::Init);
        self.queue.push(fom);
    }

    /// Wakes a fom. A fom that lives here goes straight into its run queue.
    pub(crate) fn wake(&mut self, fom: &Header) {
        if !self.home.is(fom.env(), fom.home_index()) {
            fom.wake();
        } else if fom.wake_here() {
            // SAFETY: the fom's token was just taken from Waiting to Ready.
            self.enqueue_ready(unsafe { Resident::new(fom.whole()) });
        }
    }

    /// Counts a fom that is submitted here. Returns its id, and the time as of the last look.
    #[inline]
    pub(crate) fn one_born(&mut self) -> (FomId, u64) {
        self.home.counts.one_born();
        (self.one_numbered(), self.run_budget.now())
    }

    /// Returns the id for a fom that will be submitted.
    pub(crate) fn one_numbered(&mut self) -> FomId {
        self.next_id = self.next_id.wrapping_add(self.ways);
        FomId(self.next_id)
    }

    /// Returns the number for an event that is sent from here, if this is a locality of this runtime.
    pub(crate) fn next_event(&mut self, of: &Env) -> Option<u64> {
        let here = self.home.env().is(of);
        here.then(|| {
            self.next_event = self.next_event.wrapping_add(self.ways);
            self.next_event
        })
    }

    /// Counts a fom that already has its id.
    pub(crate) fn one_born_as(&mut self, id: FomId) -> (FomId, u64) {
        self.home.counts.one_born();
        (id, self.run_budget.now())
    }

    /// Makes the following ids `first` or higher.
    pub(crate) fn number_from(&mut self, first: u64) {
        let round = first.div_ceil(self.ways);
        self.next_id = (round * self.ways + self.home.index as u64 + 2).wrapping_sub(self.ways);
    }

    /// Returns the fom that runs.
    pub(crate) fn running(&self) -> Option<&Header> {
        // SAFETY: a fom does not end while it is noted in `running`.
        self.running.map(|fom| unsafe { fom.as_ref() })
    }

    /// Returns the locality's data of this type.
    pub(crate) fn data_mut<T: 'static>(&mut self) -> Option<&mut T> {
        self.data.iter_mut().find_map(|data| data.downcast_mut())
    }

    /// Returns the time as of the last look.
    pub(crate) fn now(&self) -> u64 {
        self.run_budget.now()
    }

    /// Returns the number of foms in the run queue.
    pub(crate) fn ready_foms(&self) -> usize {
        self.queue.len()
    }

    /// Takes in the parcels of the inbox.
    pub(super) fn drain(&mut self) {
        let mail = self.home.inbox.drain();
        for parcel in mail {
            match parcel {
                Parcel::Fom(fom) => self.enqueue(fom),
                Parcel::Job(job) => self.jobs.push_back(job),
            }
        }
    }

    pub(super) fn has_work(&self) -> bool {
        !self.queue.is_empty() || !self.jobs.is_empty() || self.parts.is_ready()
    }

    /// Fires the timers that are due.
    pub(super) fn fire_timers(&mut self) {
        if self.timers.is_empty() {
            return;
        }
        let now = self.run_budget.look(&self.home.env().clock);
        while let Some(due) = self.timers.pop_due(now) {
            due.fire(self, now);
        }
    }

    pub(super) fn publish(&self) {
        self.home.ready.store(self.queue.len(), Ordering::Relaxed);
    }

    /// Reports quiet to the callers that wait for it, unless a fom here is in a blocking section or waits for a commit.
    /// Called when there is nothing to run.
    pub(super) fn tell_quiet(&mut self) {
        if self.quiet.is_empty() || self.home.threads.count().1 > 0 {
            return;
        }
        // A part that panics counts as quiet.
        let mut quiet = true;
        let ask = || quiet = context::holding(|| self.parts.are_quiet());
        self.home.fenced("a part of", ask);
        if quiet {
            let runs = self.runs;
            for waiter in self.quiet.drain(..) {
                self.home.fenced("a waiter for quiet in", || {
                    // A waiter that no longer listens needs no answer.
                    let _ = waiter.send(runs);
                });
            }
        }
    }
}
