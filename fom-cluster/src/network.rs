//! How nodes reach each other.

use std::{fmt, future::Future, io, pin::Pin, sync::Arc};

/// The answer to a request is lost, or there is none. The request may have been served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost;

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the answer of another node is lost")
    }
}

impl std::error::Error for Lost {}

/// The longest message between nodes, in bytes.
pub(crate) const LONGEST: usize = 65 << 20;

/// An answer that comes later.
pub type Answering<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Serves a request of another node.
pub type Serve = Arc<dyn Fn(Vec<u8>) -> Answering<Vec<u8>> + Send + Sync>;

/// How nodes reach each other. [`Tcp`](crate::Tcp) is for processes; a test gives its own network.
pub trait Network: Send + Sync + 'static {
    /// Begins to serve the requests of other nodes. Returns the address at which they reach this node.
    ///
    /// # Errors
    ///
    /// Fails with the error of the system.
    fn listen(&self, serve: Serve) -> io::Result<String>;

    /// Asks the node at this address.
    ///
    /// # Errors
    ///
    /// [`Lost`] as soon as it is known that no answer will come. If the node does not answer at all, the future waits; its
    /// caller drops it.
    fn call(&self, address: &str, request: Vec<u8>) -> Answering<Result<Vec<u8>, Lost>>;

    /// Returns why calls to this address fail, if they do and it is known. [`Cluster::status`](crate::Cluster::status) tells
    /// it.
    fn trouble(&self, address: &str) -> Option<String> {
        let _ = address;
        None
    }
}

/// No network: a cluster with one node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Alone;

impl Network for Alone {
    fn listen(&self, _: Serve) -> io::Result<String> {
        Ok(String::new())
    }

    fn call(&self, _: &str, _: Vec<u8>) -> Answering<Result<Vec<u8>, Lost>> {
        Box::pin(async { Err(Lost) })
    }
}
