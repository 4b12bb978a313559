//! When a locality gives back memory that it no longer needs: see [`Stocks::look`](crate::fom::Stocks::look).
//!
//! The handler looks at the memory as long as a page could be freed, from the first such page on. The thread that makes
//! the page reports it through `Trims`. The handler reads that flag when it serves its sockets and before it sleeps,
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

use crate::{
    fom::hand::Sleeper,
    locality::{Core, Home},
};
use fom_protocol::nanos;

/// Interval between two looks. Memory that is not needed between two looks is given back after the second. A burst is
/// gone within four intervals.
const EVERY: Duration = Duration::from_millis(150);

/// A job queue longer than this was a burst. [`JOB`] is about the memory in bytes that one job needs, including what
/// it is sent in.
const MANY_JOBS: usize = 4096;
const JOB: usize = 128;

/// The waker of the timer for the next look. A job looks, because the number of jobs per round is bounded.
struct Look(Home);

impl Wake for Look {
    fn wake(self: Arc<Self>) {
        self.0.post_job(Box::new(Core::look_at_memory));
    }
}

/// When a core looks at its memory.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Whether a timer is set for the next look.
    will_look: bool,
    /// Whether no look is needed because nothing in the memory changes.
    rests: bool,
}

impl Core {
    /// Begins to look after the memory if a large page was made, or if no look is needed and a slot was used since.
    #[inline]
    pub(super) fn trim_when_wanted(&mut self) {
        if self.messages.capacity() > MANY_JOBS && self.messages.is_empty() {
            self.home
                .localities()
                .heap
                .freed(self.messages.capacity() * JOB);
            self.messages = VecDeque::new();
            self.home.trims.want();
        }
        if self.home.trims.are_wanted() || self.memory.rests && self.stocks.are_stirred() {
            begin_to_trim(self);
        }
    }

    fn look_at_memory(&mut self) {
        self.stocks.look();
        self.home.outer.lock().look();
        if !trim(self) {
            let localities = self.home.localities();
            localities.heap.trim(&*localities.spawner.0);
            self.memory.rests = self.stocks.rest() && self.home.outer.lock().rest();
        }
        if self.memory.rests {
            self.memory.will_look = false;
        } else {
            look_later(self);
        }
    }
}

#[cold]
fn begin_to_trim(core: &mut Core) {
    core.home.trims.begin();
    core.memory.rests = false;
    if !core.memory.will_look {
        look_later(core);
    }
}

/// Sets the timer for the next look.
fn look_later(core: &mut Core) {
    core.memory.will_look = true;
    let now = core.home.env().clock.nanos();
    let sleeper = Sleeper::new(Waker::from(Arc::new(Look(core.home.clone()))));
    core.timers
        .arm_sleeper(&sleeper, now.saturating_add(nanos(EVERY)));
}

/// Trims in small steps, and foms run in between. Returns `true` if more is left to do.
fn trim(core: &mut Core) -> bool {
    let freed = core.stocks.trim().or_else(|| core.home.outer.lock().trim());
    if let Some(freed) = freed {
        core.home.localities().heap.freed(freed);
        core.home.post_job(Box::new(|core| {
            trim(core);
        }));
    }
    freed.is_some()
}
