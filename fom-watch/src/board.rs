//! The warnings that stand, and those that are over.

use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use fom_runtime::{FomId, time::Instant};

use crate::{Level, Warning, WarningKind};

/// The most warnings that are kept after their end.
const MOST_OVER: usize = 64;
/// A condition that comes back within this time is the same warning, and is not told again.
const REST: Duration = Duration::from_secs(600);

/// The operation type and the phase of some foms, as far as they have the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    pub(crate) operation: Option<Cow<'static, str>>,
    pub(crate) phase: Option<Cow<'static, str>>,
}

impl Place {
    pub(crate) fn of(names: Option<(&'static str, &'static str)>) -> Self {
        let (operation, phase) = names.unzip();
        Self {
            operation: operation.map(Cow::Borrowed),
            phase: phase.map(Cow::Borrowed),
        }
    }
}

/// What a check has found in one look.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) kind: WarningKind,
    pub(crate) level: Level,
    pub(crate) subject: String,
    pub(crate) detail: String,
    pub(crate) text: String,
    pub(crate) place: Place,
    pub(crate) ids: Vec<FomId>,
    pub(crate) foms: usize,
    pub(crate) age: Duration,
    pub(crate) limit: Option<Duration>,
    pub(crate) common: Vec<String>,
    pub(crate) advice: String,
}

/// Tells one condition from others.
type Identity = (WarningKind, String, String);

#[derive(Default)]
pub(crate) struct Board {
    active: BTreeMap<Identity, Entry>,
    over: VecDeque<(Identity, Entry)>,
}

#[derive(Clone)]
struct Entry {
    finding: Finding,
    began: Instant,
    ended: Option<Instant>,
    times: u64,
}

impl Entry {
    fn warning(&self, now: Instant) -> Warning {
        let found = self.finding.clone();
        Warning {
            kind: found.kind,
            level: found.level,
            subject: found.subject,
            detail: found.detail,
            text: found.text,
            operation: found.place.operation,
            phase: found.place.phase,
            ids: found.ids,
            foms: found.foms,
            age: found.age,
            limit: found.limit,
            common: found.common,
            advice: found.advice,
            since: now - self.began,
            over: self.ended.map(|ended| now - ended),
            times: self.times,
        }
    }
}

impl Board {
    /// Puts up what a look has found. `looked` says which kinds of conditions the look was about: those that it did not
    /// find are over. Returns what must be told.
    pub(crate) fn put(
        &mut self,
        found: Vec<Finding>,
        looked: impl Fn(WarningKind) -> bool,
        now: Instant,
    ) -> Vec<Warning> {
        let mut told = Vec::new();
        let mut before = std::mem::take(&mut self.active);
        for finding in found {
            let id = (
                finding.kind,
                finding.subject.clone(),
                finding.detail.clone(),
            );
            if self.active.contains_key(&id) {
                // Foms of two types with one name, which are found together.
                continue;
            }
            let known = before.remove(&id).or_else(|| self.back(&id, now));
            let is_news = known
                .as_ref()
                .is_none_or(|known| known.finding.level < finding.level);
            let entry = self.entry(known, finding, now);
            if is_news {
                told.push(entry.warning(now));
            }
            self.active.insert(id, entry);
        }
        for (id, mut entry) in before {
            if looked(id.0) {
                entry.ended = Some(now);
                if self.over.len() == MOST_OVER {
                    self.over.pop_front();
                }
                self.over.push_back((id, entry));
            } else {
                self.active.insert(id, entry);
            }
        }
        told
    }

    fn entry(&self, known: Option<Entry>, finding: Finding, now: Instant) -> Entry {
        let Some(known) = known else {
            return Entry {
                finding,
                began: now,
                ended: None,
                times: 1,
            };
        };
        // A level is never taken back while the warning stands.
        let level = known.finding.level.max(finding.level);
        Entry {
            finding: Finding { level, ..finding },
            began: known.began,
            ended: None,
            times: known.times + u64::from(known.ended.is_some()),
        }
    }

    /// Takes back a warning that was over for a short time only.
    fn back(&mut self, id: &Identity, now: Instant) -> Option<Entry> {
        let place = self.over.iter().rposition(|(one, _)| one == id)?;
        let is_late = |entry: &Entry| entry.ended.is_some_and(|ended| now - ended > REST);
        let (_, entry) = self.over.remove(place)?;
        (!is_late(&entry)).then_some(entry)
    }

    /// Returns the warnings that stand, the highest level first, and those that are over.
    pub(crate) fn list(&self, now: Instant) -> (Vec<Warning>, Vec<Warning>) {
        let mut active: Vec<_> = self
            .active
            .values()
            .map(|entry| entry.warning(now))
            .collect();
        active.sort_by_key(|warning| std::cmp::Reverse((warning.level, warning.since)));
        let over = self.over.iter().map(|(_, entry)| entry.warning(now));
        (active, over.collect())
    }
}
