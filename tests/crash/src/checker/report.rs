//! What a check found.

use std::fmt;

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The name of the rule.
    pub rule: &'static str,
    /// The life in which it happened.
    pub life: u64,
    /// What happened.
    pub what: String,
    /// The lines of the history that show it.
    pub lines: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (life {}): {}", self.rule, self.life, self.what)?;
        self.lines
            .iter()
            .try_for_each(|line| write!(f, "\n    {line}"))
    }
}

/// How much was checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines of the history.
    pub lines: u64,
    /// Transitions that listeners heard of.
    pub transitions: u64,
    /// Foms that came back.
    pub resumed: u64,
    /// Of these: foms one transition further than the last one heard of.
    pub unreported: u64,
    /// Effects.
    pub effects: u64,
    /// Of these: effects of a visit that already had one.
    pub repeated: u64,
    /// Operations heard of.
    pub operations: u64,
    /// Of these: operations that ended while no listener heard of the end.
    pub ended_unreported: u64,
    /// Failed operations that were not tried again in time, because too many failed at once.
    pub dropped: u64,
    /// Outcomes that handles were told.
    pub outcomes: u64,
    /// Of these: outcomes of operations that were submitted again.
    pub outcomes_again: u64,
    /// Locks that operations held.
    pub locks: u64,
    /// Deadlines that passed.
    pub late: u64,
    /// Of these: deadlines that passed while no process ran.
    pub overdue: u64,
    /// Lazy foms that came back behind the last transition heard of, as they may.
    pub lost_lazily: u64,
    /// Foms that were quarantined for a while.
    pub quarantined: u64,
    /// How often a failed fom was looked for in quarantine.
    pub failed: u64,
    /// Durable sends that were acknowledged.
    pub sent: u64,
    /// Lookups of outcomes.
    pub found: u64,
    /// Operations of which the user was told that they are on disk.
    pub accepted: u64,
    /// Failed operations that were tried again.
    pub tried_again: u64,
}
