//! The path of an operation is whole over restarts and retries.

use fom_durable::prelude::*;
use fom_runtime::FomRef;
use serde::{Deserialize, Serialize};

use crate::{
    failed::unless_broken,
    kit::limited,
    order::{Answer, Shop, one_failed, order},
};

#[derive(Debug, Serialize, Deserialize)]
enum Order {
    Next,
    Lose,
}

#[derive(Debug, Serialize, Deserialize)]
struct Parcel;

#[fom(operation(Parcel), event(Order))]
enum Carrying {
    #[phase(start, sync, to(Train))]
    Shop,
    #[phase(sync, on(Next, Lose), to(Truck))]
    Train,
    #[allow(dead_code)]
    #[phase(sync, on(Next, Lose), to(Train, Door))]
    Truck,
    #[phase(end)]
    Door,
}

fn next<T>(order: Order, to: T) -> Result<T, BoxError> {
    match order {
        Order::Next => Ok(to),
        Order::Lose => Err("it is lost".into()),
    }
}

impl CarryingTransitions for Parcel {
    fn shop(&mut self, _: &mut Cx<'_, Order>) -> Result<(), BoxError> {
        Ok(())
    }
    fn train(
        &mut self,
        _: &mut Cx<'_, Order>,
        order: Order,
    ) -> Result<CarryingAfterTrain, BoxError> {
        next(order, CarryingAfterTrain::Truck)
    }
    fn truck(
        &mut self,
        _: &mut Cx<'_, Order>,
        order: Order,
    ) -> Result<CarryingAfterTruck, BoxError> {
        next(order, CarryingAfterTruck::Train)
    }
}

async fn begun(runtime: &Runtime) {
    let handle = runtime.submit(Parcel).key("parcel").start().unwrap();
    runtime.quiet().await;
    assert_eq!(handle.phase(), "Train");
}

fn parcel(runtime: &Runtime) -> FomRef<Parcel> {
    runtime.find("parcel").unwrap()
}

async fn goes_on(runtime: &Runtime, times: usize) {
    for _ in 0..times {
        parcel(runtime).send(Order::Next).unwrap();
        runtime.quiet().await;
    }
}

/// Loses the parcel, and returns its path.
async fn lost(runtime: &Runtime) -> Vec<String> {
    parcel(runtime).send(Order::Lose).unwrap();
    runtime.quiet().await;
    one_failed(runtime).failure.unwrap().path
}

/// The operation moves in three processes, and fails in the last one.
#[test]
fn a_path_is_whole_after_two_restarts() {
    limited(|| async {
        let mut shop = Shop::that(Answer::Never);
        let runtime = shop.open();
        begun(&runtime).await;
        goes_on(&runtime, 1).await;
        let runtime = shop.reopen(runtime);
        goes_on(&runtime, 1).await;
        let runtime = shop.reopen(runtime);
        assert_eq!(lost(&runtime).await, ["Shop", "Train", "Truck"]);
        let runtime = shop.reopen(runtime);
        let kept = one_failed(&runtime).failure.unwrap();
        assert_eq!(kept.path, ["Shop", "Train", "Truck"]);
    });
}

/// A long path has the last eight phases, wherever the restart is.
#[test]
fn a_long_path_has_the_last_eight_phases() {
    limited(|| async {
        for before in [7, 8, 9] {
            let mut shop = Shop::that(Answer::Never);
            let runtime = shop.open();
            begun(&runtime).await;
            goes_on(&runtime, before).await;
            let runtime = shop.reopen(runtime);
            goes_on(&runtime, 10 - before).await;
            let pair = ["Train", "Truck"];
            assert_eq!(lost(&runtime).await, pair.repeat(4));
        }
    });
}

/// A retry goes on with the path, in this process and in the next one.
#[test]
fn a_retry_goes_on_with_the_path() {
    limited(|| async {
        let mut shop = Shop::that(Answer::Never);
        let runtime = shop.open();
        begun(&runtime).await;
        assert_eq!(lost(&runtime).await, ["Shop"]);
        runtime.quarantine().retry(one_failed(&runtime).id).unwrap();
        goes_on(&runtime, 1).await;
        assert_eq!(lost(&runtime).await, ["Shop", "Train"]);

        let runtime = shop.reopen(runtime);
        runtime.quarantine().retry(one_failed(&runtime).id).unwrap();
        // Each commit that was handed over before this one is in the journal with it.
        runtime.submit(order(0)).await.unwrap();
        let runtime = shop.reopen(runtime);
        assert_eq!(lost(&runtime).await, ["Shop", "Train"]);
    });
}

/// Cannot be saved after its second phase.
#[derive(Serialize, Deserialize)]
struct Glass {
    #[serde(serialize_with = "unless_broken")]
    broken: bool,
}

#[fom(operation(Glass))]
enum Falling {
    #[phase(start, sync, to(Fall))]
    Stand,
    #[phase(sync, to(Lie))]
    Fall,
    #[phase(sync, to(Swept))]
    Lie,
    #[phase(end)]
    Swept,
}

impl FallingTransitions for Glass {
    fn stand(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
    fn fall(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        self.broken = true;
        Ok(())
    }
    fn lie(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// The fom fails in the phase that it enters, if the transition cannot be saved.
#[test]
fn a_transition_that_cannot_be_saved_is_on_the_path() {
    limited(|| async {
        let shop = Shop::that(Answer::Never);
        let runtime = shop.open();
        runtime.submit(Glass { broken: false }).await.err().unwrap();
        let entry = one_failed(&runtime);
        assert_eq!(entry.phase.as_deref(), Some("Lie"));
        assert_eq!(entry.failure.unwrap().path, ["Stand", "Fall"]);
    });
}
