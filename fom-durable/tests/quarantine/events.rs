//! Events for an operation that failed: they wait for it, and are taken once.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use fom_durable::{journal::MemoryJournal, prelude::*};
use fom_runtime::{
    snapshot::{QuarantineKind, RestoreError},
    time::TestClock,
};
use serde::{Deserialize, Serialize};

use crate::{
    kit::{limited, one},
    order::{one_failed, retried},
};

/// A shelf. It cannot take thirteen of anything until the bug is fixed.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Stock {
    goods: Vec<u32>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Goods {
    Put(u32),
    Close,
}

#[derive(Clone, Default)]
struct Fixed(Arc<AtomicBool>);

#[fom(operation(Stock), event(Goods))]
pub(crate) enum Stocking {
    #[phase(start, sync, to(Closed), on(Put, Close))]
    Open,
    #[phase(end)]
    Closed,
}

impl StockingTransitions for Stock {
    fn open(
        &mut self,
        cx: &mut Cx<'_, Goods>,
        goods: Goods,
    ) -> Result<StockingAfterOpen, BoxError> {
        match goods {
            Goods::Put(13) if !cx.resource::<Fixed>().0.load(Ordering::SeqCst) => {
                Err("thirteen".into())
            }
            Goods::Put(number) => {
                self.goods.push(number);
                Ok(StockingAfterOpen::Stay)
            }
            Goods::Close => Ok(StockingAfterOpen::Closed),
        }
    }
}

/// Sends goods to the shelf.
#[derive(Serialize, Deserialize)]
pub(crate) struct Deliver(pub(crate) Vec<u32>);

#[fom(operation(Deliver))]
pub(crate) enum Delivering {
    #[phase(start, sync, to(Sent))]
    Send,
    #[phase(end)]
    Sent,
}

impl DeliveringTransitions for Deliver {
    fn send(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        for number in &self.0 {
            cx.outbox().send::<Stock>("shelf", Goods::Put(*number))?;
        }
        Ok(())
    }
}

pub(crate) struct Depot {
    journal: MemoryJournal,
    fixed: Fixed,
}

impl Depot {
    fn open(&self) -> Runtime {
        let builder = one(&TestClock::new()).resource(self.fixed.clone());
        builder.journal_with(self.journal.clone()).build().unwrap()
    }

    /// Makes a shelf that fails at its second event, with a third one behind it.
    pub(crate) async fn fails() -> (Self, Runtime, fom_runtime::FomId) {
        let depot = Self {
            journal: MemoryJournal::new(),
            fixed: Fixed::default(),
        };
        let runtime = depot.open();
        let shelf = runtime.submit(Stock::default()).key("shelf");
        let shelf = shelf.once("first").start().unwrap();
        let id = shelf.id();
        runtime.quiet().await;
        runtime.submit(Deliver(vec![1, 13, 2])).await.unwrap();
        shelf.await.err().unwrap();
        runtime.quiet().await;
        (depot, runtime, id)
    }

    fn fix(&self) {
        self.fixed.0.store(true, Ordering::SeqCst);
    }
}

/// Closes the first shelf, and returns its goods. Nothing is in quarantine.
async fn goods(runtime: &Runtime) -> Vec<u32> {
    let shelf = runtime.find::<Stock>("shelf").unwrap();
    let left = runtime.quarantine().list();
    assert!(left.is_empty(), "{left:?}");
    shelf.send(Goods::Close).unwrap();
    let again = runtime.submit(Stock::default()).once("first");
    again.await.unwrap().operation.goods
}

/// The event that made it fail, and the one behind that, wait in quarantine. The retry takes both, in their order.
#[test]
fn events_wait_for_the_retry() {
    limited(|| async {
        let (depot, runtime, id) = Depot::fails().await;
        assert_eq!(one_failed(&runtime).id, id);
        let events = runtime.quarantine().list_of(QuarantineKind::NoReceiver);
        assert_eq!(events.len(), 2, "{events:?}");
        for event in &events {
            assert_eq!(event.reason, RestoreError::ReceiverQuarantined(id));
        }
        depot.fix();
        retried(&runtime, id).await;
        assert_eq!(goods(&runtime).await, [1, 13, 2]);
    });
}

/// The same after a kill.
#[test]
fn events_wait_over_a_restart() {
    limited(|| async {
        let (mut depot, runtime, id) = Depot::fails().await;
        depot.journal = depot.journal.fork();
        drop(runtime);
        let runtime = depot.open();
        assert_eq!(one_failed(&runtime).id, id);
        assert_eq!(runtime.quarantine().count(QuarantineKind::NoReceiver), 2);
        depot.fix();
        retried(&runtime, id).await;
        assert_eq!(goods(&runtime).await, [1, 13, 2]);
    });
}

/// An event that is sent while the operation is in quarantine waits behind the others. A new fom with the key takes
/// later events.
#[test]
fn later_events_wait_unless_a_fom_has_the_key() {
    limited(|| async {
        let (depot, runtime, id) = Depot::fails().await;
        runtime.submit(Deliver(vec![3])).await.unwrap();
        runtime.quiet().await;
        assert_eq!(runtime.quarantine().count(QuarantineKind::NoReceiver), 3);

        let second = runtime
            .submit(Stock::default())
            .key("shelf")
            .start()
            .unwrap();
        runtime.quiet().await;
        runtime.submit(Deliver(vec![4])).await.unwrap();
        runtime.quiet().await;
        second.send(Goods::Close).unwrap();
        assert_eq!(second.await.unwrap().operation.goods, [4]);

        depot.fix();
        retried(&runtime, id).await;
        assert_eq!(goods(&runtime).await, [1, 13, 2, 3]);
    });
}

/// When the operation is discarded, its events stay until they are tried again or discarded.
#[test]
fn events_of_a_discarded_operation_stay() {
    limited(|| async {
        let (_depot, runtime, id) = Depot::fails().await;
        runtime.quarantine().discard(id).await.unwrap();
        let events = runtime.quarantine().list_of(QuarantineKind::NoReceiver);
        assert_eq!(events.len(), 2);
        let key = "shelf".into();
        let operation = "Stock".to_owned();
        let reason = RestoreError::NoReceiver { operation, key };
        assert!(events.iter().all(|event| event.reason == reason));
        let second = runtime
            .submit(Stock::default())
            .key("shelf")
            .start()
            .unwrap();
        runtime.quiet().await;
        for event in events.iter().rev() {
            if event.id != events[0].id {
                runtime.quarantine().retry(event.id).unwrap();
            }
        }
        runtime.quiet().await;
        runtime.quarantine().discard(events[0].id).await.unwrap();
        second.send(Goods::Close).unwrap();
        assert_eq!(second.await.unwrap().operation.goods, [2]);
    });
}
