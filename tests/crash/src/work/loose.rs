//! An operation that may lose its last transitions.

use std::time::Duration;

use fom_runtime::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Mark, Story, mixed};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Loose {
    mark: Mark,
    sum: u64,
}

#[fom(operation(Loose), durability = "lazy")]
pub(crate) enum Loosely {
    #[phase(start, sync, to(Step))]
    Begin,
    #[phase(to(Step, Last))]
    Step { left: u64 },
    #[phase(sync, to(Done))]
    Last,
    #[phase(end)]
    Done,
}

impl LooselyTransitions for Loose {
    fn begin(&mut self, cx: &mut Cx<'_>) -> Result<LooselyAfterBegin, BoxError> {
        self.mark.effect(cx, "Begin");
        self.mark.hop();
        Ok(LooselyAfterBegin::Step {
            left: steps(self.mark.n),
        })
    }
    async fn step(
        &mut self,
        cx: &mut Cx<'_>,
        left: &mut u64,
    ) -> Result<LooselyAfterStep, BoxError> {
        self.mark.effect(cx, "Step");
        cx.sleep(Duration::from_millis(*left)).await;
        self.sum = self.sum * 10 + *left;
        self.mark.hop();
        Ok(match *left {
            0 => LooselyAfterStep::Last,
            left => LooselyAfterStep::Step { left: left - 1 },
        })
    }
    fn last(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.step(cx, "Last")
    }
}

fn steps(n: u64) -> u64 {
    mixed(n) % 9
}

impl Story for Loose {
    const LETTER: char = 'z';
    fn make(n: u64) -> Self {
        Self {
            mark: Mark::new(n),
            sum: 1,
        }
    }
    marked!(mark);
    fn outcome(&self) -> String {
        format!("loose-{}", self.sum)
    }
    fn due(n: u64) -> String {
        let sum = (0..=steps(n)).rev().fold(1, |sum, left| sum * 10 + left);
        format!("loose-{sum}")
    }
}
