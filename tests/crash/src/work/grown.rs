//! An operation that some releases of the child cannot read. Those releases quarantine it.

use std::sync::atomic::{AtomicBool, Ordering};

use fom_runtime::prelude::*;
use serde::{Deserialize, Deserializer, Serialize, de::Error};

use super::{Mark, Story};

/// Whether this release can read what a newer one wrote.
static READS_NEWER: AtomicBool = AtomicBool::new(true);

/// Sets whether this release can read it.
pub(crate) fn read_newer(can: bool) {
    READS_NEWER.store(can, Ordering::Relaxed);
}

/// Known to newer releases only.
#[derive(Debug, Serialize)]
struct Newer(u64);

impl<'de> Deserialize<'de> for Newer {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let newer = u64::deserialize(from)?;
        match READS_NEWER.load(Ordering::Relaxed) {
            true => Ok(Self(newer)),
            false => Err(D::Error::custom("it is of a newer release")),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Grown {
    mark: Mark,
    newer: Newer,
}

#[fom(operation(Grown))]
pub(crate) enum Growing {
    #[phase(start, to(Middle))]
    Begin,
    #[phase(sync, to(Last))]
    Middle,
    #[phase(sync, to(Done))]
    Last,
    #[phase(end)]
    Done,
}

impl GrowingTransitions for Grown {
    async fn begin(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.effect(cx, "Begin");
        cx.sleep(std::time::Duration::from_millis(3)).await;
        self.newer.0 += 1;
        self.mark.hop();
        Ok(())
    }
    fn middle(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.effect(cx, "Middle");
        self.newer.0 += 1;
        self.mark.hop();
        Ok(())
    }
    fn last(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.step(cx, "Last")
    }
}

impl Story for Grown {
    const LETTER: char = 'g';
    fn make(n: u64) -> Self {
        Self {
            mark: Mark::new(n),
            newer: Newer(0),
        }
    }
    marked!(mark);
    fn outcome(&self) -> String {
        format!("grown-{}", self.newer.0)
    }
    fn due(_: u64) -> String {
        "grown-2".to_owned()
    }
}
