//! A failed operation is tried again: by id, by type, by a filter, in this release or the next.

use fom_durable::{RetryError, prelude::*};
use fom_runtime::{Cause, config::Shutdown, snapshot::RestoreError};

use crate::{
    kit::{limited, secs},
    order::{Answer, Order, Shop, failed, one_failed, order, retried},
};

/// The release with the bug fixed takes the operation on from the phase in which it failed, with its id and step keys.
#[test]
fn the_next_release_tries_it_again() {
    limited(|| async {
        let mut shop = Shop::that(Answer::Declined);
        let runtime = shop.open();
        let handle = runtime.submit(order(7)).key("order 1").start().unwrap();
        let id = handle.id();
        shop.wait(&runtime).await;
        drop(handle);
        let before = shop.provider.asked();
        assert_eq!(before.len(), 3);
        let kept = one_failed(&runtime);

        let runtime = shop.reopen(runtime);
        let entry = one_failed(&runtime);
        assert_eq!(entry.id, id);
        assert_eq!(
            entry.failure.as_ref().unwrap().path,
            kept.failure.unwrap().path
        );
        assert_eq!(entry.failure.as_ref().unwrap().attempts.len(), 2);
        // Nothing runs by itself.
        shop.wait(&runtime).await;
        assert_eq!(shop.provider.asked().len(), 3);

        // All attempts are there again.
        runtime.quarantine().retry(id).unwrap();
        runtime.quiet().await;
        assert_eq!(shop.provider.asked().len(), 4);
        shop.provider.answers(Answer::Charged);
        shop.wait(&runtime).await;
        let asked = shop.provider.asked();
        assert_eq!(asked.len(), 5);
        assert!(asked.iter().all(|key| *key == before[0]), "{asked:?}");
        assert!(failed(&runtime).is_empty());
        assert!(runtime.operations().foms.is_empty());

        // Its end is in the journal.
        let runtime = shop.reopen(runtime);
        assert!(runtime.quarantine().list().is_empty());
        assert!(runtime.operations().foms.is_empty());
    });
}

/// A kill after the retry: the operation goes on by itself.
#[test]
fn a_retry_is_in_the_journal() {
    limited(|| async {
        let mut shop = Shop::that(Answer::Declined);
        let runtime = shop.open();
        let id = runtime.submit(order(7)).start().unwrap().id();
        shop.wait(&runtime).await;
        shop.provider.answers(Answer::Never);
        retried(&runtime, id).await;
        // Each commit that was handed over before this one is in the journal with it.
        runtime.submit(order(0)).await.unwrap();
        shop.provider.answers(Answer::Charged);
        let runtime = shop.reopen(runtime);
        shop.wait(&runtime).await;
        assert!(runtime.quarantine().list().is_empty());
        assert!(runtime.operations().foms.is_empty());
        assert_eq!(shop.provider.asked().len(), 5);
    });
}

/// An operation fails again: it is kept again, under its id.
#[test]
fn a_retry_that_fails_is_kept_again() {
    limited(|| async {
        let shop = Shop::that(Answer::Declined);
        let runtime = shop.open();
        let id = runtime.submit(order(7)).start().unwrap().id();
        shop.wait(&runtime).await;
        for round in 2..4 {
            runtime.quarantine().retry(id).unwrap();
            shop.wait(&runtime).await;
            let entry = one_failed(&runtime);
            assert_eq!(entry.id, id);
            let (operation, _) = Order::restore(&entry.snapshot().unwrap()).unwrap();
            assert_eq!(operation.calls, round * 3);
        }
    });
}

/// While another fom has the key, a retry is refused, and the operation stays.
#[test]
fn a_retry_is_refused_while_the_key_is_taken() {
    limited(|| async {
        let shop = Shop::that(Answer::Declined);
        let runtime = shop.open();
        let id = runtime
            .submit(order(7))
            .key("order 1")
            .start()
            .unwrap()
            .id();
        shop.wait(&runtime).await;
        shop.provider.answers(Answer::Never);
        let second = runtime.submit(order(8)).key("order 1").start().unwrap();
        runtime.quiet().await;
        let refused = runtime.quarantine().retry(id);
        let reason = RestoreError::KeyInUse("order 1".into());
        assert_eq!(refused, Err(RetryError::Still(reason)));
        assert_eq!(one_failed(&runtime).id, id);
        second.cancel();
        second.await.unwrap_err();
        shop.provider.answers(Answer::Charged);
        retried(&runtime, id).await;
        assert!(failed(&runtime).is_empty());
    });
}

/// All of a type, or all that a filter accepts, are tried again.
#[test]
fn many_are_tried_again() {
    limited(|| async {
        let shop = Shop::that(Answer::Declined);
        let runtime = shop.open();
        let start = |cents, key: &'static str| {
            let handle = runtime.submit(order(cents)).key(key).start();
            handle.unwrap().id()
        };
        let ids = [start(1, "a"), start(2, "b"), start(3, "c")];
        shop.wait(&runtime).await;
        shop.provider.answers(Answer::Charged);
        let quarantine = runtime.quarantine();
        let done = quarantine.retry_where(|entry| entry.key == Some("b".into()));
        assert_eq!(done.retried, [ids[1]]);
        runtime.quiet().await;
        let done = runtime.quarantine().retry_failed::<Order>();
        assert_eq!(done.retried, [ids[0], ids[2]]);
        assert!(done.refused.is_empty());
        runtime.quiet().await;
        assert!(failed(&runtime).is_empty());
        assert_eq!(
            quarantine.retry(ids[0]),
            Err(RetryError::NotQuarantined(ids[0]))
        );
    });
}

/// A caller with the same operation id gets the failure, also after a restart and after the time of outcomes. A retry
/// replaces that answer.
#[test]
fn a_retry_replaces_the_answer_of_once() {
    limited(|| async {
        let mut shop = Shop::that(Answer::Declined);
        let runtime = shop.open();
        let id = runtime.submit(order(7)).once("pay 1").start().unwrap().id();
        shop.wait(&runtime).await;
        for runtime in [&runtime] {
            let again = runtime.submit(order(7)).once("pay 1").await.unwrap_err();
            assert!(matches!(again.cause, Cause::Remembered { .. }), "{again:?}");
        }
        let runtime = shop.reopen(runtime);
        shop.clock.advance(secs(2 * 3600));
        let again = runtime.submit(order(7)).once("pay 1").await.unwrap_err();
        let Cause::Remembered { cause } = again.cause else {
            panic!("{again:?}");
        };
        assert_eq!(cause, "the card was declined");
        assert_eq!(shop.provider.asked().len(), 3);

        // A caller that comes while it runs waits for its end.
        shop.provider.answers(Answer::Never);
        retried(&runtime, id).await;
        let joined = runtime.submit(order(7)).once("pay 1").start().unwrap();
        assert_eq!(joined.id(), id);
        shop.provider.answers(Answer::Charged);
        shop.clock.advance(secs(61));
        let late = joined.await.unwrap_err();
        assert!(matches!(late.cause, Cause::Remembered { .. }), "{late:?}");
        retried(&runtime, id).await;
        let ended = runtime.submit(order(7)).once("pay 1").await.unwrap();
        assert_eq!(ended.operation.cents, 7);
        let runtime = shop.reopen(runtime);
        let ended = runtime.submit(order(7)).once("pay 1").await.unwrap();
        assert_eq!(ended.operation.cents, 7);
    });
}

/// After a discard, the operation id is free.
#[test]
fn a_discard_frees_the_operation_id() {
    limited(|| async {
        let mut shop = Shop::that(Answer::Declined);
        let runtime = shop.open();
        let id = runtime.submit(order(7)).once("pay 1").start().unwrap().id();
        shop.wait(&runtime).await;
        let gone = runtime.quarantine().discard(id).await.unwrap();
        assert_eq!(gone.id, id);
        let runtime = shop.reopen(runtime);
        assert!(runtime.quarantine().list().is_empty());
        shop.provider.answers(Answer::Charged);
        let ended = runtime.submit(order(8)).once("pay 1").await.unwrap();
        assert_eq!(ended.operation.cents, 8);
    });
}

/// A runtime that shuts down takes no retry.
#[test]
fn a_shutdown_takes_no_retry() {
    limited(|| async {
        let shop = Shop::that(Answer::Declined);
        let runtime = shop.open();
        let id = runtime.submit(order(7)).start().unwrap().id();
        shop.wait(&runtime).await;
        let view = runtime.clone();
        runtime.shutdown(Shutdown::Now, secs(1)).await;
        assert_eq!(view.quarantine().retry(id), Err(RetryError::ShuttingDown));
    });
}
