//! Operations of the tests: errands, and a counter that they send letters to.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use fom_cluster::{Cluster, ClusterBuilder, ClusterCxExt as _, Started};
use fom_durable::prelude::*;
use fom_protocol::sync::block_on;
use serde::{Deserialize, Serialize};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Which errands have ended, and which operations have failed.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn push(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
    }

    pub(crate) fn count(&self, text: &str) -> usize {
        let log = self.0.lock().unwrap();
        log.iter().filter(|line| line.starts_with(text)).count()
    }
}

/// Waits, and sends a letter to a counter.
#[derive(Serialize, Deserialize)]
pub(crate) struct Errand {
    pub(crate) number: u32,
    pub(crate) seconds: u32,
}

#[fom(operation(Errand))]
pub(crate) enum Running {
    #[phase(start, to(Tell))]
    Wait,
    #[phase(sync, to(Done))]
    Tell,
    #[phase(end)]
    Done,
}

impl RunningTransitions for Errand {
    async fn wait(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.sleep(SECOND * self.seconds).await;
        Ok(())
    }

    fn tell(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.resource::<Log>().push(format!("errand {}", self.number));
        let counted = Counted::Errand {
            number: self.number,
        };
        cx.letters().send::<Counter>("counter", counted)?;
        Ok(())
    }
}

/// Counts errands.
#[derive(Serialize, Deserialize)]
pub(crate) struct Counter {
    pub(crate) expects: usize,
    pub(crate) numbers: Vec<u32>,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum Counted {
    Errand { number: u32 },
}

#[fom(operation(Counter), event(Counted))]
pub(crate) enum Counting {
    #[phase(start, sync, on(Errand), to(Count, Full))]
    Count,
    #[phase(end)]
    Full,
}

impl CountingTransitions for Counter {
    fn count(
        &mut self,
        _: &mut Cx<'_, Counted>,
        event: Counted,
    ) -> Result<CountingAfterCount, BoxError> {
        let Counted::Errand { number } = event;
        self.numbers.push(number);
        Ok(match self.numbers.len() < self.expects {
            true => CountingAfterCount::Count,
            false => CountingAfterCount::Full,
        })
    }
}

pub(crate) fn errands(builder: ClusterBuilder) -> ClusterBuilder {
    builder.operation::<Errand>().operation::<Counter>()
}

/// Starts errands of this length, and a counter for all of them. Returns the errands when all are in journals.
pub(crate) fn start_errands(node: &Cluster, count: u32, seconds: u32) -> Vec<Started<Errand>> {
    let counter = Counter {
        expects: count as usize,
        numbers: Vec::new(),
    };
    drop(block_on(node.submit(counter).key("counter").once("one").start()).unwrap());
    let start = |number| {
        let errand = Errand { number, seconds };
        let submission = node.submit(errand).key(format!("errand {number}"));
        block_on(submission.start()).unwrap()
    };
    (0..count).map(start).collect()
}

/// Waits until the counter is full. Returns the numbers, in ascending order.
pub(crate) async fn counted(node: &Cluster) -> Vec<u32> {
    let place = fom_cluster::Place::key("counter").with_once("one");
    let ended = node.outcome::<Counter>(place).await.unwrap().unwrap();
    let mut numbers = ended.operation.numbers;
    numbers.sort_unstable();
    numbers
}
