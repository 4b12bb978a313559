//! Construction of a runtime.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use fom_journal::{EntryId, FileJournal, Journal, JournalError};
use tokio::sync::oneshot;

use crate::{
    balance::Balance,
    clock::Clock,
    durable::{
        IdempotencyStore, JournalCheck, Passive, RecoveryProgress, Types, check, check_entries,
        recover,
    },
    error::BoxError,
    fom::{Hooks, Resident, Transition, TransitionOf},
    id::FomId,
    locality::{Core, Followers, Home, Locality, Reactor, Spawner},
    operation::{Operation, Persistent},
    runtime::{
        BuildError, Runtime, Shared,
        resources::Resources,
        shared::{RuntimeState, Settings},
        shutdown::Guard,
    },
    topology::{LocalityPlan, Machine, PlanOptions, plan},
};
use fom_protocol::nanos;

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
    /// Sets the number of localities. Default: one for each core that the process may use.
    pub fn localities(mut self, localities: usize) -> Self {
        self.localities = Some(localities);
        self
    }

    /// Sets the machine to divide into localities. Default: this machine. The runtime plans for a synthetic machine as
    /// if it were this one, but binds no thread to its processors.
    pub fn machine(mut self, machine: Machine) -> Self {
        self.machine = Some(machine);
        self
    }

    /// Sets whether the threads of a locality are bound to its processors. Default: `true`.
    pub fn pin(mut self, pin: bool) -> Self {
        self.pin = pin;
        self
    }

    /// Sets the clock for deadlines and ages. Use a [`TestClock`](crate::TestClock) in tests.
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

    /// Sets the threads that stand by in each locality.
    pub fn followers(mut self, followers: Followers) -> Self {
        self.followers = followers;
        self
    }

    /// Sets the function that creates the threads of the localities, from a name and what the thread runs. Default:
    /// [`std::thread::Builder::spawn`]. Use it for priorities and stack sizes, and to test what happens without
    /// threads.
    pub fn spawn_with(
        mut self,
        spawn: impl Fn(String, Box<dyn FnOnce() + Send>) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.spawner = Spawner(Arc::new(spawn));
        self
    }

    /// Sets how long a fom may run before others have their turn.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Sets what the runtime moves to spread an unbalanced load over the localities. Default: nothing. [`Balance`] says
    /// when moving is better.
    pub fn balance(mut self, balance: Balance) -> Self {
        self.balance = balance;
        self
    }

    /// Sets the maximum number of foms in flight; further submissions are refused. Default: no limit.
    ///
    /// A fom with a key that waits between two attempts lends its room to others. So a key with a head that fails again
    /// and again does not fill the runtime. With such foms, at most twice as many foms are in flight.
    pub fn capacity(mut self, foms: usize) -> Self {
        self.capacity = foms;
        self
    }

    /// Sets the maximum number of foms that [wait](crate::Submission::queue) for one key, without the foms that have
    /// it. Default: no limit but the [capacity](Self::capacity), of which waiting foms take a part. With a limit, a key
    /// with a stuck head cannot take the whole capacity.
    pub fn key_queue(mut self, foms: usize) -> Self {
        self.key_queue = foms;
        self
    }

    /// Sets the maximum number of events kept for one fom; a further event is given back to its sender. Default: 1,024.
    pub fn mailbox(mut self, events: usize) -> Self {
        self.mailbox = events;
        self
    }

    /// Sets how many of its last phases each fom remembers for [`Runtime::operations`]. Default: 0, because the
    /// histories of a million foms take much memory.
    pub fn history(mut self, phases: usize) -> Self {
        self.history = phases;
        self
    }

    /// Sets how long a locality without work looks for some before it sleeps. Default: zero, because a locality that
    /// looks keeps its processor busy. It takes some 0.2 microseconds to wake a locality that looks, and some 20 to
    /// wake one that sleeps.
    pub fn spin(mut self, time: Duration) -> Self {
        self.spin = time;
        self
    }

    /// Keeps a journal in this directory, which is created if missing. Every operation that can be saved survives the
    /// end of the process, power loss and a full disk. When a runtime is built on the same directory again, the
    /// operation goes on from the last phase that it committed. The promise is *transitions exactly once, effects at
    /// least once*.
    ///
    /// No handle, listener or waiter hears of a transition before it is on disk. After a crash, the function of a phase
    /// may repeat what it does outside, with the same [`Cx::step_key`](crate::Cx::step_key). What the function gives to
    /// [`Cx::outbox`](crate::Cx::outbox) is sent once. Resources, locality data, and events that were sent directly and
    /// that no phase took are not kept.
    ///
    /// The directory must be on a local disk and hold nothing else. It takes 16 MiB at first; [`FileJournal`] says how
    /// large it gets. One runtime at a time has it. One additional thread commits for all localities.
    ///
    /// [`build`](Self::build) opens the journal, and fails with [`BuildError::Journal`] if it cannot:
    ///
    /// - Another process has it.
    /// - Something else is in that place.
    /// - It is damaged, and the runtime cannot tell which foms have lost records.
    ///
    /// Damage to the record of one fom sets that fom aside ([`Runtime::set_aside`]).
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
    pub fn journal(mut self, key_index: impl Into<PathBuf>) -> Self {
        let key_index = key_index.into();
        self.journal = Some(Box::new(move || {
            Ok(Box::new(FileJournal::open(key_index)?))
        }));
        self
    }

    /// As [`journal`](Self::journal), with a journal of your own: in memory for tests, a file journal with other
    /// settings, or another store.
    pub fn journal_with(mut self, journal: impl Journal) -> Self {
        self.journal = Some(Box::new(move || Ok(Box::new(journal))));
        self
    }

    /// Names an operation type so that its foms can come back out of the journal. Only generic types need this; the
    /// runtime knows all others. A fom of a generic type that is not named is set aside with
    /// [`RestoreError::UnknownOperation`](crate::RestoreError::UnknownOperation).
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

    /// Reads the journal in this directory, and reports what this program would bring back from it, what it could not,
    /// and why. This changes nothing and starts nothing. Run it with a new release on a copy of production's journal,
    /// before you ship the release.
    ///
    /// The report does not cover what only a running program knows: `resume`, and resources.
    ///
    /// While a program has the journal open, its files change during the read, and the report is not reliable
    /// ([`Inspection::in_use`](crate::journal::Inspection::in_use)). No program can open the journal during the check.
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
    /// Fails if there is no journal, if a later release wrote it, and with the errors of the system. Damage is in the
    /// report.
    pub fn check_journal(&self, key_index: impl AsRef<Path>) -> Result<JournalCheck, JournalError> {
        check(key_index.as_ref(), &self.types)
    }

    /// As [`check_journal`](Self::check_journal), for arbitrary entries. For a fuzzer.
    #[doc(hidden)]
    pub fn check_hostile_entries(&self, entries: &[(EntryId, &[u8])]) -> JournalCheck {
        check_entries(entries, &self.types)
    }

    /// Sets a function that hears of the progress of the recovery: at the beginning, once every 10,000 entries, and at
    /// the end. [`build`](Self::build) calls it on its own thread, so it must return soon. If it panics, `build` fails
    /// with [`BuildError::Journal`].
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

    /// Sets how many outcomes of operations [submitted with an id](crate::Submission::once) are remembered, and how
    /// long. Outcomes of operations that ended first are forgotten first. Default: 10,000, for an hour, on the clock of
    /// the journal, which goes on while the program does not run.
    ///
    /// An operation that has not ended is never forgotten. If an outcome is forgotten while clients still ask for it,
    /// the operation runs again. So set the time for which clients ask:
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

    /// As [`Runtime::listen`], from the first transition on. The listener also hears of the foms that come back out of
    /// the journal, which go on before [`build`](Self::build) returns.
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

    /// Sets the maximum number of foms that are back out of the journal at once. Default: no limit.
    ///
    /// The other foms rest: only their journal records are in memory. The oldest come back first. A resting fom comes
    /// back when
    ///
    /// - another fom that came back has ended;
    /// - its deadline has passed;
    /// - a caller asks for its key: [`Runtime::find`], a submission with that key, or an event through an outbox;
    /// - a caller asks for its operation id;
    /// - a caller asks for its id: [`Runtime::operation`], [`Runtime::wake`], [`Runtime::cancel`].
    ///
    /// Foms that are back and wait count, too. If foms wait for each other's events, set a limit with room for all that
    /// may wait at once, or none.
    ///
    /// A fom comes back even beyond the limit if its deadline has passed or a caller asks for it. A record that cannot
    /// be read is found when the fom comes back. Resting foms take no part in a shutdown, and stay in the journal.
    /// [`Operations::passive`](crate::Operations::passive) counts them. [`build`](Self::build) refuses a limit of zero.
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

    /// Builds the runtime and starts its threads.
    ///
    /// # Errors
    ///
    /// Fails with [`BuildError`]; then nothing is left running.
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
        let shared = Shared::new(Settings {
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
            memory: IdempotencyStore::new(self.remember.0, nanos(self.remember.1)),
            passive: Passive::new(self.resident),
        });
        for add in self.hooks {
            add(&shared.env.hooks);
        }
        // From here on dropping the guard ends what was started.
        let guard = Arc::new(Guard {
            shared: Arc::clone(&shared),
        });
        for (index, reactor) in reactors.into_iter().enumerate() {
            if let Err(error) = Home::new(Arc::clone(&shared), index).start(reactor) {
                abort(&shared, &shared.localities[..index]);
                return Err(BuildError::Thread(error));
            }
        }
        let watcher: Arc<dyn crate::clock::Moved> = Arc::clone(&shared) as _;
        shared.env.clock.watch(Arc::downgrade(&watcher));
        for make in &self.data {
            for home in &shared.localities {
                if let Err(source) = make_data(home, make) {
                    abort(&shared, &shared.localities);
                    return Err(BuildError::LocalityData {
                        locality: home.index,
                        source,
                    });
                }
            }
        }
        if let Some(journal) = journal
            && let Err(error) = bring_back(&shared, journal, &mut self.tell)
        {
            abort(&shared, &shared.localities);
            return Err(error);
        }
        Ok(Runtime {
            shared,
            _guard: Some(guard),
        })
    }
}

/// How long the recovery waits until the foms that held their gates have asked for them again. Before that, such a fom
/// may open what it needs.
const GATES_FIRST: Duration = Duration::from_secs(10);

/// Makes foms of what is in the journal, and starts to commit. No new submission is taken before that.
fn bring_back(
    shared: &Arc<Shared>,
    mut journal: Box<dyn Journal>,
    tell: &mut Tell,
) -> Result<(), BuildError> {
    let recovered = match recover(shared, &mut *journal, tell) {
        Ok(recovered) => recovered,
        Err((error, foms)) => {
            foms.into_iter().for_each(Resident::reject);
            // Its thread never runs, so no thread may wait for it.
            if let Some(committer) = shared.committer() {
                committer.end();
            }
            return Err(error.into());
        }
    };
    for damage in recovered.found.torn.iter().chain(&recovered.found.gaps) {
        shared
            .env
            .report(format!("the journal was damaged: {damage}"));
    }
    let committer = shared
        .committer()
        .map(Arc::clone)
        .expect("set by the recovery");
    committer.ask_longest(&*journal);
    let weak = Arc::downgrade(shared);
    let head = recovered.head;
    let commits = Arc::clone(&committer);
    let main = Box::new(move || {
        commits.run(journal, head, &weak);
    });
    if let Err(error) = (shared.spawner.0)("fom-journal".to_owned(), main) {
        recovered.foms.into_iter().for_each(|fom| fom.1.reject());
        committer.end();
        return Err(BuildError::Thread(error));
    }
    for (_, fom) in &recovered.foms {
        shared.passive.revive_before(shared, fom);
    }
    let (held, others): (Vec<_>, Vec<_>) = recovered
        .foms
        .into_iter()
        .partition(|(_, fom)| fom.kept().is_some_and(|kept| kept.inner().held_gate()));
    ask_gates(shared, held);
    for (_, fom) in others {
        crate::locality::enqueue(shared, fom);
    }
    let spawn = |main| (shared.spawner.0)("fom-resting".to_owned(), main);
    Passive::start(shared, spawn).map_err(|(error, foms)| {
        foms.into_iter().for_each(Resident::reject);
        BuildError::Thread(error)
    })
}

/// Runs the foms that held their gates first, until they have asked for them again. No other fom gets in between.
fn ask_gates(shared: &Arc<Shared>, held: Vec<(FomId, Resident)>) {
    shared.gate_recovery.expect(held.iter().map(|(id, _)| *id));
    for (_, fom) in held {
        crate::locality::enqueue(shared, fom);
    }
    let late = shared.gate_recovery.wait(GATES_FIRST);
    if late > 0 {
        shared.env.report(format!(
            "{late} foms that held the gates of their phases, such as long locks, have not asked for them again within {GATES_FIRST:?}: others may have them first"
        ));
    }
}

/// Makes one value inside its locality and waits for it.
fn make_data(home: &Locality, make: &Arc<MakeData>) -> Result<(), BoxError> {
    let (tell, told) = oneshot::channel();
    let make = Arc::clone(make);
    home.post_job(Box::new(move |core| {
        // Cannot fail: the builder waits.
        let _ = tell.send(make(core));
    }));
    fom_protocol::sync::block_on(told).unwrap_or_else(|_| Err("the constructor panicked".into()))
}

/// Ends what was started, and waits for it: its data is dropped when `build` returns.
fn abort(shared: &Arc<Shared>, localities: &[Locality]) {
    shared.close(RuntimeState::Closed);
    for home in localities {
        home.stop();
    }
    shared.wait_ended(
        localities.len(),
        fom_protocol::sync::now() + Duration::from_secs(10),
    );
}
