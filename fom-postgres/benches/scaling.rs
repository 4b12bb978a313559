//! What a second and a third node bring, on a server of PostgreSQL. Each node gets 0.15 of a processor.
//!
//! ```sh
//! cargo bench -p fom-postgres --features cluster --bench scaling -- "host=127.0.0.1 user=postgres" 0.15
//! ```

#[path = "../../fom-cluster/benches/scaling/mod.rs"]
mod scaling;

use fom_durable::prelude::*;
use fom_postgres::PostgresEngine;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    scaling::run(|server, cluster| {
        let engine = PostgresEngine::builder(server, cluster).allow_one_copy();
        Ok(engine.build()?)
    })
    .await
}
