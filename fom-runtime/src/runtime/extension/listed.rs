//! Named parts of other packages, for [`Inspect::parts`].

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    io,
    sync::{Arc, Weak},
    time::{Duration, Instant, SystemTime},
};

use tokio::sync::oneshot;

use crate::{
    clock::Moved,
    defaults::BoxError,
    locality::with_core,
    runtime::{
        Runtime, Shared,
        extension::{Extension, fenced},
        observe::{Inspect, PartInfo, Parts},
    },
};
use fom_protocol::sync::{
    Condvar, Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
    now,
};

/// How long a listing waits for a part that must run user code.
const LIMIT: Duration = Duration::from_millis(100);

/// A part that must run user code to tell all of itself.
pub type Question = Box<dyn FnOnce() -> Vec<PartInfo> + Send>;

/// A part of a program that [`Inspect::parts`] lists.
pub trait Listed: Send + Sync {
    /// Describes the part, or the parts that this value stands for. Must return soon: it runs no user code, and waits
    /// for no lock that another thread holds while it runs user code.
    fn parts(self: Arc<Self>, runtime: &Runtime) -> Vec<PartInfo>;

    /// Returns a function that describes the part as [`parts`](Self::parts) does, and in addition may run user code. It
    /// runs on a thread of its own. If it does not return within 100 ms, the listing has what `parts` returns, as
    /// [`busy`](PartInfo::busy). It is not called again before it has returned.
    fn question(self: Arc<Self>) -> Option<Question> {
        None
    }

    /// Carries out a command, such as `policy` with the text of a new policy. Returns what was done, as in "set the policy to
    /// crr quantum=2", or the reason why it was refused. Returns `None` for a command that the part does not know.
    /// Only a value that stands for one part can take commands.
    fn command(self: Arc<Self>, command: &str, argument: &str) -> Option<Result<String, BoxError>> {
        let _ = (command, argument);
        None
    }
}

/// The place of a part in the listing of a runtime. The part leaves the listing when this value is dropped.
#[must_use = "a part leaves the listing when this value is dropped"]
pub struct Listing {
    all: Weak<AllListed>,
    number: u64,
}

impl Listing {
    /// Returns whether the runtime still exists.
    pub fn is_listed(&self) -> bool {
        self.all.strong_count() > 0
    }
}

impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listing")
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        if let Some(all) = self.all.upgrade() {
            let removed = all.parts.lock().remove(&self.number);
            drop(removed);
        }
    }
}

/// The listed parts of one runtime.
pub(in crate::runtime) struct AllListed {
    /// No other runtime of the process has this number.
    runtime: u64,
    next: AtomicU64,
    parts: Mutex<BTreeMap<u64, Slot>>,
}

#[derive(Clone)]
struct Slot {
    part: Weak<dyn Listed>,
    /// Whether a question was asked and is not answered yet.
    is_asked: Arc<AtomicBool>,
}

/// Only a counter, so the memory order does not matter.
static RUNTIMES: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

impl Default for AllListed {
    fn default() -> Self {
        Self {
            runtime: RUNTIMES.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
            next: AtomicU64::new(0),
            parts: Mutex::default(),
        }
    }
}

/// Returns the [number](Extension::number) of the runtime that owns the locality of this thread. Returns `None` on a
/// thread that holds no locality.
pub fn current_number() -> Option<u64> {
    with_core(|core| Shared::behind(core.home.env()).listed.runtime)
}

/// A change of the time on a clock that a test moves.
pub trait ClockMoved: Send + Sync {
    /// Called after each move, on the thread of the test. Must not block.
    fn moved(&self);
}

struct Watching(Weak<dyn ClockMoved>);

impl Moved for Watching {
    fn moved(&self) {
        if let Some(watcher) = self.0.upgrade() {
            watcher.moved();
        }
    }
}

/// Keeps a watcher of the clock. The drop ends the watch.
#[must_use = "the watch ends when this value is dropped"]
pub struct ClockWatch {
    _watching: Arc<dyn Moved>,
}

impl fmt::Debug for ClockWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClockWatch")
    }
}

impl Extension<'_> {
    /// Returns the number of this runtime. No other runtime of this process has it.
    pub fn number(self) -> u64 {
        self.runtime.shared.listed.runtime
    }

    /// Adds a part to [`Inspect::parts`], as long as the part exists and the returned value is not dropped.
    pub fn list(self, part: Weak<dyn Listed>) -> Listing {
        let all = &self.runtime.shared.listed;
        let number = all.next.fetch_add(1, Ordering::Relaxed);
        let slot = Slot {
            part,
            is_asked: Arc::default(),
        };
        all.parts.lock().insert(number, slot);
        Listing {
            all: Arc::downgrade(all),
            number,
        }
    }

    /// Returns the parts that exist.
    pub(super) fn listed_parts(self) -> Vec<Arc<dyn Listed>> {
        let parts = self.runtime.shared.listed.parts.lock();
        parts
            .values()
            .filter_map(|slot| slot.part.upgrade())
            .collect()
    }

    /// Runs `main` on a thread that belongs to no locality. The thread is created like those of the
    /// [localities](crate::Builder::spawn_with).
    ///
    /// # Errors
    ///
    /// Fails if the thread cannot be created.
    pub fn spawn_thread(
        self,
        name: impl Into<String>,
        main: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        (self.runtime.shared.spawner.0)(name.into(), Box::new(main))
    }

    /// Calls `watcher` when a [`TestClock`](crate::time::TestClock) of this runtime was moved. Other clocks move by
    /// themselves, and call nothing.
    pub fn watch_clock(self, watcher: Weak<dyn ClockMoved>) -> ClockWatch {
        let watching: Arc<dyn Moved> = Arc::new(Watching(watcher));
        self.runtime
            .shared
            .env
            .clock
            .watch(Arc::downgrade(&watching));
        ClockWatch {
            _watching: watching,
        }
    }

    /// Runs user code on a thread of its own, and waits 100 ms for its answer. The answer is `None` if the code takes
    /// longer, if it panics, or if there is no thread. The code is not stopped.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the code runs on.
    pub fn ask<T, Q>(self, question: Q) -> impl Future<Output = Option<T>> + Send + use<T, Q>
    where
        T: Send + 'static,
        Q: FnOnce() -> T + Send + 'static,
    {
        let (tell, told) = oneshot::channel();
        let runtime = self.runtime.detached();
        // The waiting thread has a limit, so it does not stay.
        let waits = move || {
            let answer = begin(&runtime, question).wait(now() + LIMIT);
            // The caller may have gone.
            let _ = tell.send(answer);
        };
        let made = self.spawn_thread("fom-ask", waits);
        async move {
            made.ok()?;
            told.await.ok().flatten()
        }
    }
}

/// The answer of code that runs on a thread of its own. `None` without a thread. The wait is one of `sync`, which a simulation
/// sees.
struct Answer<T>(Option<Arc<Told<T>>>);

struct Told<T> {
    answer: Mutex<State<T>>,
    changed: Condvar,
}

enum State<T> {
    Awaited,
    Told(T),
    /// There is no answer, or it was taken.
    Over,
}

impl<T> Answer<T> {
    fn wait(self, by: Instant) -> Option<T> {
        let told = self.0?;
        let is_over = |state: &mut State<T>| !matches!(state, State::Awaited);
        let (mut state, _) = told.changed.wait_until(told.answer.lock(), by, is_over);
        match std::mem::replace(&mut *state, State::Over) {
            State::Told(answer) => Some(answer),
            State::Awaited | State::Over => None,
        }
    }
}

/// Runs the question on a thread of its own.
fn begin<T: Send + 'static>(
    runtime: &Runtime,
    question: impl FnOnce() -> T + Send + 'static,
) -> Answer<T> {
    let told = Arc::new(Told {
        answer: Mutex::new(State::Awaited),
        changed: Condvar::default(),
    });
    let (of, tell) = (runtime.detached(), Arc::clone(&told));
    let main = move || {
        let answer = fenced(&of, || Some(question()));
        *tell.answer.lock() = answer.map_or(State::Over, State::Told);
        tell.changed.notify_all();
    };
    let made = runtime.extension().spawn_thread("fom-answer", main);
    Answer(made.is_ok().then_some(told))
}

impl Slot {
    /// Begins to ask the part. Returns `None` if the part has gone.
    fn begin(&self, runtime: &Runtime) -> Option<Asked> {
        let part = self.part.upgrade()?;
        let question = fenced(runtime, || Arc::clone(&part).question());
        let Some(question) = question else {
            return Some(Asked::Quick(part));
        };
        if self.is_asked.swap(true, Ordering::AcqRel) {
            return Some(Asked::Slow(part, Answer(None)));
        }
        let is_asked = Answered(Arc::clone(&self.is_asked));
        let ask = move || {
            let _is_asked = is_asked;
            question()
        };
        Some(Asked::Slow(part, begin(runtime, ask)))
    }
}

/// Notes when a question has been answered, or was never asked.
struct Answered(Arc<AtomicBool>);

impl Drop for Answered {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

enum Asked {
    Quick(Arc<dyn Listed>),
    Slow(Arc<dyn Listed>, Answer<Vec<PartInfo>>),
}

impl Asked {
    fn end(self, runtime: &Runtime, by: Instant) -> Vec<PartInfo> {
        match self {
            Self::Quick(part) => fenced(runtime, || part.parts(runtime)),
            Self::Slow(part, answer) => answer.wait(by).unwrap_or_else(|| {
                let mut parts = fenced(runtime, || part.parts(runtime));
                parts.iter_mut().for_each(|part| part.busy = true);
                parts
            }),
        }
    }
}

impl Inspect<'_> {
    /// Lists the named parts of the program that packages have brought: admissions, streams, lock tables, active
    /// objects, services. Parts that were dropped are not in the list.
    ///
    /// A part that must run user code, such as the policy of an admission, has 100 ms for that. Then it counts as
    /// [`busy`](PartInfo::busy). So this call can block the thread for 100 ms.
    pub fn parts(self) -> Parts {
        let runtime = self.runtime();
        let slots: Vec<_> = {
            let parts = runtime.shared.listed.parts.lock();
            parts.values().cloned().collect()
        };
        let by = now() + LIMIT;
        // All are asked before the first answer is awaited.
        let asked: Vec<_> = slots
            .iter()
            .filter_map(|slot| slot.begin(runtime))
            .collect();
        let ends = asked.into_iter().flat_map(|asked| asked.end(runtime, by));
        Parts {
            parts: ends.collect(),
            at: SystemTime::now(),
            now: runtime.now(),
        }
    }
}
