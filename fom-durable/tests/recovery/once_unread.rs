//! A remembered outcome that cannot be read, after a rollback for example.

use std::sync::atomic::{AtomicBool, Ordering};

use fom_durable::{journal::MemoryJournal, prelude::*};
use serde::{Deserialize, Deserializer, Serialize, de::Error};

/// Whether the running release can read what is saved.
static READS: AtomicBool = AtomicBool::new(true);

fn cents<'de, D: Deserializer<'de>>(saved: D) -> Result<u64, D::Error> {
    let cents = u64::deserialize(saved)?;
    match READS.load(Ordering::Acquire) {
        true => Ok(cents),
        false => Err(D::Error::custom("money is something else in this release")),
    }
}

#[derive(Serialize, Deserialize)]
struct Pay {
    #[serde(deserialize_with = "cents")]
    cents: u64,
}

#[fom(operation(Pay))]
enum Paying {
    #[phase(start, sync, to(Paid))]
    Book,
    #[phase(end)]
    Paid,
}

impl PayingTransitions for Pay {
    fn book(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// A caller that submits again is told that the end cannot be read, not that the payment failed: the payment was made.
/// A release that can read the end returns it.
#[tokio::test]
async fn an_end_that_cannot_be_read_is_no_failure_of_the_operation() {
    let journal = MemoryJournal::new();
    let build = |journal: MemoryJournal| Runtime::builder().localities(1).journal_with(journal);
    let pay = || Pay { cents: 7 };

    let runtime = build(journal.clone()).build().unwrap();
    assert!(runtime.submit(pay()).once("order 7").await.is_ok());
    drop(runtime);

    READS.store(false, Ordering::Release);
    let older = build(journal.fork()).build().unwrap();
    let failure = older.submit(pay()).once("order 7").await.unwrap_err();
    assert!(
        matches!(&failure.cause, Cause::Unread { why } if why.contains("something else")),
        "{:?}",
        failure.cause
    );
    assert_eq!(failure.cause.name(), "unread");
    drop(older);

    READS.store(true, Ordering::Release);
    let newer = build(journal.fork()).build().unwrap();
    let ended = newer.submit(pay()).once("order 7").await.unwrap();
    assert_eq!(ended.operation.cents, 7);
}
