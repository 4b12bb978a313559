//! The operation of these tests: an order that is checked, charged and shipped. A provider charges it, and answers as a
//! test tells it to.

use std::sync::{Arc, Mutex};

use fom_durable::{journal::MemoryJournal, prelude::*};
use fom_runtime::{
    Builder, FomId,
    snapshot::{QuarantineKind, Quarantined},
    time::TestClock,
};
use serde::{Deserialize, Serialize};

use crate::kit::one;

/// How the provider answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Charged,
    Declined,
    Panic,
    Never,
}

/// The provider, and what it was asked.
#[derive(Clone)]
pub(crate) struct Provider {
    answer: Arc<Mutex<Answer>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Provider {
    pub(crate) fn that(answer: Answer) -> Self {
        Self {
            answer: Arc::new(Mutex::new(answer)),
            asked: Arc::default(),
        }
    }

    pub(crate) fn answers(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    pub(crate) fn answer(&self) -> Answer {
        *self.answer.lock().unwrap()
    }

    /// Returns the step keys with which it was asked.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    async fn charge(&self, key: String) -> Result<(), BoxError> {
        self.asked.lock().unwrap().push(key);
        match self.answer() {
            Answer::Charged => Ok(()),
            Answer::Declined => Err("the card was declined".into()),
            Answer::Panic => panic!("no such currency"),
            Answer::Never => std::future::pending().await,
        }
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) cents: u32,
    /// The number of calls of `charge`.
    pub(crate) calls: u32,
}

pub(crate) fn order(cents: u32) -> Order {
    Order { cents, calls: 0 }
}

#[fom(operation(Order))]
#[derive(Debug)]
pub(crate) enum Selling {
    #[phase(start, sync, to(Charge, Refused))]
    Check,
    #[phase(to(Ship), within = "60s", retry = "2, 1s..1s")]
    Charge,
    #[phase(sync, to(Done))]
    Ship,
    #[phase(end)]
    Done,
    #[phase(end, failure)]
    Refused,
}

impl SellingTransitions for Order {
    fn check(&mut self, _: &mut Cx<'_>) -> Result<SellingAfterCheck, BoxError> {
        match self.cents {
            0 => Ok(SellingAfterCheck::Refused),
            _ => Ok(SellingAfterCheck::Charge),
        }
    }

    async fn charge(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.calls += 1;
        let provider = cx.resource::<Provider>().clone();
        let key = cx.step_key().to_string();
        provider.charge(key).await
    }

    fn ship(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// What outlives the restarts of a test.
pub(crate) struct Shop {
    pub(crate) clock: TestClock,
    pub(crate) journal: MemoryJournal,
    pub(crate) provider: Provider,
}

impl Shop {
    pub(crate) fn that(answer: Answer) -> Self {
        Self {
            clock: TestClock::new(),
            journal: MemoryJournal::new(),
            provider: Provider::that(answer),
        }
    }

    pub(crate) fn builder(&self) -> Builder {
        let builder = one(&self.clock).resource(self.provider.clone());
        builder.journal_with(self.journal.clone())
    }

    pub(crate) fn open(&self) -> Runtime {
        self.builder().build().expect("the journal is sound")
    }

    /// Ends the process, as a kill does, and opens the shop again.
    pub(crate) fn reopen(&mut self, runtime: Runtime) -> Runtime {
        self.journal = self.journal.fork();
        drop(runtime);
        self.open()
    }

    /// Lets all attempts pass.
    pub(crate) async fn wait(&self, runtime: &Runtime) {
        for _ in 0..4 {
            runtime.quiet().await;
            self.clock.advance(crate::kit::secs(1));
        }
        runtime.quiet().await;
    }
}

/// Returns the failed operations.
pub(crate) fn failed(runtime: &Runtime) -> Vec<Quarantined> {
    runtime.quarantine().list_of(QuarantineKind::Failed)
}

/// Returns the only failed operation.
pub(crate) fn one_failed(runtime: &Runtime) -> Quarantined {
    let mut failed = failed(runtime);
    assert_eq!(failed.len(), 1, "{failed:?}");
    failed.remove(0)
}

/// Tries a fom again, and waits for its end.
pub(crate) async fn retried(runtime: &Runtime, id: FomId) {
    runtime.quarantine().retry(id).unwrap();
    runtime.quiet().await;
}
