//! The settings of durability, and its start.

use std::{
    any::TypeId,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use fom_journal::{EntryId, FileJournal, Journal, JournalError};

use crate::durable::{
    CommitBuffer, Durable, JournalCheck, Passive, RecoveryProgress, Types, check, check_entries,
    committer::fenced, component::Limits, held_gate, recover, recovery::in_locality,
};
use fom_runtime::{
    __durability::{self as seam, Recording, Resident, Shared},
    Builder, FomId, Persistent,
    error::{BuildError, DurabilityError},
    observe::IncidentKind,
};

type OpenJournal = Box<dyn FnOnce() -> Result<Box<dyn Journal>, JournalError> + Send>;
type Tell = Box<dyn FnMut(&RecoveryProgress) + Send>;

/// The settings of a [`Builder`] for durability. The prelude has it.
pub trait DurableBuilderExt: Sized {
    /// Keeps a journal in this directory, which is created if missing. Every operation that can be saved survives the
    /// end of the process, power loss and a full disk. When a runtime is built on the same directory again, the
    /// operation goes on from the last phase that it committed. The promise is *transitions exactly once, effects at
    /// least once*.
    ///
    /// No handle, listener or waiter hears of a transition before it is on disk. After a crash, the function of a phase
    /// may repeat what it does outside, with the same [`Cx::step_key`](fom_runtime::Cx::step_key). What the function
    /// gives to [`Cx::outbox`](crate::DurableCxExt::outbox) is sent once. Resources, locality data, and events that
    /// were sent directly and that no phase took are not kept.
    ///
    /// The directory must be on a local disk and hold nothing else. It takes 16 MiB at first; [`FileJournal`] says how
    /// large it gets. Only one runtime at a time can use it. One additional thread commits for all localities.
    ///
    /// [`build`](Builder::build) opens the journal, and fails with [`BuildError::Journal`] in these cases:
    ///
    /// - Another process has the journal open.
    /// - The directory holds something else.
    /// - The journal is damaged, and the runtime cannot tell which foms have lost records.
    ///
    /// A fom with a damaged record goes into [quarantine](crate::DurableExt::quarantine).
    ///
    /// An operation that fails, in a way that its machine does not declare, goes into quarantine, too. The program can
    /// retry it.
    ///
    /// ```
    /// use fom_durable::prelude::*;
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
    fn journal(self, directory: impl Into<PathBuf>) -> Self;

    /// As [`journal`](Self::journal), with a journal of your own: in memory for tests, a file journal with other
    /// settings, or another store.
    fn journal_with(self, journal: impl Journal) -> Self;

    /// Names an operation type so that its foms can come back out of the journal. Only generic types need this; the
    /// runtime knows all others. A fom of a generic type that is not named is quarantined with
    /// [`RestoreError::UnknownOperation`](fom_runtime::snapshot::RestoreError::UnknownOperation).
    ///
    /// ```
    /// use fom_durable::{journal::MemoryJournal, prelude::*};
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
    fn operation<O: Persistent>(self) -> Self;

    /// Reads the journal in this directory. Reports which foms this program would bring back, which foms it could not
    /// bring back, and why. The check changes nothing and starts nothing. Run it with a new release on a copy of
    /// production's journal, before you ship the release.
    ///
    /// The report does not cover what only a running program knows: `resume`, and resources.
    ///
    /// While a program has the journal open, its files change during the read, and the report is not reliable
    /// ([`Inspection::in_use`](crate::journal::Inspection::in_use)). No program can open the journal during the check.
    ///
    /// ```
    /// use fom_durable::prelude::*;
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
    fn check_journal(&self, directory: impl AsRef<Path>) -> Result<JournalCheck, JournalError>;

    /// As [`check_journal`](Self::check_journal), for arbitrary entries. For a fuzzer.
    #[doc(hidden)]
    fn check_hostile_entries(&self, entries: &[(EntryId, &[u8])]) -> JournalCheck;

    /// Sets a function that hears of the progress of the recovery: at the beginning, once every 10,000 entries, and at
    /// the end. [`build`](Builder::build) calls it on its own thread, so it must return soon. If it panics, `build`
    /// fails with [`BuildError::Journal`].
    ///
    /// ```
    /// use fom_durable::{journal::MemoryJournal, prelude::*};
    ///
    /// let runtime = Runtime::builder()
    ///     .journal_with(MemoryJournal::new())
    ///     // "34 % read, 339997 foms back"
    ///     .on_recovery(|progress| eprintln!("{progress}"))
    ///     .build()?;
    /// # drop(runtime);
    /// # Ok::<(), BoxError>(())
    /// ```
    fn on_recovery(self, tell: impl FnMut(&RecoveryProgress) + Send + 'static) -> Self;

    /// Sets how many outcomes of operations [submitted with an id](crate::DurableSubmissionExt::once) are
    /// remembered, and how long. Outcomes of operations that ended first are forgotten first. Default: 10,000, for an
    /// hour, on the clock of the journal, which goes on while the program does not run.
    ///
    /// The ids of [durable sends](crate::DurableExt::send_durably) have the same limits, in a count of their own.
    ///
    /// An operation that has not ended is never forgotten. If an outcome is forgotten while clients still ask for it,
    /// the operation runs again. So set the time for which clients ask:
    ///
    /// ```
    /// use fom_durable::{journal::MemoryJournal, prelude::*};
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
    fn remember(self, outcomes: usize, time: Duration) -> Self;

    /// Remembers the outcome of each operation of this type, also of operations without an operation id. Then
    /// [`outcome`](crate::DurableExt::outcome) finds each of them. The limits hold for this type alone, and replace the
    /// limits of [`remember`](Self::remember) for it. Above the number, the oldest outcomes are dropped first.
    ///
    /// Each outcome is in memory and in the journal, with the operation and the data of its end. The commit of an end
    /// then writes the outcome. Otherwise that commit only deletes the operation. A failed operation is in
    /// [quarantine](crate::Quarantine) instead, with the limits of [`keep_failed`](Self::keep_failed). Operations that
    /// the journal does not keep are not remembered.
    ///
    /// ```
    /// # use fom_durable::{journal::MemoryJournal, prelude::*};
    /// # use serde::{Deserialize, Serialize};
    /// # use std::time::Duration;
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Order;
    /// # #[fom(operation(Order))]
    /// # enum Delivery {
    /// #     #[phase(start, to(Sent))]
    /// #     Pack,
    /// #     #[phase(end)]
    /// #     Sent,
    /// # }
    /// # impl DeliveryTransitions for Order {
    /// #     async fn pack(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> { Ok(()) }
    /// # }
    /// let week = Duration::from_secs(7 * 24 * 60 * 60);
    /// let runtime = Runtime::builder()
    ///     .journal_with(MemoryJournal::new())
    ///     .remember_all::<Order>(100_000, week)
    ///     .build()?;
    /// # drop(runtime);
    /// # Ok::<(), BoxError>(())
    /// ```
    fn remember_all<O: Persistent>(self, outcomes: usize, time: Duration) -> Self;

    /// Sets how many [failed operations](crate::Quarantine) are kept, and how long, on the clock of the journal.
    /// Default: 10,000, for 30 days. The oldest are dropped first, when the next operation fails and at the start. Each
    /// one is an [incident](fom_runtime::observe::Operations::incidents), and is counted.
    /// Its operation id keeps the failure as its answer as long as outcomes are [remembered](Self::remember).
    ///
    /// ```
    /// use fom_durable::{journal::MemoryJournal, prelude::*};
    /// use std::time::Duration;
    ///
    /// let week = Duration::from_secs(7 * 24 * 60 * 60);
    /// let runtime = Runtime::builder()
    ///     .journal_with(MemoryJournal::new())
    ///     .keep_failed(1_000, week)
    ///     .build()?;
    /// # drop(runtime);
    /// # Ok::<(), BoxError>(())
    /// ```
    fn keep_failed(self, operations: usize, time: Duration) -> Self;

    /// Sets how many events are kept in [quarantine](crate::Quarantine), and how long an event without a receiver is
    /// kept, on the clock of the journal. Default: 10,000, for 30 days.
    ///
    /// The number limits the events without a receiver and the events for failed operations. Further events are dropped.
    /// The age counts from the moment in which the event had no receiver. Older events are dropped when the next event
    /// is quarantined, and at the start. [`dead_letters`](crate::Quarantine::dead_letters) counts the dropped events.
    ///
    /// ```
    /// use fom_durable::{journal::MemoryJournal, prelude::*};
    /// use std::time::Duration;
    ///
    /// let day = Duration::from_secs(24 * 60 * 60);
    /// let runtime = Runtime::builder()
    ///     .journal_with(MemoryJournal::new())
    ///     .keep_events(1_000, day)
    ///     .build()?;
    /// # drop(runtime);
    /// # Ok::<(), BoxError>(())
    /// ```
    fn keep_events(self, events: usize, time: Duration) -> Self;

    /// Sets the maximum number of foms that are back out of the journal at once. Default: no limit.
    ///
    /// The other foms rest: only their journal records are in memory. The oldest come back first. A resting fom comes
    /// back when
    ///
    /// - another fom that came back has ended;
    /// - its deadline has passed;
    /// - a caller asks for its key: [`Runtime::find`](fom_runtime::Runtime::find), a submission with that key, or an
    ///   event through an outbox;
    /// - a caller asks for its operation id;
    /// - a caller asks for its id: [`Runtime::operation`](fom_runtime::Runtime::operation),
    ///   [`Runtime::wake`](fom_runtime::Runtime::wake), [`Runtime::cancel`](fom_runtime::Runtime::cancel).
    ///
    /// Foms that are back and wait count, too. If foms wait for each other's events, set a limit with room for all foms
    /// that may wait at once, or set no limit.
    ///
    /// A fom comes back even beyond the limit if its deadline has passed or a caller asks for it. A record that cannot
    /// be read is found when the fom comes back. Resting foms take no part in a shutdown, and stay in the journal.
    /// [`Operations::passive`](fom_runtime::observe::Operations::passive) counts them. [`build`](Builder::build)
    /// refuses a limit of zero.
    fn resident(self, most: usize) -> Self;

    /// Puts these foms into [quarantine](crate::DurableExt::quarantine) when the journal is read, before any function of them
    /// runs, with [`RestoreError::HeldBack`](fom_runtime::snapshot::RestoreError). So a program starts again although a phase
    /// function of an operation ends the process. A caller can try them again, or discard them.
    ///
    /// Foms that are not in the journal have no effect. The next start without this method brings the foms back.
    ///
    /// ```
    /// use fom_durable::{journal::MemoryJournal, prelude::*};
    /// use fom_runtime::FomId;
    ///
    /// # fn start(journal: MemoryJournal, poison: Option<FomId>) -> Result<(), BoxError> {
    /// let runtime = Runtime::builder().journal_with(journal).hold_back(poison).build()?;
    /// # Ok(())
    /// # }
    /// # start(MemoryJournal::new(), None)?;
    /// # Ok::<(), BoxError>(())
    /// ```
    fn hold_back(self, foms: impl IntoIterator<Item = FomId>) -> Self;
}

impl DurableBuilderExt for Builder {
    fn journal(mut self, directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        settings(&mut self).journal = Some(Box::new(move || {
            Ok(Box::new(FileJournal::open(directory)?))
        }));
        self
    }

    fn journal_with(mut self, journal: impl Journal) -> Self {
        settings(&mut self).journal = Some(Box::new(move || Ok(Box::new(journal))));
        self
    }

    fn operation<O: Persistent>(mut self) -> Self {
        let types = &mut settings(&mut self).types;
        types.get_or_insert_default().name::<O>();
        self
    }

    fn check_journal(&self, directory: impl AsRef<Path>) -> Result<JournalCheck, JournalError> {
        with_types(self, |types| check(directory.as_ref(), types))
    }

    fn check_hostile_entries(&self, entries: &[(EntryId, &[u8])]) -> JournalCheck {
        with_types(self, |types| check_entries(entries, types))
    }

    fn on_recovery(mut self, tell: impl FnMut(&RecoveryProgress) + Send + 'static) -> Self {
        settings(&mut self).tell = Box::new(tell);
        self
    }

    fn remember(mut self, outcomes: usize, time: Duration) -> Self {
        settings(&mut self).limits.remember = (outcomes, time);
        self
    }

    fn remember_all<O: Persistent>(mut self, outcomes: usize, time: Duration) -> Self {
        let limits = &mut settings(&mut self).limits;
        limits
            .remember_all
            .insert(TypeId::of::<O>(), (outcomes, time));
        self
    }

    fn keep_failed(mut self, operations: usize, time: Duration) -> Self {
        settings(&mut self).limits.failed = (operations, time);
        self
    }

    fn keep_events(mut self, events: usize, time: Duration) -> Self {
        settings(&mut self).limits.events = (events, time);
        self
    }

    fn resident(mut self, most: usize) -> Self {
        settings(&mut self).limits.resident = most;
        self
    }

    fn hold_back(mut self, foms: impl IntoIterator<Item = FomId>) -> Self {
        settings(&mut self).limits.held_back.extend(foms);
        self
    }
}

fn settings(builder: &mut Builder) -> &mut Settings {
    seam::recording(builder).expect("no other type is a recording")
}

/// Calls `f` with the operation types that the builder knows.
fn with_types<R>(builder: &Builder, f: impl FnOnce(&Types) -> R) -> R {
    let settings = seam::recorded_as::<Settings>(builder);
    match settings.and_then(|settings| settings.types.as_ref()) {
        Some(types) => f(types),
        None => f(&Types::default()),
    }
}

/// The settings of durability, from the builder to the start.
struct Settings {
    journal: Option<OpenJournal>,
    /// The journal, from the opening to the start.
    opened: Option<Box<dyn Journal>>,
    /// Made with the first use, because it looks at each operation type of the program.
    types: Option<Types>,
    limits: Limits,
    tell: Tell,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            journal: None,
            opened: None,
            types: None,
            limits: Limits::default(),
            tell: Box::new(|_| {}),
        }
    }
}

impl Recording for Settings {
    fn open(&mut self) -> Result<bool, BuildError> {
        if self.limits.resident == 0 {
            return Err(BuildError::Range {
                what: "resident",
                hint: "at least one",
            });
        }
        if let Some(open) = self.journal.take() {
            self.types.get_or_insert_default().check()?;
            self.opened = Some(open().map_err(not_opened)?);
        }
        Ok(self.opened.is_some())
    }

    fn attach(&mut self, shared: &Shared) {
        let types = self.types.take().unwrap_or_default();
        let durable = Durable::new(shared, types, &self.limits);
        // The runtime was made just now, and has no other.
        seam::recorder_or(shared, || durable);
    }

    fn start(&mut self, shared: &Shared) -> Result<(), BuildError> {
        match self.opened.take() {
            Some(journal) => bring_back(shared, journal, &mut self.tell),
            None => Ok(()),
        }
    }
}

/// Returns the error of a runtime with a journal that cannot be opened or read.
fn not_opened(error: JournalError) -> BuildError {
    BuildError::Journal(DurabilityError::new(error))
}

/// How long the recovery waits until the foms that held their gates have asked for them again. Before that, such a fom
/// may open what it needs.
const GATES_FIRST: Duration = Duration::from_secs(10);

/// Makes foms of what is in the journal, and starts to commit. No new submission is taken before that.
fn bring_back(
    shared: &Shared,
    mut journal: Box<dyn Journal>,
    tell: &mut Tell,
) -> Result<(), BuildError> {
    CommitBuffer::add_to(shared);
    let lease = fenced(|| Ok(journal.lease())).map_err(not_opened)?;
    if let Some(lease) = &lease {
        // Set once: a runtime has one journal.
        let _ = Durable::of(shared).lease.set(lease.clone());
        seam::lease(shared);
        let runtime = seam::runtime_of(shared);
        for index in 0..runtime.localities() {
            in_locality(&runtime, index, seam::look_at_lease);
        }
    }
    let recovered = match recover(shared, &mut *journal, tell) {
        Ok(recovered) => recovered,
        Err((error, foms)) => {
            foms.into_iter().for_each(Resident::reject);
            // Its thread never runs, so no thread may wait for it.
            if let Some(committer) = Durable::of(shared).committer() {
                committer.end();
            }
            return Err(not_opened(error));
        }
    };
    for damage in recovered.found.torn.iter().chain(&recovered.found.gaps) {
        seam::report(
            shared,
            IncidentKind::Journal,
            "the journal",
            format!("the journal was damaged: {damage}"),
        );
    }
    let durable = Durable::of(shared);
    let committer = durable.committer().expect("set by the recovery");
    committer.ask_limits(&*journal);
    let weak = seam::weak(shared);
    let head = recovered.head;
    let commits = Arc::clone(committer);
    let main = Box::new(move || {
        commits.run(journal, head, &weak);
    });
    if let Some(lease) = lease {
        let committer = Arc::downgrade(committer);
        lease.on_lost(move || {
            if let Some(committer) = committer.upgrade() {
                committer.lost();
            }
        });
    }
    if let Err(error) = seam::spawn_thread(shared, "fom-journal", main) {
        recovered.foms.into_iter().for_each(|fom| fom.1.reject());
        committer.end();
        return Err(BuildError::Thread(error));
    }
    for (_, fom) in &recovered.foms {
        durable.passive.revive_before(shared, fom);
    }
    let (held, others): (Vec<_>, Vec<_>) = recovered
        .foms
        .into_iter()
        .partition(|(_, fom)| held_gate(fom));
    ask_gates(shared, held);
    for (_, fom) in others {
        seam::enqueue(shared, fom);
    }
    let spawn = |main| seam::spawn_thread(shared, "fom-resting", main);
    Passive::start(shared, spawn).map_err(|(error, foms)| {
        foms.into_iter().for_each(Resident::reject);
        BuildError::Thread(error)
    })
}

/// Runs the foms that held their gates first, until they have asked for them again. No other fom gets in between.
fn ask_gates(shared: &Shared, held: Vec<(FomId, Resident)>) {
    let recovery = &Durable::of(shared).gate_recovery;
    recovery.expect(held.iter().map(|(id, _)| *id));
    for (_, fom) in held {
        seam::enqueue(shared, fom);
    }
    let late = recovery.wait(GATES_FIRST);
    if late > 0 {
        seam::report(
            shared,
            IncidentKind::Recovery,
            "gates",
            format!(
                "{late} foms that held the gates of their phases, such as long locks, have not asked for them again within {GATES_FIRST:?}: others may have them first"
            ),
        );
    }
}
