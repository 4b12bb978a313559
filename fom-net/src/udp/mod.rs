//! Datagrams: a fom for each socket receives them, another one sends what the round has answered.

mod flush;
mod receive;
mod sender;

use std::{
    net::{SocketAddr, UdpSocket},
    sync::Arc,
    time::Duration,
};

use fom_runtime::{Cx, Runtime};

use crate::{ServeError, foms::Foms};
use flush::UdpFlusher;
use receive::{Receivers, UdpReceiver};
pub use receive::{Steered, UdpOrder};
pub use sender::{UdpCounts, UdpSender};

/// The context in which datagrams are taken: that of a fom in the locality of the socket.
pub type UdpCx<'a> = Cx<'a, UdpOrder>;

/// What a program does with the datagrams of a socket. The server makes one value for each socket, so its fields need no lock.
pub trait Datagrams: Send + 'static {
    /// The time between two calls of [`tick`](Self::tick), on the runtime's clock. `None` is never.
    const TICK: Option<Duration> = None;

    /// Takes a datagram, in the locality of its socket, or of its [`home`](Self::home). An operation that begins by
    /// `cx.submit` begins here.
    ///
    /// The fom takes at most 64 datagrams before other foms have their turn. If this function panics, the runtime reports
    /// it as [`IncidentKind::Panicked`](fom_runtime::observe::IncidentKind::Panicked), and the next datagram is taken.
    fn datagram(&mut self, cx: &mut UdpCx<'_>, datagram: &[u8], from: SocketAddr);

    /// Returns the locality that takes this datagram, so that all that belongs together meets in one locality. By default,
    /// and with `None`, it is the locality of the socket.
    ///
    /// The datagrams of a round for another locality go there together. If that locality has no socket of the server, the
    /// locality of the socket takes them. If the mailbox there is full, they are lost, and the runtime reports it as
    /// [`IncidentKind::Lost`](fom_runtime::observe::IncidentKind::Lost).
    fn home(&self, datagram: &[u8], from: SocketAddr) -> Option<usize> {
        let _ = (datagram, from);
        None
    }

    /// Called from time to time, as [`TICK`](Self::TICK) says.
    fn tick(&mut self, cx: &mut UdpCx<'_>) {
        let _ = cx;
    }
}

/// Serves UDP sockets: socket `n` belongs to locality `n`, whose reactor watches it. [`bind_udp`](crate::bind_udp) makes
/// several sockets of one address. `make` returns what takes the datagrams of a socket, and gets what sends them.
///
/// The foms of the server run until the server is stopped or dropped. Stop it before a shutdown that drains the runtime.
/// Each socket needs room for two foms, if the runtime has a capacity.
///
/// ```
/// use std::net::SocketAddr;
///
/// use fom_net::{Datagrams, UdpCx, UdpSender, bind_udp, serve_udp};
/// use fom_runtime::prelude::*;
///
/// struct Echo(UdpSender);
///
/// impl Datagrams for Echo {
///     fn datagram(&mut self, _: &mut UdpCx<'_>, datagram: &[u8], from: SocketAddr) {
///         self.0.send(datagram, from);
///     }
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), BoxError> {
/// let runtime = Runtime::new()?;
/// let sockets = bind_udp("127.0.0.1:0".parse()?, runtime.localities())?;
/// let server = serve_udp(&runtime, sockets, Echo)?;
///
/// let client = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
/// client.send_to(b"hello", server.local_addr()).await?;
/// let mut buffer = [0; 16];
/// let (length, _) = client.recv_from(&mut buffer).await?;
/// assert_eq!(&buffer[..length], b"hello");
/// server.stop().await;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Fails with [`ServeError`]. The sockets are closed then.
pub fn serve_udp<D: Datagrams>(
    runtime: &Runtime,
    sockets: Vec<UdpSocket>,
    mut make: impl FnMut(UdpSender) -> D,
) -> Result<UdpServer, ServeError> {
    let receivers: Receivers<D> = Arc::default();
    let (mut senders, mut foms, mut begun) = (Vec::new(), Foms::new(), Vec::new());
    for (index, socket) in sockets.into_iter().enumerate() {
        socket.set_nonblocking(true)?;
        let locality = index % runtime.localities();
        let sender = UdpSender::new(socket.try_clone()?)?;
        let service = make(sender.clone());
        // Before the receiver, whose first answers it sends.
        foms.start(runtime, locality, |stop| {
            UdpFlusher::new(sender.clone(), stop)
        })?;
        let others = Arc::clone(&receivers);
        begun.push(foms.start(runtime, locality, |stop| {
            UdpReceiver::new(socket, service, others, stop)
        })?);
        senders.push(sender);
    }
    if begun.is_empty() {
        return Err(ServeError::NoSocket);
    }
    // Set once, here.
    let _ = receivers.set(begun);
    Ok(UdpServer { senders, foms })
}

/// The foms that serve UDP sockets. Dropping this value stops them, and does not wait for them.
#[derive(Debug)]
pub struct UdpServer {
    senders: Vec<UdpSender>,
    foms: Foms,
}

impl UdpServer {
    /// Returns the address of the sockets.
    pub fn local_addr(&self) -> SocketAddr {
        self.senders[0].local_addr()
    }

    /// Returns what sends through each socket, in the order of the sockets.
    pub fn senders(&self) -> &[UdpSender] {
        &self.senders
    }

    /// Stops receiving, and waits until the foms of the server have ended. Datagrams that wait to be sent are sent.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the server stops, too.
    pub async fn stop(self) {
        self.foms.stop().await;
    }
}
