//! Operations that end by a deadline, or because their attempts are used up.

use std::time::Duration;

use fom_runtime::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Mark, Story};
use crate::history::History;

/// How long [`Late`] waits, as its attribute says.
pub(crate) const WITHIN: Duration = Duration::from_millis(40);

/// Waits for an event that never comes.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Late {
    mark: Mark,
    lates: u32,
}

#[fom(operation(Late))]
pub(crate) enum Waiting {
    #[phase(start, sync, to(Wait))]
    Begin,
    #[phase(to(Last), within = "40ms", late)]
    Wait,
    #[phase(sync, to(Done))]
    Last,
    #[phase(end)]
    Done,
}

impl WaitingTransitions for Late {
    fn begin(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.step(cx, "Begin")
    }
    async fn wait(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let history = cx.resource::<History>();
        history.line(format_args!("W {}", self.mark.n));
        self.mark.effect(cx, "Wait");
        std::future::pending().await
    }
    async fn wait_late(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let history = cx.resource::<History>();
        history.line(format_args!("D {}", self.mark.n));
        self.mark.effect(cx, "Wait");
        self.lates += 1;
        self.mark.hop();
        Ok(())
    }
    fn last(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.step(cx, "Last")
    }
}

impl Story for Late {
    const LETTER: char = 'd';
    fn make(n: u64) -> Self {
        Self {
            mark: Mark::new(n),
            lates: 0,
        }
    }
    marked!(mark);
    fn outcome(&self) -> String {
        format!("late-{}", self.lates)
    }
    fn due(_: u64) -> String {
        "late-1".to_owned()
    }
}

/// Fails in all its attempts, and keeps the error of each.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Die {
    mark: Mark,
    said: Vec<String>,
}

#[fom(operation(Die))]
pub(crate) enum Dying {
    #[phase(start, to(Last), retry = "3, 1ms..3ms", exhausted)]
    Begin,
    #[phase(sync, to(Done))]
    Last,
    #[phase(end)]
    Done,
}

impl DyingTransitions for Die {
    async fn begin(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.effect(cx, "Begin");
        Err(format!("at{}", cx.attempt()).into())
    }
    async fn begin_exhausted(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.said = cx.causes();
        self.mark.hop();
        Ok(())
    }
    fn last(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.step(cx, "Last")
    }
}

impl Story for Die {
    const LETTER: char = 'x';
    fn make(n: u64) -> Self {
        Self {
            mark: Mark::new(n),
            said: Vec::new(),
        }
    }
    marked!(mark);
    fn outcome(&self) -> String {
        format!("died-{}", self.said.join(","))
    }
    fn due(_: u64) -> String {
        "died-at0,at1,at2,at3".to_owned()
    }
}

/// Fails for good.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Fail {
    mark: Mark,
}

#[fom(operation(Fail))]
pub(crate) enum Failing {
    #[phase(start, sync, to(Last))]
    Begin,
    #[phase(sync, to(Done), retry = "1, 1ms..2ms")]
    Last,
    #[phase(end)]
    Done,
}

impl FailingTransitions for Fail {
    fn begin(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.step(cx, "Begin")
    }
    fn last(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.effect(cx, "Last");
        Err("never".into())
    }
}

impl Story for Fail {
    const LETTER: char = 'f';
    fn make(n: u64) -> Self {
        Self { mark: Mark::new(n) }
    }
    marked!(mark);
    fn outcome(&self) -> String {
        "failed".to_owned()
    }
    fn due(_: u64) -> String {
        "failed".to_owned()
    }
}
