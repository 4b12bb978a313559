//! Which foms a survey counts and lists.

use std::time::Duration;

use crate::{
    clock::elapsed,
    fom::{Header, Pool},
    id::Key,
};
use fom_protocol::FomState;

/// Which foms a [survey](crate::observe::Inspect::survey) covers: those that meet all conditions. Default: all foms.
///
/// ```
/// use std::time::Duration;
/// use fom_runtime::observe::Filter;
///
/// let stuck = Filter::default().phase("Charge").in_phase(Duration::from_secs(60));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    operation: Option<String>,
    phase: Option<String>,
    state: Option<FomState>,
    wait: Option<String>,
    key: Option<KeyFilter>,
    locality: Option<usize>,
    in_phase: Option<Duration>,
    age: Option<Duration>,
    attempts: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum KeyFilter {
    Whole(Key),
    Prefix(String),
}

impl Filter {
    /// Covers foms of this operation type, by its name.
    #[must_use]
    pub fn operation(mut self, name: impl Into<String>) -> Self {
        self.operation = Some(name.into());
        self
    }

    /// Covers foms in phases with this name.
    #[must_use]
    pub fn phase(mut self, name: impl Into<String>) -> Self {
        self.phase = Some(name.into());
        self
    }

    /// Covers foms in this state.
    #[must_use]
    pub fn state(mut self, state: FomState) -> Self {
        self.state = Some(state);
        self
    }

    /// Covers foms with a wait of this [kind](crate::observe::WaitsFor::kind).
    #[must_use]
    pub fn waits_for(mut self, kind: impl Into<String>) -> Self {
        self.wait = Some(kind.into());
        self
    }

    /// Covers foms with this key. Replaces a [prefix](Self::key_prefix).
    #[must_use]
    pub fn key(mut self, key: impl Into<Key>) -> Self {
        self.key = Some(KeyFilter::Whole(key.into()));
        self
    }

    /// Covers foms with a key that begins with this prefix, in the text that its `Display` prints. Replaces a
    /// [key](Self::key).
    #[must_use]
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.key = Some(KeyFilter::Prefix(prefix.into()));
        self
    }

    /// Covers foms with their home in the locality with this index.
    #[must_use]
    pub fn locality(mut self, index: usize) -> Self {
        self.locality = Some(index);
        self
    }

    /// Covers foms that have been in their phase for at least this time.
    #[must_use]
    pub fn in_phase(mut self, least: Duration) -> Self {
        self.in_phase = Some(least);
        self
    }

    /// Covers foms that were submitted at least this time ago.
    #[must_use]
    pub fn age(mut self, least: Duration) -> Self {
        self.age = Some(least);
        self
    }

    /// Covers foms with at least this number of failed attempts in their phase.
    #[must_use]
    pub fn attempts(mut self, least: u32) -> Self {
        self.attempts = Some(least);
        self
    }

    /// Returns whether a locality may have such foms.
    pub(super) fn covers_locality(&self, index: usize) -> bool {
        self.locality.is_none_or(|wanted| wanted == index)
    }

    /// Returns the indexes of the phases of such foms in a pool. `None`: the pool has no such foms.
    pub(super) fn phases(&self, pool: &Pool) -> Option<Vec<bool>> {
        let is_operation = |name: &String| pool.graph.operation() == name;
        if !self.operation.as_ref().is_none_or(is_operation) {
            return None;
        }
        let phases = pool.graph.phases().iter();
        let is_phase = |name: &str| self.phase.as_ref().is_none_or(|wanted| wanted == name);
        let phases: Vec<_> = phases.map(|phase| is_phase(phase.name())).collect();
        phases.contains(&true).then_some(phases)
    }

    /// Returns whether the filter covers a fom. Its operation type, its phase and its locality are right.
    pub(super) fn covers(
        &self,
        fom: &Header,
        state: FomState,
        wait: impl FnOnce() -> Option<&'static str>,
        now: u64,
    ) -> bool {
        self.state.is_none_or(|wanted| wanted == state)
            && self
                .wait
                .as_ref()
                .is_none_or(|wanted| wait() == Some(wanted))
            && self
                .in_phase
                .is_none_or(|least| fom.visit().age(now) >= least)
            && self
                .age
                .is_none_or(|least| elapsed(now, fom.identity.submitted()) >= least)
            && self
                .attempts
                .is_none_or(|least| fom.visit().attempt() >= least)
            && self.key.as_ref().is_none_or(|wanted| match wanted {
                KeyFilter::Whole(key) => fom.key() == Some(key),
                KeyFilter::Prefix(prefix) => fom.key().is_some_and(|key| begins(key, prefix)),
            })
    }
}

fn begins(key: &Key, prefix: &str) -> bool {
    match key {
        Key::Text(text) => text.starts_with(prefix),
        other => other.to_string().starts_with(prefix),
    }
}
