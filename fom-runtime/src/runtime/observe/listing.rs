//! What is in flight: a listing that asks no locality and stops no fom.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use serde::Serialize;

use crate::{
    attempt::Attempt,
    clock::elapsed,
    fom::{AnyRef, Attachments, Header},
    id::{FomId, Key},
    incident::Incident,
    instant::Instant,
    runtime::{
        Shared,
        observe::{LocalityInfo, WaitInfo, localities},
        totals,
    },
    serial,
    snapshot::Quarantined,
};
use fom_protocol::FomState;

/// A phase that a fom was in, and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Visited {
    /// The phase.
    pub phase: &'static str,
    /// When the fom entered it, on the runtime's clock.
    #[serde(serialize_with = "serial::clock_time")]
    pub at: Instant,
}

/// One fom in flight.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FomInfo {
    /// The fom's id.
    pub id: FomId,
    /// The operation type.
    pub operation: &'static str,
    /// The key that the fom was submitted with.
    #[serde(serialize_with = "serial::some_text")]
    pub key: Option<Key>,
    /// The fom's phase.
    pub phase: &'static str,
    /// What the runtime does with the fom.
    #[serde(serialize_with = "serial::text")]
    pub state: FomState,
    /// Whether the fom has begun its first phase.
    pub begun: bool,
    /// Whether the fom runs between enter-block and leave-block.
    pub blocked: bool,
    /// What the fom waits for. Several waits mean that the fom goes on after any of them.
    pub waits: Vec<WaitInfo>,
    /// The number of events not taken yet, or the number that another package
    /// [tells](crate::extension::Attached::queued).
    pub events: usize,
    /// Its times. Serialized as fields of the fom.
    #[serde(flatten)]
    pub times: FomTimes,
    /// Its failed attempts and its last phases. Serialized as fields of the fom.
    #[serde(flatten)]
    pub past: FomPast,
    /// Where it is, and how much memory it takes. Serialized as fields of the fom.
    #[serde(flatten)]
    pub home: FomHome,
}

/// The times of a [`FomInfo`].
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FomTimes {
    /// How long the fom has been in this phase (in the queue, before the first). With a journal, this includes the time
    /// in which the program did not run. In a phase with `within = "adaptive"`, it counts from the last restart.
    #[serde(serialize_with = "serial::seconds")]
    pub in_phase: Duration,
    /// How long ago the fom was submitted. With a journal, this includes the time in which the program did not run.
    #[serde(serialize_with = "serial::seconds")]
    pub age: Duration,
    /// How long the fom [waited](crate::extension::Attached::waited) for things of other packages, such as long locks,
    /// in waits that are over.
    #[serde(serialize_with = "serial::seconds")]
    pub waited: Duration,
    /// The time left until the deadline of the phase.
    #[serde(serialize_with = "serial::some_seconds")]
    pub deadline_in: Option<Duration>,
}

/// The failed attempts and the last phases of a [`FomInfo`].
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FomPast {
    /// The number of failed attempts in this phase.
    pub attempt: u32,
    /// The failed attempts in this phase, oldest first. The last one has the last error. There are at most sixteen: the
    /// first one, and the last ones.
    pub attempts: Vec<Attempt>,
    /// The fom's last phases, oldest first, if the runtime keeps a history.
    pub history: Vec<Visited>,
}

/// The place of a [`FomInfo`].
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FomHome {
    /// The index of the fom's home.
    pub locality: usize,
    /// The size of the fom's allocation in bytes, without what the operation itself allocates.
    pub bytes: usize,
}

/// Totals of one operation type.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct TypeInfo {
    /// The operation type.
    pub operation: &'static str,
    /// Foms in flight now.
    pub in_flight: u64,
    /// Foms started so far.
    pub started: u64,
    /// Foms ended so far, in any way.
    pub ended: u64,
    /// Foms that ended in a failure phase or in the failed outcome; a part of `ended`.
    pub failed: u64,
    /// Events that were sent to foms that have ended, and that no phase took. Each outcome returns its own.
    pub untaken: u64,
    /// Mean time from submission to the end.
    #[serde(serialize_with = "serial::seconds")]
    pub mean: Duration,
    /// Longest time from submission to the end.
    #[serde(serialize_with = "serial::seconds")]
    pub longest: Duration,
    /// The times of the phases with `within = "adaptive"` that were visited.
    pub adaptive: Vec<AdaptiveInfo>,
}

/// The time that a phase with `within = "adaptive"` gets now. Each locality has its own estimate.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct AdaptiveInfo {
    /// The phase.
    pub phase: &'static str,
    /// The least possible time, as declared.
    #[serde(serialize_with = "serial::seconds")]
    pub floor: Duration,
    /// The most possible time, as declared.
    #[serde(serialize_with = "serial::seconds")]
    pub ceiling: Duration,
    /// The time of a visit in the locality that gives the least. A visit gets more while more visits are under way than
    /// were ever measured. A probe gets the ceiling.
    #[serde(serialize_with = "serial::seconds")]
    pub least: Duration,
    /// The time of a visit in the locality that gives the most.
    #[serde(serialize_with = "serial::seconds")]
    pub most: Duration,
}

/// A key that foms wait for, or that is suspended.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct KeyInfo {
    /// The operation type.
    pub operation: &'static str,
    /// The key.
    #[serde(serialize_with = "serial::text")]
    pub key: Key,
    /// Whether this is the name of a [series](crate::Submission::serial), and no key.
    pub is_serial: bool,
    /// The foms that have the key: several if they share it, or are chained to each other. A quarantined fom still has
    /// the key for the foms that queue behind it.
    pub holders: Vec<FomId>,
    /// The foms that wait for the key, in their order.
    pub waiting: Vec<FomId>,
    /// How often the key is suspended.
    pub suspended: u32,
}

impl KeyInfo {
    /// Returns what keys are sorted by.
    pub(crate) fn place(&self) -> (&'static str, bool, &Key) {
        (self.operation, self.is_serial, &self.key)
    }
}

/// What is in flight. `Display` prints a table, with the key of each fom, the time left until its
/// deadline, and the last error in its phase.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Operations {
    /// The time of the wall clock when the listing was made.
    #[serde(serialize_with = "serial::since_1970")]
    pub at: SystemTime,
    /// The same on the runtime's clock.
    #[serde(serialize_with = "serial::clock_time")]
    pub now: Instant,
    /// Every fom that was submitted and has not ended, by id.
    pub foms: Vec<FomInfo>,
    /// Totals, by operation type.
    pub types: Vec<TypeInfo>,
    /// The localities.
    pub localities: Vec<LocalityInfo>,
    /// Keys that foms [wait](crate::Submission::queue) for, or that are [suspended](crate::Runtime::suspend_key).
    pub keys: Vec<KeyInfo>,
    /// The number of pieces of [pending work](crate::extension::PendingWork) in front of the localities, such as
    /// operations in a queue. They are not foms yet.
    pub queued: usize,
    /// The number of foms that came back and rest. They are in none of these lists.
    pub passive: usize,
    /// What is in the journal and does not run, by id.
    pub quarantine: Vec<Quarantined>,
    /// Problems that ended no operation, such as a listener that panicked, newest last.
    pub incidents: Vec<Incident>,
}

impl FomInfo {
    /// Returns what the fom waits for, in words.
    pub fn waiting_for(&self) -> Option<String> {
        let texts: Vec<_> = self.waits.iter().map(WaitInfo::to_string).collect();
        (!texts.is_empty()).then(|| texts.join(" or "))
    }
}

/// Returns the number of events that the fom has not taken.
pub(super) fn events(fom: &AnyRef) -> usize {
    let attachments = Attachments::of(fom);
    let told = attachments.iter().find_map(|part| part.queued());
    told.unwrap_or_else(|| fom.events())
}

pub(crate) fn fom_info(fom: &AnyRef) -> FomInfo {
    let header: &Header = fom;
    let shared = Shared::of(header);
    let now = shared.env.clock.nanos();
    let state = header.token.state();
    let attachments = Attachments::of(header);
    FomInfo {
        id: header.id(),
        operation: header.type_name(),
        key: header.key().cloned(),
        phase: header.phase_name(),
        state,
        begun: header.flags.has_begun(),
        blocked: header.flags.is_blocked(),
        waits: WaitInfo::of(header),
        events: events(fom),
        times: FomTimes {
            in_phase: header.visit().age(now),
            age: elapsed(now, header.identity.submitted()),
            waited: attachments.iter().map(|part| part.waited()).sum(),
            deadline_in: header
                .visit()
                .deadline()
                .map(|at| Duration::from_nanos(at.saturating_sub(now))),
        },
        past: FomPast {
            attempt: header.visit().attempt(),
            attempts: header.visit().attempts(),
            history: history(header),
        },
        home: FomHome {
            locality: header.home_index(),
            bytes: fom.bytes(),
        },
    }
}

/// Returns the last phases of the fom, oldest first.
fn history(fom: &Header) -> Vec<Visited> {
    let lines = fom.cold().and_then(|cold| Some(cold.history()?.lines()));
    let lines = lines.unwrap_or_default().into_iter();
    lines
        .map(|seen| Visited {
            phase: fom.graph().phases()[usize::from(seen.phase)].name(),
            at: Instant::from_nanos(seen.at),
        })
        .collect()
}

pub(crate) fn operations(shared: &Shared) -> Operations {
    let mut foms: Vec<_> = shared
        .localities
        .iter()
        .flat_map(|home| home.pools.foms())
        .map(|fom| fom_info(&fom))
        .collect();
    foms.sort_by_key(|fom| fom.id);
    let gauges: Vec<_> = shared
        .localities
        .iter()
        .flat_map(|home| home.gauges.all())
        .collect();
    Operations {
        at: SystemTime::now(),
        now: shared.env.clock.now(),
        types: totals(
            shared.localities.iter().flat_map(|home| home.pools.all()),
            &gauges,
        ),
        foms,
        localities: localities(shared),
        keys: shared.key_index.waited_for(),
        queued: shared.queued.in_flight(),
        passive: shared.env.resting(),
        quarantine: shared
            .env
            .recorder()
            .map_or_else(Vec::new, |it| it.quarantined()),
        incidents: shared.env.incidents(),
    }
}

impl fmt::Display for Operations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_types(f)?;
        if !self.foms.is_empty() {
            self.fmt_foms(f)?;
        }
        for key in &self.keys {
            writeln!(f, "{key}")?;
        }
        if self.queued > 0 {
            writeln!(f, "\n{} more are queued for admission", self.queued)?;
        }
        if self.passive > 0 {
            writeln!(f, "\n{} more rest until there is room", self.passive)?;
        }
        if !self.quarantine.is_empty() {
            self.fmt_quarantine(f)?;
        }
        for incident in &self.incidents {
            writeln!(f, "! {incident}")?;
        }
        Ok(())
    }
}

impl Operations {
    fn fmt_types(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<24} {:>9} {:>9} {:>9} {:>8} {:>10} {:>10}",
            "operation", "in flight", "started", "ended", "failed", "mean", "longest"
        )?;
        for t in &self.types {
            writeln!(
                f,
                "{:<24} {:>9} {:>9} {:>9} {:>8} {:>10} {:>10}",
                t.operation,
                t.in_flight,
                t.started,
                t.ended,
                t.failed,
                since_ended(t, t.mean),
                since_ended(t, t.longest)
            )?;
            for of in &t.adaptive {
                writeln!(f, "  {of}")?;
            }
        }
        Ok(())
    }

    fn fmt_foms(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n{:>8} {:<24} {:<16} {:<9} {:>10} {:<3} waiting for",
            "id", "operation and key", "phase", "state", "in phase", "loc"
        )?;
        for fom in &self.foms {
            let state = if fom.blocked {
                "blocked".to_owned()
            } else {
                fom.state.to_string()
            };
            let named = fom.key.as_ref().map_or_else(
                || fom.operation.to_owned(),
                |key| format!("{} {key}", fom.operation),
            );
            let left = fom
                .times
                .deadline_in
                .map(|left| format!("{} left", round(left)));
            let failed = fom.past.attempts.last().map(|last| {
                let ago = round(last.age);
                format!("attempt {} failed {ago} ago: {}", last.number, last.error)
            });
            let waiting: Vec<_> = fom
                .waiting_for()
                .into_iter()
                .chain(left)
                .chain(failed)
                .collect();
            writeln!(
                f,
                "{:>8} {:<24} {:<16} {:<9} {:>10} {:<3} {}",
                fom.id,
                named,
                fom.phase,
                state,
                round(fom.times.in_phase),
                fom.home.locality,
                waiting.join("; ")
            )?;
        }
        Ok(())
    }

    fn fmt_quarantine(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{} in quarantine:", self.quarantine.len())?;
        writeln!(
            f,
            "{:>8} {:<24} {:<16} {:>7}  why",
            "id", "operation and key", "phase", "version"
        )?;
        for quarantined in &self.quarantine {
            let version = quarantined
                .version
                .map_or_else(String::new, |n| n.to_string());
            writeln!(
                f,
                "{:>8} {:<24} {:<16} {:>7}  {}",
                quarantined.id,
                quarantined.named(),
                quarantined.phase.as_deref().unwrap_or("?"),
                version,
                quarantined.reason
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for KeyInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let holders: Vec<_> = self.holders.iter().map(FomId::to_string).collect();
        let who = match holders.as_slice() {
            [] => "no fom".to_owned(),
            some => some.join(", "),
        };
        let (operation, key, waiting) = (self.operation, &self.key, self.waiting.len());
        let series = if self.is_serial { "series " } else { "" };
        write!(f, "{operation} {series}{key}: {who} has it, {waiting} wait")?;
        match self.suspended {
            0 => Ok(()),
            1 => f.write_str("; suspended"),
            n => write!(f, "; suspended {n} times"),
        }
    }
}

impl fmt::Display for AdaptiveInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, most) = (round(self.least), round(self.most));
        write!(f, "{}: within {least}", self.phase)?;
        if least != most {
            write!(f, " to {most}")?;
        }
        write!(f, " (adaptive {:?}..{:?})", self.floor, self.ceiling)
    }
}

/// Formats a time that exists only once a fom has ended.
fn since_ended(of: &TypeInfo, time: Duration) -> String {
    if of.ended == 0 {
        "-".to_owned()
    } else {
        round(time)
    }
}

/// Formats a time with three digits, enough for a table.
fn round(time: Duration) -> String {
    if time.is_zero() {
        return "0".to_owned();
    }
    let nanos = time.as_nanos() as f64;
    let (value, unit) = match nanos {
        n if n < 1e3 => (n, "ns"),
        n if n < 1e6 => (n / 1e3, "us"),
        n if n < 1e9 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    if value < 10.0 {
        format!("{value:.2}{unit}")
    } else if value < 100.0 {
        format!("{value:.1}{unit}")
    } else {
        format!("{value:.0}{unit}")
    }
}
