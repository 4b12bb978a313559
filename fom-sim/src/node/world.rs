//! What the threads of one run share.

use std::{
    cell::RefCell,
    fmt, io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use super::{Life, Made};
use crate::{
    baton::{Baton, Group},
    chaos::Faults,
    timeline::{Event, Timeline},
};
use fom_protocol::{
    panic_message,
    schedule::{Schedule as _, address},
};

thread_local! {
    static HERE: RefCell<Option<Here>> = const { RefCell::new(None) };
}

/// Where a thread of a simulation is.
#[derive(Clone, Debug)]
pub(crate) struct Here {
    pub(crate) world: Arc<World>,
    /// `None` for the test and its tasks.
    pub(crate) life: Option<Life>,
}

impl Here {
    /// Returns where this thread is. `None` outside of a simulation.
    pub(crate) fn get() -> Option<Self> {
        // This may run while the thread ends, or changes its place.
        let here = HERE.try_with(|here| here.try_borrow().ok()?.clone());
        here.ok().flatten()
    }

    /// Makes this the place of this thread while `main` runs.
    pub(crate) fn with<R>(self, main: impl FnOnce() -> R) -> R {
        /// Also after a panic, since what is here must not live as long as a thread.
        struct Leaves(Option<Here>);

        impl Drop for Leaves {
            fn drop(&mut self) {
                HERE.set(self.0.take());
            }
        }

        let _leaves = Leaves(HERE.replace(Some(self)));
        main()
    }

    /// Returns the name of the node, or `the test`.
    pub(crate) fn name(&self) -> String {
        let life = self.life.as_ref();
        life.map_or_else(|| "the test".to_owned(), |life| life.node.name().to_owned())
    }
}

type Invariant = Arc<dyn Fn() + Send + Sync>;

pub(crate) struct World {
    pub(crate) baton: Arc<Baton>,
    pub(crate) timeline: Timeline,
    pub(crate) faults: Faults,
    /// The number of tasks of the test that run. Its address stands for the end of a fom or of a task, and for the start of a
    /// node.
    tasks: AtomicUsize,
    invariants: Mutex<Vec<Invariant>>,
    /// What runs in all lives of all nodes.
    made: Mutex<Vec<Made>>,
    lives: AtomicU64,
    /// Whether the program has ended. What happens now belongs to no run.
    over: AtomicBool,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("World")
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A task of the test that runs.
pub(crate) struct Task(Arc<World>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.tasks.fetch_sub(1, Ordering::Relaxed);
        self.0.tell_settling();
    }
}

impl World {
    pub(crate) fn new(baton: Arc<Baton>) -> Arc<Self> {
        Arc::new(Self {
            baton,
            timeline: Timeline::default(),
            faults: Faults::default(),
            tasks: AtomicUsize::new(0),
            invariants: Mutex::default(),
            made: Mutex::default(),
            lives: AtomicU64::new(0),
            over: AtomicBool::new(false),
        })
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub(crate) fn next_life(&self) -> u64 {
        self.lives.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn keep(&self, made: Made) {
        lock(&self.made).push(made);
    }

    /// Starts a thread of the simulation.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        name: String,
        life: Option<Life>,
        main: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let group = life.as_ref().map_or(Group::Test, Life::group);
        let world = Arc::clone(self);
        self.baton
            .spawn(name, group, move || Here { world, life }.with(main))
    }

    /// Starts a thread whose panic ends the run.
    pub(crate) fn spawn_task(self: &Arc<Self>, name: String, main: impl FnOnce() + Send + 'static) {
        let spawned = self.spawn(name, None, main);
        spawned.expect("a thread of the system");
    }

    /// Counts a task of the test, until the guard is dropped.
    pub(crate) fn begin_task(self: &Arc<Self>) -> Task {
        self.tasks.fetch_add(1, Ordering::Relaxed);
        Task(Arc::clone(self))
    }

    pub(crate) fn tasks(&self) -> usize {
        self.tasks.load(Ordering::Relaxed)
    }

    /// Wakes the program in `settle`.
    pub(crate) fn tell_settling(&self) {
        self.baton.notify(address(&self.tasks), true);
    }

    pub(crate) fn wait_for_settling(&self, time: Duration) {
        self.baton.wait(address(&self.tasks), Some(time));
    }

    pub(crate) fn add_invariant(&self, check: Invariant) {
        lock(&self.invariants).push(check);
    }

    pub(crate) fn check_invariants(&self) {
        let checks = lock(&self.invariants).clone();
        for check in checks {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check())) {
                self.baton.fail(panic_message(panic));
            }
        }
    }

    /// Lets the time of a message pass. Returns whether it arrives.
    pub(crate) fn arrives(&self, from: &str, to: &str) -> bool {
        let arrives = self.faults.arrives(&self.baton, from, to);
        if !arrives {
            self.note(to, format!("a message from {from} is lost"));
        }
        arrives
    }

    /// Notes a fault in the timeline.
    pub(crate) fn note(&self, node: &str, text: impl Into<String>) {
        self.timeline
            .push(Event::fault(self.baton.now(), node, text.into()));
    }

    /// Ends the run. Returns what runs in all lives of all nodes, which can end now.
    pub(crate) fn end(&self) -> Vec<Made> {
        self.over.store(true, Ordering::Relaxed);
        self.faults.stop();
        lock(&self.invariants).clear();
        self.baton.end();
        std::mem::take(&mut lock(&self.made))
    }
}
