//! The results of the rows. A test of the book reads them, too, so this file needs nothing but serde.

use serde::{Deserialize, Serialize};

/// A peer's median.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Best {
    pub peer: String,
    pub value: f64,
}

/// The result of a row: one JSON line of a question's answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Answer {
    pub program: String,
    pub question: String,
    pub unit: String,
    pub tokio: Option<Best>,
    pub other: Option<Best>,
    pub limit: Option<Best>,
    pub fom: Option<Best>,
    /// Whether a peer has a better figure than fom.
    #[serde(default)]
    pub behind: bool,
    pub by_tokio: Option<f64>,
    pub by_limit: Option<f64>,
    pub target: String,
    /// `yes`, or what is missed; empty without a target or a figure.
    pub met: String,
}

/// Formats a value with three digits, and a suffix instead of many zeros.
pub fn short(value: f64) -> String {
    let size = value.abs();
    let (value, suffix) = match size {
        s if s >= 1e9 => (value / 1e9, "G"),
        s if s >= 1e6 => (value / 1e6, "M"),
        s if s >= 1e5 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = match value.abs() {
        s if s >= 100.0 || s == 0.0 => 0,
        s if s >= 10.0 => 1,
        s if s >= 1.0 => 2,
        s if s >= 0.1 => 3,
        _ => 4,
    };
    format!("{value:.digits$}{suffix}")
}
