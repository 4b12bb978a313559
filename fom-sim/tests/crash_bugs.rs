//! Programs with a bug that only a crash or a second node shows. The simulator finds each, and makes it plain.

mod kit;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use fom_durable::prelude::*;
use fom_runtime::Builder;
use fom_sim::{self as sim, Disk};
use kit::found;
use serde::{Deserialize, Serialize};

sim::interpose!();

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

/// The world outside, which outlives the nodes: what was done there, how often.
#[derive(Clone, Debug, Default)]
struct World(Arc<Mutex<BTreeMap<String, u32>>>);

impl World {
    fn act(&self, what: impl Into<String>) {
        *self.0.lock().unwrap().entry(what.into()).or_default() += 1;
    }

    fn times(&self, what: &str) -> u32 {
        self.0
            .lock()
            .unwrap()
            .get(what)
            .copied()
            .unwrap_or_default()
    }
}

fn server(disk: &Disk, world: &World) -> Builder {
    let builder = Runtime::builder().localities(2).resource(world.clone());
    builder.remember(100, 30 * DAY).journal_with(disk.journal())
}

#[derive(Serialize, Deserialize)]
struct Order;

#[fom(operation(Order))]
#[derive(Debug)]
enum Buying {
    #[phase(start, sync, to(Confirm))]
    Pay,
    #[phase(sync, to(Done))]
    Confirm,
    #[phase(end)]
    Done,
}

impl BuyingTransitions for Order {
    fn pay(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        // Without a step key, the bank cannot tell a repetition.
        cx.resource::<World>().act("paid");
        Ok(())
    }

    fn confirm(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

#[test]
fn an_effect_without_a_step_key() {
    let told = found(6, |sim| {
        let (disk, world) = (sim.disk(), World::default());
        let of = world.clone();
        let shop = sim.node("shop", move || server(&disk, &of));
        sim.during(|chaos| chaos.kill("shop", 1));
        sim.always(move || assert!(world.times("paid") <= 1, "paid twice"));
        let order = shop.clone();
        sim.spawn(async move {
            // Only once: this client does not repeat.
            let _ = order
                .call(async |runtime| runtime.submit(Order).start()?.await)
                .await;
        });
        sim.settle(MINUTE);
    });
    assert!(told.contains(" fails: paid twice\n"), "{told}");
    assert!(told.contains("shop  *** killed, starts in "), "{told}");
    assert!(told.contains("    participant shop\n"), "{told}");
}

/// The client repeats its request, without an id.
#[test]
fn a_request_without_once() {
    let told = found(6, |sim| {
        let (disk, world) = (sim.disk(), World::default());
        let of = world.clone();
        let shop = sim.node("shop", move || server(&disk, &of));
        sim.during(|chaos| chaos.lose());
        sim.spawn(async move {
            let ask = || shop.call(async |runtime| runtime.submit(Order).start()?.await);
            while ask().await.is_err() {}
        });
        sim.settle(MINUTE);
        assert_eq!(world.times("paid"), 1, "paid twice");
    });
    assert!(told.contains("paid twice"), "{told}");
    assert!(told.contains("*** a message from shop is lost"), "{told}");
}

/// Mails the customer, who must get a mail for each order that was taken.
#[derive(Serialize, Deserialize)]
struct Mail;

#[fom(operation(Mail), transient)]
enum Mailing {
    #[phase(start, to(Sent))]
    Send,
    #[phase(end)]
    Sent,
}

impl MailingTransitions for Mail {
    async fn send(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.sleep(Duration::from_millis(5)).await;
        cx.resource::<World>().act("mailed");
        Ok(())
    }
}

#[derive(Serialize, Deserialize)]
struct Sale;

#[fom(operation(Sale))]
enum Selling {
    #[phase(start, sync, to(Taken))]
    Take,
    #[phase(sync, to(Done))]
    Taken,
    #[phase(end)]
    Done,
}

impl SellingTransitions for Sale {
    fn take(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    fn taken(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.resource::<World>().act("taken");
        // Not `cx.outbox().submit(..)`: a crash loses the mail.
        cx.submit(Mail).detach()?;
        Ok(())
    }
}

#[test]
fn a_forgotten_outbox() {
    let told = found(6, |sim| {
        let (disk, world) = (sim.disk(), World::default());
        let of = world.clone();
        let shop = sim.node("shop", move || server(&disk, &of));
        sim.during(|chaos| chaos.kill("shop", 1));
        sim.spawn(async move {
            let ask = || shop.call(async |runtime| runtime.submit(Sale).once(7).await);
            while ask().await.is_err() {}
        });
        sim.settle(MINUTE);
        assert!(world.times("mailed") > 0, "no mail for what was taken");
    });
    assert!(told.contains("no mail for what was taken"), "{told}");
}

/// Waits for a signature until tomorrow.
#[derive(Serialize, Deserialize)]
struct Parcel {
    /// Not saved.
    #[serde(skip)]
    waits: Option<Duration>,
}

#[derive(Debug, Serialize, Deserialize)]
enum News {
    Signed,
}

#[fom(operation(Parcel), event(News))]
enum Delivery {
    #[phase(start, sync, to(Await))]
    Bring,
    #[phase(on(Signed), to(Signed, Returned))]
    Await,
    #[phase(end)]
    Signed,
    #[phase(end)]
    Returned,
}

impl DeliveryTransitions for Parcel {
    fn bring(&mut self, _: &mut Cx<'_, News>) -> Result<(), BoxError> {
        self.waits = Some(DAY);
        Ok(())
    }

    async fn r#await(&mut self, cx: &mut Cx<'_, News>) -> Result<DeliveryAfterAwait, BoxError> {
        let Some(time) = self.waits else {
            // After a restart, there is no deadline.
            cx.event().await;
            return Ok(DeliveryAfterAwait::Signed);
        };
        Ok(match cx.event_within(time).await {
            Some(News::Signed) => DeliveryAfterAwait::Signed,
            None => DeliveryAfterAwait::Returned,
        })
    }
}

#[test]
fn a_deadline_that_a_restart_loses() {
    let told = found(6, |sim| {
        let (disk, world) = (sim.disk(), World::default());
        let post = sim.node("post", move || server(&disk, &world));
        sim.during(|chaos| chaos.kill("post", 1));
        let runtime = post.runtime();
        runtime.submit(Parcel { waits: None }).detach().unwrap();
        sim.settle(3 * DAY);
    });
    assert!(told.contains("not all has ended after 259200s"), "{told}");
    assert!(told.contains("post:\n"), "{told}");
}

/// A seat that one caller gets. Each node serves the requests of a key one after the other.
struct Book {
    seats: Arc<Mutex<BTreeSet<u32>>>,
    is_free: bool,
}

#[fom(operation(Book), transient)]
enum Booking {
    #[phase(start, sync, to(Take))]
    Look,
    #[phase(sync, to(Done))]
    Take,
    #[phase(end)]
    Done,
}

impl BookingTransitions for Book {
    fn look(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        self.is_free = !self.seats.lock().unwrap().contains(&12);
        Ok(())
    }

    fn take(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        let is_new = self.seats.lock().unwrap().insert(12);
        assert!(is_new || !self.is_free, "a seat for two callers");
        Ok(())
    }
}

#[test]
fn two_nodes_that_serve_one_key() {
    let told = found(6, |sim| {
        let seats = Arc::<Mutex<BTreeSet<u32>>>::default();
        let booked = Arc::new(Mutex::new(0));
        for name in ["one", "two"] {
            let node = sim.node(name, || Runtime::builder().localities(2));
            let (seats, booked) = (Arc::clone(&seats), Arc::clone(&booked));
            sim.spawn(async move {
                let book = Book {
                    seats,
                    is_free: false,
                };
                let runtime = node.runtime();
                let booking = runtime.submit(book).key("seat 12").queue();
                let ended = booking.start().unwrap().await;
                assert!(ended.is_ok(), "a seat for two callers");
                *booked.lock().unwrap() += 1;
            });
        }
        sim.settle(MINUTE);
    });
    assert!(told.contains("a seat for two callers"), "{told}");
    assert!(told.contains("  one/") && told.contains("  two/"), "{told}");
}
