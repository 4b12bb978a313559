//! The operations of fom on several machines.
//!
//! The keys of a cluster are divided into *slots*. One node owns each slot: it runs the operations with its keys in a runtime of
//! their own, and an *engine*, such as a replicated database, keeps them. When a node dies or leaves, the other nodes take its slots
//! over, and each operation goes on in the phase that it last committed. A call reaches an operation by its key, wherever it is.
//!
//! ```
//! use fom_cluster::{Cluster, ClusterCxExt as _, MemoryEngine, Tcp};
//! use fom_durable::prelude::*;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Order { cents: u64 }
//!
//! #[derive(Serialize, Deserialize)]
//! enum News { Paid }
//!
//! #[fom(operation(Order), event(News))]
//! enum Selling {
//!     #[phase(start, sync, on(Paid), to(Sent))]
//!     Wait,
//!     #[phase(end)]
//!     Sent,
//! }
//!
//! impl SellingTransitions for Order {
//!     fn wait(&mut self, _: &mut Cx<'_, News>, _: News) -> Result<SellingAfterWait, BoxError> {
//!         Ok(SellingAfterWait::Sent)
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! // Nodes whose engines are clones are one cluster. This engine is for tests: it is in the memory of one process.
//! let engine = MemoryEngine::new();
//! let mut nodes = Vec::new();
//! for name in ["a", "b"] {
//!     let builder = Cluster::builder(engine.clone(), name);
//!     let builder = builder.network(Tcp::bind("127.0.0.1:0")?).operation::<Order>();
//!     nodes.push(builder.join().await?);
//! }
//!
//! let order = nodes[0].submit(Order { cents: 900 }).key("order 7").once("cart 31").start().await?;
//! // From any node:
//! nodes[1].send::<Order>("order 7", News::Paid, "webhook 5").await?;
//! let ended = order.await?.expect("it ends well");
//! assert_eq!(ended.operation.cents, 900);
//! # Ok(())
//! # }
//! ```
//!
//! # Engines
//!
//! [`MemoryEngine`] is for tests. For processes there are `PostgresEngine` in [`fom-postgres`](https://docs.rs/fom-postgres), with the
//! feature `cluster`, and `NatsEngine` in [`fom-nats`](https://docs.rs/fom-nats). For another one, implement [`engine::Engine`];
//! [`ClusterState`] helps an engine that keeps a log, and the feature `testing` has `conformance` for it.
//!
//! # How it works
//!
//! - Each node sends a heartbeat to the engine each second. The answer has the heartbeats of all nodes. A node *evicts* another
//!   node when it has read the same heartbeat for 5 s by its own clock, in at least three answers. An evicted node that still runs
//!   learns of that with its next heartbeat. It then ends its runtimes and joins anew.
//! - The owner of a slot should be the node with the highest hash of its name and the slot. Each node computes this from what it
//!   has read; there is no coordinator. A node *claims* a slot that has no living owner. A claim succeeds only if the slot is as the
//!   node has read it, and adds one to the *term* of the slot.
//! - All slots of a node are committed with one request, which says the term of each. What has another term is refused. So no commit
//!   of a former owner is kept. If the answer is lost, the node claims the slot again: the acknowledgment of that write proves what
//!   is kept.
//! - A runtime enters no phase function later than 4 s after the node sent the last heartbeat that was answered, and a node answers
//!   no call for a slot after that. While the engine does not answer, everything waits, and goes on afterwards.
//! - A slot moves to a better owner one at a time, after ten seconds in which the members were the same. The owner ends the runtime
//!   of the slot, releases it, and tells the new owner.
//! - A phase sends to operations of any slot by [letters](ClusterCxExt::letters): they leave with the commit of the transition, and
//!   arrive once and in order.
//!
//! # Promises
//!
//! | what | promise |
//! | --- | --- |
//! | transitions | exactly once |
//! | effects of a phase function | at least once, with the same [step key](https://docs.rs/fom-runtime/latest/fom_runtime/struct.Cx.html#method.step_key) |
//! | operations with one key | at most one of a type in the cluster |
//! | submissions with one operation id and key | one operation, as long as its outcome is remembered: an hour, unless the builder says otherwise |
//! | letters from one slot to another | each taken once, in the order of the transitions that sent them |
//!
//! No system can exclude that a process is paused between the check of its lease and an effect. The effect can then come after those
//! of the next owner. It has a lower [term](https://docs.rs/fom-durable/latest/fom_durable/trait.DurableCxExt.html#tymethod.term).
//!
//! # Limits
//!
//! - Keys, locks and the outbox of `fom-durable` reach the operations of their own slot. For other slots there are letters.
//! - Letters of different slots have no order among each other. After a takeover, the next owner may take them in another one.
//! - Each node must serve each operation type. A slot goes to a node that can read what its last owner could write, if there is one.
//! - After two owners of a slot have died, one after the other, its next owner notes each fom before it runs it, which costs a request
//!   to the engine. The fom that ran at the third death goes into quarantine.
//! - Limits of the builder of a runtime count for each slot. [`ClusterBuilder::capacity`] limits what a node has in flight.
//!
//! # Modules
//!
//! From the bottom. Each module imports only from modules above it in this table; `tests/layout.rs` checks this.
//!
//! | module | contents |
//! | --- | --- |
//! | `clock` | the clock of leases |
//! | `apart` | work that takes long, on a thread of its own |
//! | `slot` | slots, and the place of an operation |
//! | `assignment` | what operators have said about which node owns which slot |
//! | [`engine`] | what a cluster is kept in |
//! | `cluster_state` | what an engine keeps of a cluster, besides the logs |
//! | `memory` | the engine in memory |
//! | `guarded` | catches the panics of an engine |
//! | `conformance` | the tests of an engine |
//! | `membership` | which nodes live |
//! | `owners` | which node should own a slot |
//! | `time` | the time of the cluster |
//! | `commits` | the commits of all slots of a node |
//! | `error` | the errors |
//! | `copying` | exports and imports under way |
//! | `backup` | exports |
//! | `quarantine` | what a slot has in quarantine |
//! | `status` | what a node knows of the cluster |
//! | `report` | the whole cluster, as all of its nodes see it |
//! | `listed` | the cluster among the parts of a program |
//! | `numbers` | the numbers of calls |
//! | `call` | the messages between nodes |
//! | `poison` | keeps an operation that aborts its process from ending all nodes |
//! | `network` | how nodes reach each other |
//! | `tcp` | the network over TCP |
//! | `answers` | what answers calls by key |
//! | `registry` | the operation types that a node serves |
//! | `room` | how much a node takes on |
//! | `node` | one node: heartbeats, slots and runtimes |
//! | `inbox` | what a slot has taken from other slots |
//! | `answering` | the owner of a slot answers calls by key |
//! | `entries` | what an operator does with what one slot has in quarantine |
//! | `route` | how a request reaches the owner of its slot |
//! | `caller` | the calls by key of this process |
//! | `letter_room` | how many letters wait, and the phases that wait for them |
//! | `letters` | what a phase sends to other slots |
//! | `import` | imports |
//! | `operate` | what a node does for an operator |
//! | `serve` | what a node does when another node calls it |
//! | `operator` | an operator of a cluster |
//! | `submission` | the way of an operation to the owner of its slot |
//! | `cluster` | a cluster, as a program uses it |

mod answering;
mod answers;
mod apart;
mod assignment;
mod backup;
mod call;
mod caller;
mod clock;
mod cluster;
mod cluster_state;
mod commits;
#[cfg(feature = "testing")]
pub mod conformance;
mod copying;
pub mod engine;
mod entries;
mod error;
mod guarded;
mod import;
mod inbox;
mod letter_room;
mod letters;
mod listed;
mod membership;
mod memory;
mod network;
mod node;
mod numbers;
mod operate;
mod operator;
mod owners;
mod poison;
mod quarantine;
mod registry;
mod report;
mod room;
mod route;
mod serve;
mod slot;
mod status;
mod submission;
mod tcp;
mod time;

pub use answers::{Answers, Asked};
pub use cluster::{Cluster, ClusterBuilder, Found};
pub use cluster_state::ClusterState;
pub use copying::{Copied, Copying};
pub use error::{BackupError, ClusterError};
pub use letter_room::LetterRoom;
pub use letters::{ClusterCxExt, Letters};
pub use memory::MemoryEngine;
pub use network::{Answering, Lost, Network, Serve};
pub use operator::Operator;
pub use quarantine::InQuarantine;
pub use report::{NodeLoad, NodeReport, Report};
pub use slot::{Place, Slot};
pub use status::{NodeStatus, SlotStatus, Status};
pub use submission::{NotStarted, Outcome, Started, Submission};
pub use tcp::Tcp;
#[cfg(feature = "tls")]
pub use tcp::Tls;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
