//! The socket, and what all foms of a router share.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use super::message::COOKIE;
use crate::counters::Counters;

/// The way out: one UDP socket, the names it gives to transactions, and the counters. Cheap to clone.
#[derive(Clone)]
pub struct Net(Arc<Shared>);

struct Shared {
    socket: UdpSocket,
    local: SocketAddr,
    /// Differs from run to run, so that a response to an earlier run's request finds nothing.
    seed: u32,
    next: AtomicU64,
    counters: Counters,
    draining: watch::Sender<bool>,
}

impl Net {
    /// Binds the socket.
    ///
    /// # Errors
    ///
    /// The address is taken or not ours.
    pub fn bind(address: SocketAddr) -> io::Result<Net> {
        let socket = UdpSocket::bind(address)?;
        // Only the receiving thread waits in the socket, and it looks up now and then.
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        let local = socket.local_addr()?;
        Ok(Net(Arc::new(Shared {
            socket,
            local,
            seed: RandomState::new().hash_one(local) as u32,
            next: AtomicU64::new(0),
            counters: Counters::default(),
            draining: watch::Sender::new(false),
        })))
    }

    /// The address that the socket is bound to.
    pub fn local(&self) -> SocketAddr {
        self.0.local
    }

    /// The same socket, for whoever receives without waiting in it; sending does not wait from then on, either.
    pub(crate) fn reader(&self) -> io::Result<UdpSocket> {
        let socket = self.0.socket.try_clone()?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    }

    /// Waits a moment for a datagram.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.socket.recv_from(buffer)
    }

    /// Sends one datagram. What the network does not take is lost, as UDP may lose anything: whoever needs
    /// an answer sends again.
    pub fn send(&self, bytes: &[u8], to: SocketAddr) {
        match self.0.socket.send_to(bytes, to) {
            Ok(_) => self.counters().sent.add(),
            Err(_) => self.counters().unsent.add(),
        }
    }

    /// A branch that no other transaction has (RFC 3261, 8.1.1.7).
    pub fn branch(&self) -> String {
        let next = self.0.next.fetch_add(1, Ordering::Relaxed);
        format!("{COOKIE}-{:08x}-{next:x}", self.0.seed)
    }

    /// A tag for an answer of our own.
    pub fn tag(&self) -> String {
        let next = self.0.next.fetch_add(1, Ordering::Relaxed);
        format!("r{:08x}{next:x}", self.0.seed)
    }

    /// The counters.
    pub fn counters(&self) -> &Counters {
        &self.0.counters
    }

    /// Says that the router wants to end: calls that only wait for stragglers need not wait any longer.
    pub(crate) fn drain(&self) {
        self.0.draining.send_replace(true);
    }

    /// Becomes true when the router wants to end.
    pub(crate) fn draining(&self) -> watch::Receiver<bool> {
        self.0.draining.subscribe()
    }
}

impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Net")
            .field("local", &self.0.local)
            .finish_non_exhaustive()
    }
}
