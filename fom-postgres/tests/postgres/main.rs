//! The journal on real servers. Without an installed server each test is skipped, with a message.

#[path = "../../../fom-runtime/tests/kit/mod.rs"]
mod kit;

mod copies;
#[cfg(feature = "cluster")]
mod engine;
mod fencing;
#[cfg(feature = "cluster")]
mod nodes;
mod promises;
mod refusals;
mod server;
mod sql;
mod takeover;
#[cfg(feature = "tls")]
mod tls;

use fom_postgres::{PostgresJournal, PostgresJournalBuilder};
use server::Server;

/// Settings of a server that is safe enough for tests that kill no machine.
const SAFE: &[&str] = &["fsync = off"];

/// A journal on this server, which has one copy and no fsync.
fn journal_of(server: &Server, name: &str) -> PostgresJournalBuilder {
    journal_with(&server.config(), name)
}

fn journal_with(config: &str, name: &str) -> PostgresJournalBuilder {
    let builder = PostgresJournal::builder(config, name);
    builder.allow_no_fsync().allow_one_copy()
}
