//! An operation that fails is kept, with its cause and its path, and its key is free.

use std::future::pending;

use fom_durable::{journal::MemoryJournal, prelude::*};
use fom_runtime::{
    Cause,
    snapshot::{QuarantineKind, RestoreError},
    time::TestClock,
};
use serde::{Deserialize, Serialize};

use crate::{
    kit::{held::Held, hush_localities, limited, one, secs, task::until},
    order::{Answer, Shop, failed, one_failed, order},
};

/// The handle fails at once. The entry has the cause, the phases, the attempts and the bytes.
#[test]
fn a_failed_operation_is_kept() {
    limited(|| async {
        let shop = Shop::that(Answer::Declined);
        let runtime = shop.open();
        let handle = runtime.submit(order(7)).key("order 1").start().unwrap();
        let id = handle.id();
        shop.wait(&runtime).await;
        let failure = handle.await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Error(_)), "{failure:?}");
        shop.clock.advance(secs(30));

        let entry = one_failed(&runtime);
        assert_eq!(entry.id, id);
        assert_eq!(entry.kind(), QuarantineKind::Failed);
        assert_eq!(entry.operation.as_deref(), Some("Order"));
        assert_eq!(entry.phase.as_deref(), Some("Charge"));
        assert_eq!(entry.key, Some("order 1".into()));
        let cause = "the card was declined";
        assert_eq!(
            entry.reason,
            RestoreError::Failed {
                cause: cause.into()
            }
        );
        let kept = entry.failure.as_ref().unwrap();
        assert_eq!(kept.cause, cause);
        assert_eq!(kept.path, ["Check"]);
        let attempts = kept
            .attempts
            .iter()
            .map(|it| (it.number, it.error.as_str()));
        assert_eq!(attempts.collect::<Vec<_>>(), [(1, cause), (2, cause)]);
        assert!(kept.attempts[1].age > kept.age, "{kept:?}");
        assert!(kept.attempts[0].age > kept.attempts[1].age, "{kept:?}");
        assert!(kept.age >= secs(30), "{:?}", kept.age);
        assert!(entry.snapshot().is_some());
        assert_eq!(
            entry.to_string(),
            format!(
                "{id} Order order 1 in Charge (version 1): it failed: the card was declined; try it again, or discard it"
            )
        );
        // The listing of all operations has it, too.
        assert!(
            runtime
                .operations()
                .to_string()
                .contains("it failed: the card was declined")
        );
        assert_eq!(runtime.quarantine().count(QuarantineKind::Failed), 1);
        assert_eq!(runtime.quarantine().count(QuarantineKind::Unreadable), 0);
    });
}

/// The key of a failed operation is free at once, and a second operation may fail beside the first.
#[test]
fn the_key_is_free() {
    limited(|| async {
        let shop = Shop::that(Answer::Declined);
        let runtime = shop.open();
        for _ in 0..2 {
            let handle = runtime.submit(order(7)).key("order 1").start().unwrap();
            shop.wait(&runtime).await;
            handle.await.unwrap_err();
        }
        assert_eq!(failed(&runtime).len(), 2);
        shop.provider.answers(Answer::Charged);
        runtime.submit(order(7)).key("order 1").await.unwrap();
    });
}

/// A panic and a deadline that passed are failures, too. The data are as the function left them.
#[test]
fn a_panic_and_a_deadline_are_kept() {
    hush_localities();
    limited(|| async {
        let shop = Shop::that(Answer::Panic);
        let runtime = shop.open();
        let panics = runtime.submit(order(1)).start().unwrap();
        let panicked = panics.id();
        runtime.quiet().await;
        assert!(matches!(
            panics.await.unwrap_err().cause,
            Cause::Panicked(_)
        ));
        assert_eq!(one_failed(&runtime).id, panicked);

        shop.provider.answers(Answer::Never);
        let late = runtime.submit(order(2)).start().unwrap();
        runtime.quiet().await;
        shop.clock.advance(secs(61));
        assert!(matches!(late.await.unwrap_err().cause, Cause::Late { .. }));
        let causes: Vec<_> = failed(&runtime)
            .into_iter()
            .map(|entry| entry.failure.unwrap().cause)
            .collect();
        assert_eq!(
            causes,
            [
                "panicked: no such currency",
                "the deadline of `Charge` passed"
            ]
        );
    });
}

/// The commit of the failure fails: the handle says so, and the operation is kept when the journal works again.
#[test]
fn a_failure_that_cannot_be_committed_is_kept_later() {
    limited(|| async {
        let shop = Shop::that(Answer::Declined);
        let held = Held::default();
        let builder = one(&shop.clock).resource(shop.provider.clone());
        let runtime = builder.journal_with(held.clone()).build().unwrap();
        let handle = runtime
            .submit(order(7))
            .key("order 1")
            .once("pay 1")
            .start();
        let handle = handle.unwrap();
        let id = handle.id();
        runtime.quiet().await;
        shop.clock.advance(secs(1));
        runtime.quiet().await;
        // The second attempt is committed, and the third is the last.
        held.fail(true);
        shop.clock.advance(secs(1));
        runtime.quiet().await;
        let failure = handle.await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Journal(_)), "{failure:?}");
        assert_eq!(runtime.quarantine().count(QuarantineKind::Uncommitted), 1);
        held.fail(false);
        let is_kept = || runtime.quarantine().count(QuarantineKind::Failed) == 1;
        until("the failure is committed", is_kept);
        assert_eq!(runtime.quarantine().list().len(), 1);
        let again = runtime.submit(order(7)).once("pay 1").await.unwrap_err();
        assert!(matches!(again.cause, Cause::Remembered { .. }), "{again:?}");
        assert_eq!(shop.provider.asked().len(), 3);
        assert_eq!(one_failed(&runtime).id, id);
    });
}

/// An operation that ends in a declared failure, is cancelled, or is not in a journal, is not kept.
#[test]
fn declared_ends_are_ends() {
    limited(|| async {
        let shop = Shop::that(Answer::Never);
        let runtime = shop.open();
        runtime.submit(order(0)).await.unwrap();
        let handle = runtime.submit(order(1)).start().unwrap();
        runtime.quiet().await;
        handle.cancel();
        assert!(matches!(handle.await.unwrap_err().cause, Cause::Cancelled));
        let left = runtime.submit(order(1)).start().unwrap();
        runtime.quiet().await;
        assert!(failed(&runtime).is_empty());
        drop((left, runtime));

        let plain = one(&shop.clock)
            .resource(shop.provider.clone())
            .build()
            .unwrap();
        shop.provider.answers(Answer::Declined);
        let handle = plain.submit(order(1)).start().unwrap();
        shop.wait(&plain).await;
        handle.await.unwrap_err();
        assert!(plain.quarantine().list().is_empty());
        assert_eq!(plain.quarantine().count(QuarantineKind::Failed), 0);
    });
}

/// Fails at once.
#[derive(Serialize, Deserialize)]
struct Ping;

#[fom(operation(Ping), failed = "forget")]
enum Pinging {
    #[phase(start, sync, to(Sent))]
    Send,
    #[phase(end)]
    Sent,
}

impl PingingTransitions for Ping {
    fn send(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Err("no route".into())
    }
}

/// With `failed = "forget"`, nothing is kept.
#[test]
fn a_machine_can_forget_its_failures() {
    limited(|| async {
        let journal = MemoryJournal::new();
        let build = || one(&TestClock::new()).journal_with(journal.clone()).build();
        let runtime = build().unwrap();
        runtime.submit(Ping).await.err().unwrap();
        assert!(runtime.quarantine().list().is_empty());
        let entries = runtime.inspect().journal_stats().unwrap().entries;
        runtime.submit(Ping).await.err().unwrap();
        assert_eq!(runtime.inspect().journal_stats().unwrap().entries, entries);
    });
}

/// Cannot be saved any more when it fails.
#[derive(Serialize, Deserialize)]
struct Broken {
    #[serde(serialize_with = "unless_broken")]
    broken: bool,
}

pub(crate) fn unless_broken<S: serde::Serializer>(
    broken: &bool,
    out: S,
) -> Result<S::Ok, S::Error> {
    match broken {
        true => Err(serde::ser::Error::custom("it is broken")),
        false => out.serialize_bool(false),
    }
}

#[fom(operation(Broken))]
enum Breaking {
    #[phase(start, to(Mended))]
    Break,
    #[phase(end)]
    Mended,
}

impl BreakingTransitions for Broken {
    async fn r#break(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        self.broken = true;
        if self.broken {
            return Err("it broke".into());
        }
        pending().await
    }
}

/// The cause is kept even if the operation can no longer be saved. Then a retry says so.
#[test]
fn an_operation_that_cannot_be_saved_is_listed() {
    limited(|| async {
        let journal = MemoryJournal::new();
        let runtime = one(&TestClock::new())
            .journal_with(journal)
            .build()
            .unwrap();
        runtime
            .submit(Broken { broken: false })
            .await
            .err()
            .unwrap();
        let entry = one_failed(&runtime);
        assert_eq!(entry.failure.as_ref().unwrap().cause, "it broke");
        assert_eq!(entry.phase.as_deref(), Some("Break"));
        assert_eq!(entry.operation.as_deref(), Some("Broken"));
        assert!(entry.snapshot().is_none());
        let refused = runtime.quarantine().retry(entry.id);
        assert!(refused.is_err(), "{refused:?}");
        assert_eq!(one_failed(&runtime).id, entry.id);
        runtime.quarantine().discard(entry.id).await.unwrap();
        assert!(failed(&runtime).is_empty());
    });
}
