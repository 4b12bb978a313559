//! A server that speaks the Redis protocol. Its commands are foms.
//!
//! | to | see |
//! | --- | --- |
//! | run one | [`Server`], [`Settings`] |
//! | read and write the protocol | [`wire`] |
//!
//! What differs from Redis is in the README.

mod accept;
pub mod cli;
mod client;
mod command;
mod common;
mod live;
mod places;
mod pop;
mod rate;
mod save;
mod server;
mod shard;
mod transaction;
pub mod wire;

pub use client::admin::graph;
pub use save::{Save, StoreError};
pub use server::{Server, Settings, StartError};
