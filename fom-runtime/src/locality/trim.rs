//! When a locality gives back memory that it no longer needs: see [`Stocks::look`](crate::fom::Stocks::look).
//!
//! The handler looks at the memory as long as a page could be freed, from the first such page on. The thread that makes
//! the page reports it through [`Trims`]. The handler reads that flag when it serves its sockets and before it sleeps,
//! so no transition pays for it.
//!
//! The looks end when all free slots are sorted. From then on only the use of a slot can change anything, so an idle
//! locality is not woken. The looks begin again when the handler has used a slot, or when a slot comes back from another
//! thread. That thread tells the handler once.

use std::{
    collections::VecDeque,
    sync::Arc,
    task::{Wake, Waker},
    time::Duration,
};

use crate::locality::{Core, Home, Locality, Sleeper};
use fom_protocol::{
    nanos,
    sync::atomic::{AtomicBool, Ordering},
};

/// Interval between two looks. Memory that is not needed between two looks is given back after the second. A burst is
/// gone within four intervals.
const EVERY: Duration = Duration::from_millis(150);

/// A job queue longer than this was a burst. [`JOB`] is about the memory in bytes that one job needs, including what
/// it is sent in.
const MANY_JOBS: usize = 4096;
const JOB: usize = 128;

/// Whether a large page was made since the handler last looked.
#[derive(Default)]
pub(crate) struct Trims(AtomicBool);

impl Trims {
    /// Asks for a look. If another thread makes the page, the handler sees the flag when it takes the fom out of its
    /// inbox.
    pub(crate) fn want(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn are_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The waker of the timer for the next look. A job looks, because the number of jobs per round is bounded.
struct Look(Home);

impl Wake for Look {
    fn wake(self: Arc<Self>) {
        self.0.post_job(Box::new(Core::look_at_memory));
    }
}

impl Locality {
    /// Makes the handler look after the memory, and wakes it.
    #[cold]
    pub(crate) fn trim(&self) {
        self.trims.want();
        self.poke();
    }
}

impl Core {
    /// Begins to look after the memory if a large page was made, or if no look is needed and a slot was used since.
    #[inline]
    pub(super) fn trim_when_wanted(&mut self) {
        if self.jobs.capacity() > MANY_JOBS && self.jobs.is_empty() {
            self.home.shared().heap.freed(self.jobs.capacity() * JOB);
            self.jobs = VecDeque::new();
            self.home.trims.want();
        }
        if self.home.trims.are_wanted() || self.rests && self.stocks.are_stirred() {
            self.begin_to_trim();
        }
    }

    #[cold]
    fn begin_to_trim(&mut self) {
        self.home.trims.0.store(false, Ordering::Relaxed);
        self.rests = false;
        if !self.will_look {
            self.look_later();
        }
    }

    /// Sets the timer for the next look.
    fn look_later(&mut self) {
        self.will_look = true;
        let now = self.home.shared().env.clock.nanos();
        let sleeper = Sleeper::new(Waker::from(Arc::new(Look(self.home.clone()))));
        self.timers
            .arm_sleeper(&sleeper, now.saturating_add(nanos(EVERY)));
    }

    fn look_at_memory(&mut self) {
        self.stocks.look();
        self.home.outer.lock().look();
        if !self.trim() {
            let shared = self.home.shared();
            shared.heap.trim(&*shared.spawner.0);
            self.rests = self.stocks.rest() && self.home.outer.lock().rest();
        }
        if self.rests {
            self.will_look = false;
        } else {
            self.look_later();
        }
    }

    /// Trims in small steps, and foms run in between. Returns `true` if more is left to do.
    fn trim(&mut self) -> bool {
        let freed = self.stocks.trim().or_else(|| self.home.outer.lock().trim());
        if let Some(freed) = freed {
            self.home.shared().heap.freed(freed);
            self.home.post_job(Box::new(|core| {
                core.trim();
            }));
        }
        freed.is_some()
    }
}
