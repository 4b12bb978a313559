//! When a locality gives back memory that it no longer needs: see [`Stocks::look`](crate::fom::Stocks::look).
//!
//! A chore looks at the memory as long as a page could be freed. It begins when the first such page is made. The
//! thread that makes the page reports it through `Trims`. The handler reads that flag when it serves its sockets
//! and before it sleeps, so no transition pays for it.
//!
//! The chore ends when all free slots are sorted. From then on only the use of a slot can change anything, so an idle
//! locality is not woken. The chore begins again when the handler has used a slot, or when a slot comes back from
//! another thread. That thread tells the handler once.

use std::{collections::VecDeque, time::Duration};

use crate::locality::{Core, chores};

/// Interval between two looks. Memory that is not needed between two looks is given back after the second. A burst is
/// gone within four intervals.
const EVERY: Duration = Duration::from_millis(150);

/// A job queue longer than this was a burst. [`JOB`] is about the memory in bytes that one job needs, including what
/// it is sent in.
const MANY_JOBS: usize = 4096;
const JOB: usize = 128;

impl Core {
    /// Begins to look after the memory if a large page was made, or if the chore rests and a slot was used since.
    #[inline]
    pub(super) fn trim_when_wanted(&mut self) {
        if self.jobs.capacity() > MANY_JOBS && self.jobs.is_empty() {
            self.home
                .localities()
                .heap
                .freed(self.jobs.capacity() * JOB);
            self.jobs = VecDeque::new();
            self.home.trims.want();
        }
        if self.home.trims.are_wanted() || self.rests && self.stocks.are_stirred() {
            self.begin_to_trim();
        }
    }

    #[cold]
    fn begin_to_trim(&mut self) {
        self.home.trims.begin();
        self.rests = false;
        if !self.has_chore(chores::TRIM) {
            let every = fom_protocol::nanos(EVERY);
            let tick = Box::new(Self::look_at_memory);
            self.add_chore(chores::TRIM, "memory".into(), every, tick);
        }
    }

    fn look_at_memory(&mut self) {
        self.stocks.look();
        self.home.outer.lock().look();
        if self.trim() {
            return;
        }
        let localities = self.home.localities();
        localities.heap.trim(&*localities.spawner.0);
        self.rests = self.stocks.rest() && self.home.outer.lock().rest();
        if self.rests {
            self.remove_chore(chores::TRIM);
        }
    }

    /// Trims in small steps, and foms run in between. Returns `true` if more is left to do.
    fn trim(&mut self) -> bool {
        let freed = self.stocks.trim().or_else(|| self.home.outer.lock().trim());
        if let Some(freed) = freed {
            self.home.localities().heap.freed(freed);
            self.home.post_job(Box::new(|core| {
                core.trim();
            }));
        }
        freed.is_some()
    }
}
