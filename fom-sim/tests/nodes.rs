//! A phase of one node asks another node, over a network that loses messages, while both are killed.

#[path = "kit/process.rs"]
mod process;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, SystemTime},
};

use fom_durable::prelude::*;
use fom_sim::{self as sim, Node, Sim};
use process::assert_same_elsewhere;
use serde::{Deserialize, Serialize};

sim::interpose!();

const DAY: Duration = Duration::from_secs(86_400);

/// On the bank: takes money, once for each id.
#[derive(Serialize, Deserialize)]
struct Charge {
    cents: u32,
}

/// What the bank has taken. It is outside of the simulation's disks, so each charge uses its step key.
#[derive(Clone, Debug, Default)]
struct Vault(Arc<std::sync::Mutex<std::collections::BTreeMap<String, u32>>>);

#[fom(operation(Charge))]
enum Charging {
    #[phase(start, sync, to(Taken))]
    Take,
    #[phase(end)]
    Taken,
}

impl ChargingTransitions for Charge {
    fn take(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let mut taken = cx.resource::<Vault>().0.lock().unwrap();
        taken.insert(cx.step_key().to_string(), self.cents);
        Ok(())
    }
}

/// On the shop: an order that the bank is asked to charge.
#[derive(Serialize, Deserialize)]
struct Order {
    cents: u32,
}

#[fom(operation(Order))]
enum Selling {
    #[phase(start, to(Sold), retry = "1000, 1s..60s")]
    Pay,
    #[phase(end)]
    Sold,
}

impl SellingTransitions for Order {
    async fn pay(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let (cents, id) = (self.cents, cx.step_key().to_string());
        let bank = cx.resource::<Node>();
        let charged = bank.call(move |bank| async move {
            let charge = bank.submit(Charge { cents }).once(id);
            charge
                .await
                .map(drop)
                .map_err(|failure| failure.to_string())
        });
        // Lost: the phase is tried again, with the same step key.
        Ok(charged.await??)
    }
}

/// Counts what has happened in all runs.
#[derive(Debug, Default)]
struct Seen {
    bank: AtomicU32,
    shop: AtomicU32,
}

fn program(sim: &mut Sim, seen: &Arc<Seen>) {
    let vault = Vault::default();
    let (disk, of, starts) = (sim.disk(), vault.clone(), Arc::clone(seen));
    let bank = sim.node("bank", move || {
        starts.bank.fetch_add(1, Relaxed);
        let builder = Runtime::builder().localities(2).resource(of.clone());
        builder.remember(100, 30 * DAY).journal_with(disk.journal())
    });
    let (disk, starts) = (sim.disk(), Arc::clone(seen));
    let shop = sim.node("shop", move || {
        starts.shop.fetch_add(1, Relaxed);
        let builder = Runtime::builder().localities(2).resource(bank.clone());
        builder.remember(100, 30 * DAY).journal_with(disk.journal())
    });
    sim.during(|chaos| {
        chaos
            .kill("bank", 2)
            .kill("shop", 2)
            .lose()
            .delay(Duration::from_millis(100))
    });
    for number in 1..=3 {
        let shop = shop.clone();
        sim.spawn(async move {
            let ask = || {
                shop.call(move |shop| async move {
                    let order = shop.submit(Order { cents: number }).once(number);
                    order.await.map(drop).map_err(|failure| failure.to_string())
                })
            };
            loop {
                if let Ok(sold) = ask().await {
                    return sold.unwrap();
                }
            }
        });
    }
    sim.settle(3 * DAY);
    let taken = vault.0.lock().unwrap();
    let mut cents: Vec<_> = taken.values().copied().collect();
    cents.sort_unstable();
    assert_eq!(cents, [1, 2, 3], "each order is charged once");
}

#[test]
fn a_bank_and_a_shop() {
    let all = Arc::new(Seen::default());
    let seen = Arc::clone(&all);
    let runs = sim::explore(0..100, move |sim| program(sim, &seen)).runs as u32;
    // Many runs have kills.
    assert!(all.bank.load(Relaxed) > runs + runs / 2, "{all:?}");
    assert!(all.shop.load(Relaxed) > runs + runs / 2, "{all:?}");
}

/// In another process, the same seeds do the same.
#[test]
fn a_seed_does_the_same_in_each_process() {
    let seen = Arc::new(Seen::default());
    let explored = sim::explore(100..130, move |sim| program(sim, &seen));
    let test = "a_seed_does_the_same_in_each_process";
    assert_same_elsewhere(test, &format!("{explored:?}"));
}

/// A client that waits for the answer of a node learns of its kill. The order goes on in the next life.
#[test]
fn a_kill_by_hand() {
    sim::explore(0..20, |sim| {
        let (disk, vault) = (sim.disk(), Vault::default());
        let bank = sim.node("bank", || Runtime::builder().localities(1));
        let of = vault.clone();
        let shop = sim.node("shop", move || {
            let builder = Runtime::builder().localities(1).resource(bank.clone());
            let builder = builder.resource(of.clone());
            builder.journal_with(disk.journal())
        });
        let (client, lost) = (shop.clone(), Arc::new(AtomicU32::new(0)));
        let count = Arc::clone(&lost);
        sim.spawn(async move {
            let submit = async |shop: Runtime| {
                let order = shop.submit(Waits).key("a").start().unwrap();
                order.committed().await.unwrap();
                order.await.map(drop).unwrap();
            };
            let told = client.call(submit).await.unwrap_err();
            assert_eq!(told.node, "shop");
            assert!(told.to_string().contains("ask again"), "{told}");
            count.fetch_add(1, Relaxed);
            let found = client.runtime().find::<Waits>("a").expect("it is back");
            found.send(Go::On).unwrap();
        });
        sim::sleep(DAY);
        shop.kill();
        sim.settle(DAY);
        assert_eq!(lost.load(Relaxed), 1);
        // The next life has another runtime, in which the order ended.
        assert_eq!(shop.runtime().operations().types[0].ended, 1);
    });
}

#[derive(Serialize, Deserialize)]
struct Waits;

#[derive(Debug, Serialize, Deserialize)]
enum Go {
    On,
}

#[fom(operation(Waits), event(Go))]
enum Waiting {
    #[phase(start, sync, on(On), to(Done))]
    Wait,
    #[phase(end)]
    Done,
}

impl WaitingTransitions for Waits {
    fn wait(&mut self, _: &mut Cx<'_, Go>, _: Go) -> Result<WaitingAfterWait, BoxError> {
        Ok(WaitingAfterWait::Done)
    }
}

/// Looks at the wall clock twice, a minute apart.
struct Look(Arc<AtomicU32>);

#[fom(operation(Look), transient)]
enum Looking {
    #[phase(start, to(Second))]
    First,
    #[phase(sync, to(Done))]
    Second { begun: SystemTime },
    #[phase(end)]
    Done,
}

impl LookingTransitions for Look {
    async fn first(&mut self, cx: &mut Cx<'_>) -> Result<LookingAfterFirst, BoxError> {
        let begun = SystemTime::now();
        cx.sleep(Duration::from_secs(60)).await;
        Ok(LookingAfterFirst::Second { begun })
    }

    fn second(&mut self, _: &mut Cx<'_>, begun: &mut SystemTime) -> Result<(), BoxError> {
        if begun.elapsed().ok() != Some(Duration::from_secs(60)) {
            self.0.fetch_add(1, Relaxed);
        }
        Ok(())
    }
}

#[test]
fn a_wall_clock_jumps() {
    let jumps = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&jumps);
    let explored = sim::explore(0..200, move |sim| {
        let node = sim.node("node", || Runtime::builder().localities(1));
        sim.during(|chaos| chaos.clock_jumps(DAY));
        let look = Look(Arc::clone(&seen));
        node.runtime().submit(look).detach().unwrap();
        sim.settle(DAY);
    });
    let jumps = u64::from(jumps.load(Relaxed));
    // In some runs, and in few.
    assert!((1..explored.runs / 2).contains(&jumps), "{jumps}");
}
