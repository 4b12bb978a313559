//! The recipe of the book for a child that is not started twice: its operation id is the step key of the phase that starts
//! it, with the number of the attempt.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fom_durable::{QuarantineKind, journal::MemoryJournal, prelude::*};
use fom_runtime::time::TestClock;
use serde::{Deserialize, Serialize};

use crate::kit::{limited, one};

/// Counts the runs of children.
#[derive(Clone, Default)]
struct Runs(Arc<AtomicUsize>);

#[derive(Serialize, Deserialize)]
struct Charge {
    cents: u32,
}

#[derive(Serialize, Deserialize)]
enum Answer {
    Yes,
    No,
}

#[fom(operation(Charge), event(Answer), failed = "forget")]
enum Charging {
    #[phase(start, to(Wait))]
    Ask,
    #[phase(sync, to(Paid), on(Yes, No))]
    Wait,
    #[phase(end)]
    Paid,
}

impl ChargingTransitions for Charge {
    async fn ask(&mut self, cx: &mut Cx<'_, Answer>) -> Result<(), BoxError> {
        cx.resource::<Runs>().0.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn wait(
        &mut self,
        _: &mut Cx<'_, Answer>,
        answer: Answer,
    ) -> Result<ChargingAfterWait, BoxError> {
        match answer {
            Answer::Yes => Ok(ChargingAfterWait::Paid),
            Answer::No => Err("the card was declined".into()),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Purchase {
    cents: u32,
}

#[fom(operation(Purchase))]
enum Buying {
    #[phase(start, to(Done), retry = "2, 1ms..1ms")]
    Charge,
    #[phase(end)]
    Done,
}

impl BuyingTransitions for Purchase {
    async fn charge(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let id = (cx.step_key().to_string(), cx.attempt());
        let charge = Charge { cents: self.cents };
        cx.submit(charge).once(id).await?;
        Ok(())
    }
}

struct Bench {
    journal: MemoryJournal,
    clock: TestClock,
    runs: Runs,
}

impl Bench {
    fn open(&self) -> Runtime {
        let builder = one(&self.clock).resource(self.runs.clone());
        builder.journal_with(self.journal.clone()).build().unwrap()
    }

    fn runs(&self) -> usize {
        self.runs.0.load(Ordering::SeqCst)
    }
}

/// Answers the one child that waits.
async fn answer(runtime: &Runtime, answer: Answer) {
    runtime.quiet().await;
    let foms = runtime.operations().foms;
    let child = foms.iter().find(|fom| fom.operation == "Charge").unwrap();
    let sent = runtime.send_durably::<Charge>(child.id, answer, "answer");
    sent.await.unwrap();
    runtime.quiet().await;
}

/// Each attempt of the parent has a child of its own. After a restart in the middle of an attempt, the parent finds the
/// child of that attempt, and starts no other.
#[test]
fn each_attempt_has_one_child() {
    limited(async || {
        let mut bench = Bench {
            journal: MemoryJournal::new(),
            clock: TestClock::new(),
            runs: Runs::default(),
        };
        let runtime = bench.open();
        drop(
            runtime
                .submit(Purchase { cents: 5 })
                .once("o")
                .start()
                .unwrap(),
        );
        answer(&runtime, Answer::No).await;
        assert_eq!(bench.runs(), 1);
        // The pause before the next attempt.
        bench.clock.advance(Duration::from_millis(1));
        runtime.quiet().await;
        assert_eq!(bench.runs(), 2, "the second attempt has its own child");
        // A crash while the second child runs.
        let journal = bench.journal.fork();
        drop(runtime);
        bench.journal = journal;
        let runtime = bench.open();
        runtime.quiet().await;
        assert_eq!(bench.runs(), 2, "the child of this attempt is there");
        answer(&runtime, Answer::Yes).await;
        runtime.idle().await;
        let again = runtime.submit(Purchase { cents: 5 }).once("o");
        assert!(again.await.is_ok());
        assert_eq!(bench.runs(), 2);
        assert_eq!(runtime.quarantine().count(QuarantineKind::Failed), 0);
    });
}
