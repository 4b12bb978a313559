//! A compensation after a failure, and a phase that a cancel must not drop, over a kill and out of quarantine.

use fom_durable::{Lookup, journal::MemoryJournal, prelude::*};
use fom_runtime::{Cause, snapshot::QuarantineKind, time::TestClock};
use serde::{Deserialize, Serialize};

use crate::kit::{Gate, hush_localities, limited, one};

#[derive(Serialize, Deserialize)]
struct Purchase;

#[derive(Serialize, Deserialize)]
enum Word {
    Go,
    Fail,
}

#[fom(operation(Purchase), event(Word))]
enum Purchasing {
    #[phase(start, sync, on(Go, Fail), to(Ship), failed(Refund), cancelled)]
    Charge,
    #[phase(sync, on(Go), to(Done), cancelled = "later")]
    Ship,
    #[phase(sync, on(Go, Fail), to(Restock))]
    Refund,
    #[phase(sync, on(Go), to(Refunded))]
    Restock,
    #[phase(end)]
    Done,
    #[phase(end)]
    Refunded,
}

fn work(word: Word) -> Result<(), BoxError> {
    match word {
        Word::Go => Ok(()),
        Word::Fail => Err("told to fail".into()),
    }
}

impl PurchasingTransitions for Purchase {
    fn charge(
        &mut self,
        _: &mut Cx<'_, Word>,
        word: Word,
    ) -> Result<PurchasingAfterCharge, BoxError> {
        work(word)?;
        Ok(PurchasingAfterCharge::Ship)
    }

    fn charge_failed(&mut self, _: &mut Cx<'_, Word>, _: Cause<BoxError>) -> Result<(), BoxError> {
        Ok(())
    }

    fn ship(&mut self, _: &mut Cx<'_, Word>, _: Word) -> Result<PurchasingAfterShip, BoxError> {
        Ok(PurchasingAfterShip::Done)
    }

    fn refund(
        &mut self,
        _: &mut Cx<'_, Word>,
        word: Word,
    ) -> Result<PurchasingAfterRefund, BoxError> {
        work(word)?;
        Ok(PurchasingAfterRefund::Restock)
    }

    fn restock(
        &mut self,
        _: &mut Cx<'_, Word>,
        _: Word,
    ) -> Result<PurchasingAfterRestock, BoxError> {
        Ok(PurchasingAfterRestock::Refunded)
    }
}

/// Ends the process, and starts the next one with what is on disk.
fn next_life(runtime: Runtime, journal: &MemoryJournal) -> (Runtime, MemoryJournal) {
    let journal = journal.fork();
    drop(runtime);
    (open(&journal), journal)
}

fn open(journal: &MemoryJournal) -> Runtime {
    let builder = one(&TestClock::new()).journal_with(journal.clone());
    builder.build().unwrap()
}

/// Cancels the operation in this phase, and sends it on.
async fn cancels_in_vain(runtime: &Runtime, phase: PurchasingKind) {
    let order = runtime.find::<Purchase>(7).unwrap();
    order.reached([phase]).await;
    order.cancel();
    runtime.quiet().await;
    assert_eq!(order.reached([phase]).await, Reached::Phase(phase));
}

async fn sends(runtime: &Runtime, word: Word) {
    runtime.find::<Purchase>(7).unwrap().send(word).unwrap();
    runtime.quiet().await;
}

/// The journal says that the fom has turned back.
#[test]
fn a_cancel_drops_no_compensation_after_a_restart() {
    limited(|| async {
        let journal = MemoryJournal::new();
        let runtime = open(&journal);
        let _order = runtime.submit(Purchase).key(7).once(7).start().unwrap();
        sends(&runtime, Word::Fail).await;
        let (runtime, journal) = next_life(runtime, &journal);
        cancels_in_vain(&runtime, PurchasingKind::Refund).await;
        sends(&runtime, Word::Go).await;
        cancels_in_vain(&runtime, PurchasingKind::Restock).await;
        let (runtime, _journal) = next_life(runtime, &journal);
        cancels_in_vain(&runtime, PurchasingKind::Restock).await;
        let order = runtime.find::<Purchase>(7).unwrap();
        order.send(Word::Go).unwrap();
        order.reached([]).await;
        let Lookup::Ended { outcome, .. } = runtime.outcome::<Purchase>(7) else {
            panic!("it has ended");
        };
        assert_eq!(outcome.unwrap().kind(), PurchasingKind::Refunded);
    });
}

/// A cancel of a fom that is back and has not gone on yet.
#[test]
fn a_cancel_before_it_goes_on_drops_nothing() {
    limited(|| async {
        for (word, phase) in [
            (Word::Fail, PurchasingKind::Refund),
            (Word::Go, PurchasingKind::Ship),
        ] {
            let journal = MemoryJournal::new();
            let runtime = open(&journal);
            let _order = runtime.submit(Purchase).key(7).start().unwrap();
            sends(&runtime, word).await;
            // This one takes the room, so that the other one rests.
            let first = runtime.submit(Purchase).key(1).start().unwrap();
            first.reached([PurchasingKind::Charge]).await;
            let journal = journal.fork();
            drop(runtime);
            let builder = one(&TestClock::new()).resident(1);
            let runtime = builder.journal_with(journal).build().unwrap();
            runtime.quiet().await;
            let gate = Gate::close(&runtime, 0);
            let order = runtime.find::<Purchase>(7).unwrap();
            order.cancel();
            gate.open();
            cancels_in_vain(&runtime, phase).await;
            order.abort();
            order.reached([]).await;
            assert!(runtime.find::<Purchase>(7).is_none());
        }
    });
}

/// A compensation that failed is kept, and is a compensation again when it is tried again.
#[test]
fn a_cancel_drops_no_compensation_out_of_quarantine() {
    limited(|| async {
        hush_localities();
        let journal = MemoryJournal::new();
        let runtime = open(&journal);
        let _order = runtime.submit(Purchase).key(7).start().unwrap();
        sends(&runtime, Word::Fail).await;
        sends(&runtime, Word::Fail).await;
        let failed = runtime.quarantine().list_of(QuarantineKind::Failed);
        assert_eq!(failed[0].phase.as_deref(), Some("Refund"));
        let (runtime, _journal) = next_life(runtime, &journal);
        assert_eq!(
            runtime
                .quarantine()
                .retry_failed::<Purchase>()
                .retried
                .len(),
            1
        );
        cancels_in_vain(&runtime, PurchasingKind::Refund).await;
        sends(&runtime, Word::Go).await;
        cancels_in_vain(&runtime, PurchasingKind::Restock).await;
    });
}
