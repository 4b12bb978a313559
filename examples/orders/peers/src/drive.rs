//! One process with one peer: takes orders in, sends the webhooks, and measures until all orders have ended.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use fom_runtime::prelude::BoxError;
use tokio::{
    sync::{Semaphore, mpsc::UnboundedReceiver},
    time::sleep,
};

use crate::world::{Opened, Order, Peer, Webhook, World};

/// What a process is to do.
pub struct Task {
    pub directory: PathBuf,
    pub orders: usize,
    pub in_flight: usize,
}

/// The line that a process prints when half of the orders have ended.
pub const HALF: &str = "half";

fn reference(number: usize) -> String {
    format!("order-{number}")
}

/// Prints the line `seconds back repeated`: the time that all orders took, the time until those ended that were open at the
/// start, and the number of repeated requests.
pub async fn drive<P: Peer>(task: Task) -> Result<(), BoxError> {
    let begun = Instant::now();
    let Opened {
        world,
        webhooks,
        mut ended,
    } = World::open(&task.directory)?;
    // Before the peer goes on with orders, which may end at once.
    let mut open = world.open_orders();
    let left: Vec<_> = (0..task.orders)
        .map(reference)
        .filter(|reference| !world.has_ended(reference))
        .collect();
    let peer = P::open(Arc::clone(&world), &task.directory).await?;
    tokio::spawn(send(peer.clone(), webhooks));

    let mut to_end = left.len();
    let room = Arc::new(Semaphore::new(task.in_flight));
    tokio::spawn(order(peer, left, Arc::clone(&room)));

    let mut back = Duration::ZERO;
    while to_end > 0 {
        let reference = ended.recv().await.ok_or("the world is gone")?;
        room.add_permits(1);
        to_end -= 1;
        if open.remove(&reference) && open.is_empty() {
            back = begun.elapsed();
        }
        if to_end == task.orders / 2 {
            println!("{HALF}");
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let repeated = world.check((0..task.orders).map(reference))?;
    println!("{seconds} {} {repeated}", back.as_secs_f64());
    Ok(())
}

/// Takes the orders in, each when there is room for it. A client without an answer asks again.
async fn order<P: Peer>(peer: P, references: Vec<String>, room: Arc<Semaphore>) {
    for reference in references {
        let Ok(permit) = room.acquire().await else {
            return;
        };
        permit.forget();
        let peer = peer.clone();
        tokio::spawn(async move {
            let order = Order { reference };
            while let Err(error) = peer.order(order.clone()).await {
                eprintln!("{}: {error}", order.reference);
                sleep(Duration::from_millis(50)).await;
            }
        });
    }
}

/// Sends the webhooks, each until it is taken.
async fn send<P: Peer>(peer: P, mut webhooks: UnboundedReceiver<Webhook>) {
    while let Some(webhook) = webhooks.recv().await {
        let peer = peer.clone();
        tokio::spawn(async move {
            while let Err(error) = peer.news(webhook.clone()).await {
                eprintln!("{}: {error}", webhook.reference);
                sleep(Duration::from_millis(50)).await;
            }
        });
    }
}
