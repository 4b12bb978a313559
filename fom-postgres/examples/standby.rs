//! A program that runs on two machines: one has the journal, the other waits and takes over.
//!
//! ```sh
//! cargo run -p fom-postgres --example standby -- "host=127.0.0.1 user=postgres" first
//! cargo run -p fom-postgres --example standby -- "host=127.0.0.1 user=postgres" second   # in another terminal
//! ```
//!
//! Kill the first one: the second one goes on with the orders. A server for a try has neither a second copy nor real
//! users, so the program accepts one copy.

use std::time::Duration;

use fom_durable::prelude::*;
use fom_postgres::PostgresJournal;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order {
    number: u32,
    packed: u32,
}

#[fom(operation(Order))]
enum Packing {
    #[phase(start, to(Pack, Sent))]
    Pack,
    #[phase(end)]
    Sent,
}

impl PackingTransitions for Order {
    async fn pack(&mut self, cx: &mut Cx<'_>) -> Result<PackingAfterPack, BoxError> {
        cx.sleep(Duration::from_secs(1)).await;
        self.packed += 1;
        println!(
            "order {}: {} of 10 packed, in term {}",
            self.number,
            self.packed,
            cx.term().unwrap_or(0)
        );
        Ok(match self.packed {
            10 => PackingAfterPack::Sent,
            _ => PackingAfterPack::Pack,
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let mut args = std::env::args().skip(1);
    let config = args
        .next()
        .ok_or("which server? \"host=127.0.0.1 user=postgres\"")?;
    let node = args.next().unwrap_or_else(|| "a node".to_owned());
    let journal = PostgresJournal::builder(config, "packing")
        .node(node)
        .allow_one_copy()
        .on_wait(|owner| println!("waiting: {owner}"))
        .open()
        .await?;
    let runtime = Runtime::builder().journal_with(journal).build()?;
    println!("this process has the journal");
    let mut orders = Vec::new();
    for number in 0..5 {
        // A second process that submits the same order gets the order that is there.
        let order = Order { number, packed: 0 };
        orders.push(runtime.submit(order).once(number).start()?);
    }
    for order in orders {
        order.await?;
    }
    println!("all orders are sent");
    Ok(())
}
