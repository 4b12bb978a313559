//! Asking other components: one of them, all of them, or the first to answer.
//!
//! `cargo run --example waiting`

use std::{thread, time::Duration};

use fom_runtime::{error::Unanswered, prelude::*};

/// Finds the cheapest seller of a thing, and buys there.
struct Purchase {
    thing: &'static str,
}

#[fom(operation(Purchase), transient)]
#[derive(Debug)]
enum Buying {
    /// Asks all sellers and takes the cheapest: one wake-up, by the last answer.
    #[phase(start, to(Buy, NotSold))]
    Compare,
    /// Asks one seller.
    #[phase(to(Ship))]
    Buy { seller: usize },
    /// Asks all carriers and goes with the first.
    #[phase(to(Done))]
    Ship { price: u32 },
    #[phase(end)]
    Done { carrier: &'static str, price: u32 },
    #[phase(end, failure)]
    NotSold,
}

impl BuyingTransitions for Purchase {
    async fn compare(&mut self, cx: &mut Cx<'_>) -> Result<BuyingAfterCompare, BoxError> {
        let thing = self.thing;
        let offers = cx
            .all(0..3, |market: &Market, seller, reply| {
                market.ask(seller, thing, reply);
            })
            .await;
        println!("{thing}: {offers:?}");
        let cheapest = offers
            .iter()
            .enumerate()
            .filter_map(|(seller, offer)| Some(((*offer).ok()??, seller)))
            .min();
        Ok(match cheapest {
            Some((_, seller)) => BuyingAfterCompare::Buy { seller },
            None => BuyingAfterCompare::NotSold,
        })
    }

    async fn buy(
        &mut self,
        cx: &mut Cx<'_>,
        seller: &mut usize,
    ) -> Result<BuyingAfterBuy, BoxError> {
        let thing = self.thing;
        let price = cx
            .call(|market: &Market, reply| market.ask(*seller, thing, reply))
            .await?;
        let price = price.ok_or("sold meanwhile")?;
        Ok(BuyingAfterBuy::Ship { price })
    }

    async fn ship(
        &mut self,
        cx: &mut Cx<'_>,
        price: &mut u32,
    ) -> Result<BuyingAfterShip, BoxError> {
        let carriers = [("tortoise", 200), ("hare", 10), ("snail", 900)];
        let (first, carrier) = cx
            .any(carriers, |market: &Market, (name, millis), reply| {
                market.carry(name, millis, reply);
            })
            .await?;
        println!("carrier number {first} was the first to answer");
        Ok(BuyingAfterShip::Done {
            carrier,
            price: *price,
        })
    }
}

/// A component with its own threads, which knows nothing of foms but the reply.
struct Market;

impl Market {
    fn ask(&self, seller: usize, thing: &'static str, reply: Reply<Option<u32>>) {
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(10));
            let price = match (seller, thing) {
                (0, "a lamp") => Some(30),
                (1, "a lamp") => Some(20),
                // A seller that drops the question: the answer is `Unanswered`.
                (2, _) => return,
                _ => None,
            };
            // Fails if no fom waits any more.
            let _ = reply.send(price);
        });
    }

    fn carry(&self, name: &'static str, millis: u64, reply: Reply<&'static str>) {
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(millis));
            let _ = reply.send(name);
        });
    }
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), BoxError> {
    let runtime = Runtime::builder().resource(Market).build()?;
    let lamp = runtime.submit(Purchase { thing: "a lamp" }).await?;
    println!("{:?}", lamp.end);
    assert!(matches!(
        lamp.end,
        BuyingEnd::Done {
            carrier: "hare",
            price: 20
        }
    ));

    let moon = runtime.submit(Purchase { thing: "the moon" }).await?;
    println!("{:?}", moon.end);
    // The text for a dropped question.
    println!("an answer that never came: {Unanswered}");
    Ok(())
}
