//! The core: all that belongs to one locality alone. The thread that holds the core is the handler.

use std::{
    any::Any,
    ops::{Deref, DerefMut},
    task::Waker,
};

use tokio::sync::oneshot;

use crate::{
    fom::{
        Progress, Resident,
        hand::{Due, Hand, context::holding},
    },
    locality::{
        CoreHome, Home, Job, Reactor, block_guess::BlockGuess, move_foms::Busy,
        move_processors::Share, parts::Parts, trim::Memory,
    },
};
use fom_protocol::{Stopped, sync::atomic::Ordering};

/// How long the reactor rests after a turn that woke nothing, in nanoseconds, while foms run.
const TURN_REST: u64 = 50_000;

/// Number of timers that fire together. While one fom is woken, the memory of the next ones comes near: a million
/// deadlines in random order take 14 % less processor time.
const FIRED_TOGETHER: usize = 8;

/// The turns of the reactor.
#[derive(Default)]
pub(super) struct Turns {
    /// Number of foms and jobs since the last turn.
    pub(super) since: u32,
    /// When the reactor has its next turn, unless it has tasks.
    pub(super) at: u64,
}

/// Aligned to cache lines of its own, because another locality's core may be next to it.
#[repr(C, align(128))]
pub(crate) struct Core {
    /// First: see [`context`](super::context).
    pub(crate) hand: Hand,
    pub(crate) home: CoreHome,
    /// The parts that other packages bring.
    pub(crate) parts: Parts,
    /// The locality's own data, one value per type.
    pub(crate) data: Vec<Box<dyn Any + Send>>,
    /// Number of runs of foms and jobs so far.
    pub(crate) runs: u64,
    /// Callers that wait until there is nothing to run here.
    pub(crate) quiet: Vec<oneshot::Sender<u64>>,
    pub(super) busy: Busy,
    pub(super) share: Share,
    pub(super) block_guess: BlockGuess,
    pub(super) reactor: Reactor,
    pub(super) turns: Turns,
    pub(super) memory: Memory,
}

impl Deref for Core {
    type Target = Hand;

    #[inline(always)]
    fn deref(&self) -> &Hand {
        &self.hand
    }
}

impl DerefMut for Core {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Hand {
        &mut self.hand
    }
}

impl Core {
    pub(super) fn new(home: Home, reactor: Reactor) -> Self {
        let now = home.env().clock.nanos();
        Self {
            busy: Busy::new(&home),
            share: Share::new(&home, now),
            hand: Hand::new(
                home.env().clone(),
                home.index,
                now,
                home.localities().budget,
            ),
            home: CoreHome::new(home),
            parts: Parts::default(),
            data: Vec::new(),
            runs: 0,
            quiet: Vec::new(),
            block_guess: BlockGuess::default(),
            reactor,
            turns: Turns::default(),
            memory: Memory::default(),
        }
    }

    /// Begins a run of a fom.
    #[inline(always)]
    pub(crate) fn begin_run(&mut self) {
        self.hand.begin_run();
        self.runs += 1;
        self.turns.since += 1;
    }

    /// Decides what happens to a fom that has run.
    #[inline(always)]
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

    /// Gives the reactor its turn, which is a system call. After a turn that woke nothing, it rests for a while.
    pub(super) fn turn_reactor(&mut self) {
        let now = self.look();
        if now < self.turns.at && self.home.env().clock.is_real() && !self.reactor.has_tasks() {
            return;
        }
        self.reactor.turn();
        // What the reactor wakes comes through the inbox, because the core is not laid down during a turn.
        let woke = self.home.inbox.has_mail() || self.parts.is_ready();
        self.turns.at = if woke {
            0
        } else {
            now.saturating_add(TURN_REST)
        };
    }

    /// Returns the locality's data of this type.
    pub(crate) fn data_mut<T: 'static>(&mut self) -> Option<&mut T> {
        self.data.iter_mut().find_map(|data| data.downcast_mut())
    }

    /// Returns the number of foms in the run queue.
    pub(crate) fn ready_foms(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn has_work(&self) -> bool {
        !self.queue.is_empty() || !self.messages.is_empty() || self.parts.is_ready()
    }

    /// Fires the timers that are due.
    pub(super) fn fire_timers(&mut self) {
        if self.timers.is_empty() {
            return;
        }
        let now = self.look();
        let mut batch = [const { None }; FIRED_TOGETHER];
        loop {
            let mut popped = 0;
            while popped < batch.len()
                && let Some(due) = self.timers.pop_due(now)
            {
                due.prefetch();
                batch[popped] = Some(due);
                popped += 1;
            }
            for due in batch[..popped].iter_mut().filter_map(Option::take) {
                self.fire_due(due, now);
            }
            if popped < batch.len() {
                return;
            }
        }
    }

    /// Wakes the fom or the sleeper of a timer that has fired.
    pub(super) fn fire_due(&mut self, due: Due, now: u64) {
        match due {
            Due::Fom(header) => self.hand.fire(header, now),
            Due::Sleeper(sleeper) => {
                let waker = sleeper.waker.lock().take();
                self.wake_sleeping(waker);
            }
            Due::Entry(waker) => self.wake_sleeping(waker),
        }
    }

    fn wake_sleeping(&mut self, waker: Option<Waker>) {
        let Some(waker) = waker else { return };
        let woken = self.hand.wake_sleeping(&waker);
        // The waker may belong to a user's executor. If it is the last reference to a fom, its drop is the user's, too.
        self.home.fenced("the waker of a sleep in", || {
            if woken {
                drop(waker);
            } else {
                waker.wake();
            }
        });
    }

    /// Takes out the next job.
    pub(super) fn next_job(&mut self) -> Option<Job> {
        let message = self.messages.pop_front()?;
        Some(message.open().expect("each message of a locality is a job"))
    }

    pub(super) fn publish(&self) {
        let load = &self.home.load;
        load.ready.store(self.queue.len(), Ordering::Relaxed);
        load.runs.store(self.runs, Ordering::Relaxed);
    }

    /// Reports quiet to the callers that wait for it, unless a fom here is in a blocking section or waits for a commit.
    /// Called when there is nothing to run.
    pub(super) fn tell_quiet(&mut self) {
        if self.quiet.is_empty() || self.home.threads.count().1 > 0 {
            return;
        }
        // A part that panics counts as quiet.
        let mut quiet = true;
        let ask = || quiet = holding(|| self.parts.are_quiet());
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
