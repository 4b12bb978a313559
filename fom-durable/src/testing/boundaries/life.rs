//! One runtime: from its start to the crash, or to the end of all its foms.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use fom_journal::MemoryJournal;

use crate::{
    durable::{DurableBuilderExt as _, DurableExt as _},
    testing::boundaries::{
        Around, BoundaryError, Driver, Life,
        losing::Losing,
        seen::{Counting, Seen, hear, hear_end},
        stopping::Stop,
    },
};
use fom_protocol::{FomState, nanos, sync::Mutex};
use fom_runtime::{
    __durability as seam, Persistent, Runtime, config::Shutdown, error::BuildError,
    observe::FomInfo, snapshot::RestoreError,
};

/// How long a runtime may take to shut down.
const CLOSING: Duration = Duration::from_secs(2);

/// How long the world outside gets before the next look.
const OUTSIDE: Duration = Duration::from_millis(2);

/// How long a future of another library, such as a socket, may take in real time before the clock moves on.
const PATIENCE: Duration = Duration::from_secs(1);

/// The limit for a life in which an event is lost, because the operation may wait forever for that event.
const LOSING: Duration = Duration::from_secs(1);

/// Number of looks at the world outside in such a life, while all foms wait.
const LOOKS: u32 = 10;

/// How a life begins.
pub(super) enum Begin<O> {
    /// With a submission of this operation.
    With(O),
    /// The fom comes back.
    Again,
    /// As `Again`, and the first event for the fom is lost.
    Losing,
}

/// How a life ended.
pub(super) enum Came {
    /// All foms have ended.
    Ended,
    /// A commit came that is lost.
    Stopped,
    /// Neither happened in time. The text says what the foms wait for.
    Stuck(String),
}

pub(super) struct Lived {
    pub(super) came: Came,
    pub(super) seen: Seen,
    /// The entries that could not come back, and why.
    pub(super) quarantined: Vec<String>,
}

/// Builds a runtime on the journal, submits the operation or finds its fom, and runs the life to its end.
pub(super) fn run<O: Persistent>(
    around: &Around<O>,
    journal: &MemoryJournal,
    stop: &Stop,
    begin: Begin<O>,
) -> Result<Lived, BoundaryError> {
    let seen = Arc::new(Mutex::new(Seen::new(O::GRAPH)));
    let runtime = build(around, journal, stop, &seen)?;
    let loses = matches!(begin, Begin::Losing);
    let operation = match begin {
        Begin::With(operation) => Some(operation),
        _ => None,
    };
    let restarted = operation.is_none();
    let handle = operation.map(|operation| {
        let submission = runtime.submit(operation).key(around.key.clone());
        submission.start()
    });
    let handle = match handle.transpose() {
        Ok(handle) => handle,
        Err(refused) => return Err(BoundaryError::Refused(refused.reason())),
    };
    let fom = match &handle {
        Some(handle) => Some(handle.fom().clone()),
        None => runtime.find::<O>(around.key.clone()),
    };
    let losing = loses.then(|| Losing::of(fom.clone()));
    let driver = fom.zip(around.drive.as_ref()).map(|(fom, drive)| {
        drive(Life {
            fom,
            runtime: runtime.detached(),
            clock: around.clock.clone(),
            restarted,
        })
    });
    let came = stay(around, &runtime, stop, driver, losing);
    let quarantined = quarantined(&runtime);
    if !matches!(came, Came::Ended) {
        // Closed before the answer: as after a crash, nothing follows from the answer.
        seam::close(&runtime);
        stop.release();
        runtime.shutdown_blocking(Shutdown::Now, CLOSING);
    }
    // Lazy commits may still be on their way.
    stop.release();
    drop((handle, runtime));
    let seen = std::mem::replace(&mut *seen.lock(), Seen::new(O::GRAPH));
    Ok(Lived {
        came,
        seen,
        quarantined,
    })
}

/// Builds a runtime on the journal that tells `seen` what happens.
fn build<O: Persistent>(
    around: &Around<O>,
    journal: &MemoryJournal,
    stop: &Stop,
    seen: &Arc<Mutex<Seen>>,
) -> Result<Runtime, BuildError> {
    let builder = Runtime::builder()
        .localities(1)
        .pin(false)
        .resource(around.effects.clone());
    let (key, compare) = (around.key.clone(), Arc::clone(&around.compare));
    let builder = (around.build)(builder)
        .clock(&around.clock)
        .operation::<O>()
        .journal_with(stop.journal(journal))
        // The outcome is recorded before the transition, so a known end has a known outcome.
        .listen_to::<O>(hear_end(Arc::clone(seen), key, compare))
        .listen(hear(Arc::clone(seen)));
    seam::interpose::<O>(builder, Counting(Arc::clone(seen))).build()
}

/// Returns the entries that could not come back, and why.
fn quarantined(runtime: &Runtime) -> Vec<String> {
    let all = runtime.quarantine().list().into_iter();
    let described = all.map(|quarantined| match quarantined.reason {
        // Without the id, which no other run has.
        RestoreError::NoReceiver { .. } => {
            format!("no fom took an event: {}", quarantined.reason)
        }
        reason => format!("fom {} cannot come back: {reason}", quarantined.id),
    });
    described.collect()
}

/// Runs the driver, moves the clock when all wait, and returns at the crash or at the end.
fn stay<O: Persistent>(
    around: &Around<O>,
    runtime: &Runtime,
    stop: &Stop,
    mut driver: Option<Driver>,
    mut losing: Option<Losing<O>>,
) -> Came {
    let limit = match losing {
        Some(_) => around.limit.min(LOSING),
        None => around.limit,
    };
    let until = Instant::now() + limit;
    let mut outside = Outside::new(losing.is_some());
    let woken = Arc::new(Woken::here());
    let waker = Waker::from(Arc::clone(&woken));
    woken.0.store(true, Ordering::Release);
    loop {
        if woken.0.swap(false, Ordering::AcqRel) {
            drive(&mut driver, &waker, &mut losing, until);
        }
        let commits = stop.commits();
        // Not quiet before everything on its way to the journal is there.
        let quiet = wait(runtime.quiet(), until, Some(stop)).is_some();
        if stop.is_stopped() {
            settle(runtime, until);
            return Came::Stopped;
        }
        if runtime.in_flight() == 0 {
            return Came::Ended;
        }
        if !quiet || Instant::now() > until {
            return Came::Stuck(stuck(around, runtime));
        }
        if woken.0.load(Ordering::Acquire) || stop.commits() != commits {
            outside.waits_since = None;
            continue;
        }
        // All is quiet, and nothing is on its way to the journal.
        if !around.staying.is_empty() && only_staying(around, runtime) {
            return Came::Ended;
        }
        let next = match around.by_hand {
            true => None,
            false => wait(seam::next_timer(runtime), until, None).flatten(),
        };
        match next {
            Some(_) if seam::waits_outside(runtime) && outside.may_answer() => {
                thread::park_timeout(OUTSIDE);
            }
            Some(next) => {
                outside.waits_since = None;
                let now = nanos(runtime.now() - fom_runtime::time::Instant::START);
                around
                    .clock
                    .advance(Duration::from_nanos(next.saturating_sub(now).max(1)));
            }
            // The world outside must answer.
            None if outside.loses && outside.looks == LOOKS => return Came::Stuck(String::new()),
            None => {
                outside.looks += 1;
                thread::park_timeout(OUTSIDE);
            }
        }
    }
}

/// The wait for the world outside. It has no test clock: no deadline passes while it may answer.
struct Outside {
    /// Whether an event is lost in this life.
    loses: bool,
    /// Since when all foms wait, and one of them for the world outside.
    waits_since: Option<Instant>,
    /// The number of looks while no timer runs.
    looks: u32,
}

impl Outside {
    fn new(loses: bool) -> Self {
        Self {
            loses,
            waits_since: None,
            looks: 0,
        }
    }

    /// Whether the world outside has more time for its answer.
    fn may_answer(&mut self) -> bool {
        let patience = match self.loses {
            true => OUTSIDE * LOOKS,
            false => PATIENCE,
        };
        let since = self.waits_since.get_or_insert_with(Instant::now);
        since.elapsed() < patience
    }
}

/// Polls the driver, and drops it when it is done.
fn drive<O: Persistent>(
    driver: &mut Option<Driver>,
    waker: &Waker,
    losing: &mut Option<Losing<O>>,
    until: Instant,
) {
    let Some(running) = driver else { return };
    let mut context = Context::from_waker(waker);
    let mut poll = || running.as_mut().poll(&mut context);
    let polled = match losing {
        Some(losing) => losing.around(until, poll),
        None => poll(),
    };
    if polled.is_ready() {
        *driver = None;
    }
}

/// Lets each fom that was told of a commit before the crash do what comes next, because the commit was heard of.
fn settle(runtime: &Runtime, until: Instant) {
    while Instant::now() < until {
        // The answers are jobs of the locality, and this job is behind them.
        wait(seam::next_timer(runtime), until, None);
        let waits = |fom: &FomInfo| fom.state == FomState::Waiting;
        if runtime.operations().foms.iter().all(waits) {
            return;
        }
        thread::yield_now();
    }
}

/// Whether all foms that are left need not end, and wait.
fn only_staying<O: Persistent>(around: &Around<O>, runtime: &Runtime) -> bool {
    let foms = runtime.operations().foms;
    foms.iter()
        .all(|fom| around.staying.contains(&fom.operation) && fom.state == FomState::Waiting)
}

/// Returns what the foms wait for.
fn stuck<O: Persistent>(around: &Around<O>, runtime: &Runtime) -> String {
    let foms: Vec<_> = runtime
        .operations()
        .foms
        .iter()
        .map(|fom| {
            format!(
                "{} {} in `{}` waits for {}",
                fom.operation,
                fom.id,
                fom.phase,
                fom.waiting_for().as_deref().unwrap_or("nothing")
            )
        })
        .collect();
    format!("after {:?}, {}", around.limit, foms.join(", "))
}

/// Whether the thread was woken since the last look.
struct Woken(AtomicBool, Thread);

impl Woken {
    fn here() -> Self {
        Self(AtomicBool::new(false), thread::current())
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
        self.1.unpark();
    }
}

/// Blocks this thread on a future, up to a time or to the crash.
fn wait<F: Future>(future: F, until: Instant, stop: Option<&Stop>) -> Option<F::Output> {
    let mut future: Pin<&mut F> = pin!(future);
    let woken = Arc::new(Woken::here());
    let waker = Waker::from(Arc::clone(&woken));
    if let Some(stop) = stop {
        stop.wakes(&waker);
    }
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(done);
        }
        while !woken.0.swap(false, Ordering::AcqRel) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || stop.is_some_and(Stop::is_stopped) {
                return None;
            }
            thread::park_timeout(left);
        }
    }
}
