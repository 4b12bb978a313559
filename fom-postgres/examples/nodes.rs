//! A program that runs on several machines at once: each one has a share of the parcels, and takes over from the others.
//!
//! ```sh
//! cargo run -p fom-postgres --features cluster --example nodes -- "host=127.0.0.1 user=postgres" a
//! cargo run -p fom-postgres --features cluster --example nodes -- "host=127.0.0.1 user=postgres" b   # in another terminal
//! cargo run -p fom-postgres --features cluster --example nodes -- "host=127.0.0.1 user=postgres" c   # in a third one
//! ```
//!
//! Kill one of them: the others go on with its parcels. Start it again: it gets a share back. A server for a try has neither a
//! second copy nor real users, so the program accepts one copy.

use std::time::Duration;

use fom_cluster::{Cluster, Tcp};
use fom_durable::prelude::*;
use fom_postgres::PostgresEngine;
use serde::{Deserialize, Serialize};

/// The number of parcels.
const PARCELS: u32 = 24;
/// The number of stops on the way of each.
const STOPS: u32 = 60;

#[derive(Serialize, Deserialize)]
struct Parcel {
    number: u32,
    stops: u32,
}

#[fom(operation(Parcel))]
enum Delivery {
    #[phase(start, to(Drive, Delivered))]
    Drive,
    #[phase(end)]
    Delivered,
}

impl DeliveryTransitions for Parcel {
    async fn drive(&mut self, cx: &mut Cx<'_>) -> Result<DeliveryAfterDrive, BoxError> {
        cx.sleep(Duration::from_secs(1)).await;
        self.stops += 1;
        if self.stops.is_multiple_of(10) {
            let term = cx.term().unwrap_or(0);
            println!(
                "parcel {}: stop {} of {STOPS}, in term {term}",
                self.number, self.stops
            );
        }
        Ok(match self.stops {
            STOPS => DeliveryAfterDrive::Delivered,
            _ => DeliveryAfterDrive::Drive,
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let mut args = std::env::args().skip(1);
    let config = args
        .next()
        .ok_or("which server? \"host=127.0.0.1 user=postgres\"")?;
    let name = args.next().ok_or("which name has this node?")?;
    let engine = PostgresEngine::builder(config, "parcels").allow_one_copy();
    let cluster = Cluster::builder(engine.build()?, name)
        // The nodes are on one machine. Between machines they also need a secret.
        .network(Tcp::bind("127.0.0.1:0")?)
        .slots(16)
        .operation::<Parcel>()
        .join()
        .await?;
    println!("this node has joined");

    let seen = cluster.clone();
    tokio::spawn(async move {
        let mut told = String::new();
        loop {
            let status = seen.status().to_string();
            if status != told {
                println!("\n{status}");
                told = status;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });

    // Each node submits all of them. An operation id makes one operation of that.
    let mut parcels = Vec::new();
    for number in 0..PARCELS {
        let parcel = Parcel { number, stops: 0 };
        let submission = cluster.submit(parcel).key(number).once(number);
        parcels.push(submission.start().await?);
    }
    for parcel in parcels {
        // It goes on whichever node is lost.
        let _ = parcel.await?;
    }
    println!("all parcels are delivered");
    cluster.leave().await;
    Ok(())
}
