//! Operations that wait for a key.

use std::time::Duration;

use fom_durable::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Holds, Mark, Story, mixed};
use crate::points::{Point, Points};

/// Gets its turn when the operations before it have ended.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Queued {
    mark: Mark,
    turns: u32,
    /// The least time that it holds its key, in microseconds.
    takes: u64,
    /// The series in which it has its turn.
    series: Option<u64>,
}

impl Queued {
    /// Returns an operation that holds its key so long that others arrive meanwhile.
    pub(crate) fn slow(n: u64) -> Self {
        Self {
            takes: 8_000,
            ..Self::make(n)
        }
    }

    /// Returns an operation of a series.
    pub(crate) fn of_series(n: u64, series: u64) -> Self {
        Self {
            series: Some(series),
            ..Self::make(n)
        }
    }
}

#[fom(operation(Queued))]
pub(crate) enum Queuing {
    #[phase(start, to(Last))]
    Begin,
    #[phase(sync, to(Done))]
    Last,
    #[phase(end)]
    Done,
}

impl QueuingTransitions for Queued {
    async fn begin(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.effect(cx, "Begin");
        let n = self.mark.n;
        cx.resource::<Holds>().begins(n);
        if self.takes > 0 {
            cx.sleep(Duration::from_micros(self.takes / 2)).await;
            if cx.resource::<Holds>().is_overtaken_by(n) {
                cx.resource::<Points>().pass(Point::Overtaking);
            }
        }
        let takes = self.takes / 2 + mixed(n) % 1_000;
        cx.sleep(Duration::from_micros(takes)).await;
        self.turns += 1;
        self.mark.hop();
        Ok(())
    }
    fn last(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.step(cx, "Last")
    }
}

impl Story for Queued {
    const LETTER: char = 'q';
    fn make(n: u64) -> Self {
        Self {
            mark: Mark::new(n),
            turns: 0,
            takes: 0,
            series: None,
        }
    }
    marked!(mark);
    fn series(&self) -> Option<String> {
        self.series.map(|series| format!("series/{series}"))
    }
    fn outcome(&self) -> String {
        format!("queued-{}", self.turns)
    }
    fn due(_: u64) -> String {
        "queued-1".to_owned()
    }
}

/// Returns whether the operation with this number shares its key, if the key may be shared.
pub fn is_shared(n: u64) -> bool {
    !mixed(n).is_multiple_of(3)
}

/// Posts a few operations that wait for one key, all with one transition.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Post {
    mark: Mark,
}

/// Returns how many operations this one posts. Their numbers follow its own.
pub(crate) fn posted(n: u64) -> u64 {
    mixed(n) % 4
}

#[fom(operation(Post))]
pub(crate) enum Posting {
    #[phase(start, sync, to(Last))]
    Begin,
    #[phase(sync, to(Done))]
    Last,
    #[phase(end)]
    Done,
}

impl PostingTransitions for Post {
    fn begin(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.effect(cx, "Begin");
        let n = self.mark.n;
        let line = cx.key().cloned().ok_or("it has no key")?;
        for n in n + 1..=n + posted(n) {
            let queued = cx.outbox().submit(Queued::make(n));
            queued.key(line.clone()).queue().post()?;
        }
        self.mark.hop();
        Ok(())
    }
    fn last(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.step(cx, "Last")
    }
}

impl Story for Post {
    const LETTER: char = 'p';
    fn make(n: u64) -> Self {
        Self { mark: Mark::new(n) }
    }
    marked!(mark);
    fn outcome(&self) -> String {
        "posted".to_owned()
    }
    fn due(_: u64) -> String {
        "posted".to_owned()
    }
}
