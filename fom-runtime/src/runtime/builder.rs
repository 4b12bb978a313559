//! How a runtime is made.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use fom_journal::{EntryId, FileJournal, Journal, JournalError};
use tokio::sync::oneshot;

use crate::{
    Clock,
    balance::Balance,
    clock::nanos,
    durable::{
        Dormant, JournalCheck, Memory, RecoveryProgress, Types, check, check_entries, held_locks,
        recover,
    },
    error::{BoxError, BuildError},
    fom::Resident,
    id::FomId,
    locality::{Core, Followers, Home, Locality, Reactor, Spawner},
    operation::{Operation, Persistent},
    runtime::{
        Runtime, World,
        resources::Resources,
        shutdown::Guard,
        world::{Mode, Settings},
    },
    topology::{LocalityPlan, Machine, PlanOptions, plan},
    watch::{Hooks, Transition, TransitionOf},
};

/// How long a fom may run on before it goes to the tail of its run queue: whichever is used up first, looked at between
/// two phases, and between two events of one that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Phases in one run.
    pub phases: u32,
    /// Time in one run.
    pub time: Duration,
}

impl Default for Budget {
    /// 64 phases, 100 microseconds.
    fn default() -> Self {
        Self {
            phases: 64,
            time: Duration::from_micros(100),
        }
    }
}

type OpenJournal = Box<dyn FnOnce() -> Result<Box<dyn Journal>, JournalError> + Send>;
type AddHook = Box<dyn FnOnce(&Hooks) + Send>;
type Tell = Box<dyn FnMut(&RecoveryProgress) + Send>;
type MakeData = Box<dyn Fn(&mut Core) -> Result<(), BoxError> + Send + Sync>;

/// Builds a [`Runtime`].
pub struct Builder {
    localities: Option<usize>,
    machine: Option<Machine>,
    pin: bool,
    clock: Clock,
    resources: Resources,
    data: Vec<Arc<MakeData>>,
    followers: Followers,
    spawner: Spawner,
    budget: Budget,
    balance: Balance,
    capacity: usize,
    key_queue: usize,
    mailbox: usize,
    history: usize,
    spin: Duration,
    remember: (usize, Duration),
    resident: usize,
    journal: Option<OpenJournal>,
    types: Types,
    tell: Tell,
    hooks: Vec<AddHook>,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("localities", &self.localities)
            .field("pin", &self.pin)
            .field("followers", &self.followers)
            .field("budget", &self.budget)
            .field("balance", &self.balance)
            .field("capacity", &self.capacity)
            .field("mailbox", &self.mailbox)
            .field("history", &self.history)
            .finish_non_exhaustive()
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            localities: None,
            machine: None,
            pin: true,
            clock: Clock::system(),
            resources: Resources::default(),
            data: Vec::new(),
            followers: Followers::default(),
            spawner: Spawner::default(),
            budget: Budget::default(),
            balance: Balance::default(),
            capacity: usize::MAX,
            key_queue: usize::MAX,
            mailbox: 1024,
            history: 0,
            spin: Duration::ZERO,
            remember: (10_000, Duration::from_secs(3600)),
            resident: usize::MAX,
            journal: None,
            types: Types::default(),
            tell: Box::new(|_| {}),
            hooks: Vec::new(),
        }
    }
}

impl Builder {
    /// How many localities; by default one for each core that the process may use.
    pub fn localities(mut self, localities: usize) -> Self {
        self.localities = Some(localities);
        self
    }

    /// The machine to divide into localities; by default this one. A machine that is made up is planned for as if it
    /// were this one, and nothing is bound to its processors.
    pub fn machine(mut self, machine: Machine) -> Self {
        self.machine = Some(machine);
        self
    }

    /// Whether the threads of a locality are bound to its processors. By default they are.
    pub fn pin(mut self, pin: bool) -> Self {
        self.pin = pin;
        self
    }

    /// The clock for deadlines and ages: a [`TestClock`](crate::TestClock) in tests.
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = clock.into();
        self
    }

    /// A value that every fom reaches by its type ([`Cx::resource`](crate::Cx::resource)). A second one of a type takes
    /// the place of the first.
    pub fn resource<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.resources.insert(value);
        self
    }

    /// Data of each locality, made inside it, reached without a lock ([`Cx::local`](crate::Cx::local)). When one cannot
    /// be made, those made before are dropped and [`build`](Self::build) fails.
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

    /// The threads that stand by in each locality.
    pub fn followers(mut self, followers: Followers) -> Self {
        self.followers = followers;
        self
    }

    /// How the threads of the localities are created: a name, and what they run. By default
    /// [`std::thread::Builder::spawn`]. For priorities and stack sizes, and for tests of what happens without threads.
    pub fn spawn_with(
        mut self,
        spawn: impl Fn(String, Box<dyn FnOnce() + Send>) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.spawner = Spawner(Arc::new(spawn));
        self
    }

    /// How long a fom may run on before others have their turn.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// What is moved to spread an unbalanced load over the localities. By default nothing; see [`Balance`] for when that is
    /// better.
    pub fn balance(mut self, balance: Balance) -> Self {
        self.balance = balance;
        self
    }

    /// The most foms in flight; a further submission is refused. By default there is no limit.
    ///
    /// A fom with a key that waits between two attempts lends its room to others. So a key with a head that fails again
    /// and again does not fill the runtime. With such foms there are at most twice as many.
    pub fn capacity(mut self, foms: usize) -> Self {
        self.capacity = foms;
        self
    }

    /// The most foms that [wait](crate::Submission::queue) for one key, not counting those that have it. By default there is no
    /// limit but the [capacity](Self::capacity), of which they take their part: with a limit here a key whose head does not get on
    /// cannot take all of it.
    pub fn key_queue(mut self, foms: usize) -> Self {
        self.key_queue = foms;
        self
    }

    /// The most events kept for one fom; a further one is given back. 1,024 by default.
    pub fn mailbox(mut self, events: usize) -> Self {
        self.mailbox = events;
        self
    }

    /// How many of its last phases each fom remembers for [`Runtime::operations`]. By default none, since a million foms
    /// would remember a lot.
    pub fn history(mut self, phases: usize) -> Self {
        self.history = phases;
        self
    }

    /// How long a locality without work looks for some before it sleeps. By default not at all: a locality that looks keeps
    /// its processor busy. Waking one that looks takes some 0.2 microseconds, waking one that sleeps some twenty.
    pub fn spin(mut self, time: Duration) -> Self {
        self.spin = time;
        self
    }

    /// Keeps a journal in this directory, which is made if it is not there. Every operation that can be saved survives the end of
    /// the process, the loss of power and a full disk, and goes on from the last phase that it committed when a runtime is built
    /// on the same directory again. The promise: *transitions exactly once, effects at least once.*
    ///
    /// No handle, listener or waiter hears of a transition before it is on disk. What the function of a phase does outside may be
    /// done again after a crash, with the same [`Cx::step_key`](crate::Cx::step_key); what it gives to
    /// [`Cx::outbox`](crate::Cx::outbox) is sent once. Events that were sent directly and that no phase took, resources and
    /// locality data are not kept.
    ///
    /// The directory is the journal's own, on a local disk. It takes 16 MiB at first; [`FileJournal`] says how large it gets. One
    /// runtime at a time has it. One thread more runs, which commits for all localities.
    ///
    /// It is opened by [`build`](Self::build), which fails with [`BuildError::Journal`] when that cannot be done: another process
    /// has it, there is something else in that place, or it is damaged where it is not known whose records are lost. Damage to the
    /// record of one fom sets that fom aside ([`Runtime::set_aside`]).
    ///
    /// ```
    /// use fom_runtime::prelude::*;
    ///
    /// # let directory = std::env::temp_dir().join(format!("fom-builder-journal-{}", std::process::id()));
    /// let runtime = Runtime::builder()
    ///     .journal(&directory)
    ///     .on_recovery(|progress| eprintln!("{progress}"))
    ///     .build()?;
    /// # drop(runtime);
    /// # std::fs::remove_dir_all(&directory)?;
    /// # Ok::<(), BoxError>(())
    /// ```
    pub fn journal(mut self, directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        self.journal = Some(Box::new(move || {
            Ok(Box::new(FileJournal::open(directory)?))
        }));
        self
    }

    /// As [`journal`](Self::journal), with a journal of one's own making: in memory for tests, a file one with other settings, or
    /// another store.
    pub fn journal_with(mut self, journal: impl Journal) -> Self {
        self.journal = Some(Box::new(move || Ok(Box::new(journal))));
        self
    }

    /// An operation type whose foms are to come back out of the journal. Only generic ones need that; all others are known. One that is
    /// missing is set aside with [`RestoreError::UnknownOperation`](crate::RestoreError::UnknownOperation), and says so.
    ///
    /// ```
    /// use fom_runtime::{journal::MemoryJournal, prelude::*};
    /// use serde::{Deserialize, Serialize, de::DeserializeOwned};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Message<T> {
    ///     body: T,
    /// }
    ///
    /// #[fom(operation("Message<T>"), generics("T: Serialize + DeserializeOwned + Send + 'static"))]
    /// enum Sending {
    ///     #[phase(start, sync, to(Sent))]
    ///     Begin,
    ///     #[phase(end)]
    ///     Sent,
    /// }
    /// # impl<T: Serialize + DeserializeOwned + Send + 'static> SendingTransitions for Message<T> {
    /// #     fn begin(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> { Ok(()) }
    /// # }
    ///
    /// let runtime = Runtime::builder()
    ///     .operation::<Message<u32>>()
    ///     .operation::<Message<String>>()
    ///     .journal_with(MemoryJournal::new())
    ///     .build()?;
    /// # drop(runtime);
    /// # Ok::<(), BoxError>(())
    /// ```
    pub fn operation<O: Persistent>(mut self) -> Self {
        self.types.name::<O>();
        self
    }

    /// Looks at the journal in this directory, and says what this program would bring back of it and what it could not, and why.
    /// It changes nothing and starts nothing: to be run with a new release on a copy of production's journal, before it is
    /// shipped.
    ///
    /// What only a running program knows is not seen: `resume`, and resources.
    ///
    /// While a program has the journal open, its files change as they are read, and the report says nothing that can be relied on
    /// ([`Inspection::in_use`](crate::journal::Inspection::in_use)). No program can open it while it is looked at.
    ///
    /// ```
    /// use fom_runtime::prelude::*;
    ///
    /// # let copy = std::env::temp_dir().join(format!("fom-builder-check-{}", std::process::id()));
    /// # drop(Runtime::builder().journal(&copy).build()?);
    /// let check = Runtime::builder().check_journal(&copy)?;
    /// println!("{check}");
    /// assert!(check.is_clean());
    /// # std::fs::remove_dir_all(&copy)?;
    /// # Ok::<(), BoxError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When there is no journal, when it was written by a later release, and what the system says. Damage is in the report.
    pub fn check_journal(&self, directory: impl AsRef<Path>) -> Result<JournalCheck, JournalError> {
        check(directory.as_ref(), &self.types)
    }

    /// As [`check_journal`](Self::check_journal), of entries that may be anything. For a fuzzer.
    #[doc(hidden)]
    pub fn check_hostile_entries(&self, entries: &[(EntryId, &[u8])]) -> JournalCheck {
        check_entries(entries, &self.types)
    }

    /// Hears how far the recovery is: at the beginning, once every 10,000 entries, and at its end. Called by [`build`](Self::build), on
    /// the thread that calls that, so it should not take long. A panic in it fails that with [`BuildError::Journal`].
    ///
    /// ```
    /// use fom_runtime::{journal::MemoryJournal, prelude::*};
    ///
    /// let runtime = Runtime::builder()
    ///     .journal_with(MemoryJournal::new())
    ///     // "34 % read, 339997 foms back"
    ///     .on_recovery(|progress| eprintln!("{progress}"))
    ///     .build()?;
    /// # drop(runtime);
    /// # Ok::<(), BoxError>(())
    /// ```
    pub fn on_recovery(mut self, tell: impl FnMut(&RecoveryProgress) + Send + 'static) -> Self {
        self.tell = Box::new(tell);
        self
    }

    /// How many outcomes are remembered of operations that were [submitted with an id](crate::Submission::once), and how long:
    /// those that ended first are forgotten first. By default 10,000, for an hour, on the clock of the journal, which goes on
    /// while the program does not run.
    ///
    /// An operation that has not ended is never forgotten. An outcome that is forgotten earlier than the client stops asking lets the
    /// operation run again, so say how long that can be:
    ///
    /// ```
    /// use fom_runtime::{journal::MemoryJournal, prelude::*};
    /// use std::time::Duration;
    ///
    /// let day = Duration::from_secs(24 * 60 * 60);
    /// let runtime = Runtime::builder()
    ///     .journal_with(MemoryJournal::new())
    ///     .remember(1_000_000, day)
    ///     .build()?;
    /// # drop(runtime);
    /// # Ok::<(), BoxError>(())
    /// ```
    pub fn remember(mut self, outcomes: usize, time: Duration) -> Self {
        self.remember = (outcomes, time);
        self
    }

    /// As [`Runtime::listen`], from the first transition on: it also hears of the foms that come back out of the journal, which
    /// go on before [`build`](Self::build) returns.
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
            hooks.listen_to::<O>(Box::new(listener));
        })
    }

    pub(crate) fn hook(mut self, add: impl FnOnce(&Hooks) + Send + 'static) -> Self {
        self.hooks.push(Box::new(add));
        self
    }

    /// The most foms that come back out of the journal at once. The others rest: of each there is only what the journal has of it, in
    /// memory, until another one that came back has ended, its deadline has passed, or somebody looks for it: by its key
    /// ([`Runtime::find`], a submission with that key, an event through an outbox), by its operation id, or by its id
    /// ([`Runtime::operation`], [`Runtime::wake`], [`Runtime::cancel`]). The oldest come first. By default there is no limit.
    ///
    /// Those that are back and wait count, too: where foms wait for each other's events, give a limit that has room for all that
    /// may wait at a time, or none.
    ///
    /// For those the limit does not count: one whose deadline has passed, or that somebody looks for, comes back in any case. What
    /// cannot be read is found when it comes back. Those that rest take no part in a shutdown, and stay in the journal.
    /// [`Operations::dormant`](crate::Operations::dormant) says how many there are. [`build`](Self::build) refuses a limit of zero.
    pub fn resident(mut self, most: usize) -> Self {
        self.resident = most;
        self
    }

    fn check(&self) -> Result<(), BuildError> {
        let range = |what, hint| Err(BuildError::Range { what, hint });
        if self.localities == Some(0) {
            return range("localities", "at least one");
        }
        if self.followers.least == 0 {
            return range(
                "followers.least",
                "at least one: somebody must take over when the handler blocks",
            );
        }
        if self.followers.most < self.followers.least {
            return range("followers.most", "no less than `followers.least`");
        }
        if self.budget.phases == 0 {
            return range("budget.phases", "at least one");
        }
        if self.resident == 0 {
            return range("resident", "at least one");
        }
        if self.mailbox == 0 {
            return range("mailbox", "at least one event");
        }
        Ok(())
    }

    /// The plan, and whether threads are to be bound to it.
    fn plan(&self) -> (Vec<LocalityPlan>, bool) {
        let options = self.localities.map_or_else(PlanOptions::default, |n| {
            PlanOptions::default().localities(n)
        });
        #[cfg(not(fom_shuttle))]
        let machine = || Machine::detect();
        // Under the model checker the host's cores are of no interest.
        #[cfg(fom_shuttle)]
        let machine = || Machine::synthetic(1, 1, 1, 1);
        let machine = self.machine.clone().unwrap_or_else(machine);
        (plan(&machine, &options), self.pin && machine.is_bindable())
    }

    /// Makes the runtime and starts its threads.
    ///
    /// # Errors
    ///
    /// [`BuildError`]; then nothing is left running.
    pub fn build(mut self) -> Result<Runtime, BuildError> {
        self.check()?;
        let journal = match self.journal.take() {
            Some(open) => {
                self.types.check()?;
                Some(open()?)
            }
            None => None,
        };
        let (plans, bound) = self.plan();
        let mut localities = Vec::new();
        let mut reactors = Vec::new();
        for (index, plan) in plans.into_iter().enumerate() {
            let reactor = Reactor::new().map_err(BuildError::Reactor)?;
            localities.push(Locality::new(index, plan, bound, self.followers, &reactor));
            reactors.push(reactor);
        }
        let world = World::new(Settings {
            clock: self.clock,
            resources: self.resources,
            spawner: self.spawner,
            budget: self.budget,
            balance: self.balance,
            mailbox: self.mailbox,
            history: self.history,
            capacity: self.capacity,
            key_queue: self.key_queue,
            spin: self.spin,
            localities: localities.into(),
            journaled: journal.is_some(),
            types: self.types,
            memory: Memory::new(self.remember.0, nanos(self.remember.1)),
            dormant: Dormant::new(self.resident),
        });
        for add in self.hooks {
            add(&world.hooks);
        }
        // From here on dropping the guard ends what was started.
        let guard = Arc::new(Guard {
            world: Arc::clone(&world),
        });
        for (index, reactor) in reactors.into_iter().enumerate() {
            if let Err(error) = Home::new(Arc::clone(&world), index).start(reactor) {
                abort(&world, &world.localities[..index]);
                return Err(BuildError::Thread(error));
            }
        }
        let watcher: Arc<dyn crate::clock::Moved> = Arc::clone(&world) as _;
        world.clock.watch(Arc::downgrade(&watcher));
        for make in &self.data {
            for home in &world.localities {
                if let Err(source) = make_data(home, make) {
                    abort(&world, &world.localities);
                    return Err(BuildError::LocalityData {
                        locality: home.index,
                        source,
                    });
                }
            }
        }
        if let Some(journal) = journal
            && let Err(error) = bring_back(&world, journal, &mut self.tell)
        {
            abort(&world, &world.localities);
            return Err(error);
        }
        Ok(Runtime {
            world,
            _guard: Some(guard),
        })
    }
}

/// How long it is waited for those that held long locks: they open again what they need before that.
const RELOCK: Duration = Duration::from_secs(10);

/// Makes foms of what is in the journal, and begins to commit. Nothing new is taken in before that.
fn bring_back(
    world: &Arc<World>,
    mut journal: Box<dyn Journal>,
    tell: &mut Tell,
) -> Result<(), BuildError> {
    let recovered = match recover(world, &mut *journal, tell) {
        Ok(recovered) => recovered,
        Err((error, foms)) => {
            foms.into_iter().for_each(Resident::reject);
            // Its thread never runs: nobody is to wait for that.
            if let Some(committer) = world.committer() {
                committer.end();
            }
            return Err(error.into());
        }
    };
    for damage in recovered.found.torn.iter().chain(&recovered.found.gaps) {
        world.incident(format!("the journal was damaged: {damage}"));
    }
    let committer = world
        .committer()
        .map(Arc::clone)
        .expect("set by the recovery");
    committer.ask_longest(&*journal);
    let weak = Arc::downgrade(world);
    let head = recovered.head;
    let commits = Arc::clone(&committer);
    let main = Box::new(move || {
        commits.run(journal, head, &weak);
    });
    if let Err(error) = (world.spawner.0)("fom-journal".to_owned(), main) {
        recovered.foms.into_iter().for_each(|fom| fom.1.reject());
        committer.end();
        return Err(BuildError::Thread(error));
    }
    for (_, fom) in &recovered.foms {
        world.dormant.revive_before(world, fom);
    }
    let (held, others): (Vec<_>, Vec<_>) = recovered
        .foms
        .into_iter()
        .partition(|(_, fom)| held_locks(fom));
    relock(world, held);
    for (_, fom) in others {
        crate::locality::enqueue(world, fom);
    }
    let spawn = |main| (world.spawner.0)("fom-resting".to_owned(), main);
    Dormant::start(world, spawn).map_err(|(error, foms)| {
        foms.into_iter().for_each(Resident::reject);
        BuildError::Thread(error)
    })
}

/// Those that held long locks run first, until they have asked for them again: nobody gets in between.
fn relock(world: &Arc<World>, held: Vec<(FomId, Resident)>) {
    world.relock.expect(held.iter().map(|(id, _)| *id));
    for (_, fom) in held {
        crate::locality::enqueue(world, fom);
    }
    let late = world.relock.wait(RELOCK);
    if late > 0 {
        world.incident(format!(
            "{late} foms that held long locks have not asked for them again within {RELOCK:?}: others may have them first"
        ));
    }
}

/// Makes one value inside its locality and waits for that.
fn make_data(home: &Locality, make: &Arc<MakeData>) -> Result<(), BoxError> {
    let (tell, told) = oneshot::channel();
    let make = Arc::clone(make);
    home.post_job(Box::new(move |core| {
        // The builder waits.
        let _ = tell.send(make(core));
    }));
    crate::sync::block_on(told).unwrap_or_else(|_| Err("the constructor panicked".into()))
}

/// Ends what was started, and waits for it: its data is dropped when `build` returns.
fn abort(world: &World, localities: &[Locality]) {
    world.close(Mode::Closed);
    for home in localities {
        home.stop();
    }
    world.wait_ended(
        localities.len(),
        crate::sync::now() + Duration::from_secs(10),
    );
}
