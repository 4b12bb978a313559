//! The operations of fom on several machines.

mod call;
mod clock;
mod cluster;
mod commits;
#[cfg(feature = "testing")]
pub mod conformance;
pub mod engine;
mod error;
mod here;
mod letters;
mod membership;
mod memory;
mod network;
mod node;
mod owners;
mod registry;
mod route;
mod slot;
mod status;
mod tcp;
mod time;

pub use call::Refusal;
pub use cluster::{Cluster, ClusterBuilder, Found, NotStarted, Outcome, Started, Submission};
pub use error::ClusterError;
pub use letters::{ClusterCxExt, Letters};
pub use memory::MemoryEngine;
pub use network::{Answering, Lost, Network, Serve};
pub use slot::{Place, Slot};
pub use status::{NodeStatus, SlotStatus, Status};
pub use tcp::Tcp;
