//! Why a server could not start.

use std::io;

use fom_runtime::error::RefusedReason;

/// The reason why a server could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The list of sockets is empty.
    #[error("there is no socket; `bind_udp` and `bind_tcp` return some")]
    NoSocket,
    /// A socket has no address, or cannot be made nonblocking.
    #[error("a socket cannot be used: {0}")]
    Socket(#[from] io::Error),
    /// The runtime takes no foms.
    #[error("the runtime takes no foms: {0}")]
    Refused(RefusedReason),
}
