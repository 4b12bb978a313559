//! An operation that goes back the way it came when it is cancelled, or fails.

use std::{future::pending, time::Duration};

use fom_durable::prelude::*;
use fom_runtime::Cause;
use serde::{Deserialize, Serialize};

use super::{Mark, Story, mixed};

/// Buys something. Half of them wait until they are cancelled. A quarter of them fail.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Buy {
    mark: Mark,
    /// The number of ways back that were taken.
    back: u32,
}

/// What the operation with this number does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It waits until the user cancels it.
    Waits,
    /// It fails. The user cancels it on its way back.
    Fails,
    /// It succeeds.
    Goes,
}

fn fate(n: u64) -> Fate {
    match mixed(n) % 4 {
        0 | 2 => Fate::Waits,
        1 => Fate::Fails,
        _ => Fate::Goes,
    }
}

/// Returns whether the user cancels the operation with this number.
pub(crate) fn is_cancelled(n: u64) -> bool {
    fate(n) != Fate::Goes
}

#[fom(operation(Buy))]
pub(crate) enum Buying {
    #[phase(start, sync, to(Pack))]
    Begin,
    #[phase(to(Last), failed(Back), cancelled)]
    Pack,
    /// A cancel changes nothing here.
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
        match fate(self.mark.n) {
            Fate::Waits => pending::<()>().await,
            Fate::Fails => return Err("sold out".into()),
            Fate::Goes => {}
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
            Cause::Error(_) if fate(self.mark.n) == Fate::Fails => self.back += 1,
            other => return Err(format!("it failed: {other}").into()),
        }
        self.mark.hop();
        Ok(())
    }
    async fn back(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.effect(cx, "Back");
        // Long enough for a cancel.
        let most = match fate(self.mark.n) {
            Fate::Fails => 40_000,
            _ => 4_000,
        };
        cx.sleep(Duration::from_micros(mixed(self.mark.n) % most))
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
