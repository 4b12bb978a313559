//! Construction of a runtime.

use std::{any::Any, fmt, io, sync::Arc, time::Duration};

use tokio::sync::oneshot;

use crate::{
    balance::Balance,
    clock::Clock,
    defaults::BoxError,
    fom::{
        Carriers, EnvSettings, FailedAttempt, Hooks, Kind, RunListener, RuntimeState, Transition,
        hand::BudgetLimits,
    },
    locality::{self, Core, Followers, Home, Locality, Reactor, Spawner},
    operation::Operation,
    runtime::{
        BuildError, Runtime, Shared, resources::Resources, shared::Settings, shutdown::Guard,
    },
    topology::{LocalityPlan, Machine, PlanOptions, plan},
    typed::{self, TransitionOf},
};

/// How long a fom may run before it goes to the tail of its run queue. The limit that is used up first counts. The
/// runtime checks it between two phases, and between two events of a phase that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Phases in one run.
    pub phases: u32,
    /// Time in one run.
    pub time: Duration,
}

impl Default for Budget {
    /// Returns 64 phases and 100 microseconds.
    fn default() -> Self {
        Self {
            phases: 64,
            time: Duration::from_micros(100),
        }
    }
}

type AddHook = Box<dyn FnOnce(&Hooks) + Send>;
type AfterBuild = Box<dyn FnOnce(&Runtime) -> Result<(), BoxError> + Send>;
type MakeData = Box<dyn Fn(&mut Core) -> Result<(), BoxError> + Send + Sync>;

/// Builds a [`Runtime`].
#[derive(Default)]
pub struct Builder {
    places: Places,
    threads: Threads,
    limits: Limits,
    clock: Clock,
    resources: Resources,
    pub(super) carriers: Carriers,
    data: Vec<Arc<MakeData>>,
    recording: Option<Box<dyn Recording>>,
    hooks: Vec<AddHook>,
    after: Vec<AfterBuild>,
}

/// The localities, and what moves between them.
#[derive(Debug)]
struct Places {
    localities: Option<usize>,
    machine: Option<Machine>,
    pin: bool,
    balance: Balance,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            localities: None,
            machine: None,
            pin: true,
            balance: Balance::default(),
        }
    }
}

impl Places {
    fn check(&self) -> Result<(), BuildError> {
        match self.localities {
            Some(0) => out_of_range("localities", "at least one"),
            _ => Ok(()),
        }
    }

    /// Returns the plan, and whether threads are bound to it.
    fn plan(&self) -> (Vec<LocalityPlan>, bool) {
        let options = self.localities.map_or_else(PlanOptions::default, |n| {
            PlanOptions::default().localities(n)
        });
        #[cfg(not(fom_shuttle))]
        let machine = || Machine::detect();
        // Under the model checker the host's cores do not matter.
        #[cfg(fom_shuttle)]
        let machine = || Machine::synthetic(1, 1, 1, 1);
        let machine = self.machine.clone().unwrap_or_else(machine);
        (plan(&machine, &options), self.pin && machine.is_bindable())
    }
}

/// The threads of a locality, and how they share their time.
#[derive(Default)]
struct Threads {
    followers: Followers,
    spawner: Spawner,
    budget: Budget,
    spin: Duration,
    /// Whether a test runs the locality on its own thread.
    by_hand: bool,
}

impl Threads {
    fn check(&self) -> Result<(), BuildError> {
        if self.followers.least == 0 {
            return out_of_range(
                "followers.least",
                "at least one: a follower takes over when the handler blocks",
            );
        }
        if self.followers.most < self.followers.least {
            return out_of_range("followers.most", "no less than `followers.least`");
        }
        if self.budget.phases == 0 {
            return out_of_range("budget.phases", "at least one");
        }
        Ok(())
    }

    /// Returns the settings of a runtime without threads, where each run calls one phase function.
    #[cfg(not(fom_shuttle))]
    fn by_hand() -> Self {
        Self {
            spawner: Spawner::of_no_threads(),
            budget: Budget {
                phases: 1,
                time: Duration::MAX,
            },
            by_hand: true,
            ..Self::default()
        }
    }

    /// Returns the budget in the units of its comparisons.
    fn budget_limits(&self) -> BudgetLimits {
        let mut limits = BudgetLimits {
            phases: self.budget.phases.try_into().unwrap_or(i32::MAX),
            nanos: fom_protocol::nanos(self.budget.time),
        };
        if limits.nanos == 0 {
            // The first step uses up this budget. The next look at the clock would notice that too late.
            limits.phases = limits.phases.min(1);
        }
        limits
    }
}

/// The most that a runtime takes and keeps.
#[derive(Debug)]
struct Limits {
    capacity: usize,
    key_queue: usize,
    mailbox: usize,
    history: usize,
    failures: usize,
    /// The slots of the flight recorder in each locality, or zero for no recorder.
    recorder: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            capacity: usize::MAX,
            key_queue: usize::MAX,
            mailbox: 1024,
            history: 0,
            failures: 64,
            recorder: 0,
        }
    }
}

impl Limits {
    fn check(&self) -> Result<(), BuildError> {
        match self.mailbox {
            0 => out_of_range("mailbox", "at least one event"),
            _ => Ok(()),
        }
    }
}

fn out_of_range(what: &'static str, hint: &'static str) -> Result<(), BuildError> {
    Err(BuildError::Range { what, hint })
}

/// The settings of durability, and its start. The package `fom-durable` has the only implementation.
pub trait Recording: Any + Send {
    /// Checks the settings, and opens the journal. Returns whether there is a journal.
    fn open(&mut self) -> Result<bool, BuildError>;

    /// Gives the runtime its recorder.
    fn attach(&mut self, shared: &Shared);

    /// Makes foms of what is in the journal, and starts to commit. No submission is taken before that.
    fn start(&mut self, shared: &Shared) -> Result<(), BuildError>;
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("localities", &self.places.localities)
            .field("pin", &self.places.pin)
            .field("followers", &self.threads.followers)
            .field("budget", &self.threads.budget)
            .field("balance", &self.places.balance)
            .field("capacity", &self.limits.capacity)
            .field("mailbox", &self.limits.mailbox)
            .field("history", &self.limits.history)
            .field("failures", &self.limits.failures)
            .field("recorder", &self.limits.recorder)
            .finish_non_exhaustive()
    }
}

impl Builder {
    /// Sets the number of localities. Default: one for each core that the process may use.
    pub fn localities(mut self, localities: usize) -> Self {
        self.places.localities = Some(localities);
        self
    }

    /// Sets the machine to divide into localities. Default: this machine. The runtime plans for a synthetic machine as
    /// if it were this one, but binds no thread to its processors.
    pub fn machine(mut self, machine: Machine) -> Self {
        self.places.machine = Some(machine);
        self
    }

    /// Sets whether the threads of a locality are bound to its processors. Default: `true`. On a machine with several
    /// NUMA nodes, the memory of the foms is then bound to the node of these processors.
    pub fn pin(mut self, pin: bool) -> Self {
        self.places.pin = pin;
        self
    }

    /// Sets the clock for deadlines and ages. Default: the monotonic clock of the system. Use a
    /// [`TestClock`](crate::time::TestClock) in tests.
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = clock.into();
        self
    }

    /// Adds a value that every fom reaches by its type ([`Cx::resource`](crate::Cx::resource)). A second value of the
    /// same type replaces the first.
    pub fn resource<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.resources.insert(value);
        self
    }

    /// Adds data of each locality, which foms reach without a lock ([`Cx::local`](crate::Cx::local)). `make` runs
    /// inside the locality. If it fails, the data made before is dropped and [`build`](Self::build) fails.
    pub fn locality_data<T, E>(
        mut self,
        make: impl Fn(usize) -> Result<T, E> + Send + Sync + 'static,
    ) -> Self
    where
        T: Send + 'static,
        E: Into<BoxError>,
    {
        self.data.push(Arc::new(Box::new(move |core: &mut Core| {
            let value = make(core.home.index).map_err(Into::into)?;
            core.data.push(Box::new(value));
            Ok(())
        })));
        self
    }

    /// Sets the threads that stand by in each locality. Default: one idle thread, and at most 64 threads. A further idle
    /// thread ends after 10 s.
    pub fn followers(mut self, followers: Followers) -> Self {
        self.threads.followers = followers;
        self
    }

    /// Sets the function that creates the threads of the localities. It gets the name of the thread and the function
    /// that the thread runs. Default: [`std::thread::Builder::spawn`]. Use it for priorities and stack sizes, and to
    /// test what happens without threads.
    pub fn spawn_with(
        mut self,
        spawn: impl Fn(String, Box<dyn FnOnce() + Send>) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.threads.spawner = Spawner(Arc::new(spawn));
        self
    }

    /// Sets how long a fom may run before others have their turn. Default: 64 phases or 100 us.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.threads.budget = budget;
        self
    }

    /// Sets what the runtime moves to spread an unbalanced load over the localities. Default: nothing. [`Balance`] says
    /// when moving is better.
    pub fn balance(mut self, balance: Balance) -> Self {
        self.places.balance = balance;
        self
    }

    /// Sets the maximum number of foms in flight; further submissions are refused. Default: no limit.
    ///
    /// A fom with a key lends its place to another fom while it waits between two attempts. So a fom that fails again
    /// and again, with other foms behind it, does not fill the runtime. With such foms, at most twice as many foms are in
    /// flight.
    pub fn capacity(mut self, foms: usize) -> Self {
        self.limits.capacity = foms;
        self
    }

    /// Sets the maximum number of foms that [wait](crate::Submission::queue) for one key, without the foms that have the
    /// key. Default: no limit but the [capacity](Self::capacity), of which waiting foms take a part. With a limit, the
    /// foms behind one stuck fom cannot take the whole capacity.
    pub fn key_queue(mut self, foms: usize) -> Self {
        self.limits.key_queue = foms;
        self
    }

    /// Sets the maximum number of events kept for one fom; a further event is given back to its sender. Default: 1,024.
    pub fn mailbox(mut self, events: usize) -> Self {
        self.limits.mailbox = events;
        self
    }

    /// Sets how many of its last phases each fom remembers for [`Runtime::operations`]. Default: 0, because the
    /// histories of a million foms take much memory.
    pub fn history(mut self, phases: usize) -> Self {
        self.limits.history = phases;
        self
    }

    /// Counts transitions, and measures the time in each phase, from the first fom on. See
    /// [`Inspect::counters`](crate::observe::Inspect::counters).
    pub fn observe(self) -> Self {
        self.hook(|hooks| {
            hooks.count();
        })
    }

    /// Sets how many [failures](crate::observe::Inspect::failures) are kept of each operation type. Default: 64.
    pub fn failures(mut self, most: usize) -> Self {
        self.limits.failures = most;
        self
    }

    /// Sets how long a locality without work looks for work before it sleeps. Default: zero, because a locality that
    /// looks keeps its processor busy. A wake takes some 0.2 us if the locality still looks, and some 20 us if it sleeps.
    pub fn spin(mut self, time: Duration) -> Self {
        self.threads.spin = time;
        self
    }

    /// As [`Runtime::listen`], from the first transition on. The listener also hears of the foms that come back from the
    /// journal. These foms go on before [`build`](Self::build) returns.
    pub fn listen(self, listener: impl Fn(&Transition<'_>) + Send + Sync + 'static) -> Self {
        self.hook(|hooks| {
            hooks.listen(Box::new(listener));
        })
    }

    /// As [`Runtime::listen_to`], from the first transition on.
    pub fn listen_to<O: Operation>(
        self,
        listener: impl for<'a> Fn(&TransitionOf<'a, O>) + Send + Sync + 'static,
    ) -> Self {
        self.hook(|hooks| {
            typed::listen_to::<O>(hooks, Box::new(listener));
        })
    }

    /// As [`Runtime::listen_to_failures`], from the first attempt on.
    pub fn listen_to_failures(
        self,
        listener: impl Fn(&FailedAttempt<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.hook(|hooks| {
            hooks.listen_to_failures(Box::new(listener));
        })
    }

    /// Adds a listener to the runs of foms, for packages on top of the runtime. Without one, a run pays nothing for it.
    pub fn listen_to_runs(self, listener: impl RunListener) -> Self {
        self.hook(|hooks| {
            hooks.add(Kind::Runs(Arc::new(listener)));
        })
    }

    /// Makes a runtime of one locality, which runs on the thread of a test.
    #[cfg(not(fom_shuttle))]
    pub(crate) fn by_hand(mut self) -> Self {
        self.threads = Threads::by_hand();
        self.localities(1).pin(false)
    }

    pub(crate) fn hook(mut self, add: impl FnOnce(&Hooks) + Send + 'static) -> Self {
        self.hooks.push(Box::new(add));
        self
    }

    /// Returns the settings of durability. The first call makes them.
    pub(crate) fn recording<T: Recording + Default>(&mut self) -> Option<&mut T> {
        let recording: &mut dyn Any =
            &mut **self.recording.get_or_insert_with(|| Box::new(T::default()));
        recording.downcast_mut()
    }

    /// Returns the settings of durability, if there are any.
    pub(crate) fn recorded_as<T: Recording>(&self) -> Option<&T> {
        let recording: &dyn Any = self.recording.as_deref()?;
        recording.downcast_ref()
    }

    /// Calls `add` with the runtime at the end of [`build`](Self::build). A package adds its parts to the runtime so. If
    /// `add` fails, the runtime ends, and `build` fails with [`BuildError::Part`].
    pub fn after_build<E: Into<BoxError>>(
        mut self,
        add: impl FnOnce(&Runtime) -> Result<(), E> + Send + 'static,
    ) -> Self {
        let add = move |runtime: &Runtime| add(runtime).map_err(Into::into);
        self.after.push(Box::new(add));
        self
    }

    /// Records the last transitions, runs, blocking sections, wakes, events and commits of each locality. `slots` is the
    /// number of entries that a locality keeps, rounded up to a power of two, less one. An entry takes 32 bytes.
    /// Default: 0, no recorder.
    ///
    /// [`Inspect::recording`](crate::observe::Inspect::recording) reads the recorder. A transition takes about 5 ns longer.
    pub fn recorder(mut self, slots: usize) -> Self {
        self.limits.recorder = slots;
        self
    }

    fn check(&self) -> Result<(), BuildError> {
        self.places.check()?;
        self.threads.check()?;
        if let Some(name) = self.carriers.shared_name() {
            return Err(BuildError::SameName { name });
        }
        self.limits.check()
    }

    /// Builds the runtime and starts its threads.
    ///
    /// # Errors
    ///
    /// Fails with [`BuildError`]; then nothing is left running.
    pub fn build(mut self) -> Result<Runtime, BuildError> {
        #[cfg(not(fom_shuttle))]
        if let Some(schedule) = fom_protocol::schedule::schedule() {
            schedule.adopt(&mut self);
        }
        self.check()?;
        let mut recording = self.recording.take();
        let journaled = match &mut recording {
            Some(recording) => recording.open()?,
            None => false,
        };
        let (localities, reactors) = self.make_localities()?;
        let shared = Shared::new(Settings {
            localities: locality::Settings {
                env: EnvSettings {
                    clock: self.clock,
                    journaled,
                    mailbox: self.limits.mailbox,
                    history: self.limits.history,
                    failures: self.limits.failures,
                    recorder: self.limits.recorder,
                    capacity: self.limits.capacity,
                    carriers: self.carriers,
                },
                budget: self.threads.budget_limits(),
                spawner: self.threads.spawner,
                balance: self.places.balance,
                spin: fom_protocol::nanos(self.threads.spin),
                localities: localities.into(),
            },
            resources: self.resources,
            key_queue: self.limits.key_queue,
        });
        if let Some(recording) = &mut recording {
            recording.attach(&shared);
        }
        for add in self.hooks {
            add(&shared.env.hooks);
        }
        // From here on dropping the guard ends what was started.
        let guard = Arc::new(Guard {
            shared: Arc::clone(&shared),
        });
        for (index, reactor) in reactors.into_iter().enumerate() {
            if let Err(error) = Home::new(shared.env.owned(), index).start(reactor) {
                abort(&shared, &shared.localities[..index]);
                return Err(BuildError::Thread(error));
            }
        }
        let watcher: Arc<dyn crate::clock::Moved> = Arc::clone(&shared) as _;
        shared.env.clock.watch(Arc::downgrade(&watcher));
        let made = make_data(&shared, &self.data, self.threads.by_hand);
        let started = made.and_then(|()| match &mut recording {
            Some(recording) => recording.start(&shared),
            None => Ok(()),
        });
        if let Err(error) = started {
            abort(&shared, &shared.localities);
            return Err(error);
        }
        let runtime = Runtime {
            shared,
            _guard: Some(guard),
        };
        for add in self.after {
            add(&runtime).map_err(BuildError::Part)?;
        }
        Ok(runtime)
    }
}

impl Builder {
    /// Makes the localities, each with its reactor. None of them runs yet.
    fn make_localities(&self) -> Result<(Vec<Locality>, Vec<Reactor>), BuildError> {
        let (plans, bound) = self.places.plan();
        let one_node = plans.windows(2).all(|pair| pair[0].node == pair[1].node);
        let mut localities = Vec::new();
        let mut reactors = Vec::new();
        for (index, plan) in plans.into_iter().enumerate() {
            let reactor = Reactor::new().map_err(BuildError::Reactor)?;
            let node = plan.node.filter(|_| bound && !one_node);
            let followers = self.threads.followers;
            localities.push(Locality::new(index, plan, bound, node, followers, &reactor));
            reactors.push(reactor);
        }
        Ok((localities, reactors))
    }
}

/// Makes the data of all localities. By hand: this thread runs the localities.
fn make_data(shared: &Shared, all: &[Arc<MakeData>], by_hand: bool) -> Result<(), BuildError> {
    for make in all {
        for (index, home) in shared.localities.iter().enumerate() {
            let told = begin_data(home, make);
            #[cfg(not(fom_shuttle))]
            if by_hand {
                Home::new(shared.env.owned(), index).run_one_by_hand();
            }
            end_data(told).map_err(|source| BuildError::LocalityData {
                locality: index,
                source,
            })?;
        }
    }
    Ok(())
}

type MadeData = oneshot::Receiver<Result<(), BoxError>>;

/// Makes one value inside its locality.
fn begin_data(home: &Locality, make: &Arc<MakeData>) -> MadeData {
    let (tell, told) = oneshot::channel();
    let make = Arc::clone(make);
    home.post_job(Box::new(move |core| {
        // Cannot fail: the builder waits.
        let _ = tell.send(make(core));
    }));
    told
}

/// Waits for a value that is made inside its locality.
fn end_data(told: MadeData) -> Result<(), BoxError> {
    fom_protocol::sync::block_on(told).unwrap_or_else(|_| Err("the constructor panicked".into()))
}

/// Ends what was started, and waits for it: its data is dropped when `build` returns.
fn abort(shared: &Shared, localities: &[Locality]) {
    shared.close(RuntimeState::Closed);
    for home in localities {
        home.stop();
    }
    shared.wait_ended(
        localities.len(),
        fom_protocol::sync::now() + Duration::from_secs(10),
    );
}
