//! An operation that fails in an undeclared way, and is tried again out of quarantine until it succeeds. Some are of a
//! series: while one is in quarantine, the others have their turns.

use fom_durable::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Mark, Story, mixed};

/// Fails as often as its number says.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Mend {
    mark: Mark,
    /// The number of failures that are in the journal. A failure that a crash undoes is not counted.
    failures: u32,
    /// The series in which it has its turn.
    series: Option<u64>,
}

impl Mend {
    /// Returns an operation of a series.
    pub(crate) fn of_series(n: u64, series: u64) -> Self {
        Self {
            series: Some(series),
            ..Self::make(n)
        }
    }
}

/// The phases that it has left when it fails.
pub(crate) const MENDED_PATH: [&str; 1] = ["Begin"];

/// Returns how often the operation with this number fails.
fn failures(n: u64) -> u32 {
    (mixed(n) % 3) as u32
}

#[fom(operation(Mend))]
pub(crate) enum Mending {
    #[phase(start, sync, to(Work))]
    Begin,
    #[phase(sync, to(Last))]
    Work,
    #[phase(sync, to(Done))]
    Last,
    #[phase(end)]
    Done,
}

impl MendingTransitions for Mend {
    fn begin(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.step(cx, "Begin")
    }
    fn work(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.effect(cx, "Work");
        if self.failures < failures(self.mark.n) {
            self.failures += 1;
            return Err("not mended yet".into());
        }
        self.mark.hop();
        Ok(())
    }
    fn last(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.step(cx, "Last")
    }
}

impl Story for Mend {
    const LETTER: char = 'n';
    fn make(n: u64) -> Self {
        Self {
            mark: Mark::new(n),
            failures: 0,
            series: None,
        }
    }
    marked!(mark);
    fn series(&self) -> Option<String> {
        self.series.map(|series| format!("mending/{series}"))
    }
    fn outcome(&self) -> String {
        format!("mended-{}", self.failures)
    }
    fn due(n: u64) -> String {
        format!("mended-{}", failures(n))
    }
}
