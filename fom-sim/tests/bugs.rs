//! Programs with a bug that only some orders show. The simulator finds each, and makes it plain.

mod kit;

use std::{
    panic::catch_unwind,
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering::Relaxed},
    },
    time::Duration,
};

use fom_patterns::lock::{LockGuard, LongLock};
use fom_runtime::prelude::*;
use fom_sim::{self as sim, Sim};
use kit::found;

sim::interpose!();

const MINUTE: Duration = Duration::from_secs(60);

/// A buyer takes an item, if there is one.
struct Buy(Arc<AtomicI32>);

#[fom(operation(Buy), transient)]
enum Buying {
    #[phase(start, sync, to(Take, SoldOut))]
    Check,
    #[phase(sync, to(Sold))]
    Take,
    #[phase(end)]
    Sold,
    #[phase(end)]
    SoldOut,
}

impl BuyingTransitions for Buy {
    fn check(&mut self, _: &mut Cx<'_>) -> Result<BuyingAfterCheck, BoxError> {
        Ok(match self.0.load(Relaxed) {
            1.. => BuyingAfterCheck::Take,
            _ => BuyingAfterCheck::SoldOut,
        })
    }

    fn take(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        self.0.fetch_sub(1, Relaxed);
        Ok(())
    }
}

#[test]
fn a_check_in_one_phase_and_the_use_in_the_next() {
    let told = found(4, |sim| {
        let items = Arc::new(AtomicI32::new(1));
        let shop = sim
            .node("shop", || Runtime::builder().localities(2))
            .runtime();
        let left = Arc::clone(&items);
        sim.always(move || assert!(left.load(Relaxed) >= 0, "sold twice"));
        for _ in 0..3 {
            shop.submit(Buy(Arc::clone(&items))).detach().unwrap();
        }
        sim.settle(MINUTE);
    });
    assert!(told.contains(" fails: sold twice\n"), "{told}");
    assert!(told.contains("Take -> Sold"), "{told}");
    assert!(told.contains("\nsequenceDiagram\n"), "{told}");
    assert!(told.contains("Again: FOM_SIM_SEED="), "{told}");
    let trace = told
        .lines()
        .find_map(|line| line.strip_prefix("For Perfetto: "));
    let trace = std::fs::read(trace.expect("the file of the trace")).unwrap();
    let trace: Vec<serde_json::Value> = serde_json::from_slice(&trace).unwrap();
    let is_slice = |entry: &&serde_json::Value| entry["ph"] == "X" && entry["name"] == "Take";
    // Two buyers came so far.
    assert_eq!(trace.iter().filter(is_slice).count(), 2);
    let is_node = |entry: &serde_json::Value| entry["args"]["name"] == "shop";
    assert!(trace.iter().any(is_node));
}

/// A client that asks by key, and gives up if nobody is there yet.
struct Call;

#[derive(Debug)]
enum News {
    Answer,
}

#[fom(operation(Call), event(News), transient)]
#[derive(Debug)]
enum Calling {
    #[phase(start, sync, on(Answer), to(Answered, Missed), within = "1s", late)]
    Ring,
    #[phase(end)]
    Answered,
    #[phase(end)]
    Missed,
}

impl CallingTransitions for Call {
    fn ring(&mut self, _: &mut Cx<'_, News>, _: News) -> Result<CallingAfterRing, BoxError> {
        Ok(CallingAfterRing::Answered)
    }

    fn ring_late(&mut self, _: &mut Cx<'_, News>) -> Result<CallingAfterRing, BoxError> {
        Ok(CallingAfterRing::Missed)
    }
}

#[test]
fn an_event_that_comes_before_its_receiver() {
    let told = found(3, |sim| {
        let node = sim
            .node("calls", || Runtime::builder().localities(2))
            .runtime();
        let calls = node.clone();
        sim.spawn(async move {
            let call = calls.submit(Call).key("alice").start().unwrap();
            assert!(
                matches!(call.await.unwrap().end, CallingEnd::Answered),
                "missed"
            );
        });
        sim.spawn(async move {
            // The call may not be there yet.
            if let Some(call) = node.find::<Call>("alice") {
                call.send(News::Answer).unwrap();
            }
        });
        sim.settle(MINUTE);
    });
    assert!(told.contains("missed"), "{told}");
    // The deadline passed, at once.
    assert!(told.contains("1s  calls/"), "{told}");
}

/// An answer at the moment of the deadline: it comes before, or it is too late.
#[test]
fn an_answer_beside_the_deadline() {
    let told = found(4, |sim| {
        let node = sim
            .node("calls", || Runtime::builder().localities(2))
            .runtime();
        let call = node.submit(Call).start().unwrap();
        let answer = call.sender();
        sim.spawn(async move {
            sim::sleep(Duration::from_secs(1));
            let _ = answer.send(News::Answer);
        });
        sim.spawn(async move {
            assert!(
                matches!(call.await.unwrap().end, CallingEnd::Answered),
                "too late"
            );
        });
        sim.settle(MINUTE);
    });
    assert!(told.contains("too late"), "{told}");
}

/// Takes two locks, one after the other.
struct Transfer {
    first: LongLock,
    second: LongLock,
    held: Vec<LockGuard>,
}

#[fom(operation(Transfer), transient)]
enum Transferring {
    #[phase(start, to(LockSecond))]
    LockFirst,
    #[phase(to(Done))]
    LockSecond,
    #[phase(end)]
    Done,
}

impl TransferringTransitions for Transfer {
    async fn lock_first(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.held.push(self.first.write(cx).await?);
        Ok(())
    }

    async fn lock_second(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.held.push(self.second.write(cx).await?);
        self.held.clear();
        Ok(())
    }
}

#[test]
fn locks_in_the_wrong_order() {
    let told = found(6, |sim| {
        let bank = sim
            .node("bank", || Runtime::builder().localities(2))
            .runtime();
        let (alice, bob) = (LongLock::new("alice"), LongLock::new("bob"));
        let locks = [(&alice, &bob), (&bob, &alice)];
        for (first, second) in locks {
            let (first, second) = (first.clone(), second.clone());
            let held = Vec::new();
            let transfer = bank.submit(Transfer {
                first,
                second,
                held,
            });
            transfer.detach().unwrap();
        }
        sim.settle(MINUTE);
    });
    assert!(told.contains("not all has ended after 60s"), "{told}");
    // The listing says which lock each transfer waits for.
    assert!(told.contains("the lock `bob`, held by"), "{told}");
}

/// A key is suspended, and a task that ends early forgets to resume it.
#[test]
fn a_key_that_stays_suspended() {
    let told = found(4, |sim| {
        let node = sim
            .node("calls", || Runtime::builder().localities(2))
            .runtime();
        let calls = node.clone();
        sim.spawn(async move {
            let suspended = calls.suspend_key::<Call>("alice");
            let running = calls.find::<Call>("alice").is_some();
            match running {
                // Forgotten.
                true => std::mem::forget(suspended),
                false => drop(suspended),
            }
        });
        sim.spawn(async move {
            for _ in 0..2 {
                let call = node.submit(Call).key("alice").queue().start().unwrap();
                call.send(News::Answer).unwrap();
                call.await.unwrap();
            }
        });
        sim.settle(MINUTE);
    });
    assert!(told.contains("not all has ended after 60s"), "{told}");
}

fn two_buyers(sim: &mut Sim, queue: bool) {
    let items = Arc::new(AtomicI32::new(1));
    let shop = sim.node("shop", || Runtime::builder().localities(2));
    let (shop, left) = (shop.runtime(), Arc::clone(&items));
    sim.always(move || assert!(left.load(Relaxed) >= 0, "sold twice"));
    for _ in 0..2 {
        let buy = shop.submit(Buy(Arc::clone(&items)));
        match queue {
            true => buy.key("item").queue().detach().unwrap(),
            false => buy.detach().unwrap(),
        };
    }
    sim.settle(MINUTE);
}

/// Each sequence with at most two choices that are not 0 is tried. If the buyers queue by a key, there is nothing to find.
#[test]
fn all_orders_with_two_switches() {
    let explored = catch_unwind(|| sim::explore_all(2, |sim| two_buyers(sim, false)));
    let told = explored.expect_err("the bug is found");
    let told = told.downcast::<String>().expect("a text");
    assert!(told.contains(" fails: sold twice\n"), "{told}");

    let all = sim::explore_all(2, |sim| two_buyers(sim, true));
    assert!(all.runs > 50, "{all:?}");
}
