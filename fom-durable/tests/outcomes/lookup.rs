//! Outcomes that are looked up, after a restart too, and the limits of what is kept.

use fom_durable::{Address, Lookup, QuarantineKind, prelude::*};
use fom_runtime::{Cause, FomId, Key};

use crate::{
    kit::{limited, secs},
    order::{HOUR, News, Order, Ping, Shop, failure, id_of, order, payments},
};

/// An operation with an id is found while it runs and after its end, by its operation id and by the id of its fom, also
/// after a restart. The lookup starts nothing.
#[test]
fn an_outcome_is_found_by_its_ids_and_after_a_restart() {
    limited(async || {
        let shop = Shop::default();
        let runtime = shop.open();
        let handle = runtime.submit(Order::default()).key("7").once("o7");
        let handle = handle.start().unwrap();
        let id = handle.id();
        for address in [Address::once("o7"), id.into(), "7".into()] {
            let found = runtime.outcome::<Order>(address);
            assert!(
                matches!(found, Lookup::InFlight(is) if is == id),
                "{found:?}"
            );
        }
        handle.send(News::Paid(5)).unwrap();
        handle.send(News::Close).unwrap();
        handle.await.unwrap();
        shop.clock.advance(secs(60));
        drop(runtime);

        let shop = shop.crashed();
        let runtime = shop.open();
        for address in [Address::once("o7"), id.into(), "7".into()] {
            let found = runtime.outcome::<Order>(address);
            assert_eq!((payments(&found), id_of(&found)), (Some(1), Some(id)));
            let Lookup::Ended { age, .. } = found else {
                panic!("it has ended")
            };
            assert_eq!(age, secs(60));
        }
        for address in [Address::once("o8"), "8".into(), Address::once("7")] {
            let found = runtime.outcome::<Order>(address);
            assert!(matches!(found, Lookup::Unknown), "{found:?}");
        }
        // Another type has other names.
        assert!(matches!(runtime.outcome::<Ping>(id), Lookup::Unknown));
        assert_eq!(runtime.in_flight(), 0);
    });
}

/// An operation that ends is found at every moment: in flight, or with its outcome. Listeners hear of a failure before the
/// outcome is recorded.
#[test]
fn an_operation_that_ends_is_found_at_every_moment() {
    limited(async || {
        let shop = Shop::default();
        let runtime = shop.open();
        let (tell, heard) = std::sync::mpsc::channel();
        let looks = tell.clone();
        let _listening = runtime.listen(move |_| {
            let here = Runtime::current().expect("a listener runs in its runtime");
            for address in [Address::from("7"), Address::once("o7")] {
                let found = here.outcome::<Order>(address);
                let is_there = !matches!(found, Lookup::Unknown);
                looks.send(is_there).unwrap();
            }
        });
        let submission = runtime.submit(Order::default()).key("7").once("o7");
        let order = submission.start().unwrap();
        order.committed().await.unwrap();
        order.cancel();
        order.await.unwrap_err();
        assert!(failure(&runtime.outcome::<Order>("7")).is_some());
        drop(tell);
        let heard: Vec<_> = heard.try_iter().collect();
        assert!(heard.len() >= 4, "it began, and failed: {heard:?}");
        assert!(heard.iter().all(|is_there| *is_there), "{heard:?}");
    });
}

/// Without an operation id, only the outcomes of a type that the builder names are kept. A key names the operation that
/// has it now, and otherwise the last one that had it.
#[test]
fn all_outcomes_of_a_named_type_are_found_by_key() {
    limited(async || {
        let shop = Shop::default();
        let all = || {
            shop.builder()
                .remember_all::<Order>(100, HOUR)
                .build()
                .unwrap()
        };
        {
            let runtime = shop.open();
            let forgotten = order(&runtime, "7").await;
            let id = forgotten.id();
            forgotten.send(News::Close).unwrap();
            forgotten.await.unwrap();
            assert!(matches!(runtime.outcome::<Order>(id), Lookup::Unknown));
            assert!(matches!(runtime.outcome::<Order>("7"), Lookup::Unknown));
        }
        let runtime = all();
        let mut ids = Vec::new();
        for payments in 0..3 {
            let order = order(&runtime, "7").await;
            ids.push(order.id());
            for cents in 0..payments {
                order.send(News::Paid(cents)).unwrap();
            }
            order.send(News::Close).unwrap();
            order.await.unwrap();
        }
        let found = |runtime: &Runtime| payments(&runtime.outcome::<Order>("7"));
        assert_eq!(found(&runtime), Some(2));
        drop(runtime);
        let runtime = all();
        assert_eq!(found(&runtime), Some(2));
        for (count, id) in ids.iter().enumerate() {
            assert_eq!(payments(&runtime.outcome::<Order>(*id)), Some(count));
        }
        let next = order(&runtime, "7").await;
        assert_eq!(id_of(&runtime.outcome::<Order>("7")), Some(next.id()));
        assert_eq!(found(&runtime), None, "it is in flight");
    });
}

/// The oldest outcomes above the number are dropped, for each type alone, and expired ones too. The journal has no more
/// of them.
#[test]
fn the_limits_of_a_type_drop_its_oldest_outcomes_and_no_others() {
    limited(async || {
        let shop = Shop::default();
        let build = || {
            let builder = shop.builder().remember(2, HOUR);
            builder.remember_all::<Ping>(3, 2 * HOUR).build().unwrap()
        };
        let runtime = build();
        let mut pings = Vec::new();
        for number in 0..5 {
            shop.clock.advance(secs(1));
            let ping = runtime.submit(Ping(number)).start().unwrap();
            pings.push(ping.id());
            ping.await.unwrap();
            let order = runtime.submit(Order::default()).once(u64::from(number));
            let order = order.start().unwrap();
            order.send(News::Close).unwrap();
            order.await.unwrap();
        }
        let known = |runtime: &Runtime| {
            let is_known = |id: &&_| matches!(runtime.outcome::<Ping>(**id), Lookup::Ended { .. });
            let orders = (0..5u64)
                .filter(|id| payments(&runtime.outcome::<Order>(Address::once(*id))).is_some());
            (pings.iter().filter(is_known).count(), orders.collect())
        };
        assert_eq!(known(&runtime), (3, vec![3, 4]));
        assert_eq!(runtime.outcomes().dropped(), 2 + 3);
        assert_eq!(runtime.outcomes().of_type::<Ping>().count(), 3);
        // The dropped entries leave the journal with the next commit.
        runtime.submit(Ping(9)).await.unwrap();
        runtime.submit(Ping(9)).await.unwrap();
        drop(runtime);
        let entries = shop.journal.ids();
        let outcomes = entries.iter().filter(|id| {
            let entry = shop.journal.entry(**id).unwrap();
            entry.first() == Some(&5)
        });
        assert!(outcomes.count() <= 3 + 2 + 1, "{entries:?}");
        let runtime = build();
        runtime.submit(Ping(9)).await.unwrap();
        assert_eq!(known(&runtime), (0, vec![3, 4]));
        shop.clock.advance(HOUR);
        assert_eq!(known(&runtime), (0, vec![]));
        assert_eq!(runtime.outcomes().of_type::<Ping>().count(), 3);
        shop.clock.advance(HOUR);
        assert_eq!(runtime.outcomes().count(), 0);
    });
}

/// A failed operation is found in quarantine. After a retry it is in flight, and then its end is found. If it is dropped
/// from the quarantine, its failure stays as long as outcomes do.
#[test]
fn a_failed_operation_is_found_until_it_is_tried_again() {
    limited(async || {
        let shop = Shop::default();
        let build = || {
            let builder = shop.builder().remember_all::<Order>(100, HOUR);
            builder.keep_failed(1, HOUR).build().unwrap()
        };
        let runtime = build();
        let mut ids = Vec::new();
        for key in ["1", "2"] {
            let order = order(&runtime, key).await;
            ids.push(order.id());
            order.send(News::Fault).unwrap();
            order.await.unwrap_err();
            runtime.quiet().await;
        }
        let said = "Order failed in phase `Open`: a bug";
        let fails = |runtime: &Runtime| {
            for (id, key) in ids.iter().zip(["1", "2"]) {
                let found = runtime.outcome::<Order>(*id);
                assert_eq!(failure(&found).as_deref(), Some(said), "{found:?}");
                let found = runtime.outcome::<Order>(key);
                assert_eq!(failure(&found).as_deref(), Some(said), "{found:?}");
            }
            // The limit is one.
            assert_eq!(runtime.quarantine().count(QuarantineKind::Failed), 1);
            assert_eq!(runtime.outcomes().count(), 1);
        };
        fails(&runtime);
        drop(runtime);
        let runtime = build();
        fails(&runtime);
        shop.fix();
        runtime.quarantine().retry(ids[1]).unwrap();
        runtime.quiet().await;
        let found = runtime.outcome::<Order>("2");
        assert_eq!(payments(&found), None);
        let order = runtime
            .find::<Order>("2")
            .map(|order| order.send(News::Close));
        assert!(matches!(order, None | Some(Ok(()))));
        runtime.idle().await;
        assert_eq!(payments(&runtime.outcome::<Order>(ids[1])), Some(0));
    });
}

/// The listing has each outcome once, in pages, also if some are dropped between two pages.
#[test]
fn outcomes_are_listed_in_pages() {
    limited(async || {
        let shop = Shop::default();
        let builder = shop.builder().remember_all::<Ping>(10, HOUR);
        let runtime = builder.build().unwrap();
        let mut ids = Vec::new();
        for number in 0..10 {
            let ping = runtime.submit(Ping(number)).key(u64::from(number));
            let ping = ping.start().unwrap();
            ids.push(ping.id());
            ping.await.unwrap();
        }
        let first = runtime.outcomes().page(None, 4);
        let listed: Vec<_> = first.iter().map(|end| end.id).collect();
        assert_eq!(listed, ids[..4]);
        assert_eq!(
            first[3].to_string(),
            format!("{} Ping 3 ended in Pong", ids[3])
        );
        assert_eq!((first[0].cause.as_ref(), first[0].age), (None, secs(0)));
        // Two of the first page are dropped.
        for number in 10..12 {
            runtime.submit(Ping(number)).await.unwrap();
        }
        let second = runtime.outcomes().of_type::<Ping>().page(Some(ids[3]), 4);
        let listed: Vec<_> = second.iter().map(|end| end.id).collect();
        assert_eq!(listed, ids[4..8]);
        assert_eq!(runtime.outcomes().page(Some(ids[7]), 100).len(), 4);
        assert!(
            runtime
                .outcomes()
                .of_type::<Order>()
                .page(None, 9)
                .is_empty()
        );
    });
}

/// Returns a runtime in which two of three orders rest, and the orders with their keys.
async fn two_rest() -> (Runtime, Vec<(FomId, &'static str)>) {
    let shop = Shop::default();
    let mut orders = Vec::new();
    {
        let runtime = shop.open();
        for key in ["1", "2", "3"] {
            orders.push((order(&runtime, key).await.id(), key));
        }
    }
    let runtime = shop.builder().resident(1).build().unwrap();
    assert_eq!(runtime.operations().passive, 2);
    (runtime, orders)
}

/// A resting operation is found, and goes on resting.
#[test]
fn a_lookup_brings_nothing_back() {
    limited(async || {
        let (runtime, orders) = two_rest().await;
        for (id, key) in orders {
            assert_eq!(id_of(&runtime.outcome::<Order>(id)), Some(id));
            assert_eq!(id_of(&runtime.outcome::<Order>(key)), Some(id));
        }
        assert_eq!(runtime.operations().passive, 2);
    });
}

/// By its id, a resting operation is found and comes back. An operation that has ended is not found.
#[test]
fn a_fom_is_found_by_its_id() {
    limited(async || {
        let (runtime, orders) = two_rest().await;
        for (id, key) in orders {
            let found = runtime.find_id::<Order>(id).unwrap();
            assert_eq!(found.id(), id);
            assert_eq!(found.key(), Some(&Key::from(key)));
            found.cancel();
            found.reached([]).await;
            assert!(runtime.find_id::<Order>(id).is_none());
        }
    });
}

/// A cancelled operation of a named type is found as a failure.
#[test]
fn a_cancelled_operation_is_found() {
    limited(async || {
        let shop = Shop::default();
        let builder = shop.builder().remember_all::<Order>(9, HOUR);
        let runtime = builder.build().unwrap();
        let handle = order(&runtime, "7").await;
        let id = handle.id();
        handle.cancel();
        handle.await.unwrap_err();
        drop(runtime);
        let builder = shop.builder().remember_all::<Order>(9, HOUR);
        let runtime = builder.build().unwrap();
        let Lookup::Ended { outcome, .. } = runtime.outcome::<Order>(id) else {
            panic!("it is remembered")
        };
        let failure = outcome.unwrap_err();
        assert!(
            matches!(failure.cause, Cause::Remembered { .. }),
            "{failure}"
        );
    });
}
