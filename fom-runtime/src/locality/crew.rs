//! The threads of a locality: one handler, the blocked and unblocking ones, and idle followers.
//!
//! The rule that keeps a locality alive: of its threads at least one is neither blocked nor unblocking. Enter-block
//! reserves before it gives the core away; when no thread can be had the caller keeps the core and gets an error.

use std::{
    collections::VecDeque,
    fmt, io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use crate::{
    fom::panic_message,
    locality::{Core, Home, Locality, handler},
    sync::{
        Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

/// How many threads stand by in a locality for the moment when its handler blocks.
///
/// A thread beside the handler is blocked, unblocking (it waits to get its locality back) or idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followers {
    /// Idle threads that are kept for good.
    pub least: usize,
    /// Threads beside the handler, blocked ones counted: at the most, a further enter-block waits until one is back.
    pub most: usize,
    /// How long a thread above `least` stays idle before it goes.
    pub idle: Duration,
}

impl Default for Followers {
    /// 1 to 64, 10 seconds.
    fn default() -> Self {
        Self {
            least: 1,
            most: 64,
            idle: Duration::from_secs(10),
        }
    }
}

/// Creates the threads of a runtime.
#[derive(Clone)]
pub(crate) struct Spawner(pub(crate) Arc<SpawnFn>);

pub(crate) type SpawnFn = dyn Fn(String, Box<dyn FnOnce() + Send>) -> io::Result<()> + Send + Sync;

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spawner")
    }
}

impl Default for Spawner {
    fn default() -> Self {
        #[cfg(not(fom_shuttle))]
        let spawn = |name: String, main: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name).spawn(main).map(drop)
        };
        #[cfg(fom_shuttle)]
        let spawn = |_: String, main: Box<dyn FnOnce() + Send>| {
            shuttle::thread::spawn(main);
            Ok(())
        };
        Self(Arc::new(spawn))
    }
}

pub(super) struct Crew {
    followers: Followers,
    roster: Mutex<Roster>,
    idle: Condvar,
    /// Threads that want the core back, oldest first; their number beside, to be read without the lock.
    returning: Mutex<VecDeque<Arc<Returner>>>,
    returning_count: AtomicUsize,
}

#[derive(Default)]
struct Roster {
    threads: usize,
    blocked: usize,
    /// Calls for an idle thread that none has taken yet. Counted, so that a call is not lost while a thread is on its
    /// way to idle.
    calls: usize,
    named: usize,
    stopping: bool,
}

/// What an idle thread is to do.
pub(super) enum Idle {
    /// There may be a core in the slot.
    Look,
    /// End.
    Leave,
}

/// Why no thread could be reserved.
pub(super) enum NoReserve {
    /// As many threads as there may be.
    AtMost,
    Failed(io::Error),
}

/// A thread that wants the core back.
#[derive(Default)]
struct Returner {
    core: Mutex<Option<Box<Core>>>,
    given: Condvar,
}

impl Crew {
    pub(super) fn new(followers: Followers) -> Self {
        Self {
            followers,
            roster: Mutex::new(Roster::default()),
            idle: Condvar::default(),
            returning: Mutex::new(VecDeque::new()),
            returning_count: AtomicUsize::new(0),
        }
    }

    /// The first threads: a handler and the least of followers.
    pub(super) fn muster(&self, home: &Home) -> io::Result<()> {
        for _ in 0..=self.followers.least {
            let made = self.spawn(home);
            if made.is_err() {
                self.dismiss();
                return made;
            }
        }
        Ok(())
    }

    fn spawn(&self, home: &Home) -> io::Result<()> {
        let name = {
            let mut roster = self.roster.lock();
            roster.threads += 1;
            roster.named += 1;
            format!("fom-{}-{}", home.index, roster.named)
        };
        let thread_home = home.clone();
        let main = Box::new(move || handler::main(&thread_home));
        // The core is in the hands of the caller: a panic of the user's function must not drop it.
        let made = catch_unwind(AssertUnwindSafe(|| (home.world().spawner.0)(name, main)))
            .unwrap_or_else(|panic| Err(io::Error::other(panic_message(panic))));
        if made.is_err() {
            self.roster.lock().threads -= 1;
        }
        made
    }

    /// Makes sure that a thread is left when the caller blocks, and counts the caller as blocked.
    pub(super) fn reserve(&self, home: &Home) -> Result<(), NoReserve> {
        let create = {
            let mut roster = self.roster.lock();
            if roster.threads >= roster.blocked + 2 {
                roster.blocked += 1;
                return Ok(());
            }
            roster.threads <= self.followers.most
        };
        if !create {
            return Err(NoReserve::AtMost);
        }
        self.spawn(home).map_err(NoReserve::Failed)?;
        self.roster.lock().blocked += 1;
        Ok(())
    }

    /// The caller blocks in place of a thread that gets the core from it.
    pub(super) fn block_in_turn(&self) {
        self.roster.lock().blocked += 1;
    }

    pub(super) fn unblock(&self) {
        self.roster.lock().blocked -= 1;
    }

    pub(super) fn count(&self) -> (usize, usize) {
        let roster = self.roster.lock();
        (roster.threads, roster.blocked)
    }

    /// Calls an idle thread to look for the core.
    pub(super) fn wake_one(&self) {
        self.roster.lock().calls += 1;
        self.idle.notify_one();
    }

    /// Lets every thread end.
    pub(super) fn dismiss(&self) {
        self.roster.lock().stopping = true;
        self.idle.notify_all();
    }

    /// Waits to be called. Holds nothing that others need.
    pub(super) fn idle(&self) -> Idle {
        let mut roster = self.roster.lock();
        loop {
            if roster.stopping {
                roster.threads -= 1;
                return Idle::Leave;
            }
            if roster.calls > 0 {
                roster.calls -= 1;
                return Idle::Look;
            }
            // Without a thread too many there is no reason to wake up by oneself. Blocked ones count: when they come
            // back, a thread that waits here without a limit would not notice that there are too many now.
            if roster.threads > self.followers.least.saturating_add(1) {
                let out;
                (roster, out) = self.idle.wait_for(roster, self.followers.idle);
                if out
                    && roster.calls == 0
                    && roster.threads - roster.blocked > self.followers.least.saturating_add(1)
                {
                    roster.threads -= 1;
                    return Idle::Leave;
                }
            } else {
                roster = self.idle.wait(roster);
            }
        }
    }

    /// Whether a thread wants the core back: looked at between any two foms.
    pub(super) fn somebody_returns(&self) -> bool {
        self.returning_count.load(Ordering::Acquire) > 0
    }

    /// Gives the core to the thread that has waited longest for it, or back to the caller.
    pub(super) fn give(&self, core: Box<Core>) -> Option<Box<Core>> {
        let first = {
            let mut returning = self.returning.lock();
            let first = returning.pop_front();
            self.returning_count
                .store(returning.len(), Ordering::Release);
            first
        };
        let Some(first) = first else {
            return Some(core);
        };
        *first.core.lock() = Some(core);
        first.given.notify_one();
        None
    }

    /// Waits until the handler gives the core.
    pub(super) fn regain(&self, home: &Locality) -> Box<Core> {
        let me = Arc::new(Returner::default());
        {
            let mut returning = self.returning.lock();
            returning.push_back(Arc::clone(&me));
            self.returning_count
                .store(returning.len(), Ordering::Release);
        }
        // After the count: the poke makes it visible to the handler's next round, and ends its sleep.
        home.poke();
        let mut core = me.core.lock();
        loop {
            if let Some(core) = core.take() {
                return core;
            }
            core = me.given.wait(core);
        }
    }
}
