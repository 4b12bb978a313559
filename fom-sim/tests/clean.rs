//! Programs without a bug run to their end under all seeds, and each seed does the same each time.

#[path = "kit/process.rs"]
mod process;

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use fom_runtime::prelude::*;
use fom_sim::{self as sim, Sim};
use process::assert_same_elsewhere;
use tokio::sync::oneshot;

sim::interpose!();

/// An order: it waits for a payment, blocks to print, and waits for a while.
struct Order {
    number: u32,
    payment: Option<oneshot::Receiver<u32>>,
    printed: Arc<AtomicU32>,
}

#[derive(Debug)]
enum Parcel {
    Sent,
}

#[fom(operation(Order), event(Parcel), transient)]
#[derive(Debug)]
enum Fulfil {
    #[phase(start, sync, to(Pay))]
    Reserve,
    #[phase(to(Print))]
    Pay,
    #[phase(blocking, to(Rest))]
    Print,
    #[phase(to(AwaitParcel))]
    Rest,
    #[phase(sync, on(Sent), to(Shipped, Late), within = "30d", late)]
    AwaitParcel,
    #[phase(end)]
    Shipped,
    #[phase(end)]
    Late,
}

impl FulfilTransitions for Order {
    fn reserve(&mut self, _: &mut Cx<'_, Parcel>) -> Result<(), BoxError> {
        Ok(())
    }

    async fn pay(&mut self, _: &mut Cx<'_, Parcel>) -> Result<(), BoxError> {
        let payment = self.payment.take().ok_or("no payment")?;
        assert_eq!(payment.await?, self.number);
        Ok(())
    }

    fn print(&mut self, _: &mut BlockingCx<'_>) -> Result<(), BoxError> {
        sim::sleep(Duration::from_millis(20));
        self.printed.fetch_add(1, Relaxed);
        Ok(())
    }

    async fn rest(&mut self, cx: &mut Cx<'_, Parcel>) -> Result<(), BoxError> {
        cx.sleep(Duration::from_millis(u64::from(self.number)))
            .await;
        Ok(())
    }

    fn await_parcel(
        &mut self,
        _: &mut Cx<'_, Parcel>,
        _: Parcel,
    ) -> Result<FulfilAfterAwaitParcel, BoxError> {
        Ok(FulfilAfterAwaitParcel::Shipped)
    }

    fn await_parcel_late(
        &mut self,
        _: &mut Cx<'_, Parcel>,
    ) -> Result<FulfilAfterAwaitParcel, BoxError> {
        Ok(FulfilAfterAwaitParcel::Late)
    }
}

/// Twelve orders of three customers. A customer's orders run one after the other. Every other parcel is never sent.
fn orders(sim: &mut Sim, seen: &Mutex<Vec<String>>) {
    let shop = sim
        .node("shop", || Runtime::builder().localities(2))
        .runtime();
    let printed = Arc::new(AtomicU32::new(0));
    let ended = Arc::new(Mutex::new(Vec::new()));
    // Its order is random in a process, and equal in all runs.
    let mut hash = HashMap::new();
    for number in 0..12 {
        hash.insert(number, number);
        let ends = Arc::clone(&ended);
        let (pay, payment) = oneshot::channel();
        let order = Order {
            number,
            payment: Some(payment),
            printed: Arc::clone(&printed),
        };
        let order = shop.submit(order).key(number % 3).queue().start().unwrap();
        let pause = Duration::from_millis(sim::draw(50).into());
        sim.spawn(async move {
            sim::sleep(pause);
            pay.send(number).unwrap();
            if number % 2 == 0 {
                order.send(Parcel::Sent).unwrap();
            }
            let order = order.await.unwrap();
            ends.lock().unwrap().push(number);
            match order.end {
                FulfilEnd::Shipped => assert_eq!(number % 2, 0),
                FulfilEnd::Late => assert_eq!(number % 2, 1),
            }
        });
    }
    sim.settle(Duration::from_secs(200 * 86_400));
    assert_eq!(printed.load(Relaxed), 12);
    let (ended, keys) = (ended.lock().unwrap(), hash.keys().collect::<Vec<_>>());
    let one = format!("{:?} {ended:?} {keys:?}", sim.now());
    seen.lock().unwrap().push(one);
}

#[test]
fn orders_end_under_each_seed() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&seen);
    let explored = sim::explore(0..300, move |sim| orders(sim, &all));
    let seen = seen.lock().unwrap();
    // Each fiftieth seed ran twice.
    assert_eq!(
        seen.len() as u64,
        explored.runs + explored.runs.div_ceil(50)
    );
    let different: HashSet<_> = seen.iter().collect();
    assert!(different.len() > 100, "{} ends", different.len());
}

/// In another process, the same seeds have the same order and times.
#[test]
fn a_seed_does_the_same_in_each_process() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&seen);
    sim::explore(7..40, move |sim| orders(sim, &all));
    let own = seen.lock().unwrap().join("\n");
    for _ in 0..2 {
        assert_same_elsewhere("a_seed_does_the_same_in_each_process", &own);
    }
}
