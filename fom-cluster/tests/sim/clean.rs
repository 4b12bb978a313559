//! Clusters without faults: operations run where their slot is, move when nodes join and leave, and are found from each node.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use fom_cluster::{Cluster, ClusterBuilder, Found, Place};
use fom_durable::prelude::*;
use fom_protocol::sync::block_on;
use fom_sim::{self as sim, Sim};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::kit::{SLOTS, Simulated};

const SECOND: Duration = Duration::from_secs(1);

/// Which node has run which order, in which term.
type Log = Arc<Mutex<Vec<(u32, u64)>>>;

#[derive(Serialize, Deserialize)]
struct Order {
    number: u32,
    waits: u32,
}

#[derive(Serialize, Deserialize)]
enum News {
    Paid { cents: u32 },
}

#[fom(operation(Order), event(News))]
enum Selling {
    #[phase(start, to(Wait))]
    Pack,
    #[phase(sync, on(Paid), to(Sent))]
    Wait,
    #[phase(end)]
    Sent { cents: u32 },
}

impl SellingTransitions for Order {
    async fn pack(&mut self, cx: &mut Cx<'_, News>) -> Result<(), BoxError> {
        cx.sleep(SECOND * self.waits).await;
        let term = cx.term().ok_or("a lease")?;
        cx.resource::<Log>()
            .lock()
            .unwrap()
            .push((self.number, term));
        Ok(())
    }

    fn wait(&mut self, _: &mut Cx<'_, News>, event: News) -> Result<SellingAfterWait, BoxError> {
        let News::Paid { cents } = event;
        Ok(SellingAfterWait::Sent { cents })
    }
}

fn orders(builder: ClusterBuilder) -> ClusterBuilder {
    builder.operation::<Order>()
}

fn cents(outcome: fom_cluster::Outcome<Order>) -> u32 {
    let SellingEnd::Sent { cents } = outcome.expect("it ends well").end;
    cents
}

#[test]
fn an_operation_is_submitted_found_and_paid_from_any_node() {
    sim::explore(0..40, |sim: &mut Sim| {
        let (mut cluster, log) = (Simulated::new(), Log::default());
        let nodes = ["a", "b", "c"].map(|name| cluster.start(sim, name, &log, orders));
        cluster.wait_for_owners();
        let [a, b, c] = nodes.map(|node| node.get());
        sim.spawn(async move {
            for number in 0..6 {
                let key = format!("order {number}");
                assert_eq!(b.find::<Order>(&*key).await.unwrap(), Found::Unknown);
                let order = Order { number, waits: 1 };
                let started = a.submit(order).key(&*key).start().await.unwrap();
                let found = b.find::<Order>(&*key).await.unwrap();
                let is_there = matches!(&found, Found::InFlight { phase } if phase == "Pack");
                assert!(is_there, "{found:?}");
                let again = Order { number, waits: 1 };
                let refused = c.submit(again).key(&*key).start().await.unwrap_err();
                assert_eq!(
                    refused.operation.unwrap().number,
                    number,
                    "it is given back"
                );
                let paid = || c.send::<Order>(&*key, News::Paid { cents: number }, "webhook");
                assert!(paid().await.unwrap());
                let place = started.place().clone();
                assert_eq!(cents(started.await.unwrap()), number);
                assert_eq!(cents(b.outcome::<Order>(place).await.unwrap()), number);
            }
            let unknown = c.outcome::<Order>(Place::once("none")).await;
            assert!(matches!(
                unknown,
                Err(fom_cluster::ClusterError::Unknown(_))
            ));
        });
        sim.settle(SECOND * 100);
        assert_eq!(log.lock().unwrap().len(), 6);
    });
}

/// A node that joins gets its slots, one after the other, after ten quiet seconds. Operations that are under way move.
#[test]
fn slots_move_to_a_node_that_joins_and_back_when_it_leaves() {
    sim::explore(0..40, |sim: &mut Sim| {
        let (mut cluster, log) = (Simulated::new(), Log::default());
        let a = cluster.start(sim, "a", &log, orders).get();
        cluster.wait_for_owners();
        assert_eq!(a.served().len(), 4);
        let submits = a.clone();
        sim.spawn(async move {
            let mut started = Vec::new();
            for number in 0..8 {
                let order = Order { number, waits: 40 };
                let submission = submits.submit(order).key(format!("order {number}"));
                started.push((number, submission.start().await.unwrap()));
            }
            for (number, order) in started {
                let (key, event) = (format!("order {number}"), News::Paid { cents: number });
                submits.send::<Order>(key, event, "webhook").await.unwrap();
                assert_eq!(cents(order.await.unwrap()), number);
            }
        });
        let b = cluster.start(sim, "b", &log, orders).get();
        sim::sleep(SECOND * 9);
        assert_eq!(
            (a.served().len(), b.served().len()),
            (4, 0),
            "it is not quiet yet"
        );
        sim::sleep(SECOND * 11);
        let moved = b.served().len();
        assert!(moved > 0 && moved < 4, "{moved} slots moved");
        assert_eq!(a.served().len() + moved, 4);
        assert!(b.served().iter().all(|(_, term)| *term == 2));
        let leaves = b.clone();
        sim.spawn(async move { leaves.leave().await });
        sim.settle(SECOND * 100);
        assert_eq!((a.served().len(), b.served().len()), (4, 0));
        assert_eq!(a.status().nodes.len(), 1);
        // Each ran in one of the terms, after the time that it waited.
        assert_eq!(log.lock().unwrap().len(), 8);
    });
}

/// A drained node gives its slots up while operations are under way, and a pinned slot is where an operator wants it.
#[test]
fn slots_move_as_an_operator_says() {
    sim::explore(0..40, |sim: &mut Sim| {
        let (mut cluster, log) = (Simulated::new(), Log::default());
        let nodes = ["a", "b", "c"].map(|name| cluster.start(sim, name, &log, orders));
        // Until each slot is where it belongs.
        sim::sleep(SECOND * 30);
        let [a, b, c] = [0, 1, 2].map(|at: usize| nodes[at].get());
        let served =
            |of: &Cluster| -> Vec<_> { of.served().iter().map(|(slot, _)| *slot).collect() };
        let first = [&a, &b, &c].map(served);
        assert_eq!(first[2].len(), 1, "{first:?}");
        let submits = a.clone();
        sim.spawn(async move {
            let mut started = Vec::new();
            for number in 0..8 {
                let order = Order { number, waits: 1 };
                let submission = submits.submit(order).key(format!("order {number}"));
                started.push((number, submission.start().await.unwrap()));
            }
            sim::sleep(SECOND * 60);
            for (number, order) in started {
                let (key, event) = (format!("order {number}"), News::Paid { cents: number });
                submits.send::<Order>(key, event, "webhook").await.unwrap();
                assert_eq!(cents(order.await.unwrap()), number);
            }
        });
        sim::sleep(SECOND * 2);
        block_on(a.operator().drain("c")).unwrap();
        sim::sleep(SECOND * 6);
        assert_eq!((c.served().len(), cluster.served()), (0, 4));
        let one = first[0][0];
        block_on(b.operator().pin(one, "c")).unwrap();
        sim::sleep(SECOND * 6);
        assert_eq!(served(&c), [one], "a pin is stronger than a drain");
        let status = a.status();
        let drained = status.nodes.iter().map(|node| node.drained);
        assert!(drained.eq([false, false, true]), "{status}");
        let slot = &status.slots[usize::from(one.0)];
        assert_eq!(slot.pinned.as_deref(), Some("c"));
        assert!(slot.since < SECOND * 7, "{slot}");
        block_on(a.operator().unpin(one)).unwrap();
        block_on(c.operator().undrain("c")).unwrap();
        sim.settle(SECOND * 90);
        assert_eq!([&a, &b, &c].map(served), first, "as before");
    });
}

/// After a kill, the slots of a node are taken over when its lease is over, and its operations go on.
#[test]
fn operations_go_on_elsewhere_after_a_kill() {
    sim::explore(0..40, |sim: &mut Sim| {
        let (mut cluster, log) = (Simulated::new(), Log::default());
        let nodes = ["a", "b", "c"].map(|name| cluster.start(sim, name, &log, orders));
        cluster.wait_for_owners();
        let a = nodes[0].get();
        let begun = sim.now();
        sim.spawn(async move {
            let mut started = Vec::new();
            for number in 0..8 {
                let order = Order { number, waits: 3 };
                let submission = a.submit(order).key(format!("order {number}"));
                started.push((number, submission.start().await.unwrap()));
            }
            for (number, order) in started {
                let (key, event) = (format!("order {number}"), News::Paid { cents: number });
                a.send::<Order>(key, event, "webhook").await.unwrap();
                assert_eq!(cents(order.await.unwrap()), number);
            }
        });
        sim::sleep(SECOND);
        nodes[1].kill();
        nodes[2].kill();
        sim.settle(SECOND * 60);
        let took = sim.now() - begun;
        assert!(took < SECOND * 20, "it took {took:?}");
        assert!(log.lock().unwrap().len() >= 8);
    });
}

/// An operation that is not linked, because it is generic.
#[derive(Serialize, Deserialize)]
struct Parcel<T> {
    content: T,
}

#[fom(
    operation("Parcel<T>"),
    generics("T: Serialize + DeserializeOwned + Send + 'static")
)]
enum Sending {
    #[phase(start, to(Arrived))]
    Travel,
    #[phase(end)]
    Arrived,
}

impl<T: Serialize + DeserializeOwned + Send + 'static> SendingTransitions for Parcel<T> {
    async fn travel(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.sleep(SECOND * 60).await;
        Ok(())
    }
}

/// The runtimes of the slots know the types that the node serves.
#[test]
fn a_generic_operation_goes_on_elsewhere() {
    sim::explore(0..40, |sim: &mut Sim| {
        let mut cluster = Simulated::new();
        let parcels = |builder: ClusterBuilder| builder.operation::<Parcel<u32>>();
        let nodes = ["a", "b"].map(|name| cluster.start(sim, name, &(), parcels));
        // Until each slot is where it belongs.
        sim::sleep(SECOND * 30);
        let [a, b] = nodes.map(|node| node.get());
        let started = block_on(a.submit(Parcel { content: 7u32 }).key("parcel").start()).unwrap();
        for (from, to) in [("a", &b), ("b", &a)] {
            let operator = to.operator();
            block_on(operator.drain(from)).unwrap();
            sim::sleep(SECOND * 20);
            assert_eq!(to.served().len(), usize::from(SLOTS));
            block_on(operator.undrain(from)).unwrap();
        }
        let ended = block_on(started.into_future()).unwrap().unwrap();
        assert_eq!(ended.operation.content, 7);
    });
}
