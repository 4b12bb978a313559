//! An operation that goes back the way it came when it is cancelled.

use std::{future::pending, time::Duration};

use fom_durable::prelude::*;
use fom_runtime::Cause;
use serde::{Deserialize, Serialize};

use super::{Mark, Story, mixed};

/// Buys something. Half of them wait until they are cancelled.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Buy {
    mark: Mark,
    /// The number of ways back that were taken.
    back: u32,
}

/// Returns whether the user cancels the operation with this number.
pub(crate) fn is_cancelled(n: u64) -> bool {
    mixed(n).is_multiple_of(2)
}

#[fom(operation(Buy))]
pub(crate) enum Buying {
    #[phase(start, sync, to(Pack))]
    Begin,
    #[phase(to(Last), failed(Back), cancelled)]
    Pack,
    /// Further cancels change nothing here.
    #[phase(to(Last))]
    Back,
    #[phase(sync, to(Done))]
    Last,
    #[phase(end)]
    Done,
}

impl BuyingTransitions for Buy {
    fn begin(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.step(cx, "Begin")
    }
    async fn pack(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.effect(cx, "Pack");
        if is_cancelled(self.mark.n) {
            pending::<()>().await;
        }
        self.mark.hop();
        Ok(())
    }
    async fn pack_failed(
        &mut self,
        _: &mut Cx<'_>,
        cause: Cause<BoxError>,
    ) -> Result<(), BoxError> {
        match cause {
            Cause::Cancelled => self.back += 1,
            other => return Err(format!("it failed: {other}").into()),
        }
        self.mark.hop();
        Ok(())
    }
    async fn back(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.effect(cx, "Back");
        cx.sleep(Duration::from_micros(mixed(self.mark.n) % 4_000))
            .await;
        self.mark.hop();
        Ok(())
    }
    fn last(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.step(cx, "Last")
    }
}

impl Story for Buy {
    const LETTER: char = 'b';
    fn make(n: u64) -> Self {
        Self {
            mark: Mark::new(n),
            back: 0,
        }
    }
    marked!(mark);
    fn outcome(&self) -> String {
        format!("back-{}", self.back)
    }
    fn due(n: u64) -> String {
        format!("back-{}", u32::from(is_cancelled(n)))
    }
}
