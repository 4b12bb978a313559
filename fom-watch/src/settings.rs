//! The settings of a watcher.

use std::{fmt, sync::Arc, time::Duration};

use crate::{Warning, WarningKind};

type Tell = dyn Fn(&Warning) + Send + Sync;

/// What a watcher warns about, and when. The defaults are for servers.
///
/// ```
/// use std::time::Duration;
/// use fom_watch::{Watch, WarningKind};
///
/// let watch = Watch::default()
///     .hung(Duration::from_secs(30), Duration::from_secs(120))
///     .without(WarningKind::WakeStorm)
///     .on_warning(|warning| eprintln!("{warning}"));
/// # let _ = watch;
/// ```
#[derive(Clone)]
#[must_use = "settings do nothing by themselves"]
pub struct Watch {
    pub(crate) every: Duration,
    /// The least limit that follows from measured times, and the limit while few foms were measured.
    pub(crate) hung: (Duration, Duration),
    pub(crate) long_run: Duration,
    pub(crate) starving: Duration,
    pub(crate) journal: Duration,
    /// The least growth, and the time in which a queue only grows.
    pub(crate) growth: (u64, Duration),
    /// The runs without a step in a second.
    pub(crate) storm: u64,
    without: Vec<WarningKind>,
    tell: Option<Arc<Tell>>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("every", &self.every)
            .field("hung", &self.hung)
            .field("long_run", &self.long_run)
            .field("starving", &self.starving)
            .field("journal", &self.journal)
            .field("growth", &self.growth)
            .field("storm", &self.storm)
            .field("without", &self.without)
            .finish_non_exhaustive()
    }
}

impl Default for Watch {
    fn default() -> Self {
        let secs = Duration::from_secs;
        Self {
            every: secs(1),
            hung: (secs(60), secs(300)),
            long_run: secs(1),
            starving: secs(2),
            journal: secs(2),
            growth: (100, secs(30)),
            storm: 10_000,
            without: Vec::new(),
            tell: None,
        }
    }
}

impl Watch {
    /// Sets the time between two looks. Default: one second. At least one millisecond. Where a look takes long, because
    /// there are many foms, the looks at the foms are further apart: they take 2 % of the time of one thread.
    pub fn every(mut self, time: Duration) -> Self {
        self.every = time.max(Duration::from_millis(1));
        self
    }

    /// Sets the limits of a phase without the key `hung`. Such a phase has eight times the time that 99.9 % of its
    /// earlier foms did not exceed, at least the `within` of the phase, and at least `least`. While fewer than 100 foms
    /// have left the phase, it has `first`. Default: one minute and five minutes.
    pub fn hung(mut self, least: Duration, first: Duration) -> Self {
        self.hung = (least, first);
        self
    }

    /// Sets how long a run may take. Default: one second.
    pub fn long_run(mut self, limit: Duration) -> Self {
        self.long_run = limit;
        self
    }

    /// Sets how long a fom may be ready before it runs. Default: two seconds.
    pub fn starving(mut self, limit: Duration) -> Self {
        self.starving = limit;
        self
    }

    /// Sets how long a commit may take. Default: two seconds.
    pub fn journal(mut self, limit: Duration) -> Self {
        self.journal = limit;
        self
    }

    /// Sets when a queue only grows: it has at least this many requests more than before this time, it was longer at each
    /// sixth of the time than at the last one, and never shorter in between. Default: 100 requests in 30 seconds.
    pub fn growth(mut self, requests: u64, time: Duration) -> Self {
        self.growth = (requests.max(1), time);
        self
    }

    /// Sets how many runs without a step a second a fom may have. Default: 10,000.
    pub fn storm(mut self, runs: u64) -> Self {
        self.storm = runs.max(1);
        self
    }

    /// Does not warn about this.
    pub fn without(mut self, kind: WarningKind) -> Self {
        self.without.push(kind);
        self
    }

    /// Calls `tell` with each new warning, and again when a warning reaches a higher level. The calls come one after the
    /// other, on the thread of the watcher. A panic is an incident.
    pub fn on_warning(mut self, tell: impl Fn(&Warning) + Send + Sync + 'static) -> Self {
        self.tell = Some(Arc::new(tell));
        self
    }

    pub(crate) fn has(&self, kind: WarningKind) -> bool {
        !self.without.contains(&kind)
    }

    pub(crate) fn tell(&self, warning: &Warning) {
        if let Some(tell) = &self.tell {
            tell(warning);
        }
    }
}
