//! The threads of a locality: one handler, the blocked and unblocking threads, and idle followers.
//!
//! One rule keeps a locality alive: at least one of its threads is neither blocked nor unblocking. Enter-block looks
//! for such a thread before it gives the core away. If none can be created, the caller keeps the core and gets an
//! error.

use std::{
    collections::VecDeque,
    fmt, io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use crate::locality::{Core, Home, Locality, handler};
use fom_protocol::{
    panic_message,
    sync::{
        Condvar, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

/// The number of threads that stand by in a locality for the moment when its handler blocks.
///
/// A thread besides the handler is blocked, unblocking (waiting to get its locality back) or idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followers {
    /// Number of idle threads that are kept permanently.
    pub least: usize,
    /// Maximum number of threads besides the handler, including blocked ones. At the maximum, a further enter-block
    /// waits until a blocked thread is back.
    pub most: usize,
    /// How long a thread above `least` stays idle before it ends.
    pub idle: Duration,
}

impl Default for Followers {
    /// `least` 1, `most` 64, `idle` 10 seconds.
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

pub(super) struct Threads {
    followers: Followers,
    roster: ThreadCounts,
    calls: Mutex<Calls>,
    idle: Condvar,
    /// Number of threads created so far, for their names.
    named: AtomicUsize,
    /// Threads that want the core back, oldest first. The count beside the queue is read without the lock.
    returning: Mutex<VecDeque<Arc<Returner>>>,
    returning_count: AtomicUsize,
}

/// The number of threads in the upper half, and how many of them are blocked or unblocking in the lower half. Both are
/// in one word, so a read sees both at one moment. Only the holder of the core writes the lower half; see `README.md`.
#[derive(Default)]
struct ThreadCounts(AtomicU64);

const THREAD: u64 = 1 << 32;
const BLOCKED: u64 = 1;

impl ThreadCounts {
    fn read(word: u64) -> (usize, usize) {
        ((word / THREAD) as usize, (word % THREAD) as usize)
    }

    fn count(&self) -> (usize, usize) {
        Self::read(self.0.load(Ordering::Acquire))
    }

    fn more(&self, one: u64) {
        self.0.fetch_add(one, Ordering::AcqRel);
    }

    fn less(&self, one: u64) {
        self.0.fetch_sub(one, Ordering::AcqRel);
    }

    /// Removes one thread if more than `stay` threads are neither blocked nor unblocking.
    fn leave(&self, stay: usize) -> bool {
        let leave = |word| {
            let (threads, blocked) = Self::read(word);
            (threads - blocked > stay).then(|| word - THREAD)
        };
        self.0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, leave)
            .is_ok()
    }
}

#[derive(Default)]
struct Calls {
    /// Calls that no idle thread has taken yet. They are counted, so a call is not lost while a thread is on its way to
    /// idle.
    open: usize,
    stopping: bool,
}

/// What an idle thread must do.
pub(super) enum Idle {
    /// Look for a core in the slot.
    Look,
    /// End.
    Leave,
}

/// Why `reserve` found no thread.
pub(super) enum NoReserve {
    /// The locality has as many threads as it may have.
    AtMost,
    Failed(io::Error),
}

/// A thread that wants the core back.
#[derive(Default)]
struct Returner {
    core: Mutex<Option<Box<Core>>>,
    given: Condvar,
}

impl Threads {
    pub(super) fn new(followers: Followers) -> Self {
        Self {
            followers,
            roster: ThreadCounts::default(),
            calls: Mutex::new(Calls::default()),
            idle: Condvar::default(),
            named: AtomicUsize::new(0),
            returning: Mutex::new(VecDeque::new()),
            returning_count: AtomicUsize::new(0),
        }
    }

    /// Creates the first threads: a handler and `least` followers.
    pub(super) fn spawn_first(&self, home: &Home) -> io::Result<()> {
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
        self.roster.more(THREAD);
        let number = self.named.fetch_add(1, Ordering::Relaxed) + 1;
        let name = format!("fom-{}-{number}", home.index);
        let thread_home = home.clone();
        let main = Box::new(move || handler::main(&thread_home));
        // The caller holds the core, so a panic of the user's spawner must not drop it.
        let made = catch_unwind(AssertUnwindSafe(|| {
            (home.localities().spawner.0)(name, main)
        }))
        .unwrap_or_else(|panic| Err(io::Error::other(panic_message(panic))));
        if made.is_err() {
            self.roster.less(THREAD);
        }
        made
    }

    /// Returns whether a thread is left when the caller blocks. The caller holds the core and is not counted as
    /// blocked.
    #[inline]
    pub(super) fn has_reserve(&self) -> bool {
        let (threads, blocked) = self.roster.count();
        threads >= blocked + 2
    }

    /// Creates a thread that is left when the caller blocks.
    #[cold]
    pub(super) fn reserve(&self, home: &Home) -> Result<(), NoReserve> {
        if self.count().0 > self.followers.most {
            return Err(NoReserve::AtMost);
        }
        self.spawn(home).map_err(NoReserve::Failed)
    }

    /// Counts a thread without the core as blocked. Only the holder of the core calls this.
    pub(super) fn block(&self) {
        self.roster.more(BLOCKED);
    }

    /// Counts the caller, which has the core back, as no longer blocked.
    pub(super) fn unblock(&self) {
        self.roster.less(BLOCKED);
    }

    /// Returns the number of all threads (handler, blocked, unblocking and idle), and how many of them are blocked or
    /// unblocking. While a core still lies in the slot, the thread of that section does not count as blocked.
    pub(super) fn count(&self) -> (usize, usize) {
        self.roster.count()
    }

    /// Calls an idle thread to look for the core.
    pub(super) fn wake_one(&self) {
        self.calls.lock().open += 1;
        self.idle.notify_one();
    }

    /// Lets every thread end.
    pub(super) fn dismiss(&self) {
        self.calls.lock().stopping = true;
        self.idle.notify_all();
    }

    /// Waits for a call. The thread holds nothing that others need.
    pub(super) fn idle(&self) -> Idle {
        let mut calls = self.calls.lock();
        loop {
            if calls.stopping {
                self.roster.less(THREAD);
                return Idle::Leave;
            }
            if calls.open > 0 {
                calls.open -= 1;
                return Idle::Look;
            }
            // The handler and `least` followers.
            let stay = self.followers.least.saturating_add(1);
            // Only a surplus thread waits with a limit. The count includes blocked threads: when they return, a thread
            // that waits without a limit would not notice the surplus.
            if self.count().0 > stay {
                let out;
                (calls, out) = self.idle.wait_for(calls, self.followers.idle);
                if out && calls.open == 0 && self.roster.leave(stay) {
                    return Idle::Leave;
                }
            } else {
                calls = self.idle.wait(calls);
            }
        }
    }

    /// Returns whether a thread wants the core back. The handler asks this between any two foms.
    pub(super) fn is_awaited(&self) -> bool {
        self.returning_count.load(Ordering::Acquire) > 0
    }

    /// Gives the core to the thread that has waited longest for it, or back to the caller if no thread waits.
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

    /// Waits until the handler gives this thread the core.
    pub(super) fn regain(&self, home: &Locality) -> Box<Core> {
        let me = Arc::new(Returner::default());
        {
            let mut returning = self.returning.lock();
            returning.push_back(Arc::clone(&me));
            self.returning_count
                .store(returning.len(), Ordering::Release);
        }
        // After the count: the poke makes the count visible to the handler's next round, and ends the handler's sleep.
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
