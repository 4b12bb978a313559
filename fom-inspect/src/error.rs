//! The errors of the start.

use std::{io, net::SocketAddr, path::PathBuf};

/// An inspector could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address cannot be bound to: it is in use, is of another machine, or is no address.
    #[error("the inspector cannot listen at {address}: {source}; choose another address")]
    Bind {
        /// The address, as it was given.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// The path of the socket is a file of another kind, or the socket of a running program.
    #[error(
        "the inspector cannot listen at {}: {reason}; choose another path",
        path.display()
    )]
    PathInUse {
        /// The path.
        path: PathBuf,
        /// What is there.
        reason: &'static str,
    },
    /// The address is not loopback, and there is no token: each machine of the network could read what runs.
    #[error(
        "other machines reach {0}: set a token with `Inspector::token`, or listen at 127.0.0.1 or at a unix socket"
    )]
    NeedsToken(SocketAddr),
    /// The inspector shows data, and there is no token.
    #[error("the inspector shows data of operations: set a token with `Inspector::token`")]
    DataNeedsToken,
    /// A token is so short that it can be guessed.
    #[error("the token has {length} bytes: use at least 16 random characters")]
    WeakToken {
        /// The length of the token.
        length: usize,
    },
    /// The thread of the inspector cannot be created.
    #[error("the thread of the inspector cannot be created: {0}")]
    Thread(#[source] io::Error),
}
