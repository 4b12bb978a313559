//! How long the operations of a node that is killed stand still, on servers of NATS with `sync_interval: always`.
//!
//! ```sh
//! cargo bench -p fom-nats --bench takeover -- nats://127.0.0.1:4222,nats://127.0.0.1:4223,nats://127.0.0.1:4224 1000000 10
//! ```

#[path = "../../fom-cluster/benches/takeover/mod.rs"]
mod takeover;

use fom_durable::prelude::*;
use fom_nats::NatsEngine;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    takeover::run(|servers| {
        let engine = NatsEngine::builder(servers.split(','), [""; 0], "takeover");
        Ok(engine.allow_no_fsync().build()?)
    })
    .await
}
