//! Stops an operation at every boundary between two phases, as a crash would, and continues it in a new runtime.
//!
//! | file | what |
//! | --- | --- |
//! | `stopping.rs` | a journal that loses everything after the n-th commit |
//! | `life.rs` | one runtime, from its start to the crash or the end |
//! | `seen.rs` | what is observed of foms in one life, and what must hold from one life to the next |
//! | `losing.rs` | an event that is lost in the crash, and not sent again |
//! | `effects.rs` | the effects on the world outside |

mod effects;
mod life;
mod losing;
mod seen;
mod stopping;

use std::{fmt, future::Future, panic::panic_any, pin::Pin, sync::Arc, time::Duration};

use fom_journal::MemoryJournal;

pub use effects::Effects;

use crate::testing::boundaries::life::{Begin, Came, run};
use fom_runtime::{
    Builder, FomRef, Key, Operation, Persistent, Runtime,
    error::{BuildError, RefusedReason},
    machine::Durability,
    time::TestClock,
};
use seen::Seen;
use stopping::Stop;

type Build = Box<dyn Fn(Builder) -> Builder>;
type Driver = Pin<Box<dyn Future<Output = ()>>>;
type Drive<O> = Box<dyn Fn(Life<O>) -> Driver>;
type Compare<O> = Arc<dyn Fn(&End<'_, O>) -> String + Send + Sync>;
type Outside = Box<dyn Fn() -> String>;

/// An operation and its surroundings, for [`crash_at_each_boundary`]. Stand-ins for the world outside, such as a
/// database, are made with the trial. They live on over the crash, as the real ones would.
pub struct Trial<O: Persistent> {
    operation: O,
    around: Around<O>,
}

/// The surroundings of the operation.
struct Around<O: Operation> {
    key: Key,
    build: Build,
    drive: Option<Drive<O>>,
    compare: Compare<O>,
    outside: Outside,
    effects: Effects,
    clock: TestClock,
    by_hand: bool,
    down: Duration,
    limit: Duration,
    /// Operation types with foms that need not end.
    staying: Vec<&'static str>,
}

impl<O: Persistent> fmt::Debug for Trial<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trial")
            .field("operation", &O::GRAPH.operation())
            .field("key", &self.around.key)
            .field("limit", &self.around.limit)
            .finish_non_exhaustive()
    }
}

/// One run of the program: from its start to the crash, or from the crash to the end.
#[non_exhaustive]
pub struct Life<O: Operation> {
    /// The fom that was submitted, or the same fom after it came back.
    pub fom: FomRef<O>,
    /// The runtime. This handle does not keep it alive.
    pub runtime: Runtime,
    /// The clock of the runtime.
    pub clock: TestClock,
    /// Whether this is the life after the crash.
    pub restarted: bool,
}

impl<O: Operation> fmt::Debug for Life<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Life")
            .field("fom", &self.fom)
            .field("restarted", &self.restarted)
            .finish_non_exhaustive()
    }
}

/// The outcome of the operation.
#[non_exhaustive]
pub struct End<'a, O: Operation> {
    /// The operation.
    pub operation: &'a O,
    /// The end phase with its data; `None` if the operation failed.
    pub phase: Option<&'a O::Phase>,
}

impl<O: Operation> fmt::Debug for End<'_, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("End")
            .field(&self.phase.map(|phase| O::kind(phase)))
            .finish()
    }
}

impl<O: Persistent> Trial<O> {
    /// Creates a trial of this operation, with nothing around it.
    pub fn new(operation: O) -> Self {
        let around = Around {
            key: Key::from("crash_at_each_boundary"),
            build: Box::new(|builder| builder),
            drive: None,
            compare: Arc::new(|_| String::new()),
            outside: Box::new(String::new),
            effects: Effects::new(),
            clock: TestClock::new(),
            by_hand: false,
            down: Duration::ZERO,
            limit: Duration::from_secs(10),
            staying: Vec::new(),
        };
        Self { operation, around }
    }

    /// Sets how the runtimes are built: resources, locality data, generic operations. The function is called for the
    /// life before the crash and for the life after it. The runtimes have one locality, the trial's clock and its
    /// journal.
    pub fn runtime(mut self, build: impl Fn(Builder) -> Builder + 'static) -> Self {
        self.around.build = Box::new(build);
        self
    }

    /// Sets the key that the operation is submitted with.
    pub fn key(mut self, key: impl Into<Key>) -> Self {
        self.around.key = key.into();
        self
    }

    /// Sets the driver, which sends events to the fom. The driver is called in each life, unless the fom has ended
    /// before. The driver's future is dropped at the crash and at the end.
    ///
    /// As with any sender, a crash loses an event that no committed transition has taken. So send all events again:
    /// events that a later phase does not take are left over. Or look first where the fom is, with [`FomRef::phase`].
    /// If the function does something outside for an event, send the event [with an id](FomRef::send_with_id). Without
    /// an id, the repeated event is another event, and its effect happens twice.
    ///
    /// Await only futures of this runtime: the driver is not in a tokio runtime.
    pub fn drive<F>(mut self, drive: impl Fn(Life<O>) -> F + 'static) -> Self
    where
        F: Future<Output = ()> + 'static,
    {
        self.around.drive = Some(Box::new(move |life| Box::pin(drive(life))));
        self
    }

    /// Sets what must be the same in each outcome, besides the end phase. The `{:?}` texts are compared, so the value
    /// must have no random order.
    pub fn compare<T: fmt::Debug>(
        mut self,
        compare: impl Fn(&End<'_, O>) -> T + Send + Sync + 'static,
    ) -> Self {
        self.around.compare = Arc::new(move |end| format!("{:?}", compare(end)));
        self
    }

    /// Sets what must be the same in the world outside when all foms have ended. Compared as in
    /// [`compare`](Self::compare).
    pub fn outside<T: fmt::Debug>(mut self, outside: impl Fn() -> T + 'static) -> Self {
        self.around.outside = Box::new(move || format!("{:?}", outside()));
        self
    }

    /// Uses these effects, so that the test can look at them as well.
    pub fn effects(mut self, effects: &Effects) -> Self {
        self.around.effects = effects.clone();
        self
    }

    /// Leaves the clock alone: only [`Life::clock`] moves it. Otherwise the clock moves on to the next timer whenever
    /// all foms and the driver wait. While a fom awaits a future of another library, such as a real socket, the clock
    /// waits for up to a second of real time.
    pub fn clock_by_hand(mut self) -> Self {
        self.around.by_hand = true;
        self
    }

    /// Sets how long the program is down after the crash, on its clock. Default: zero.
    pub fn down(mut self, time: Duration) -> Self {
        self.around.down = time;
        self
    }

    /// Exempts the foms of this type from ending, such as the account that a transfer sends its outbox to. A life is
    /// over when all other foms have ended and these foms wait. They may come back afterwards. Start them in
    /// [`drive`](Self::drive), each [once](crate::DurableSubmissionExt::once). What they have done is compared
    /// as the world
    /// [outside](Self::outside).
    pub fn staying<S: Persistent>(mut self) -> Self {
        self.around.staying.push(S::GRAPH.operation());
        self
    }

    /// Sets how long each life may take in real time before it counts as hung. Default: 10 s.
    pub fn limit(mut self, time: Duration) -> Self {
        self.around.limit = time;
        self
    }
}

/// The number of boundaries that were tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Boundaries {
    /// Commits of the undisturbed run. After each of them, one run had a crash.
    pub crashes: u64,
}

/// A difference after a crash at one boundary.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The number of commits before the crash.
    pub after: u64,
    /// The foms that were in flight at the crash, and their phases.
    pub at: String,
    /// What was different.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "after commit {}, with {}: {}",
            self.after, self.at, self.what
        )
    }
}

/// The error when an operation does not survive a crash, or cannot be tried.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BoundaryError {
    /// The runtime of the undisturbed run could not be built.
    #[error("the runtime cannot be built: {0}")]
    Build(#[from] BuildError),
    /// The operation was refused.
    #[error("the operation was refused: {0}")]
    Refused(RefusedReason),
    /// The run without a crash did not end in time.
    #[error(
        "without any crash it does not end: {0}; drive it to its end, name those that need not end with `Trial::staying`, or raise the limit"
    )]
    Stuck(String),
    /// Nothing was committed, so there is no boundary.
    #[error(
        "nothing was committed: an operation with `durability = \"none\"` does not survive a crash"
    )]
    NothingCommitted,
    /// A run with a crash was different.
    #[error("{operation} does not survive a crash at every boundary ({crashes} of them):{}", lines(.differences))]
    Differs {
        /// The operation.
        operation: &'static str,
        /// The number of boundaries.
        crashes: u64,
        /// The differences.
        differences: Vec<Difference>,
    },
}

fn lines(differences: &[Difference]) -> String {
    let line = |difference| format!("\n  {difference}");
    differences.iter().map(line).collect()
}

/// Runs an operation once undisturbed, and then once for each of its commits, with a crash after that commit. The crash
/// abandons the runtime, and a new runtime goes on with what was committed. A run with a crash must match the
/// undisturbed run:
///
/// - The end phase and the [compared](Trial::compare) data are the same.
/// - The world [outside](Trial::outside) and the [effects](Effects) are the same.
/// - No phase that was left is entered again. The phase at the crash is entered again at most once.
/// - Afterwards, no fom comes back.
///
/// An operation that takes events is run once more for each commit. In that run, the first event that its
/// [driver](Trial::drive) sends directly after the crash is lost, as a crash can lose it. So another event arrives at
/// its step. Whatever the outcome, no key may then have been used for two different [effects](Effects). This finds keys
/// that do not name the event, such as a key of the operation's id and phase. It does not find them if all events
/// arrive through outboxes, or in an operation with `durability = "lazy"`.
///
/// `trial` is called for each run, and makes the operation and a fresh world outside.
///
/// ```
/// use fom_durable::{prelude::*, testing::{Effects, Trial, crash_at_each_boundary}};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Order {
///     price: u32,
///     receipt: Option<u32>,
/// }
///
/// #[fom(operation(Order))]
/// enum Buy {
///     #[phase(start, to(Send))]
///     Pay,
///     #[phase(to(Sent), retry = "3, 1s..10s")]
///     Send { parcels: u32 },
///     #[phase(end)]
///     Sent,
/// }
///
/// impl BuyTransitions for Order {
///     async fn pay(&mut self, cx: &mut Cx<'_>) -> Result<BuyAfterPay, BoxError> {
///         cx.resource::<Effects>().once(cx.step_key(), format!("pay {}", self.price));
///         self.receipt = Some(self.price);
///         Ok(BuyAfterPay::Send { parcels: 2 })
///     }
///     async fn send(&mut self, cx: &mut Cx<'_>, parcels: &mut u32) -> Result<(), BoxError> {
///         for parcel in 0..*parcels {
///             cx.resource::<Effects>().once(cx.step_key().part(parcel), format!("send {parcel}"));
///         }
///         if cx.attempt() == 0 {
///             return Err("nobody was at home".into());
///         }
///         Ok(())
///     }
/// }
///
/// crash_at_each_boundary(|| {
///     Trial::new(Order { price: 7, receipt: None }).compare(|end| end.operation.receipt)
/// });
/// ```
///
/// # Panics
///
/// Panics with a text that has all differences; see [`try_crash_at_each_boundary`].
#[track_caller]
pub fn crash_at_each_boundary<O: Persistent>(trial: impl Fn() -> Trial<O>) -> Boundaries {
    match try_crash_at_each_boundary(trial) {
        Ok(boundaries) => boundaries,
        Err(error) => panic_any(error.to_string()),
    }
}

/// As [`crash_at_each_boundary`], but returns what is wrong as an error.
///
/// # Errors
///
/// Returns a [`BoundaryError`] with the differences after each commit, or with the reason why nothing could be tried.
pub fn try_crash_at_each_boundary<O: Persistent>(
    trial: impl Fn() -> Trial<O>,
) -> Result<Boundaries, BoundaryError> {
    let undisturbed = undisturbed(trial())?;
    let crashes = undisturbed.commits;
    if crashes == 0 {
        return Err(BoundaryError::NothingCommitted);
    }
    let mut differences = Vec::new();
    for after in 1..=crashes {
        let (at, mut found) = crashed(trial(), after, &undisturbed)?;
        let takes_events = O::GRAPH
            .phases()
            .iter()
            .any(|phase| !phase.takes().is_empty());
        if takes_events && O::DURABILITY == Durability::Sync {
            found.extend(other_event(trial(), after)?);
        }
        differences.extend(found.into_iter().map(|what| Difference {
            after,
            at: at.clone(),
            what,
        }));
    }
    if differences.is_empty() {
        return Ok(Boundaries { crashes });
    }
    Err(BoundaryError::Differs {
        operation: O::GRAPH.operation(),
        crashes,
        differences,
    })
}

/// The run without a crash.
struct Undisturbed {
    commits: u64,
    seen: Seen,
    quarantined: Vec<String>,
    outside: String,
    done: effects::Done,
}

fn undisturbed<O: Persistent>(trial: Trial<O>) -> Result<Undisturbed, BoundaryError> {
    let Trial { operation, around } = trial;
    let (journal, stop) = (MemoryJournal::new(), Stop::after(u64::MAX));
    let life = run(&around, &journal, &stop, Begin::With(operation))?;
    if let Came::Stuck(why) = life.came {
        return Err(BoundaryError::Stuck(why));
    }
    Ok(Undisturbed {
        commits: stop.commits(),
        seen: life.seen,
        quarantined: life.quarantined,
        outside: (around.outside)(),
        done: around.effects.done(),
    })
}

/// Returns where the crash was, and what was different.
fn crashed<O: Persistent>(
    trial: Trial<O>,
    after: u64,
    undisturbed: &Undisturbed,
) -> Result<(String, Vec<String>), BoundaryError> {
    let Trial { operation, around } = trial;
    let (journal, stop) = (MemoryJournal::new(), Stop::after(after));
    let first = run(&around, &journal, &stop, Begin::With(operation))?;
    let at = first.seen.in_flight();
    if let Came::Stuck(why) = first.came {
        let what = format!("it does not go on to its next commit: {why}");
        return Ok((at, vec![what]));
    }
    around.clock.advance(around.down);
    // A copy that no other runtime has. What the first runtime still held is gone by now.
    let journal = journal.fork();
    let second = match run(&around, &journal, &Stop::after(u64::MAX), Begin::Again) {
        Ok(life) => life,
        Err(error) => return Ok((at, vec![error.to_string()])),
    };
    let mut found = second.quarantined;
    found.retain(|what| !undisturbed.quarantined.contains(what));
    if let Came::Stuck(why) = &second.came {
        found.push(format!("it does not end: {why}"));
        return Ok((at, found));
    }
    found.extend(seen::differs(
        O::GRAPH,
        &first.seen,
        &stop.unheard(),
        &second.seen,
        &undisturbed.seen,
    ));
    found.extend(seen::ends_differ(
        &first.seen,
        &stop.unheard(),
        &second.seen,
        &undisturbed.seen,
    ));
    let outside = (around.outside)();
    if outside != undisturbed.outside {
        found.push(format!(
            "the world outside is {outside}, undisturbed {}",
            undisturbed.outside
        ));
    }
    let undone = seen::was_undone(&first.seen, &second.seen);
    let effects = around.effects.done();
    found.extend(effects.differs(&undisturbed.done, undone));
    // All foms have ended, so none may come back.
    match run(&around, &journal, &Stop::after(u64::MAX), Begin::Again) {
        Ok(third) => found.extend(third.seen.came_back(&around.staying)),
        Err(error) => found.push(error.to_string()),
    }
    Ok((at, found))
}

/// Returns the keys that have two uses when the event at the boundary is lost and another event arrives at that step.
fn other_event<O: Persistent>(trial: Trial<O>, after: u64) -> Result<Vec<String>, BoundaryError> {
    let Trial { operation, around } = trial;
    let (journal, stop) = (MemoryJournal::new(), Stop::after(after));
    let first = run(&around, &journal, &stop, Begin::With(operation))?;
    if around.drive.is_none() || !matches!(first.came, Came::Stopped) {
        return Ok(Vec::new());
    }
    around.clock.advance(around.down);
    // The outcome does not count: the operation may wait for the lost event.
    run(
        &around,
        &journal.fork(),
        &Stop::after(u64::MAX),
        Begin::Losing,
    )?;
    let reused = around.effects.done().reused.into_iter();
    let found = reused.map(|what| format!("where another event comes after the crash, {what}"));
    Ok(found.collect())
}
