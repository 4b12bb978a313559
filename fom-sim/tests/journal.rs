//! A journal in memory takes part: its commits are among the steps that are drawn.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use fom_durable::prelude::*;
use fom_sim::{self as sim, Sim};
use serde::{Deserialize, Serialize};

sim::interpose!();

#[derive(Serialize, Deserialize)]
struct Order {
    number: u32,
}

#[derive(Debug, Serialize, Deserialize)]
enum News {
    Paid,
}

#[fom(operation(Order), event(News))]
#[derive(Debug, Serialize, Deserialize)]
enum Fulfil {
    #[phase(start, to(AwaitPayment))]
    Reserve,
    #[phase(sync, on(Paid), to(Shipped, Late), within = "1d", late)]
    AwaitPayment,
    #[phase(end)]
    Shipped,
    #[phase(end)]
    Late,
}

impl FulfilTransitions for Order {
    async fn reserve(&mut self, cx: &mut Cx<'_, News>) -> Result<(), BoxError> {
        cx.sleep(Duration::from_millis(5)).await;
        Ok(())
    }

    fn await_payment(
        &mut self,
        _: &mut Cx<'_, News>,
        _: News,
    ) -> Result<FulfilAfterAwaitPayment, BoxError> {
        Ok(FulfilAfterAwaitPayment::Shipped)
    }

    fn await_payment_late(
        &mut self,
        _: &mut Cx<'_, News>,
    ) -> Result<FulfilAfterAwaitPayment, BoxError> {
        Ok(FulfilAfterAwaitPayment::Late)
    }
}

/// Six orders. Every other one is paid. An order that is submitted twice runs once.
fn orders(sim: &mut Sim, ends: &Mutex<Vec<String>>) {
    let disk = sim.disk();
    let shop = sim.node("shop", move || {
        Runtime::builder()
            .localities(2)
            .journal_with(disk.journal())
    });
    let shop = shop.runtime();
    let ended = Arc::new(Mutex::new(Vec::new()));
    for number in 0..6 {
        let pause = Duration::from_millis(sim::draw(20).into());
        for _ in 0..2 {
            let order = shop.submit(Order { number });
            let order = order.once(u64::from(number)).start().unwrap();
            let ended = Arc::clone(&ended);
            sim.spawn(async move {
                order.committed().await.unwrap();
                sim::sleep(pause);
                if number % 2 == 0 {
                    // The other task may have sent it, and the order may have ended.
                    let _ = order.send(News::Paid);
                }
                let end = order.await.unwrap().kind();
                ended.lock().unwrap().push((number, end));
            });
        }
    }
    sim.settle(Duration::from_secs(4 * 86_400));
    assert_eq!(shop.operations().types[0].started, 6);
    let ended = ended.lock().unwrap();
    assert_eq!(ended.len(), 12);
    for (number, end) in &*ended {
        let paid = number % 2 == 0;
        assert_eq!(*end == FulfilKind::Shipped, paid, "order {number}");
    }
    ends.lock().unwrap().push(format!("{ended:?}"));
}

#[test]
fn orders_are_kept_in_drawn_orders() {
    let ends = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&ends);
    let explored = sim::explore(0..100, move |sim| orders(sim, &all));
    let ends = ends.lock().unwrap();
    assert!(
        ends.len() as u64 > explored.runs,
        "each fiftieth seed runs twice"
    );
    let different: HashSet<_> = ends.iter().collect();
    assert!(
        different.len() > 20,
        "{} orders of the ends",
        different.len()
    );
}
