//! Events that are sent durably from outside: in the journal when the send returns, and taken once.

use fom_durable::{Address, Lookup, NotSentReason, QuarantineKind, Sent, prelude::*};
use fom_runtime::Key;
use serde::{Deserialize, Serialize};

use crate::{
    kit::{Gate, limited, one, secs},
    order::{HOUR, News, Order, Shop, order, payments},
};

async fn paid(runtime: &Runtime, to: impl Into<Address>, cents: u32, once: &str) -> Sent {
    let sent = runtime.send_durably::<Order>(to, News::Paid(cents), once);
    sent.await.unwrap()
}

/// Ends the order, and returns its payments.
async fn close(runtime: &Runtime, key: &str) -> Vec<u32> {
    runtime.quiet().await;
    let order = runtime.find::<Order>(key).unwrap();
    order.send(News::Close).unwrap();
    runtime.quiet().await;
    let Lookup::Ended { outcome, .. } = runtime.outcome::<Order>(key) else {
        panic!("it has ended")
    };
    outcome.unwrap().operation.cents
}

fn remembering(shop: &Shop) -> Runtime {
    let builder = shop.builder().remember_all::<Order>(9, HOUR);
    builder.build().unwrap()
}

/// The event is on disk when the send returns: a crash before the fom takes it loses nothing. A repeated send with the
/// same id sends nothing, also after the restart.
#[test]
fn a_durable_send_survives_a_crash_and_is_taken_once() {
    limited(async || {
        let shop = Shop::default();
        let runtime = remembering(&shop);
        let _order = order(&runtime, "7").await;
        // The locality stands still: the fom takes nothing before the crash.
        let gate = Gate::close(&runtime, 0);
        for cents in 1..4 {
            let once = format!("w{cents}");
            assert_eq!(paid(&runtime, "7", cents, &once).await, Sent::Now);
            assert_eq!(paid(&runtime, "7", cents, &once).await, Sent::Before);
        }
        let shop = Shop {
            journal: shop.journal.fork(),
            clock: shop.clock.clone(),
            fixed: shop.fixed.clone(),
        };
        gate.open();
        drop(runtime);

        let runtime = remembering(&shop);
        runtime.quiet().await;
        for cents in 1..4 {
            let once = format!("w{cents}");
            assert_eq!(paid(&runtime, "7", cents, &once).await, Sent::Before);
        }
        assert_eq!(close(&runtime, "7").await, [1, 2, 3]);
        drop(runtime);
        // Taken once: nothing is left for the next runtime.
        let runtime = remembering(&shop);
        assert_eq!(payments(&runtime.outcome::<Order>("7")), Some(3));
        assert!(runtime.quarantine().list().is_empty());
        // The id is known even though the order has ended.
        assert_eq!(paid(&runtime, "7", 1, "w1").await, Sent::Before);
    });
}

/// An id counts for one receiver, and as long as outcomes are remembered.
#[test]
fn the_id_of_a_send_counts_for_its_receiver_and_its_time() {
    limited(async || {
        let shop = Shop::default();
        let runtime = remembering(&shop);
        let _both = (order(&runtime, "1").await, order(&runtime, "2").await);
        assert_eq!(paid(&runtime, "1", 5, "w").await, Sent::Now);
        assert_eq!(paid(&runtime, "2", 5, "w").await, Sent::Now);
        assert_eq!(paid(&runtime, "1", 5, "w").await, Sent::Before);
        shop.clock.advance(HOUR + secs(1));
        assert_eq!(paid(&runtime, "1", 5, "w").await, Sent::Now);
        assert_eq!(close(&runtime, "1").await, [5, 5]);
    });
}

/// The number of remembered ids is limited, apart from the outcomes.
#[test]
fn the_oldest_ids_of_sends_are_forgotten() {
    limited(async || {
        let shop = Shop::default();
        let runtime = shop.builder().remember(2, HOUR).build().unwrap();
        let _order = order(&runtime, "1").await;
        for once in ["a", "b", "c"] {
            shop.clock.advance(secs(1));
            assert_eq!(paid(&runtime, "1", 1, once).await, Sent::Now);
        }
        runtime.quiet().await;
        assert_eq!(paid(&runtime, "1", 1, "c").await, Sent::Before);
        assert_eq!(paid(&runtime, "1", 1, "b").await, Sent::Before);
        assert_eq!(paid(&runtime, "1", 1, "a").await, Sent::Now);
    });
}

/// An operation is reached by the id of its fom and by its operation id, without a key.
#[test]
fn an_operation_without_a_key_gets_events_by_its_ids() {
    limited(async || {
        let shop = Shop::default();
        let runtime = shop.open();
        let handle = runtime.submit(Order::default()).once("o7").start().unwrap();
        handle.committed().await.unwrap();
        let id = handle.id();
        assert_eq!(paid(&runtime, id, 1, "w1").await, Sent::Now);
        assert_eq!(
            paid(&runtime, Address::once("o7"), 2, "w2").await,
            Sent::Now
        );
        // Both addresses are one receiver.
        assert_eq!(
            paid(&runtime, Address::once("o7"), 1, "w1").await,
            Sent::Before
        );
        let gate = Gate::close(&runtime, 0);
        assert_eq!(paid(&runtime, id, 3, "w3").await, Sent::Now);
        let fork = shop.journal.fork();
        gate.open();
        drop((handle, runtime));
        let runtime = one(&shop.clock)
            .resource(shop.fixed.clone())
            .journal_with(fork)
            .build()
            .unwrap();
        runtime.quiet().await;
        assert_eq!(paid(&runtime, id, 3, "w3").await, Sent::Before);
        let sent = runtime.send_durably::<Order>(id, News::Close, "w4");
        assert_eq!(sent.await.unwrap(), Sent::Now);
        runtime.idle().await;
        let Lookup::Ended { outcome, .. } = runtime.outcome::<Order>(id) else {
            panic!("it has an operation id")
        };
        assert_eq!(outcome.unwrap().operation.cents, [1, 2, 3]);
    });
}

/// A resting operation comes back and takes the event.
#[test]
fn a_resting_operation_takes_the_event() {
    limited(async || {
        let shop = Shop::default();
        let mut ids = Vec::new();
        {
            let runtime = shop.open();
            for key in ["1", "2", "3", "4"] {
                ids.push(order(&runtime, key).await.id());
            }
        }
        let builder = shop.builder().remember_all::<Order>(9, HOUR);
        let runtime = builder.resident(1).build().unwrap();
        assert_eq!(runtime.operations().passive, 3);
        assert_eq!(paid(&runtime, "3", 3, "w").await, Sent::Now);
        assert_eq!(paid(&runtime, ids[3], 4, "w").await, Sent::Now);
        runtime.quiet().await;
        assert_eq!(runtime.operations().passive, 1);
        assert_eq!(close(&runtime, "3").await, [3]);
        assert_eq!(close(&runtime, "4").await, [4]);
    });
}

/// Events for a failed operation wait for it, by key and by id, over a restart, and it takes them after the retry.
#[test]
fn events_wait_for_a_failed_operation() {
    limited(async || {
        let shop = Shop::default();
        let runtime = remembering(&shop);
        let by_key = order(&runtime, "7").await;
        let by_id = runtime.submit(Order::default()).start().unwrap();
        by_id.committed().await.unwrap();
        let ids = [by_key.id(), by_id.id()];
        for order in [by_key, by_id] {
            order.send(News::Fault).unwrap();
            order.await.unwrap_err();
        }
        runtime.quiet().await;
        assert_eq!(paid(&runtime, "7", 1, "w1").await, Sent::Now);
        assert_eq!(paid(&runtime, ids[1], 2, "w2").await, Sent::Now);
        assert_eq!(paid(&runtime, ids[1], 2, "w2").await, Sent::Before);
        assert_eq!(runtime.quarantine().dead_letters().receiver_quarantined, 2);
        drop(runtime);

        shop.fix();
        let runtime = remembering(&shop);
        assert_eq!(runtime.quarantine().count(QuarantineKind::NoReceiver), 2);
        assert_eq!(runtime.quarantine().retry_failed::<Order>().retried, ids);
        runtime.quiet().await;
        for id in ids {
            let closed = runtime.send_durably::<Order>(id, News::Close, "close");
            assert_eq!(closed.await.unwrap(), Sent::Now);
            runtime.quiet().await;
            assert_eq!(payments(&runtime.outcome::<Order>(id)), Some(1));
        }
        assert!(runtime.quarantine().list().is_empty());
    });
}

/// An operation that is not there, or not yet on disk, gets nothing: the caller has the event back, and the reason.
#[test]
fn a_send_that_cannot_be_kept_returns_the_event() {
    limited(async || {
        let shop = Shop::default();
        let runtime = shop.open();
        let refused = |to: Address| {
            let runtime = &runtime;
            async move {
                let sent = runtime.send_durably::<Order>(to, News::Paid(5), "w").await;
                let not_sent = sent.unwrap_err();
                assert_eq!(not_sent.event, News::Paid(5));
                not_sent.reason
            }
        };
        for to in ["7".into(), Address::once("7")] {
            let reason = refused(to).await;
            assert!(
                matches!(reason, NotSentReason::NoReceiver { .. }),
                "{reason}"
            );
            assert!(
                reason.to_string().contains("`Runtime::outcome`"),
                "{reason}"
            );
        }
        // Its locality stands, so it is in no journal yet.
        let gate = Gate::close(&runtime, 0);
        let order = runtime.submit(Order::default()).key("7").start().unwrap();
        let reason = refused(order.id().into()).await;
        assert!(matches!(reason, NotSentReason::NotAccepted), "{reason}");
        assert!(reason.to_string().contains("committed()"), "{reason}");
        gate.open();
        order.committed().await.unwrap();
        // The refused sends left no id.
        assert_eq!(paid(&runtime, "7", 5, "w").await, Sent::Now);
        drop(order);

        let without = one(&shop.clock).build().unwrap();
        let _order = without.submit(Order::default()).key("7").start().unwrap();
        let sent = without.send_durably::<Order>("7", News::Close, "w").await;
        let reason = sent.unwrap_err().reason;
        assert!(
            matches!(reason, NotSentReason::NotKept("Order")),
            "{reason}"
        );
    });
}

#[derive(Debug, Serialize, Deserialize)]
struct Tally {
    seen: Vec<u32>,
}

#[derive(Debug, Serialize, Deserialize)]
enum Tick {
    Seen(u32),
    Enough,
}

#[fom(operation(Tally), event(Tick), durability = "lazy")]
enum Tallying {
    #[phase(start, sync, to(Done), on(Seen, Enough))]
    Count,
    #[phase(end)]
    Done,
}

impl TallyingTransitions for Tally {
    fn count(&mut self, _: &mut Cx<'_, Tick>, tick: Tick) -> Result<TallyingAfterCount, BoxError> {
        match tick {
            Tick::Seen(number) => {
                self.seen.push(number);
                Ok(TallyingAfterCount::Stay)
            }
            Tick::Enough => Ok(TallyingAfterCount::Done),
        }
    }
}

/// The journal has a lazy receiver before it has the event.
#[test]
fn a_lazy_operation_is_in_the_journal_before_its_event() {
    limited(async || {
        let shop = Shop::default();
        let runtime = shop.open();
        let tally = runtime.submit(Tally { seen: Vec::new() }).key("t");
        let tally = tally.once("t").start().unwrap();
        runtime.quiet().await;
        let sent = runtime.send_durably::<Tally>("t", Tick::Seen(1), "w");
        assert_eq!(sent.await.unwrap(), Sent::Now);
        let fork = shop.journal.fork();
        drop((tally, runtime));
        let runtime = one(&shop.clock).journal_with(fork).build().unwrap();
        assert!(runtime.quarantine().list().is_empty());
        runtime.quiet().await;
        let sent = runtime.send_durably::<Tally>("t", Tick::Enough, "x");
        assert_eq!(sent.await.unwrap(), Sent::Now);
        runtime.idle().await;
        let Lookup::Ended { outcome, .. } = runtime.outcome::<Tally>(Address::once("t")) else {
            panic!("it has ended")
        };
        assert_eq!(outcome.unwrap().operation.seen, [1]);
    });
}

/// Of many callers with one id, on many threads, one sends.
#[test]
fn of_callers_at_once_one_sends() {
    limited(async || {
        let shop = Shop::default();
        let runtime = remembering(&shop);
        let _order = order(&runtime, "7").await;
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let runtime = runtime.clone();
                std::thread::spawn(move || {
                    futures::executor::block_on(async {
                        let mut sent = 0;
                        for webhook in 0..20u32 {
                            let once = Key::from(u64::from(webhook));
                            let event = News::Paid(webhook);
                            let done = runtime.send_durably::<Order>("7", event, once).await;
                            sent += usize::from(done.unwrap() == Sent::Now);
                        }
                        sent
                    })
                })
            })
            .collect();
        let sent: usize = threads.into_iter().map(|of| of.join().unwrap()).sum();
        assert_eq!(sent, 20);
        runtime.quiet().await;
        let mut cents = close(&runtime, "7").await;
        cents.sort_unstable();
        assert_eq!(cents, (0..20).collect::<Vec<_>>());
    });
}

/// Sends payments durably from a phase, to an order of any runtime of the process.
struct Relay {
    to: Runtime,
    cents: Vec<u32>,
}

#[fom(operation(Relay), transient)]
enum Relaying {
    #[phase(start, to(Sent))]
    Send,
    #[phase(end)]
    Sent,
}

impl RelayingTransitions for Relay {
    async fn send(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        for cents in &self.cents {
            paid(&self.to, "7", *cents, &format!("w{cents}")).await;
        }
        Ok(())
    }
}

/// A phase of one runtime sends to another runtime. The ids of the entries are those of the receiver's journal.
#[test]
fn phases_of_two_runtimes_send_durably_to_one() {
    limited(async || {
        let shop = Shop::default();
        let runtime = shop.builder().localities(2).build().unwrap();
        let order = Order::default();
        let order = runtime.submit(order).key("7").place(Placement::Locality(1));
        order.start().unwrap().committed().await.unwrap();
        let other = one(&shop.clock).localities(2).build().unwrap();
        // The locality of the order stands still, so all events are in the journal at once.
        let gate = Gate::close(&runtime, 1);
        for (from, cents) in [(&runtime, vec![1, 2, 3]), (&other, vec![4, 5, 6])] {
            let to = runtime.clone();
            let relay = from
                .submit(Relay { to, cents })
                .place(Placement::Locality(0));
            relay.start().unwrap().await.unwrap();
        }
        let shop = Shop {
            journal: shop.journal.fork(),
            clock: shop.clock.clone(),
            fixed: shop.fixed.clone(),
        };
        gate.open();
        drop((runtime, other));
        let runtime = remembering(&shop);
        runtime.quiet().await;
        assert_eq!(close(&runtime, "7").await, [1, 2, 3, 4, 5, 6]);
    });
}
