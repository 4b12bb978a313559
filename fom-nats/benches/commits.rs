//! How much of the rate of one NATS connection a node of a cluster reaches.
//!
//! ```sh
//! cargo bench -p fom-nats --bench commits -- nats://127.0.0.1:4222
//! ```
//!
//! The question: operations of six phases, with a record of about 160 bytes each, all steps committed, on one node with 64 slots and
//! with one. Beside it, in the same round, messages alone to a stream with the same settings: each is as long as those of the node, and
//! is sent when the one before it is acknowledged. A node with 64 slots can be faster than that: the messages of different slots are under
//! way at the same time. Prints ratios of each round.

#[path = "../../fom-cluster/benches/load/mod.rs"]
mod load;

use std::time::{Duration, Instant};

use async_nats::jetstream::{self, Context};
use fom_durable::prelude::*;
use fom_nats::NatsEngine;
use load::ROUND;

const ROUNDS: usize = 5;

/// Returns the acknowledged messages per second, and the median of one.
async fn raw(context: &Context, name: &str, bytes: usize) -> Result<(f64, Duration), BoxError> {
    let config = jetstream::stream::Config {
        name: name.to_owned(),
        num_replicas: 3,
        allow_direct: true,
        ..jetstream::stream::Config::default()
    };
    context.create_stream(config).await?;
    // Until the servers have chosen the leader of the stream.
    while context
        .publish(name.to_owned(), "".into())
        .await?
        .await
        .is_err()
    {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let body = vec![7_u8; bytes];
    let (begun, mut waits) = (Instant::now(), Vec::new());
    while begun.elapsed() < ROUND {
        let since = Instant::now();
        context
            .publish(name.to_owned(), body.clone().into())
            .await?
            .await?;
        waits.push(since.elapsed());
    }
    let rate = waits.len() as f64 / begun.elapsed().as_secs_f64();
    context.delete_stream(name).await?;
    waits.sort();
    Ok((rate, waits[waits.len() / 2]))
}

/// Returns the messages of a stream so far, and their bytes.
async fn size(context: &Context, name: &str) -> Result<(u64, u64), BoxError> {
    let info = context.get_stream(name).await?.get_info().await?;
    Ok((info.state.last_sequence, info.state.bytes))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let servers: Vec<_> = std::env::args()
        .skip(1)
        .filter(|arg| arg.starts_with("nats://"))
        .collect();
    if servers.is_empty() {
        println!("which servers? cargo bench -p fom-nats --bench commits -- nats://127.0.0.1:4222");
        return Ok(());
    }
    let context = jetstream::new(async_nats::connect(&servers[..]).await?);
    println!(
        "| in flight | slots | transitions/s | each message | raw: transitions/s | rate of raw | p50 of a commit, of raw |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for round in 0..ROUNDS {
        for in_flight in [512, 64, 1] {
            for slots in [64, 1] {
                let name = format!("bench-{round}-{in_flight}-{slots}");
                let engine = NatsEngine::builder(servers.clone(), [""; 0], &*name);
                let engine = engine.allow_no_fsync().build()?;
                let begun = Instant::now();
                let (rate, median) = load::with_cluster(engine, in_flight, slots).await?;
                let stream = format!("fom-{name}");
                let (messages, bytes) = size(&context, &stream).await?;
                context.delete_stream(&stream).await?;
                // A few of them are heartbeats and claims.
                let messages = messages - begun.elapsed().as_secs() - 2 * u64::from(slots);
                let each = rate * ROUND.as_secs_f64() / messages as f64;
                let bytes = bytes / messages;
                let (acknowledged, alone) = raw(&context, "raw", bytes as usize).await?;
                let raw = acknowledged * each;
                println!(
                    "| {in_flight} | {slots} | {rate:.0} | {each:.1} of {bytes} B | {raw:.0} | {:.2} | {median:.2?}, {:.2} |",
                    rate / raw,
                    median.as_secs_f64() / alone.as_secs_f64(),
                );
            }
        }
    }
    Ok(())
}
