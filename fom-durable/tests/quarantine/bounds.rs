//! The number and the age of failed operations are bounded. What is dropped is counted, and is an incident.

use fom_durable::prelude::*;
use fom_runtime::{Cause, snapshot::QuarantineKind};

use crate::{
    events::{Deliver, Depot},
    kit::{limited, secs},
    order::{Answer, Shop, failed, order},
};

/// The oldest is dropped first, from the journal too.
#[test]
fn the_oldest_is_dropped() {
    limited(|| async {
        let mut shop = Shop::that(Answer::Declined);
        let build = |shop: &Shop| shop.builder().keep_failed(2, secs(3600)).build().unwrap();
        let runtime = build(&shop);
        let mut ids = Vec::new();
        for cents in 1..=4 {
            ids.push(runtime.submit(order(cents)).start().unwrap().id());
            shop.wait(&runtime).await;
        }
        let kept = |runtime: &Runtime| {
            let failed = failed(runtime).into_iter();
            failed.map(|entry| entry.id).collect::<Vec<_>>()
        };
        assert_eq!(kept(&runtime), ids[2..]);
        assert_eq!(runtime.quarantine().dropped(QuarantineKind::Failed), 2);
        assert_eq!(runtime.quarantine().dropped(QuarantineKind::NoReceiver), 0);
        let incidents = runtime.operations().incidents;
        assert_eq!(incidents.len(), 2, "{incidents:?}");
        assert!(incidents[0].text.contains("was dropped"), "{incidents:?}");
        // The deletes are committed with the next batch.
        runtime.submit(order(0)).await.unwrap();
        shop.journal = shop.journal.fork();
        drop(runtime);
        assert_eq!(kept(&shop.open()), ids[2..]);
    });
}

/// The answer for the operation id outlives the entry: it is remembered as that of an operation that is not kept.
#[test]
fn the_answer_of_a_dropped_one_is_remembered() {
    limited(|| async {
        let mut shop = Shop::that(Answer::Declined);
        let build = |shop: &Shop| shop.builder().keep_failed(1, secs(3600)).build().unwrap();
        let runtime = build(&shop);
        drop(runtime.submit(order(1)).once("pay 1").start().unwrap());
        shop.wait(&runtime).await;
        drop(runtime.submit(order(2)).start().unwrap());
        shop.wait(&runtime).await;
        assert_eq!(runtime.quarantine().dropped(QuarantineKind::Failed), 1);
        let asked = shop.provider.asked().len();
        let again = runtime.submit(order(1)).once("pay 1").await.unwrap_err();
        assert!(matches!(again.cause, Cause::Remembered { .. }), "{again:?}");
        // Each commit that was handed over before this one is in the journal with it.
        runtime.submit(order(0)).await.unwrap();
        shop.journal = shop.journal.fork();
        drop(runtime);
        let runtime = build(&shop);
        assert_eq!(failed(&runtime).len(), 1);
        let again = runtime.submit(order(1)).once("pay 1").await.unwrap_err();
        assert!(matches!(again.cause, Cause::Remembered { .. }), "{again:?}");
        assert_eq!(shop.provider.asked().len(), asked);
        // Outcomes are remembered for an hour.
        shop.clock.advance(secs(2 * 3600));
        shop.provider.answers(Answer::Charged);
        runtime.submit(order(1)).once("pay 1").await.unwrap();
    });
}

/// What is too old is dropped at the next failure, and at the start.
#[test]
fn what_is_old_is_dropped() {
    limited(|| async {
        let mut shop = Shop::that(Answer::Declined);
        let build = |shop: &Shop| shop.builder().keep_failed(9, secs(100)).build().unwrap();
        let runtime = build(&shop);
        drop(runtime.submit(order(1)).start().unwrap());
        shop.wait(&runtime).await;
        shop.clock.advance(secs(50));
        let second = runtime.submit(order(2)).start().unwrap().id();
        shop.wait(&runtime).await;
        assert_eq!(failed(&runtime).len(), 2);
        shop.clock.advance(secs(50));
        shop.journal = shop.journal.fork();
        drop(runtime);
        let runtime = build(&shop);
        let left = failed(&runtime);
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].id, second);
        assert_eq!(runtime.quarantine().dropped(QuarantineKind::Failed), 1);
    });
}

/// The events that are sent to a failed operation are limited, too. The events that it had taken stay.
#[test]
fn the_events_for_a_failed_operation_are_limited() {
    limited(|| async {
        let (_depot, runtime, id) = Depot::fails().await;
        runtime.submit(Deliver(vec![3; 10_001])).await.unwrap();
        runtime.quiet().await;
        let events = || runtime.quarantine().count(QuarantineKind::NoReceiver);
        assert_eq!(events(), 10_000);
        assert_eq!(runtime.quarantine().dropped(QuarantineKind::NoReceiver), 3);
        runtime.quarantine().discard(id).await.unwrap();
        assert_eq!(events(), 10_000);
    });
}
