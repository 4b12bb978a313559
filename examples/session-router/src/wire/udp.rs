//! The socket, and the state that all foms of a router share.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

use fom_net::UdpSender;
use socket2::SockRef;
use tokio::sync::watch;

use super::kernel;
use super::message::COOKIE;
use crate::counters::Counters;
use crate::places::Places;
use crate::router::Settings;

/// The way out: one UDP socket, the names of transactions, and the counters. Cheap to clone.
///
/// A socket cannot be saved. An operation from a journal has the default, which leads nowhere, until it gets the
/// router's own.
#[derive(Clone)]
pub struct Net(Arc<Shared>);

struct Shared {
    socket: Option<UdpSocket>,
    /// The way out through the locality of the socket, once it is served.
    sender: OnceLock<UdpSender>,
    local: SocketAddr,
    /// Differs from run to run, so that a response to a request of an earlier run finds nothing.
    seed: u32,
    next: AtomicU64,
    counters: Counters,
    calls: Arc<Places>,
    users: Arc<Places>,
    draining: watch::Sender<bool>,
}

impl Default for Net {
    fn default() -> Net {
        static NOWHERE: LazyLock<Net> = LazyLock::new(|| {
            Net::over(
                None,
                SocketAddr::from(([0, 0, 0, 0], 0)),
                &Settings::default(),
            )
        });
        NOWHERE.clone()
    }
}

impl Net {
    /// Binds the socket. The kernel may keep fewer bytes than the settings ask for: [`buffer`](Net::buffer) returns how
    /// many.
    ///
    /// # Errors
    ///
    /// Fails if the address is taken or not local, or if the kernel refuses the size of the buffer.
    pub fn bind(settings: &Settings) -> io::Result<Net> {
        let socket = UdpSocket::bind(settings.listen)?;
        // The option is a C int: a larger number would wrap around.
        let buffer = settings.buffer.min(i32::MAX as usize);
        SockRef::from(&socket).set_recv_buffer_size(buffer)?;
        let local = socket.local_addr()?;
        Ok(Net::over(Some(socket), local, settings))
    }

    fn over(socket: Option<UdpSocket>, local: SocketAddr, settings: &Settings) -> Net {
        let share = settings.limits.share;
        Net(Arc::new(Shared {
            socket,
            sender: OnceLock::new(),
            local,
            seed: RandomState::new().hash_one(local) as u32,
            next: AtomicU64::new(0),
            counters: Counters::default(),
            calls: Arc::new(Places::new(settings.capacity, share)),
            users: Arc::new(Places::new(settings.users, share)),
            draining: watch::Sender::new(false),
        }))
    }

    fn socket(&self) -> io::Result<&UdpSocket> {
        self.0
            .socket
            .as_ref()
            .ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Returns the address of the socket.
    pub fn local(&self) -> SocketAddr {
        self.0.local
    }

    /// Returns the same socket for a nonblocking receiver. From then on sending does not wait either.
    pub(crate) fn reader(&self) -> io::Result<UdpSocket> {
        let socket = self.socket()?.try_clone()?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    }

    /// From now on, datagrams leave through the locality of the socket.
    pub(crate) fn send_through(&self, sender: UdpSender) {
        // Set once, when the socket is served.
        let _ = self.0.sender.set(sender);
    }

    /// Sends one datagram. What the network does not take is lost, as UDP may lose anything: a sender that needs an
    /// answer sends again.
    pub fn send(&self, bytes: &[u8], to: SocketAddr) {
        if let Some(sender) = self.0.sender.get() {
            return sender.send(bytes, to);
        }
        match self.socket().and_then(|socket| socket.send_to(bytes, to)) {
            Ok(_) => self.counters().sent.add(),
            Err(_) => self.counters().unsent.add(),
        }
    }

    /// Returns a branch that no other transaction has (RFC 3261, 8.1.1.7).
    pub fn branch(&self) -> String {
        let next = self.0.next.fetch_add(1, Ordering::Relaxed);
        format!("{COOKIE}-{:08x}-{next:x}", self.0.seed)
    }

    /// Returns a tag for an answer of the router.
    pub fn tag(&self) -> String {
        let next = self.0.next.fetch_add(1, Ordering::Relaxed);
        format!("r{:08x}{next:x}", self.0.seed)
    }

    /// Returns how many bytes of datagrams the kernel keeps until the router receives them. Linux counts its own
    /// bookkeeping too, and returns twice the size.
    pub fn buffer(&self) -> usize {
        let size = self
            .socket()
            .and_then(|socket| SockRef::from(socket).recv_buffer_size());
        size.unwrap_or(0) / 2
    }

    /// Notes how many datagrams were sent so far.
    pub(crate) fn note_sent(&self) {
        if let Some(sender) = self.0.sender.get() {
            let counts = sender.counts();
            self.counters().sent.set(counts.sent);
            self.counters().unsent.set(counts.unsent);
        }
    }

    /// Notes how many datagrams the kernel has dropped so far, because the buffer was full.
    pub(crate) fn note_dropped(&self) {
        if let Ok(dropped) = self.socket().and_then(kernel::dropped) {
            self.counters().lost.set(dropped);
        }
    }

    /// Returns the places for calls, with those that only wait for stragglers.
    pub(crate) fn call_places(&self) -> &Arc<Places> {
        &self.0.calls
    }

    /// Returns the number of calls, with those that only wait for stragglers.
    pub fn calls(&self) -> usize {
        self.0.calls.number()
    }

    /// Returns the places for users with bindings.
    pub(crate) fn user_places(&self) -> &Arc<Places> {
        &self.0.users
    }

    /// Returns the number of users with bindings.
    pub fn users(&self) -> usize {
        self.0.users.number()
    }

    /// Returns the counters.
    pub fn counters(&self) -> &Counters {
        &self.0.counters
    }

    /// Notes that the router ends: calls that only wait for stragglers need not wait any longer.
    pub(crate) fn drain(&self) {
        self.0.draining.send_replace(true);
    }

    /// Returns a watch that becomes true when the router ends.
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
