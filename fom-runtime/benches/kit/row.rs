//! A row of the table: a figure of fom beside those of the peers, the limit and the target.

use serde::{Deserialize, Serialize};

use crate::{Answer, Best, Round, Rounds, family};

/// Which of two figures is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Better {
    Less,
    More,
}

/// The target. All given parts must hold.
#[derive(Clone, Copy, Debug, Default)]
pub struct Target {
    /// The text in the table.
    pub text: &'static str,
    /// Fom's figure divided by the best variant of tokio's multi-threaded runtime, divided by the limit, and as it is.
    /// The last one is only for figures that do not depend on the machine: bytes, instructions, counts.
    pub of_tokio: Option<f64>,
    pub of_limit: Option<f64>,
    pub absolute: Option<f64>,
}

impl Target {
    /// No target.
    pub const NONE: Self = Self {
        text: "",
        of_tokio: None,
        of_limit: None,
        absolute: None,
    };
}

/// A row of the table.
#[derive(Debug)]
pub struct Row {
    pub question: &'static str,
    pub unit: &'static str,
    /// Returns the figure of a peer in one round; `None` for a peer that takes no part.
    pub value: fn(&Round, &str) -> Option<f64>,
    pub better: Better,
    /// The peer that is fom, and the one that is the limit (empty: there is none).
    pub fom: &'static str,
    pub limit: &'static str,
    pub target: Target,
}

impl Row {
    pub(crate) fn answer(&self, program: &str, rounds: &Rounds) -> Answer {
        let median = |peer: &str| rounds.median(|round| (self.value)(round, peer));
        let best_of = |takes: &dyn Fn(&str) -> bool| {
            let all = rounds.peers().into_iter().filter(|peer| takes(peer));
            let all = all.filter_map(|peer| Some((peer, median(peer)?)));
            let best = match self.better {
                Better::Less => all.min_by(|a, b| a.1.total_cmp(&b.1)),
                Better::More => all.max_by(|a, b| a.1.total_cmp(&b.1)),
            };
            best.map(|(peer, value)| Best {
                peer: peer.to_owned(),
                value,
            })
        };
        let tokio = best_of(&|peer| family(peer) == "tokio-mt");
        let other = best_of(&|peer| !["tokio-mt", "limit", "fom"].contains(&family(peer)));
        let limit = best_of(&|peer| peer == self.limit);
        let fom = best_of(&|peer| peer == self.fom);
        let by = |best: &Option<Best>| {
            let peer = &*best.as_ref()?.peer;
            let ratio = rounds
                .median(|round| Some((self.value)(round, self.fom)? / (self.value)(round, peer)?));
            // Zero divided by zero is no ratio.
            ratio.filter(|ratio| ratio.is_finite())
        };
        let (by_tokio, by_limit) = (by(&tokio), by(&limit));
        let is_ahead = |best: &Best| {
            let fom = fom.as_ref().map_or(best.value, |fom| fom.value);
            match self.better {
                Better::Less => best.value < fom,
                Better::More => best.value > fom,
            }
        };
        let behind = [&tokio, &other].into_iter().flatten().any(is_ahead);
        Answer {
            behind,
            program: program.to_owned(),
            question: self.question.to_owned(),
            unit: self.unit.to_owned(),
            met: self.met(by_tokio, by_limit, fom.as_ref().map(|fom| fom.value)),
            target: self.target.text.to_owned(),
            tokio,
            other,
            limit,
            fom,
            by_tokio,
            by_limit,
        }
    }

    fn met(&self, by_tokio: Option<f64>, by_limit: Option<f64>, fom: Option<f64>) -> String {
        let good = |value: f64, wanted: f64| match self.better {
            Better::Less => value <= wanted,
            Better::More => value >= wanted,
        };
        let asked = [
            (self.target.of_tokio, by_tokio, "tokio"),
            (self.target.of_limit, by_limit, "limit"),
            (self.target.absolute, fom, ""),
        ];
        let asked: Vec<_> = asked
            .into_iter()
            .filter_map(|(wanted, value, name)| Some((wanted?, value, name)))
            .collect();
        if asked.is_empty() || fom.is_none() {
            return String::new();
        }
        let missed: Vec<_> = asked
            .iter()
            .filter(|(wanted, value, _)| !value.is_some_and(|value| good(value, *wanted)))
            .map(|(_, _, name)| *name)
            .collect();
        match (missed.is_empty(), missed.join(", ")) {
            (true, _) => "yes".to_owned(),
            (false, names) if names.is_empty() => "no".to_owned(),
            (false, names) => format!("no ({names})"),
        }
    }
}
