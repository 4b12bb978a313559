//! `committed` says when an operation is on disk, and why it is not.

use std::future::pending;

use fom_durable::{NotCommitted, prelude::*};
use fom_runtime::time::TestClock;
use serde::{Deserialize, Serialize};

use crate::kit::{held::Held, limited, one, poll_once, secs};

#[derive(Serialize, Deserialize)]
struct Order;

#[fom(operation(Order))]
enum Delivery {
    #[phase(start, to(Sent))]
    Pack,
    #[phase(end)]
    Sent,
}

impl DeliveryTransitions for Order {
    async fn pack(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        pending().await
    }
}

#[derive(Serialize, Deserialize)]
struct Tally;

#[fom(operation(Tally), durability = "lazy")]
enum Tallying {
    #[phase(start, to(Done))]
    Add,
    #[phase(end)]
    Done,
}

impl TallyingTransitions for Tally {
    async fn add(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        pending().await
    }
}

fn runtime(journal: &Held) -> Runtime {
    let builder = one(&TestClock::new());
    builder.journal_with(journal.clone()).build().unwrap()
}

/// Returns how many foms come back from what the journal has now.
fn on_disk(journal: &Held) -> usize {
    let builder = one(&TestClock::new());
    let again = builder.journal_with(journal.journal.fork()).build();
    again.unwrap().in_flight()
}

/// The wait returns when the operation is on disk, and not before.
async fn returns_when_on_disk(
    journal: &Held,
    committed: impl Future<Output = Result<(), NotCommitted>>,
) {
    let mut committed = Box::pin(committed);
    assert!(poll_once(committed.as_mut()).await.is_pending());
    journal.wait_for_asked(1);
    assert!(poll_once(committed.as_mut()).await.is_pending());
    assert_eq!(on_disk(journal), 0);
    journal.hold_commits(false);
    committed.await.unwrap();
    assert_eq!(on_disk(journal), 1);
}

/// The wait lasts until the first transition is on disk. A later call returns at once.
#[test]
fn it_returns_when_the_operation_is_on_disk() {
    limited(|| async {
        let journal = Held::default();
        let runtime = runtime(&journal);
        journal.hold_commits(true);
        let order = runtime.submit(Order).start().unwrap();
        returns_when_on_disk(&journal, order.committed()).await;
        order.committed().await.unwrap();
    });
}

/// A lazy operation goes on before it is on disk. The wait lasts all the same.
#[test]
fn a_lazy_operation_is_on_disk_when_it_returns() {
    limited(|| async {
        let journal = Held::default();
        let runtime = runtime(&journal);
        journal.hold_commits(true);
        let count = runtime.submit(Tally).start().unwrap();
        count.reached([TallyingKind::Add]).await;
        returns_when_on_disk(&journal, count.committed()).await;
    });
}

/// An operation that waits for its time is on disk when the wait for that returns, and before it begins.
#[test]
fn a_delayed_operation_is_on_disk_before_it_begins() {
    limited(|| async {
        let journal = Held::default();
        let runtime = runtime(&journal);
        journal.hold_commits(true);
        let order = runtime.submit(Order).after(secs(60)).start().unwrap();
        returns_when_on_disk(&journal, order.committed()).await;
        runtime.quiet().await;
        let info = runtime.operation(order.id()).unwrap();
        assert_eq!(info.waiting_for().as_deref(), Some("a timer"));
        // A cancel takes it out of the journal.
        order.cancel();
        assert!(order.await.is_err());
        assert_eq!(on_disk(&journal), 0);
    });
}

/// An operation that is cancelled before it is on disk ends, and the wait says so.
#[test]
fn an_operation_that_ends_before_is_not_committed() {
    limited(|| async {
        let journal = Held::default();
        let runtime = runtime(&journal);
        journal.fail(true);
        let order = runtime.submit(Order).after(secs(60)).start().unwrap();
        let error = order.committed().await.unwrap_err();
        assert!(matches!(error, NotCommitted::Ended), "{error}");
        assert_eq!(order.await.unwrap_err().cause.name(), "journal");
    });
}

/// A journal that fails is an answer, for both kinds of durability.
#[test]
fn a_journal_that_fails_is_named() {
    limited(|| async {
        let journal = Held::default();
        let runtime = runtime(&journal);
        journal.fail(true);
        let order = runtime.submit(Order).start().unwrap();
        let error = order.committed().await.unwrap_err();
        assert!(matches!(error, NotCommitted::Ended), "{error}");
        let count = runtime.submit(Tally).start().unwrap();
        let error = count.committed().await.unwrap_err();
        assert!(matches!(error, NotCommitted::Journal(_)), "{error}");
        journal.fail(false);
        count.committed().await.unwrap();
    });
}

/// Without a journal, nothing is ever on disk.
#[test]
fn what_is_not_kept_is_never_committed() {
    limited(|| async {
        let plain = one(&TestClock::new()).build().unwrap();
        let order = plain.submit(Order).start().unwrap();
        let error = order.committed().await.unwrap_err();
        assert!(matches!(error, NotCommitted::NotKept), "{error}");
    });
}
