//! How long the operations of a node that is killed stand still, on a server of PostgreSQL.
//!
//! ```sh
//! cargo bench -p fom-postgres --features cluster --bench takeover -- "host=127.0.0.1 user=postgres" 1000000 10
//! ```

#[path = "../../fom-cluster/benches/takeover/mod.rs"]
mod takeover;

use fom_durable::prelude::*;
use fom_postgres::PostgresEngine;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    takeover::run(|server| {
        let engine = PostgresEngine::builder(server, "takeover").allow_one_copy();
        Ok(engine.build()?)
    })
    .await
}
