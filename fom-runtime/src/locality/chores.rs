//! Periodic work of a locality that is not a fom.
//!
//! Each chore has a sleeper in the timer wheel, so an idle locality runs it too. The sleeper's waker posts the tick as
//! a job, and the number of jobs per round is bounded.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::{Wake, Waker},
};

use crate::locality::{Core, Home, Sleeper};
use fom_protocol::panic_message;

/// The function of a chore in one locality, with its state there.
pub(crate) type Tick = Box<dyn FnMut(&mut Core) + Send>;

/// The id of the runtime's own chore, which gives memory back. The ids of other chores count up from zero.
pub(super) const TRIM: u64 = u64::MAX;

/// The chores of one locality.
#[derive(Default)]
pub(crate) struct Chores(Vec<Chore>);

struct Chore {
    id: u64,
    name: Arc<str>,
    /// `None` while the tick runs.
    tick: Option<Tick>,
    every: u64,
    due: u64,
    sleeper: Arc<Sleeper>,
}

/// The waker of a chore's timer.
struct Bell {
    home: Home,
    chore: u64,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let chore = self.chore;
        self.home.post_job(Box::new(move |core| core.tick(chore)));
    }
}

impl Core {
    /// Adds a chore whose first tick is due after one interval.
    pub(crate) fn add_chore(&mut self, id: u64, name: Arc<str>, every: u64, tick: Tick) {
        let due = self.home.env().clock.nanos().saturating_add(every);
        let sleeper = self.bell(id);
        self.timers.arm_sleeper(&sleeper, due);
        self.chores.0.push(Chore {
            id,
            name,
            tick: Some(tick),
            every,
            due,
            sleeper,
        });
    }

    pub(super) fn has_chore(&self, id: u64) -> bool {
        self.chores.0.iter().any(|chore| chore.id == id)
    }

    fn bell(&self, chore: u64) -> Arc<Sleeper> {
        let home = self.home.clone();
        Sleeper::new(Waker::from(Arc::new(Bell { home, chore })))
    }

    /// Removes a chore and drops its state here. A chore that removes itself is dropped after this tick.
    pub(crate) fn remove_chore(&mut self, id: u64) {
        let Some(at) = self.chores.0.iter().position(|chore| chore.id == id) else {
            return;
        };
        let chore = self.chores.0.swap_remove(at);
        self.timers.disarm_sleeper(&chore.sleeper);
        let home = self.home.clone();
        home.fenced("a chore that was taken off in", || drop(chore));
    }

    fn tick(&mut self, id: u64) {
        let Some(chore) = self.chores.0.iter_mut().find(|chore| chore.id == id) else {
            return;
        };
        let Some(mut tick) = chore.tick.take() else {
            return;
        };
        let ran = catch_unwind(AssertUnwindSafe(|| tick(self)));
        let now = self.home.env().clock.nanos();
        let sleeper = self.bell(id);
        let Some(chore) = self.chores.0.iter_mut().find(|chore| chore.id == id) else {
            // The chore has removed itself.
            let home = self.home.clone();
            home.fenced("a chore that was taken off in", || drop(tick));
            return;
        };
        chore.tick = Some(tick);
        if let Err(panic) = ran {
            let (name, message) = (Arc::clone(&chore.name), panic_message(panic));
            let home = self.home.clone();
            home.env().report(format!(
                "the chore {name} panicked in locality {} and was taken off there: {message}",
                home.index
            ));
            self.remove_chore(id);
            return;
        }
        // Missed ticks are not made up for. The next tick is due when it would have been without them.
        let missed = now.saturating_sub(chore.due) / chore.every;
        chore.due = chore
            .due
            .saturating_add(chore.every.saturating_mul(missed + 1));
        let due = chore.due;
        chore.sleeper = Arc::clone(&sleeper);
        self.timers.arm_sleeper(&sleeper, due);
    }

    /// Removes all chores at the end of the locality.
    pub(super) fn drop_chores(&mut self) {
        while let Some(chore) = self.chores.0.last() {
            self.remove_chore(chore.id);
        }
    }
}
