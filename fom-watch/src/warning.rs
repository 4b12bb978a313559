//! Warnings: what is wrong, with which foms, and what to do.

use std::{
    borrow::Cow,
    fmt,
    time::{Duration, SystemTime},
};

use fom_runtime::{FomId, extension::serialized, time::Instant};
use serde::Serialize;

/// What a [`Warning`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WarningKind {
    /// Foms have been in one phase for longer than the limit of the phase.
    Hung,
    /// One run of a fom, or a job of a locality, takes long. Other foms of the locality stand still.
    LongRun,
    /// A thread of a locality sleeps in the run of a fom, and no follower has taken over.
    UnannouncedBlocking,
    /// A fom runs again and again, and makes no step.
    WakeStorm,
    /// Foms are ready for long before they run.
    Starvation,
    /// A mailbox, a stream, an admission or another queue only grows.
    Growth,
    /// Most foms that leave a phase miss its deadline.
    MissedDeadlines,
    /// Foms wait for each other in a cycle.
    WaitCycle,
    /// Foms wait long for the commit of a transition.
    Journal,
    /// Operations are in quarantine, and do not run.
    Quarantine,
}

/// How far a condition is beyond its limit. A warning is told once for each level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Level {
    /// The limit is exceeded.
    Warning,
    /// Four times the limit is exceeded.
    Severe,
    /// Sixteen times the limit is exceeded.
    Critical,
}

impl Level {
    /// Returns the level of a value with this limit.
    pub(crate) fn of(value: f64, limit: f64) -> Self {
        let times = value / limit.max(f64::MIN_POSITIVE);
        match times {
            times if times >= 16.0 => Self::Critical,
            times if times >= 4.0 => Self::Severe,
            _ => Self::Warning,
        }
    }

    pub(crate) fn of_time(time: Duration, limit: Duration) -> Self {
        Self::of(time.as_secs_f64(), limit.as_secs_f64())
    }
}

/// A condition that the watcher has found. Its kind, its subject and its detail tell it from others. `Display` writes it in
/// some lines, with the advice.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Warning {
    /// What the warning is about.
    pub kind: WarningKind,
    /// The highest level that the condition has reached.
    pub level: Level,
    /// What has the problem, such as `Charge in Wait` or `locality 2`.
    pub subject: String,
    /// What is wrong, beside the kind and the subject, such as `waiting: event`. Two warnings of one kind about one subject
    /// differ in it. Empty if there can be only one.
    pub detail: String,
    /// What happens, in a sentence.
    pub text: String,
    /// The operation type, if the foms are of one type.
    pub operation: Option<Cow<'static, str>>,
    /// The phase, if the foms are in one phase.
    pub phase: Option<Cow<'static, str>>,
    /// Some of the foms, those with the longest time first. At most eight. For missed deadlines, these are foms that are in
    /// the phase now.
    pub ids: Vec<FomId>,
    /// The number of foms, as it was at the last look.
    pub foms: usize,
    /// The longest time that one of them has this condition, as it was at the last look.
    #[serde(serialize_with = "serialized::seconds")]
    pub age: Duration,
    /// The time that is allowed, if the condition is about a time.
    #[serde(serialize_with = "serialized::some_seconds")]
    pub limit: Option<Duration>,
    /// What the foms have in common: what they wait for, which fom holds it, their last error.
    pub common: Vec<String>,
    /// What to do.
    pub advice: String,
    /// How long ago the condition was found.
    #[serde(serialize_with = "serialized::seconds")]
    pub since: Duration,
    /// How long ago the condition ended, if it has ended.
    #[serde(serialize_with = "serialized::some_seconds")]
    pub over: Option<Duration>,
    /// How often the condition came back, with the first time.
    pub times: u64,
}

impl fmt::Display for WarningKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Hung => "hung",
            Self::LongRun => "long run",
            Self::UnannouncedBlocking => "blocking that was not announced",
            Self::WakeStorm => "wake storm",
            Self::Starvation => "starvation",
            Self::Growth => "growth",
            Self::MissedDeadlines => "missed deadlines",
            Self::WaitCycle => "wait cycle",
            Self::Journal => "journal behind",
            Self::Quarantine => "quarantine",
        })
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Warning => "warning",
            Self::Severe => "severe",
            Self::Critical => "critical",
        })
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.level, self.kind, self.text)?;
        if let Some(over) = self.over {
            write!(f, " (over for {over:.1?})")?;
        }
        if !self.ids.is_empty() {
            let ids: Vec<_> = self.ids.iter().map(FomId::to_string).collect();
            let more = self.foms.saturating_sub(self.ids.len());
            write!(f, "\n  foms: {}", ids.join(", "))?;
            if more > 0 {
                write!(f, " and {more} more")?;
            }
        }
        for line in &self.common {
            write!(f, "\n  {line}")?;
        }
        write!(f, "\n  advice: {}", self.advice)
    }
}

/// The warnings of a runtime, as [`Warned::warnings`](crate::Warned::warnings) lists them: the highest level first.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Warnings {
    /// The time of the wall clock.
    #[serde(serialize_with = "serialized::since_1970")]
    pub at: SystemTime,
    /// The time on the runtime's clock.
    #[serde(serialize_with = "serialized::clock_time")]
    pub now: Instant,
    /// Whether the runtime has a watcher.
    pub watching: bool,
    /// What is wrong now.
    pub warnings: Vec<Warning>,
    /// The last 64 conditions that have ended, the latest last.
    pub over: Vec<Warning>,
}

impl fmt::Display for Warnings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.watching {
            return f.write_str("nothing watches; call `Builder::watch`\n");
        }
        let all = self.warnings.iter().chain(&self.over);
        all.into_iter()
            .try_for_each(|warning| writeln!(f, "{warning}"))
    }
}
