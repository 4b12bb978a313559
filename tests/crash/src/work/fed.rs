//! Operations that wait for a key, and senders in several localities that post them at the same time.

use std::time::Duration;

use fom_runtime::{Key, Placement, prelude::*};
use serde::{Deserialize, Serialize};

use super::{Mark, Queued, Story, child_of};

/// How long a sender holds its locality after its step, so that another one is answered before it.
const HELD: Duration = Duration::from_millis(2);

/// Posts one for a key, and lives in any locality, as does what it posts.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Feed {
    mark: Mark,
    line: u64,
    /// Nothing runs in its locality for a while after its step was written down.
    holds: bool,
}

impl Feed {
    pub(crate) fn new(n: u64, line: u64, holds: bool) -> Self {
        let mark = Mark::new(n);
        Self { mark, line, holds }
    }

    /// The key that it posts for.
    pub(crate) fn key(line: u64) -> Key {
        ("feed", line).into()
    }
}

#[fom(operation(Feed))]
pub(crate) enum Feeding {
    #[phase(start, sync, to(Last))]
    Begin,
    #[phase(sync, to(Done))]
    Last,
    #[phase(end)]
    Done,
}

impl FeedingTransitions for Feed {
    fn begin(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.effect(cx, "Begin");
        self.mark.hop();
        let here = cx.locality();
        let queued = Queued::slow(child_of(self.mark.n));
        let posting = cx.outbox().submit(queued).key(Self::key(self.line)).queue();
        posting.place(Placement::Locality(here)).post()?;
        if self.holds {
            cx.runtime().post(here, |_| std::thread::sleep(HELD))?;
        }
        Ok(())
    }
    fn last(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.effect(cx, "Last");
        self.mark.hop();
        Ok(())
    }
}

impl Story for Feed {
    const LETTER: char = 'e';
    fn make(n: u64) -> Self {
        Self::new(n, 0, false)
    }
    fn mark(&self) -> &Mark {
        &self.mark
    }
    fn mark_mut(&mut self) -> &mut Mark {
        &mut self.mark
    }
    fn outcome(&self) -> String {
        "fed".to_owned()
    }
    fn due(_: u64) -> String {
        "fed".to_owned()
    }
}
