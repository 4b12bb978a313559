//! One run of a program.

use std::{
    future::Future,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fom_protocol::{
    panic_message,
    schedule::{Schedule as _, address},
    sync::block_on,
};
use fom_runtime::{
    Builder, Runtime,
    config::Shutdown,
    error::BuildError,
    extension::{Run, RunListener},
    observe::Transition,
    time::{Clock, TestClock},
};

use crate::{
    baton::Baton,
    timeline::{Event, Timeline},
};

/// One run of a program under one seed. [`explore`](crate::explore) makes it.
#[derive(Debug)]
pub struct Sim {
    baton: Arc<Baton>,
    timeline: Arc<Timeline>,
    nodes: Vec<(String, Runtime)>,
    ends: Arc<Ends>,
    invariants: Arc<Invariants>,
}

/// What [`Sim::settle`] waits for: the ends of foms and of the tasks of the test.
#[derive(Debug, Default)]
struct Ends {
    /// The number of tasks that run.
    tasks: AtomicUsize,
}

/// What must always hold.
#[derive(Default)]
struct Invariants(Mutex<Vec<Arc<dyn Fn() + Send + Sync>>>);

impl std::fmt::Debug for Invariants {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Invariants")
    }
}

impl Sim {
    pub(crate) fn new(baton: Arc<Baton>, timeline: Arc<Timeline>) -> Self {
        Self {
            baton,
            timeline,
            nodes: Vec::new(),
            ends: Arc::default(),
            invariants: Arc::default(),
        }
    }

    /// Starts a node: a runtime with threads and a clock of the simulation, which replace those of `builder`. `builder` has
    /// everything else: the number of localities, the resources, the locality data, and the listeners.
    ///
    /// # Errors
    ///
    /// Fails with [`BuildError`] as [`Builder::build`] does.
    pub fn node(&mut self, name: &str, builder: Builder) -> Result<Runtime, BuildError> {
        let clock = TestClock::of_simulation(self.baton.clock());
        let threads = (Arc::clone(&self.baton), name.to_owned());
        let spawn = move |thread: String, main: Box<dyn FnOnce() + Send>| -> io::Result<()> {
            let (baton, node) = &threads;
            baton.spawn(format!("{node}: {thread}"), main)
        };
        let watch = Watch {
            node: name.to_owned(),
            baton: Arc::clone(&self.baton),
            timeline: Arc::clone(&self.timeline),
            ends: Arc::clone(&self.ends),
            invariants: Arc::clone(&self.invariants),
        };
        let turns = Turns(Arc::clone(&self.baton));
        let runtime = builder
            .clock(Clock::from(clock))
            .spawn_with(spawn)
            .pin(false)
            .listen(move |transition| watch.saw(transition))
            .listen_to_runs(turns)
            .build()?;
        self.nodes.push((name.to_owned(), runtime.clone()));
        Ok(runtime)
    }

    /// Runs a future beside the rest of the program, on a thread of its own. If it panics, the run has failed.
    ///
    /// # Panics
    ///
    /// Panics if the system has no thread for it.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.ends.tasks.fetch_add(1, Ordering::Relaxed);
        let (ends, baton) = (Arc::clone(&self.ends), Arc::clone(&self.baton));
        let main = move || {
            let ended = catch_unwind(AssertUnwindSafe(|| block_on(future)));
            ends.tasks.fetch_sub(1, Ordering::Relaxed);
            baton.notify(address(&*ends), true);
            if let Err(panic) = ended {
                baton.fail(format!("a task panicked: {}", panic_message(panic)));
            }
        };
        let spawned = self.baton.spawn("a task of the test".to_owned(), main);
        spawned.expect("a thread for a task");
    }

    /// Returns the time since the simulation began.
    pub fn now(&self) -> Duration {
        self.baton.now()
    }

    /// Draws a number below `below` from the seed. 0 is the plainest choice, to which a failure is shrunk.
    ///
    /// # Panics
    ///
    /// Panics if `below` is 0.
    pub fn draw(&self, below: u32) -> u32 {
        assert!(below > 0, "there is no number below 0");
        self.baton.draw(below)
    }

    /// Checks this after each transition of each node, on the thread of the locality. If it panics, the run has failed. It must
    /// not block.
    pub fn always(&self, check: impl Fn() + Send + Sync + 'static) {
        let mut invariants = self.invariants.lock();
        invariants.push(Arc::new(check));
    }

    /// Waits until all operations and all tasks have ended, for at most this time of the simulation.
    ///
    /// # Panics
    ///
    /// Panics if some have not ended by then, and lists them.
    pub fn settle(&self, time: Duration) {
        let by = self.now() + time;
        loop {
            // Time passes when no thread is ready. So what has ended is also counted by then.
            sleep(Duration::from_nanos(1));
            if self.is_settled() {
                return;
            }
            let left = by.saturating_sub(self.now());
            if left.is_zero() {
                panic!("not all has ended after {time:?}:\n{}", self.listing());
            }
            self.baton.wait(address(&*self.ends), Some(left));
        }
    }

    fn is_settled(&self) -> bool {
        let is_idle = |node: &(String, Runtime)| node.1.in_flight() == 0;
        self.nodes.iter().all(is_idle) && self.ends.tasks.load(Ordering::Relaxed) == 0
    }

    fn listing(&self) -> String {
        let running = self.ends.tasks.load(Ordering::Relaxed);
        let nodes = self.nodes.iter();
        let nodes = nodes.map(|(name, runtime)| format!("{name}:\n{}", runtime.operations()));
        let tasks = (running > 0).then(|| format!("{running} tasks of the test"));
        nodes.chain(tasks).collect::<Vec<_>>().join("\n")
    }

    /// Ends the nodes and their threads.
    pub(crate) fn end(self) {
        /// Time of the simulation, so it costs nothing.
        const LONG: Duration = Duration::from_secs(3600);
        for (_, runtime) in &self.nodes {
            runtime.shutdown_blocking(Shutdown::Now, LONG);
        }
        let baton = self.baton;
        drop((self.nodes, self.invariants));
        baton.wait_for_others(LONG);
    }
}

/// Lets this much time of the simulation pass, while other threads run. Use it in the program of a test, in a task, and in a
/// blocking section that stands for a slow call. In a thread without a simulation, time is real.
pub fn sleep(time: Duration) {
    fom_protocol::sync::sleep(time);
}

impl Invariants {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<dyn Fn() + Send + Sync>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hears of each transition of a node.
struct Watch {
    node: String,
    baton: Arc<Baton>,
    timeline: Arc<Timeline>,
    ends: Arc<Ends>,
    invariants: Arc<Invariants>,
}

impl Watch {
    fn saw(&self, transition: &Transition<'_>) {
        self.timeline.push(Event {
            at: self.baton.now(),
            node: self.node.clone(),
            locality: transition.locality(),
            fom: format!("{} {}", transition.operation_type(), transition.id()),
            from: transition.from(),
            to: transition.to(),
            cause: transition.error().unwrap_or_default().to_owned(),
        });
        let checks = self.invariants.lock().clone();
        for check in checks {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check())) {
                self.baton.fail(panic_message(panic));
            }
        }
        if transition.ends() || transition.to().is_none() {
            self.baton.notify(address(&*self.ends), true);
        }
        self.baton.turn();
    }
}

/// Lets other threads run before each run of a fom.
struct Turns(Arc<Baton>);

impl RunListener for Turns {
    fn begins(&self, _: &Run<'_>) {
        self.0.turn();
    }

    fn ends(&self) {}
}
