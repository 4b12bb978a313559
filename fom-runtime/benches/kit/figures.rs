//! What a measurement gives, and its line in the results.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Named figures of one measurement. The unit stands in the name: `ns_per_call`, `bytes_per_op`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Figures(pub BTreeMap<String, f64>);

impl Figures {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// With this one, too.
    #[must_use]
    pub fn with(mut self, name: &str, value: f64) -> Self {
        self.0.insert(name.to_owned(), value);
        self
    }

    /// Takes all of the other's.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }
}

/// One measurement: one line of `results.jsonl`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The question, its case, who was measured, and in which round.
    pub question: String,
    pub case: String,
    pub peer: String,
    pub round: u32,
    /// Of small sizes: good for nothing but to see that it runs.
    pub quick: bool,
    /// Cores that others kept busy meanwhile: how quiet the machine was.
    pub foreign_cpu: f64,
    /// How long the process ran.
    pub seconds: f64,
    pub figures: Figures,
    /// Why there are no figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
