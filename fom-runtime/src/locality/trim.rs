//! When a locality gives memory back that it no longer needs: see [`Stocks::look`](crate::fom::Stocks::look).
//!
//! A chore looks as long as there is a page that could be freed. It begins when the first such page is made, which whoever makes it
//! says by [`Trims`]: the handler looks at that beside its sockets and before it sleeps, so no transition pays for it.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use crate::{
    locality::{Core, Spawner, chores},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// Memory that is not needed between two looks is given back after the second. A burst is gone within four intervals.
const EVERY: Duration = Duration::from_millis(150);

/// What the allocator was given back and may keep for itself.
#[derive(Default)]
pub(crate) struct Heap(AtomicUsize);

impl Heap {
    /// So many bytes of foms were freed. What those had beside them was freed with them, in pieces that the allocator keeps.
    fn freed(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Nothing more is freed at the moment: has the allocator give back what it keeps. That goes through all of the heap, so a
    /// thread of its own does it.
    fn trim(&self, spawner: &Spawner) {
        if self.0.load(Ordering::Relaxed) > LITTLE && self.0.swap(0, Ordering::Relaxed) > LITTLE {
            let spawn = || (spawner.0)("fom-memory".to_owned(), Box::new(trim_heap));
            // Without a thread the allocator keeps it, and uses it again. The function that makes one may be the user's.
            let _ = catch_unwind(AssertUnwindSafe(spawn));
        }
    }
}

fn trim_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    // SAFETY: it asks nothing of its caller.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// So much may stay in the allocator.
const LITTLE: usize = 1 << 20;

/// A queue of jobs that is longer than this was a burst. About what one job needs, with what it is sent in.
const MANY_JOBS: usize = 4096;
const JOB: usize = 128;

/// Whether a large page was made since the handler last looked.
#[derive(Default)]
pub(crate) struct Trims(AtomicBool);

impl Trims {
    /// What is made for others is seen by the handler, which takes the fom out of its inbox after this.
    pub(crate) fn want(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn are_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Core {
    /// Begins to look after the memory, if a large page was made.
    #[inline]
    pub(super) fn trim_when_wanted(&mut self) {
        if self.jobs.capacity() > MANY_JOBS && self.jobs.is_empty() {
            self.home.world().heap.freed(self.jobs.capacity() * JOB);
            self.jobs = VecDeque::new();
            self.home.trims.want();
        }
        if self.home.trims.are_wanted() {
            self.begin_to_trim();
        }
    }

    #[cold]
    fn begin_to_trim(&mut self) {
        self.home.trims.0.store(false, Ordering::Relaxed);
        if !self.has_chore(chores::TRIM) {
            let every = crate::clock::nanos(EVERY);
            let tick = Box::new(Self::look_at_memory);
            self.add_chore(chores::TRIM, "memory".into(), every, tick);
        }
    }

    fn look_at_memory(&mut self) {
        self.stocks.look();
        let are_large = {
            let mut outer = self.home.outer.lock();
            outer.look();
            outer.are_large() || self.stocks.are_large()
        };
        if self.trim() {
            return;
        }
        let world = self.home.world();
        world.heap.trim(&world.spawner);
        if !are_large {
            self.remove_chore(chores::TRIM);
        }
    }

    /// In small steps: foms run in between. `true`: there is something to do.
    fn trim(&mut self) -> bool {
        let freed = self.stocks.trim().or_else(|| self.home.outer.lock().trim());
        if let Some(freed) = freed {
            self.home.world().heap.freed(freed);
            self.home.post_job(Box::new(|core| {
                core.trim();
            }));
        }
        freed.is_some()
    }
}
