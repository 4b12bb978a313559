//! The last failures of operations that no quarantine keeps.

use std::{
    any::TypeId,
    collections::{HashMap, VecDeque},
    fmt,
    time::Duration,
};

use fom_protocol::sync::Mutex;
use serde::Serialize;

use crate::{
    attempt::{Attempt, Tried},
    clock::elapsed,
    fom::Header,
    id::{FomId, Key},
    serial,
    snapshot::Snapshot,
};

/// The size of the largest snapshot that is kept, in bytes.
const LARGEST_SNAPSHOT: usize = 64 << 10;

/// An operation that failed, as [`Inspect::failures`](crate::observe::Inspect::failures) lists it. `Display` writes one
/// line.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FailedFom {
    /// The fom's id.
    pub id: FomId,
    /// The operation type.
    pub operation: &'static str,
    /// The key that the fom was submitted with.
    #[serde(serialize_with = "serial::some_text")]
    pub key: Option<Key>,
    /// The phase in which it failed.
    pub phase: &'static str,
    /// The text of the cause, with the sources of its error.
    pub cause: String,
    /// The phases before that one, oldest first, if the runtime keeps a [history](crate::Builder::history).
    pub path: Vec<&'static str>,
    /// The failed attempts at the phase before the last one, oldest first. The error of the last attempt is the cause.
    pub attempts: Vec<Attempt>,
    /// How long ago it failed.
    #[serde(serialize_with = "serial::seconds")]
    pub age: Duration,
    /// Operation and phase as they were, for [`Runtime::resume`](crate::Runtime::resume). `None` for a transient machine,
    /// for a phase function that took the data, for an operation that cannot be saved, and above 64 KiB.
    #[serde(skip)]
    pub snapshot: Option<Snapshot>,
}

impl fmt::Display for FailedFom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.operation, self.id)?;
        if let Some(key) = &self.key {
            write!(f, " (key {key})")?;
        }
        write!(f, " failed in {}: {}", self.phase, self.cause)
    }
}

/// The last failures of each operation type.
pub(crate) struct Failures {
    /// How many are kept of each type.
    most: usize,
    types: Mutex<HashMap<TypeId, VecDeque<Failed>>>,
}

struct Failed {
    info: FailedFom,
    tried: Vec<Tried>,
    at: u64,
}

impl Failures {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            types: Mutex::default(),
        }
    }

    /// Keeps a failure. `cause` and `snapshot` run the user's code, so they are called without the lock.
    #[cold]
    pub(crate) fn keep(
        &self,
        fom: &Header,
        phase: &str,
        cause: impl FnOnce() -> String,
        snapshot: impl FnOnce() -> Option<Snapshot>,
    ) {
        if self.most == 0 {
            return;
        }
        let phases = fom.graph().phases();
        let failed_in = phases.iter().position(|one| one.name() == phase);
        let lines = fom.cold().and_then(|cold| Some(cold.history()?.lines()));
        let lines = lines.into_iter().flatten();
        let mut path: Vec<_> = lines.map(|seen| usize::from(seen.phase)).collect();
        // The last line is that of the phase that failed.
        path.pop();
        let small = |snapshot: &Snapshot| snapshot.as_bytes().len() <= LARGEST_SNAPSHOT;
        let failed = Failed {
            info: FailedFom {
                id: fom.id(),
                operation: fom.type_name(),
                key: fom.key().cloned(),
                phase: failed_in.map_or("", |index| phases[index].name()),
                cause: cause(),
                path: path.iter().map(|index| phases[*index].name()).collect(),
                attempts: Vec::new(),
                age: Duration::ZERO,
                snapshot: snapshot().filter(small),
            },
            tried: fom.visit().tried(),
            at: fom.env().clock.nanos(),
        };
        let mut types = self.types.lock();
        let kept = types.entry(fom.type_id()).or_default();
        let oldest = (kept.len() == self.most).then(|| kept.pop_front());
        kept.push_back(failed);
        drop(types);
        drop(oldest);
    }

    /// Returns the failures of all types, the latest last.
    pub(crate) fn list(&self, now: u64) -> Vec<FailedFom> {
        let types = self.types.lock();
        let mut failed: Vec<_> = types.values().flatten().collect();
        failed.sort_by_key(|one| (one.at, one.info.id));
        let shown = |one: &Failed| FailedFom {
            attempts: one.tried.iter().map(|tried| tried.shown(now)).collect(),
            age: elapsed(now, one.at),
            ..one.info.clone()
        };
        failed.into_iter().map(shown).collect()
    }
}
