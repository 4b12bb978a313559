//! A cancel that is a transition, over a kill.

use fom_durable::{journal::MemoryJournal, prelude::*};
use fom_runtime::{Cause, time::TestClock};
use serde::{Deserialize, Serialize};

use crate::kit::{Gate, held::Held, limited, one};

#[derive(Serialize, Deserialize)]
struct Order;

#[derive(Serialize, Deserialize)]
enum Word {
    Go,
}

#[fom(operation(Order), event(Word))]
enum Selling {
    #[phase(start, sync, on(Go), to(Done), failed(Refund), cancelled)]
    Pack,
    #[phase(sync, on(Go), to(Refunded))]
    Refund,
    #[phase(end)]
    Done,
    #[phase(end)]
    Refunded,
}

impl SellingTransitions for Order {
    fn pack(&mut self, _: &mut Cx<'_, Word>, _: Word) -> Result<SellingAfterPack, BoxError> {
        Ok(SellingAfterPack::Done)
    }

    fn pack_failed(&mut self, _: &mut Cx<'_, Word>, _: Cause<BoxError>) -> Result<(), BoxError> {
        Ok(())
    }

    fn refund(&mut self, _: &mut Cx<'_, Word>, _: Word) -> Result<SellingAfterRefund, BoxError> {
        Ok(SellingAfterRefund::Refunded)
    }
}

fn open(journal: impl fom_durable::journal::Journal + 'static) -> Runtime {
    one(&TestClock::new())
        .journal_with(journal)
        .build()
        .unwrap()
}

/// The transition is committed before it is told. A kill before that loses the cancel, and a kill after it does not. On
/// the way back a cancel does nothing, also in the next process.
#[test]
fn the_way_back_goes_on_after_a_kill() {
    limited(|| async {
        let journal = Held::default();
        let runtime = open(journal.clone());
        let order = runtime.submit(Order).key(7).start().unwrap();
        order.reached([SellingKind::Pack]).await;
        let (done, before) = (journal.done(), journal.journal.fork());
        journal.hold_commits(true);
        order.cancel();
        journal.wait_for_asked(done + 1);
        assert_eq!(phase(&open(journal.journal.fork())).await, "Pack");
        journal.hold_commits(false);
        order.reached([SellingKind::Refund]).await;
        let after = journal.journal.fork();
        drop(runtime);
        assert_eq!(phase(&open(before)).await, "Pack");

        let runtime = open(after);
        let order = runtime.find::<Order>(7).unwrap();
        order.cancel();
        assert_eq!(phase(&runtime).await, "Refund");
        order.send(Word::Go).unwrap();
        order.reached([]).await;
        assert_eq!(runtime.in_flight(), 0);
    });
}

async fn phase(runtime: &Runtime) -> &'static str {
    runtime.quiet().await;
    runtime.operations().foms[0].phase
}

/// A cancel of a fom that is back and has not gone on yet takes the way back of its phase.
#[test]
fn a_cancel_before_it_goes_on_takes_the_way_back() {
    limited(|| async {
        let journal = MemoryJournal::new();
        let runtime = open(journal.clone());
        for key in [1, 2] {
            let order = runtime.submit(Order).key(key).start().unwrap();
            order.reached([SellingKind::Pack]).await;
        }
        let journal = journal.fork();
        drop(runtime);
        let builder = one(&TestClock::new()).resident(1);
        let runtime = builder.journal_with(journal).build().unwrap();
        runtime.quiet().await;
        let gate = Gate::close(&runtime, 0);
        let orders = [1, 2].map(|key| runtime.find::<Order>(key).unwrap());
        for order in &orders {
            order.cancel();
        }
        gate.open();
        for order in orders {
            assert_eq!(
                order.reached([SellingKind::Refund]).await,
                Reached::Phase(SellingKind::Refund)
            );
        }
    });
}

/// What `abort` drops is gone from the journal.
#[test]
fn what_is_aborted_does_not_come_back() {
    limited(|| async {
        let journal = MemoryJournal::new();
        let runtime = open(journal.clone());
        let order = runtime.submit(Order).start().unwrap();
        order.reached([SellingKind::Pack]).await;
        order.cancel();
        order.reached([SellingKind::Refund]).await;
        order.abort();
        assert!(matches!(order.await.unwrap_err().cause, Cause::Cancelled));
        assert_eq!(open(journal.fork()).in_flight(), 0);
    });
}
