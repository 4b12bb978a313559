//! Dead letters are no alarm: events for a fom that may have ended are dropped and counted, and old ones go.

use fom_durable::{QuarantineKind, prelude::*};
use serde::{Deserialize, Serialize};

use crate::{
    kit::{limited, secs},
    order::{HOUR, News, Order, Shop, order},
};

/// Pays an order through the outbox.
#[derive(Serialize, Deserialize)]
struct Pay {
    cents: u32,
    if_there: bool,
}

#[fom(operation(Pay))]
enum Paying {
    #[phase(start, sync, to(Sent))]
    Send,
    #[phase(end)]
    Sent,
}

impl PayingTransitions for Pay {
    fn send(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let paid = News::Paid(self.cents);
        match self.if_there {
            true => cx.outbox().send_if_there::<Order>("7", paid)?,
            false => cx.outbox().send::<Order>("7", paid)?,
        }
        Ok(())
    }
}

async fn pay(runtime: &Runtime, cents: u32, if_there: bool) {
    runtime.submit(Pay { cents, if_there }).await.unwrap();
    runtime.quiet().await;
}

/// An event that needs no receiver is taken if there is one. Otherwise it is counted, and is neither in quarantine nor
/// in the journal nor an incident.
#[test]
fn an_event_for_a_fom_that_has_ended_is_dropped_and_counted() {
    limited(async || {
        let shop = Shop::default();
        let runtime = shop.open();
        let open = order(&runtime, "7").await;
        pay(&runtime, 5, true).await;
        assert!(runtime.send_if_there::<Order>("7", News::Close));
        assert_eq!(open.await.unwrap().operation.cents, [5]);
        pay(&runtime, 6, true).await;
        assert!(!runtime.send_if_there::<Order>("7", News::Close));
        let letters = runtime.quarantine().dead_letters();
        assert_eq!((letters.not_there, letters.without_receiver), (2, 0));
        assert_eq!(runtime.quarantine().dropped(QuarantineKind::NoReceiver), 0);
        assert!(runtime.operations().incidents.is_empty());
        pay(&runtime, 7, false).await;
        assert_eq!(runtime.quarantine().dead_letters().without_receiver, 1);
        drop(runtime);
        let runtime = shop.open();
        // Only the last one is a dead letter.
        assert_eq!(runtime.quarantine().list().len(), 1);
        assert_eq!(runtime.quarantine().dead_letters().not_there, 0);
    });
}

/// The same after a crash between the commit and the delivery, and for an event that its receiver leaves behind.
#[test]
fn an_event_that_needs_no_receiver_leaves_nothing_after_a_crash() {
    limited(async || {
        let shop = Shop::default();
        let runtime = shop.open();
        let open = order(&runtime, "7").await;
        pay(&runtime, 5, true).await;
        let before = shop.journal.fork();
        // The order ends, and leaves an event of the next runtime behind.
        open.send(News::Close).unwrap();
        open.await.unwrap();
        drop(runtime);
        let shop = Shop {
            journal: before,
            ..shop
        };
        let runtime = shop.open();
        runtime.quiet().await;
        assert!(runtime.quarantine().list().is_empty());
        let open = runtime.find::<Order>("7").unwrap();
        open.send(News::Close).unwrap();
        runtime.idle().await;
        pay(&runtime, 6, true).await;
        assert_eq!(runtime.quarantine().dead_letters().not_there, 1);
        drop(runtime);
        assert!(shop.open().quarantine().list().is_empty());
    });
}

/// An event without a receiver is kept for its time, which goes on over restarts, and then dropped without an incident.
#[test]
fn an_old_event_without_a_receiver_is_dropped_and_counted() {
    limited(async || {
        let shop = Shop::default();
        let build = || shop.builder().keep_events(10, HOUR).build().unwrap();
        let waiting = |runtime: &Runtime| runtime.quarantine().count(QuarantineKind::NoReceiver);
        let runtime = build();
        pay(&runtime, 5, false).await;
        shop.clock.advance(HOUR / 2);
        pay(&runtime, 6, false).await;
        assert_eq!(waiting(&runtime), 2);
        drop(runtime);
        shop.clock.advance(HOUR / 2);
        let runtime = build();
        assert_eq!(waiting(&runtime), 2, "an hour is not more than an hour");
        drop(runtime);
        shop.clock.advance(secs(1));
        let runtime = build();
        assert_eq!(waiting(&runtime), 1);
        assert_eq!(runtime.quarantine().dead_letters().too_old, 1);
        shop.clock.advance(HOUR);
        // Checked when the next one comes.
        pay(&runtime, 7, false).await;
        assert_eq!(waiting(&runtime), 1);
        assert_eq!(runtime.quarantine().dead_letters().too_old, 2);
        assert_eq!(runtime.quarantine().dropped(QuarantineKind::NoReceiver), 2);
        assert!(runtime.operations().incidents.is_empty());
        // Its entry leaves the journal with the next commit.
        drop(order(&runtime, "8").await);
        drop(runtime);
        let runtime = build();
        assert_eq!(waiting(&runtime), 1);
        assert_eq!(runtime.quarantine().dead_letters().too_old, 0);
    });
}

/// Above the number, events are dropped, counted and reported.
#[test]
fn events_above_the_number_are_dropped_and_counted() {
    limited(async || {
        let shop = Shop::default();
        let runtime = shop.builder().keep_events(2, HOUR).build().unwrap();
        for cents in 0..5 {
            pay(&runtime, cents, false).await;
        }
        let letters = runtime.quarantine().dead_letters();
        assert_eq!((letters.without_receiver, letters.above_limit), (2, 3));
        let incidents = runtime.operations().incidents;
        assert_eq!(incidents.iter().map(|it| it.count).sum::<u64>(), 3);
    });
}

/// A retry gives an event with an age to its receiver.
#[test]
fn an_event_with_an_age_is_delivered_by_a_retry() {
    limited(async || {
        let shop = Shop::default();
        let runtime = shop.open();
        pay(&runtime, 5, false).await;
        drop(runtime);
        let runtime = shop.open();
        let open = order(&runtime, "7").await;
        let retried = runtime.quarantine().retry_where(|_| true);
        assert_eq!(retried.retried.len(), 1);
        runtime.quiet().await;
        open.send(News::Close).unwrap();
        assert_eq!(open.await.unwrap().operation.cents, [5]);
        drop(runtime);
        let runtime = shop.open();
        assert!(runtime.quarantine().list().is_empty());
    });
}
