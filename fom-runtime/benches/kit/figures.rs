//! The results of a measurement, and their line in the results file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Named figures of one measurement. The name has the unit: `ns_per_call`, `bytes_per_op`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Figures(pub BTreeMap<String, f64>);

impl Figures {
    /// Makes an empty set of figures.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a figure.
    #[must_use]
    pub fn with(mut self, name: &str, value: f64) -> Self {
        self.0.insert(name.to_owned(), value);
        self
    }

    /// Adds all figures of the other set.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }
}

/// One measurement: one line of `results.jsonl`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The question, its case, the peer, and the round.
    pub question: String,
    pub case: String,
    pub peer: String,
    pub round: u32,
    /// Whether the sizes were small: then the figures only show that it runs.
    pub quick: bool,
    /// The number of cores that other processes kept busy meanwhile: how quiet the machine was.
    pub foreign_cpu: f64,
    /// How long the process ran, in seconds.
    pub seconds: f64,
    pub figures: Figures,
    /// Why there are no figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
