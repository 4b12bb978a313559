//! Connections: a fom for each listener accepts them, and spreads them over the localities.

mod accept;

use std::{
    net::{SocketAddr, TcpListener},
    sync::Arc,
};

use fom_runtime::{Operation, Runtime};
use tokio::net::TcpStream;

use crate::{ServeError, foms::Foms};
use accept::TcpAcceptor;

/// Serves TCP listeners: listener `n` belongs to locality `n`, whose reactor watches it. [`bind_tcp`](crate::bind_tcp) makes
/// several listeners of one address. `connect` returns the operation of a connection. It runs in the locality where the
/// operation begins, whose reactor watches the connection.
///
/// The localities take turns with the connections of a listener. While the runtime has no room for another fom, each
/// listener accepts one connection, which waits for room, and no further one. The kernel keeps those that come. If `connect` panics, the runtime reports it as
/// [`IncidentKind::Panicked`](fom_runtime::observe::IncidentKind::Panicked), and the connection is closed.
///
/// The foms of the server run until the server is stopped or dropped. Stop it before a shutdown that drains the runtime.
///
/// ```
/// use fom_net::{bind_tcp, serve_tcp};
/// use fom_runtime::prelude::*;
/// use tokio::{io::AsyncReadExt as _, io::AsyncWriteExt as _, net::TcpStream};
///
/// struct Connection(TcpStream);
///
/// #[fom(operation(Connection), error(std::io::Error), transient)]
/// enum Serving {
///     #[phase(start, to(Closed))]
///     Greet,
///     #[phase(end)]
///     Closed,
/// }
///
/// impl ServingTransitions for Connection {
///     async fn greet(&mut self, _: &mut Cx<'_>) -> std::io::Result<()> {
///         self.0.write_all(b"hello").await
///     }
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), BoxError> {
/// let runtime = Runtime::new()?;
/// let listeners = bind_tcp("127.0.0.1:0".parse()?, runtime.localities())?;
/// let server = serve_tcp(&runtime, listeners, |stream, _peer| Connection(stream))?;
///
/// let mut client = TcpStream::connect(server.local_addr()).await?;
/// let mut text = String::new();
/// client.read_to_string(&mut text).await?;
/// assert_eq!(text, "hello");
/// server.stop().await;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Fails with [`ServeError`]. The listeners are closed then.
pub fn serve_tcp<O: Operation>(
    runtime: &Runtime,
    listeners: Vec<TcpListener>,
    connect: impl Fn(TcpStream, SocketAddr) -> O + Send + Sync + 'static,
) -> Result<TcpServer, ServeError> {
    let address = listeners
        .first()
        .ok_or(ServeError::NoSocket)?
        .local_addr()?;
    let connect = Arc::new(connect);
    let mut foms = Foms::new();
    for (index, listener) in listeners.into_iter().enumerate() {
        listener.set_nonblocking(true)?;
        let locality = index % runtime.localities();
        let connect = Arc::clone(&connect);
        foms.start(runtime, locality, |stop| {
            TcpAcceptor::new(listener, connect, locality, stop)
        })?;
    }
    Ok(TcpServer { address, foms })
}

/// The foms that accept connections. Dropping this value stops them, and does not wait for them.
#[derive(Debug)]
pub struct TcpServer {
    address: SocketAddr,
    foms: Foms,
}

impl TcpServer {
    /// Returns the address of the listeners.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting, and waits until the listeners are closed. Connections that were accepted go on.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the server stops, too.
    pub async fn stop(self) {
        self.foms.stop().await;
    }
}
