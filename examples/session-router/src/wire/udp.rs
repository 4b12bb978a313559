//! The socket, and what all foms of a router share.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::message::COOKIE;
use crate::counters::Counters;

/// The way out: one UDP socket, the names it gives to transactions, and the counters. Cheap to clone.
///
/// A socket cannot be saved. What comes out of a journal has the default, which leads nowhere, until it is given the
/// router's own.
#[derive(Clone)]
pub struct Net(Arc<Shared>);

struct Shared {
    socket: Option<UdpSocket>,
    local: SocketAddr,
    /// Differs from run to run, so that a response to an earlier run's request finds nothing.
    seed: u32,
    next: AtomicU64,
    counters: Counters,
    calls: Arc<Count>,
    users: Arc<Count>,
    draining: watch::Sender<bool>,
}

impl Default for Net {
    fn default() -> Net {
        static NOWHERE: LazyLock<Net> =
            LazyLock::new(|| Net::over(None, SocketAddr::from(([0, 0, 0, 0], 0))));
        NOWHERE.clone()
    }
}

/// How many there are.
#[derive(Default)]
struct Count {
    number: AtomicUsize,
    /// Told when there is none any more.
    none: Notify,
}

/// One of those that are counted, as long as it is there. By default it is one of none.
#[derive(Default)]
pub(crate) struct Counted(Option<Arc<Count>>);

impl Counted {
    fn one_of(all: &Arc<Count>) -> Counted {
        all.number.fetch_add(1, Ordering::AcqRel);
        Counted(Some(Arc::clone(all)))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(all) = &self.0
            && all.number.fetch_sub(1, Ordering::AcqRel) == 1
        {
            all.none.notify_waiters();
        }
    }
}

impl fmt::Debug for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counted")
    }
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
        Ok(Net::over(Some(socket), local))
    }

    fn over(socket: Option<UdpSocket>, local: SocketAddr) -> Net {
        Net(Arc::new(Shared {
            socket,
            local,
            seed: RandomState::new().hash_one(local) as u32,
            next: AtomicU64::new(0),
            counters: Counters::default(),
            calls: Arc::default(),
            users: Arc::default(),
            draining: watch::Sender::new(false),
        }))
    }

    fn socket(&self) -> io::Result<&UdpSocket> {
        self.0
            .socket
            .as_ref()
            .ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// The address that the socket is bound to.
    pub fn local(&self) -> SocketAddr {
        self.0.local
    }

    /// The same socket, for whoever receives without waiting in it; sending does not wait from then on, either.
    pub(crate) fn reader(&self) -> io::Result<UdpSocket> {
        let socket = self.socket()?.try_clone()?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    }

    /// Waits a moment for a datagram.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.socket()?.recv_from(buffer)
    }

    /// Sends one datagram. What the network does not take is lost, as UDP may lose anything: whoever needs
    /// an answer sends again.
    pub fn send(&self, bytes: &[u8], to: SocketAddr) {
        match self.socket().and_then(|socket| socket.send_to(bytes, to)) {
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

    /// One more call, until that is dropped.
    pub(crate) fn count_call(&self) -> Counted {
        Counted::one_of(&self.0.calls)
    }

    /// How many calls there are, those included that only wait for stragglers.
    pub fn calls(&self) -> usize {
        self.0.calls.number.load(Ordering::Acquire)
    }

    /// Resolves when there is no call.
    pub(crate) async fn no_calls(&self) {
        loop {
            let told = self.0.calls.none.notified();
            if self.calls() == 0 {
                return;
            }
            told.await;
        }
    }

    /// One more user with bindings, until that is dropped.
    pub(crate) fn count_user(&self) -> Counted {
        Counted::one_of(&self.0.users)
    }

    /// How many users have bindings.
    pub fn users(&self) -> usize {
        self.0.users.number.load(Ordering::Acquire)
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
