//! Operations that wait for a key, and senders in several localities that post them at the same time.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use fom_durable::prelude::*;
use fom_runtime::{Key, submission::Placement};
use serde::{Deserialize, Serialize};

use super::{Mark, Queued, Story, child_of};

/// The distance between the numbers of two senders.
pub(crate) const NEXT: u64 = 2;

/// How long a locality is held. Another locality commits meanwhile.
const HELD: Duration = Duration::from_millis(6);

/// Localities that are held after a step of theirs is committed, before they know of the commit. So the foms that
/// others send with the same commit come first.
#[derive(Clone, Default)]
pub(crate) struct Holds {
    runtime: Arc<OnceLock<Runtime>>,
    wanted: Arc<Mutex<Vec<usize>>>,
    /// The posted operations of these localities that have not begun.
    posted: Arc<Mutex<BTreeSet<u64>>>,
}

impl Holds {
    pub(crate) fn begin(&self, runtime: &Runtime) {
        // Succeeds once per process.
        let _ = self.runtime.set(runtime.clone());
    }

    /// Notes that operation `n` begins.
    pub(crate) fn begins(&self, n: u64) {
        if let Ok(mut posted) = self.posted.lock() {
            posted.remove(&n);
        }
    }

    /// Returns whether the operation before `n` begins after it.
    pub(crate) fn is_overtaken_by(&self, n: u64) -> bool {
        let posted = self.posted.lock();
        posted.is_ok_and(|posted| posted.contains(&(n - NEXT)))
    }

    fn want(&self, locality: usize, n: u64) {
        if let Ok(mut posted) = self.posted.lock() {
            posted.insert(n);
        }
        if let Ok(mut wanted) = self.wanted.lock() {
            wanted.push(locality);
        }
    }

    /// Returns the localities to hold after the commit that begins now.
    pub(crate) fn take(&self) -> Vec<usize> {
        let wanted = self.wanted.lock();
        wanted.map_or_else(|_| Vec::new(), |mut wanted| std::mem::take(&mut *wanted))
    }

    pub(crate) fn hold(&self, localities: Vec<usize>) {
        for locality in localities {
            if let Some(runtime) = self.runtime.get() {
                // No locality is held while the runtime ends.
                let _ = runtime.post(locality, |_| std::thread::sleep(HELD));
            }
        }
    }
}

/// Posts an operation for a key. Both live in any locality.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Feed {
    mark: Mark,
    line: u64,
    /// Whether its locality is held when its step is committed.
    holds: bool,
}

impl Feed {
    pub(crate) fn new(n: u64, line: u64, holds: bool) -> Self {
        let mark = Mark::new(n);
        Self { mark, line, holds }
    }

    /// Returns the key for which it posts.
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
        let n = child_of(self.mark.n);
        let queued = match self.holds {
            true => Queued::make(n),
            false => Queued::slow(n),
        };
        let posting = cx.outbox().submit(queued).key(Self::key(self.line)).queue();
        posting.place(Placement::Locality(here)).post()?;
        if self.holds {
            cx.resource::<Holds>().want(here, n);
        }
        Ok(())
    }
    fn last(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.step(cx, "Last")
    }
}

impl Story for Feed {
    const LETTER: char = 'e';
    fn make(n: u64) -> Self {
        Self::new(n, 0, false)
    }
    marked!(mark);
    fn outcome(&self) -> String {
        "fed".to_owned()
    }
    fn due(_: u64) -> String {
        "fed".to_owned()
    }
}
