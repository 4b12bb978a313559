//! The watcher of a runtime: a thread that looks from time to time.

use std::{
    io,
    sync::{Arc, OnceLock, Weak},
    time::{Duration, Instant as WallInstant, SystemTime},
};

use fom_protocol::{
    caught,
    sync::{Condvar, Mutex},
};
use fom_runtime::{
    Runtime,
    extension::{Attachment, ClockMoved, ClockWatch, RuntimeState, UnfinishedStop},
    observe::IncidentKind,
    time::Instant,
};

use crate::{Warning, WarningKind, Warnings, Watch, board::Board, checks::Checks, sight::Sight};

/// With more foms, the looks at them take at most this share of the time.
const MANY: usize = 100_000;
const SHARE: u32 = 50;

#[derive(Default)]
pub(crate) struct Watcher {
    settings: OnceLock<Watch>,
    clock: OnceLock<ClockWatch>,
    state: Mutex<State>,
    orders: Mutex<Orders>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// When the next look is due. `None` before the first look.
    due: Option<Instant>,
    /// Before this time, the foms are not looked at.
    rests_until: Option<WallInstant>,
    checks: Checks,
    board: Board,
    /// What is not told yet.
    news: Vec<Warning>,
}

#[derive(Default)]
struct Orders {
    look: bool,
    end: bool,
}

/// Begins to watch a runtime, which owns the watcher.
pub(crate) fn begin(runtime: &Runtime, watch: Watch) -> io::Result<()> {
    let watcher: Arc<Watcher> = runtime.extension().attachment();
    if watcher.settings.set(watch).is_err() {
        return Ok(());
    }
    watcher.state.lock().checks.begin(runtime.now());
    let moved: Weak<Watcher> = Arc::downgrade(&watcher);
    // Set once, with the settings.
    let _ = watcher.clock.set(runtime.extension().watch_clock(moved));
    let of = runtime.detached();
    let main = move || watcher.main(&of);
    runtime.extension().spawn_thread("fom-watch", main)
}

impl Attachment for Watcher {
    fn close(self: Arc<Self>, _: &Runtime) -> Vec<UnfinishedStop> {
        self.orders.lock().end = true;
        self.changed.notify_all();
        Vec::new()
    }
}

impl ClockMoved for Watcher {
    fn moved(&self) {
        self.orders.lock().look = true;
        self.changed.notify_all();
    }
}

impl Watcher {
    fn main(&self, runtime: &Runtime) {
        let Some(watch) = self.settings.get() else {
            return;
        };
        loop {
            self.look(runtime, watch);
            self.tell(runtime, watch);
            let left = self.left(runtime);
            let mut orders = self.orders.lock();
            if !orders.look && !orders.end {
                (orders, _) = self.changed.wait_for(orders, left);
            }
            if orders.end {
                return;
            }
            orders.look = false;
        }
    }

    /// Returns the time until the next look.
    fn left(&self, runtime: &Runtime) -> Duration {
        let due = self.state.lock().due;
        let left = due.map_or(Duration::ZERO, |due| due - runtime.now());
        // The clock of a test stands still, and reports its moves.
        left.max(Duration::from_millis(1))
    }

    /// Looks, if it is time for that.
    fn look(&self, runtime: &Runtime, watch: &Watch) {
        let mut state = self.state.lock();
        let now = runtime.now();
        let is_due = state.due.is_none_or(|due| now >= due);
        if !is_due || runtime.extension().state() == RuntimeState::Closed {
            return;
        }
        state.due = Some(now + watch.every);
        // A panic in a name that a user wrote must not end the watcher.
        let looked = caught(|| state.look(runtime, watch, now));
        drop(state);
        if let Err(panic) = looked {
            report(runtime, format!("the watcher panicked in a look: {panic}"));
        }
    }

    fn tell(&self, runtime: &Runtime, watch: &Watch) {
        let news = std::mem::take(&mut self.state.lock().news);
        for warning in news {
            #[cfg(feature = "tracing")]
            tell_user(runtime, "the subscriber of `tracing`", || {
                crate::event::emit(&warning);
            });
            tell_user(runtime, "the closure of `on_warning`", || {
                watch.tell(&warning);
            });
        }
    }

    pub(crate) fn warnings(&self, runtime: &Runtime) -> Warnings {
        let watch = self.settings.get();
        if let Some(watch) = watch {
            self.look(runtime, watch);
            // The thread tells what is new.
            self.moved();
        }
        let state = self.state.lock();
        let now = runtime.now();
        let (warnings, over) = state.board.list(now);
        Warnings {
            at: SystemTime::now(),
            now,
            watching: watch.is_some(),
            warnings,
            over,
        }
    }
}

/// Calls code of the program, whose panic is reported.
fn tell_user(runtime: &Runtime, code: &str, tell: impl FnOnce()) {
    if let Err(panic) = caught(tell) {
        report(runtime, format!("{code} panicked: {panic}"));
    }
}

fn report(runtime: &Runtime, text: String) {
    runtime.report(IncidentKind::Panicked, "the watcher", text);
}

impl State {
    fn look(&mut self, runtime: &Runtime, watch: &Watch, now: Instant) {
        let rests = self
            .rests_until
            .is_some_and(|until| WallInstant::now() < until);
        let began = WallInstant::now();
        let sight = Sight::of(runtime, now, !rests);
        let is_large = sight.foms().is_some_and(|foms| foms > MANY);
        let found = self.checks.check(runtime, watch, &sight);
        if is_large {
            self.rests_until = Some(WallInstant::now() + began.elapsed() * SHARE);
        }
        let looked = |kind| !rests || !needs_foms(kind);
        let told = self.board.put(found, looked, now);
        for warning in &told {
            let text = format!("{}: {}", warning.kind, warning.text);
            runtime.report(IncidentKind::Warning, &*warning.subject, text);
        }
        self.news.extend(told);
    }
}

/// Returns whether a check of this kind looks at the foms.
fn needs_foms(kind: WarningKind) -> bool {
    use WarningKind as Kind;
    matches!(
        kind,
        Kind::Hung | Kind::Starvation | Kind::Growth | Kind::WaitCycle | Kind::Journal
    )
}
