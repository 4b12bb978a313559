//! A program whose nodes are killed, whose disk is slow or full, and whose network loses messages.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use fom_durable::prelude::*;
use fom_sim::{self as sim, Node, Sim};
use serde::{Deserialize, Serialize};

sim::interpose!();

const DAY: Duration = Duration::from_secs(86_400);

/// The world outside: a bank that knows what it has done.
#[derive(Clone, Debug, Default)]
struct Bank(Arc<Mutex<BTreeMap<String, u32>>>);

impl Bank {
    /// Pays once for each key.
    fn pay(&self, key: &str) {
        self.0.lock().unwrap().entry(key.to_owned()).or_insert(1);
    }

    fn payments(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

#[derive(Serialize, Deserialize)]
struct Order {
    number: u32,
}

#[derive(Debug, Serialize, Deserialize)]
enum News {
    Signed,
}

#[fom(operation(Order), event(News))]
#[derive(Debug, Serialize, Deserialize)]
enum Fulfil {
    #[phase(start, to(AwaitSignature))]
    Pay,
    #[phase(sync, on(Signed), to(Signed, Late), within = "1d", late)]
    AwaitSignature,
    #[phase(end)]
    Signed,
    #[phase(end)]
    Late,
}

impl FulfilTransitions for Order {
    async fn pay(&mut self, cx: &mut Cx<'_, News>) -> Result<(), BoxError> {
        cx.sleep(Duration::from_millis(5)).await;
        cx.resource::<Bank>().pay(&cx.step_key().to_string());
        cx.sleep(Duration::from_millis(5)).await;
        Ok(())
    }

    fn await_signature(
        &mut self,
        _: &mut Cx<'_, News>,
        _: News,
    ) -> Result<FulfilAfterAwaitSignature, BoxError> {
        Ok(FulfilAfterAwaitSignature::Signed)
    }

    fn await_signature_late(
        &mut self,
        _: &mut Cx<'_, News>,
    ) -> Result<FulfilAfterAwaitSignature, BoxError> {
        Ok(FulfilAfterAwaitSignature::Late)
    }
}

/// What has happened in all runs.
#[derive(Debug, Default)]
struct Seen {
    starts: AtomicU32,
    lost: AtomicU32,
    full: AtomicU32,
}

/// Asks for an order until an answer comes.
async fn order(shop: &Node, number: u32, seen: &Seen) -> FulfilKind {
    loop {
        let asked = shop.call(move |runtime| async move {
            let order = runtime.submit(Order { number }).once(u64::from(number));
            let order = order.start()?;
            if number.is_multiple_of(2) {
                // It may have ended.
                let _ = order.send(News::Signed);
            }
            Ok::<_, BoxError>(order.await?.kind())
        });
        match asked.await {
            Ok(Ok(kind)) => return kind,
            // The disk was full.
            Ok(Err(_)) => {
                seen.full.fetch_add(1, Relaxed);
                sim::sleep(Duration::from_secs(1));
            }
            Err(_) => {
                seen.lost.fetch_add(1, Relaxed);
            }
        }
    }
}

const ORDERS: u32 = 4;

/// Four orders. Each pays once and ends as it should, whatever happens.
fn orders(sim: &mut Sim, seen: &Arc<Seen>) {
    let (disk, bank) = (sim.disk(), Bank::default());
    let (of, starts) = (bank.clone(), Arc::clone(seen));
    let shop = sim.node("shop", move || {
        starts.starts.fetch_add(1, Relaxed);
        let builder = Runtime::builder().localities(2).resource(of.clone());
        // A client may come back after the node was down for days.
        builder.remember(100, 30 * DAY).journal_with(disk.journal())
    });
    sim.during(|chaos| {
        chaos
            .kill("shop", 3)
            .slow_disk(Duration::from_millis(20))
            .full_disk()
            .delay(Duration::from_millis(50))
            .lose()
            .long_phases(Duration::from_millis(10))
            .slow_calls(Duration::from_millis(10))
    });
    let ended = Arc::new(Mutex::new(BTreeMap::new()));
    for number in 0..ORDERS {
        let (shop, ended, seen) = (shop.clone(), Arc::clone(&ended), Arc::clone(seen));
        sim.spawn(async move {
            let kind = order(&shop, number, &seen).await;
            ended.lock().unwrap().insert(number, kind);
        });
    }
    sim.settle(10 * DAY);
    assert_eq!(bank.payments(), ORDERS as usize, "each order pays once");
    let ended = ended.lock().unwrap();
    assert_eq!(ended.len(), ORDERS as usize);
    for (number, kind) in &*ended {
        // A signature may come late, because the shop was down.
        if number % 2 == 1 {
            assert_eq!(*kind, FulfilKind::Late, "order {number}");
        }
    }
}

#[test]
fn orders_survive_all_faults() {
    let all = Arc::new(Seen::default());
    let seen = Arc::clone(&all);
    let runs = sim::explore(0..150, move |sim| orders(sim, &seen)).runs as u32;
    let Seen { starts, lost, full } = &*all;
    // Most runs have kills.
    assert!(starts.load(Relaxed) > 2 * runs, "{all:?}");
    assert!(lost.load(Relaxed) > runs / 2, "{all:?}");
    assert!(full.load(Relaxed) > runs / 3, "{all:?}");
}
