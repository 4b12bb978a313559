//! The child: a runtime on the journal, under load, until a kill.

use std::{collections::HashSet, io, time::Duration};

use fom_durable::{Quarantined, journal::FileJournal, prelude::*};
use fom_patterns::lock::LongLocks;
use fom_runtime::{
    Builder, Key,
    balance::Balance,
    error::{BuildError, DurabilityError},
    observe::{Operations, TransitionCause, TransitionOf},
    snapshot::{QuarantineKind, RestoreError},
};
use tokio::task::{LocalSet, spawn_local};

use crate::{
    KEPT,
    faults::Faults,
    history::History,
    journals::{Breaking, Broken, Pointed},
    load::{User, resubmit},
    means::Means,
    orders::Orders,
    points::{Point, Points},
    power::Power,
    work::{
        Buy, Desk, Die, Fail, Feed, Grown, Guarded, Holds, Late, Loose, Mail, Mend, Move, Payer,
        Post, Queued, Retry, Speak, Story, Tables, Talk, Tick, Till, Walk, read_newer,
    },
};

/// The segment size. Small, so that a short life has many segments.
const SEGMENT: u64 = 32 << 10;

/// The longest wait until nothing is in flight.
pub(crate) const DRAIN: Duration = Duration::from_secs(45);

/// Runs the child. Its standard input has the orders, one per line.
///
/// # Errors
///
/// Returns a message if the child could not begin.
pub fn child() -> Result<(), String> {
    let orders = io::read_to_string(io::stdin()).map_err(|error| error.to_string())?;
    let orders: Vec<_> = orders.lines().map(str::to_owned).collect();
    let orders = Orders::parse(&orders)?;
    let history = History::open(&orders.history).map_err(|error| error.to_string())?;
    let faults = Faults::new(orders.faults, orders.means);
    match live(&orders, &history, &faults) {
        Err(Broke::NotBuilt(error)) if orders.point.explains(&error) || faults.explain(&error) => {
            // The disk failed early. The child can only report that and end. The next life must find everything.
            history.line(format_args!("! {}, before it began", orders.point));
            Ok(())
        }
        Err(error) => {
            let error = error.to_string();
            history.line(format_args!("X {error}"));
            Err(error)
        }
        Ok(()) => Ok(()),
    }
}

/// Why a child failed.
#[derive(Debug, thiserror::Error)]
enum Broke {
    #[error("the runtime cannot be built: {0}")]
    NotBuilt(#[from] BuildError),
    #[error("the disk cannot be read: {0}")]
    NoDisk(std::io::Error),
    #[error("no tokio runtime: {0}")]
    NoTokio(std::io::Error),
    #[error("after {DRAIN:?} something is in flight still:\n{0}")]
    InFlight(Box<Operations>),
}

fn live(orders: &Orders, history: &History, faults: &Faults) -> Result<(), Broke> {
    // The last life loses nothing.
    let power = match orders.means {
        Means::PowerCut if !orders.drain => {
            let power = Power::on(&orders.journal, orders.luck, history).map_err(Broke::NoDisk)?;
            let (clock, after) = (power.clone(), Duration::from_micros(orders.cut_after));
            std::thread::spawn(move || {
                std::thread::sleep(after);
                clock.cut("power cut")
            });
            Some(power)
        }
        _ => None,
    };
    let points = Points::new(orders.point, orders.nth, history, power);
    orders
        .broken
        .spoil(&orders.journal, orders.life)
        .map_err(Broke::NoDisk)?;
    read_newer(orders.old_for.is_none());
    let journal = FileJournal::options()
        .segment_bytes(SEGMENT)
        .disk(points.disk(orders.nth, faults))
        .open(&orders.journal)
        .map_err(|error| BuildError::Journal(DurabilityError::new(error)))?;
    let holds = Holds::default();
    let runtime = builder(orders, history, &points)
        .resource(holds.clone())
        .journal_with(Pointed {
            journal: Breaking::new(journal, orders.broken),
            points: points.clone(),
            history: history.clone(),
            holds: holds.clone(),
            failed: HashSet::new(),
        })
        .build()?;
    holds.begin(&runtime);
    history.line(format_args!("R {}", runtime.in_flight()));
    let failed = runtime.quarantine().list_of(QuarantineKind::Failed);
    let ids = failed.iter().map(|entry| format!(" {}", entry.id));
    history.line(format_args!(
        "Q {}{}",
        failed.len(),
        ids.collect::<String>()
    ));
    for quarantined in runtime.quarantine().list() {
        if quarantined.kind() == QuarantineKind::Failed {
            continue;
        }
        let (id, reason) = (quarantined.id, one_line(&quarantined.reason.to_string()));
        if orders.old_for.is_some() && is_newer(&quarantined) {
            history.line(format_args!("A {id} {reason}"));
        } else if !stalled(&quarantined) {
            history.line(format_args!("X fom {id} was quarantined: {reason}"));
        }
    }
    let users = LocalSet::new();
    let user = User::new(runtime.clone(), history.clone(), orders.life);
    user.look_up(&orders.again);
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(Broke::NoTokio)?;
    let (again, drain, old_for) = (orders.again.clone(), orders.drain, orders.old_for);
    let drained = users.block_on(&tokio, async move {
        // This release is not asked about operations that only a newer release can read.
        let (newer, again): (Vec<_>, Vec<_>) = again
            .into_iter()
            .partition(|(letter, _)| *letter == Grown::LETTER);
        let waits = spawn_local(resubmit(user.clone(), again));
        spawn_local(user.clone().letters_again());
        spawn_local(user.clone().cancels());
        spawn_local(user.clone().mends());
        if !drain {
            user.load();
        }
        if let Some(old_for) = old_for {
            tokio::time::sleep(Duration::from_millis(old_for)).await;
            upgrade(&user.runtime);
        }
        let newer = spawn_local(resubmit(user.clone(), newer));
        user.load_newer(drain);
        if drain {
            // The wait for the resubmitted operations is no longer than the wait for the rest.
            let _ = tokio::time::timeout(DRAIN, waits).await;
            let _ = tokio::time::timeout(DRAIN, newer).await;
            return tokio::time::timeout(DRAIN, user.ends()).await.is_ok();
        }
        std::future::pending().await
    });
    if !drained {
        return Err(Broke::InFlight(Box::new(runtime.operations())));
    }
    runtime.shutdown_blocking(Shutdown::Now, DRAIN);
    history.line(format_args!("Z"));
    Ok(())
}

/// Puts the text on one line, as the history needs.
fn one_line(text: &str) -> String {
    text.replace('\n', " ")
}

/// Returns whether a failed commit put the fom into quarantine. The journal fails at times on purpose, and such a fom continues
/// by itself.
pub(crate) fn stalled(quarantined: &Quarantined) -> bool {
    matches!(quarantined.reason, RestoreError::NotCommitted(_))
}

/// Returns whether the fom has an operation that older releases cannot read.
pub(crate) fn is_newer(quarantined: &Quarantined) -> bool {
    let operation = quarantined.operation.as_deref();
    operation.is_some_and(|operation| operation == Grown::GRAPH.operation())
}

/// Acts as if the next release had been started: runs the foms that were quarantined because this release could not read
/// them.
fn upgrade(runtime: &Runtime) {
    read_newer(true);
    for quarantined in runtime.quarantine().list() {
        if is_newer(&quarantined) && !stalled(&quarantined) {
            // A fom that does not continue now does so at the next start. The end of the run checks that.
            let _ = runtime.quarantine().retry(quarantined.id);
        }
    }
}

fn builder(orders: &Orders, history: &History, points: &Points) -> Builder {
    let accounts = LongLocks::new("account");
    let others = match orders.broken {
        Broken::TwoLocks => LongLocks::new("account"),
        _ => accounts.clone(),
    };
    let builder = Runtime::builder()
        .localities(orders.localities)
        .resident(orders.resident)
        .pin(false)
        .balance(Balance::Foms)
        .remember(1_000_000, Duration::from_secs(86_400))
        .remember_all::<Walk>(1_000_000, Duration::from_secs(86_400))
        .keep_failed(KEPT, Duration::from_secs(86_400))
        .resource(Tables([accounts, others]))
        .resource(history.clone())
        .resource(points.clone())
        .operation::<Guarded<Tick>>()
        .operation::<Guarded<Walk>>();
    let all = [
        told::<Walk>,
        told::<Tick>,
        told::<Retry>,
        told::<Speak>,
        told::<Talk>,
        told::<Queued>,
        told::<Post>,
        told::<Feed>,
        told::<Move>,
        told::<Late>,
        told::<Die>,
        told::<Fail>,
        told::<Loose>,
        told::<Grown>,
        told::<Till>,
        told::<Desk>,
        told::<Payer>,
        told::<Mail>,
        told::<Buy>,
        told::<Mend>,
        told::<Guarded<Tick>>,
        told::<Guarded<Walk>>,
    ];
    let told =
        |builder, told: fn(Builder, &History, &Points) -> Builder| told(builder, history, points);
    all.into_iter().fold(builder, told)
}

/// Writes down the transitions that listeners hear of.
fn told<O: Story>(builder: Builder, history: &History, points: &Points) -> Builder {
    let (history, points) = (history.clone(), points.clone());
    builder.listen_to::<O>(move |heard: &TransitionOf<'_, O>| {
        points.pass(Point::Hearing);
        let operation = heard.operation();
        let cause = match heard.cause() {
            TransitionCause::Failed(why) => format!("failed-{}", why.replace(' ', "-")),
            cause => cause.to_string(),
        };
        // The history needs a single word.
        let key = || {
            heard
                .key()
                .map_or("-".to_owned(), |key| Key::to_string(key).replace(' ', ""))
        };
        let key = operation.series().unwrap_or_else(key);
        history.line(format_args!(
            "T {} {} {} {} {} {} {cause} {key} {} {}",
            operation.mark().n,
            O::LETTER,
            heard.id(),
            operation.mark().hops,
            heard.from().unwrap_or("-"),
            heard.to().unwrap_or("-"),
            heard.locality(),
            operation.outcome(),
        ));
        points.pass(Point::Heard);
    })
}
