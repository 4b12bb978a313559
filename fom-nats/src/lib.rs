//! The engine of a [cluster](https://docs.rs/fom-cluster) of fom in NATS JetStream: several nodes share the operations, and take
//! over from each other.
//!
//! ```no_run
//! use fom_cluster::{Cluster, Tcp};
//! use fom_nats::NatsEngine;
//!
//! # async fn join() -> Result<(), Box<dyn std::error::Error>> {
//! let servers = ["nats://a", "nats://b", "nats://c"];
//! let monitors = ["http://a:8222", "http://b:8222", "http://c:8222"];
//! let engine = NatsEngine::builder(servers, monitors, "orders").build()?;
//! let node = Cluster::builder(engine, "eu-1a")
//!     .network(Tcp::bind("10.0.0.7:7070")?.secret(std::env::var("ORDERS_SECRET")?));
//! // `.operation::<Order>()` for each type of operation; then:
//! let cluster = node.join().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Servers
//!
//! The servers must have NATS 2.12 or a later version, and this in their settings:
//!
//! ```text
//! http: 10.0.0.7:8222
//! jetstream { store_dir: /var/lib/nats, sync_interval: always }
//! ```
//!
//! Without `sync_interval: always`, a server acknowledges messages before they are on its disk. The engine refuses such servers, and
//! those whose monitoring page does not tell. A page that does not answer is accepted if those of a majority do.
//!
//! # How it works
//!
//! A cluster is one stream with three copies.
//!
//! - The subject `fom.CLUSTER.control` has what nodes ask of the cluster: heartbeats, claims, notes. A node adds a request only
//!   directly after the last one that it has applied, so all nodes apply the same requests in the same order. The text is JSON:
//!   `nats stream view fom-CLUSTER` shows it. After a thousand requests, a node adds a snapshot, and older requests are deleted.
//! - The subject `fom.CLUSTER.slot.N` has the log of slot N. Its owner adds a message for each commit, directly after the last one
//!   that it knows. The records of different slots are under way at the same time. A commit that is longer than a message is an
//!   atomic batch.
//! - A claim adds a request to the state, and then a message to the log of the slot. From its acknowledgment on, the log takes
//!   nothing from a former owner: the last message is another one.
//! - If an acknowledgment is lost, the owner claims the slot again. No read is trusted: the last message of a slot may be one that
//!   a deposed leader shows. Only what precedes an acknowledged message counts.
//!
//! The promises are those of the cluster. There is no transaction with tables of the application: `fom-postgres` has that.
//!
//! # Modules
//!
//! From the bottom. Each module imports only from modules above it in this table; `tests/layout.rs` checks this.
//!
//! | module | contents |
//! | --- | --- |
//! | `error` | the errors |
//! | `monitor` | what the monitoring pages of servers tell |
//! | `record` | what a commit or a claim adds to the log of a slot |
//! | `request` | what a node asks of the cluster |
//! | `page` | the answer to a read, without holes |
//! | `connection` | the connections, and their thread |
//! | `control` | the state of the cluster |
//! | `logs` | the logs of slots |
//! | `engine` | the engine |

mod connection;
mod control;
mod engine;
mod error;
mod logs;
mod monitor;
mod page;
mod record;
mod request;

pub use async_nats::ConnectOptions;
pub use engine::{NatsEngine, NatsEngineBuilder};
pub use error::NatsError;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
