//! The measurements by round, with their medians and ratios.

use std::collections::BTreeMap;

use crate::{Figures, Record};

/// Returns the part of a peer's name that its variants share.
pub fn family(peer: &str) -> &str {
    peer.split(':').next().unwrap_or(peer)
}

/// All measurements of a question.
#[derive(Debug, Default)]
pub struct Rounds(Vec<Round>);

/// The measurements of one round. Ratios are taken within a round.
#[derive(Debug, Default)]
pub struct Round(BTreeMap<(String, String), Figures>);

impl Round {
    /// Returns a figure of a peer in a case, if it was measured.
    pub fn get(&self, case: &str, peer: &str, figure: &str) -> Option<f64> {
        let figures = self.0.get(&(case.to_owned(), peer.to_owned()))?;
        figures
            .0
            .get(figure)
            .copied()
            .filter(|value| value.is_finite())
    }
}

impl Rounds {
    pub(crate) fn push(&mut self, record: Record) {
        if record.error.is_some() {
            return;
        }
        let round = record.round as usize;
        if self.0.len() <= round {
            self.0.resize_with(round + 1, Round::default);
        }
        self.0[round]
            .0
            .insert((record.case, record.peer), record.figures);
    }

    /// Returns the median over the rounds of the value that `of` computes for each.
    pub fn median(&self, of: impl Fn(&Round) -> Option<f64>) -> Option<f64> {
        let mut values: Vec<f64> = self.0.iter().filter_map(of).collect();
        values.sort_by(f64::total_cmp);
        match values.len() {
            0 => None,
            n if n % 2 == 1 => Some(values[n / 2]),
            n => Some((values[n / 2 - 1] + values[n / 2]) / 2.0),
        }
    }

    /// Returns the measured peers, each once.
    pub fn peers(&self) -> Vec<&str> {
        let mut all: Vec<_> = self
            .0
            .iter()
            .flat_map(|round| round.0.keys())
            .map(|(_, peer)| &**peer)
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns the names of the figures of a case.
    pub fn figures(&self, case: &str) -> Vec<&str> {
        let all = self.0.iter().flat_map(|round| &round.0);
        let mut all: Vec<_> = all
            .filter(|((of, _), _)| of == case)
            .flat_map(|(_, figures)| figures.0.keys())
            .map(String::as_str)
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}
