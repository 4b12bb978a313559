//! An HTTP server of payments. Each request is a fom, and so is each connection.
//!
//! The server beside it, `twin`, has the same addresses and answers, and a tokio task for each connection.

#![forbid(unsafe_code)]

mod bank;
mod connection;
mod http;
mod pay;
mod quote;
mod server;
pub mod serving;
pub mod twin;

pub use server::Server;
