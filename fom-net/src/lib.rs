//! Sockets that belong to localities.
//!
//! A server of [`fom_runtime`] is fast if a packet meets all that it needs in one locality: the reactor that watches its
//! socket, the fom that reads it, and the operation that serves it. Then no other thread is woken.
//!
//! | function | what it does |
//! | --- | --- |
//! | [`bind_udp`], [`bind_tcp`] | make a socket for each locality, all of one address (`SO_REUSEPORT`) |
//! | [`serve_udp`] | gives datagrams to your [`Datagrams`], in rounds; what a round answers leaves together |
//! | [`serve_tcp`] | begins an operation for each connection, and spreads them over the localities |
//!
//! Their examples are whole servers.

#![forbid(unsafe_code)]

mod bind;
mod error;
mod foms;
mod tcp;
mod udp;

pub use bind::{bind_tcp, bind_udp};
pub use error::ServeError;
pub use tcp::{TcpServer, serve_tcp};
pub use udp::{Datagrams, Steered, UdpCounts, UdpCx, UdpOrder, UdpSender, UdpServer, serve_udp};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
