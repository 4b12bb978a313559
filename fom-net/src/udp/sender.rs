//! The way out of a socket: what foms send in a round leaves together.

use std::{
    fmt, io,
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
};

/// Bytes that wait to be sent. With more, the caller of `send` sends them all itself.
const MOST: usize = 256 * 1024;

/// Sends datagrams through a socket of a server. Cheap to clone.
///
/// A send puts the datagram into a queue. A fom of the socket's locality sends the queue after the foms that are ready now
/// have run. A receiver that is awake needs no further wake, so datagrams that leave one after the other cost fewer wakes.
/// Before the fom runs, and once the server has stopped, datagrams leave at once.
#[derive(Clone)]
pub struct UdpSender(Arc<Outgoing>);

struct Outgoing {
    socket: UdpSocket,
    local: SocketAddr,
    queue: Mutex<Queue>,
    sent: AtomicU64,
    unsent: AtomicU64,
}

/// Datagrams in one piece of memory.
#[derive(Default)]
pub(super) struct Datagrams {
    bytes: Vec<u8>,
    /// Where each datagram ends, and where it goes.
    ends: Vec<(usize, SocketAddr)>,
}

#[derive(Default)]
struct Queue {
    waiting: Datagrams,
    waker: Option<Waker>,
    /// A fom sends the queue. Without one, each datagram leaves at once.
    open: bool,
}

/// The datagrams that a socket has sent. The value is of one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpCounts {
    /// Datagrams that the kernel took.
    pub sent: u64,
    /// Datagrams that the kernel did not take. They are lost.
    pub unsent: u64,
}

impl UdpSender {
    pub(super) fn new(socket: UdpSocket) -> io::Result<Self> {
        Ok(Self(Arc::new(Outgoing {
            local: socket.local_addr()?,
            socket,
            queue: Mutex::default(),
            sent: AtomicU64::new(0),
            unsent: AtomicU64::new(0),
        })))
    }

    /// Returns the address of the socket.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.local
    }

    /// Returns how many datagrams the socket has sent so far.
    pub fn counts(&self) -> UdpCounts {
        UdpCounts {
            sent: self.0.sent.load(Ordering::Relaxed),
            unsent: self.0.unsent.load(Ordering::Relaxed),
        }
    }

    /// Sends one datagram, soon, and does not block. Datagrams of one caller leave in their order, as long as at most 256 KiB
    /// wait and the server does not stop. A datagram that the kernel does not take is lost, as UDP may lose anything, and
    /// is counted as [`unsent`](UdpCounts::unsent): one above 65,507 bytes, say, or while the buffer of the socket is full.
    pub fn send(&self, datagram: &[u8], to: SocketAddr) {
        let mut queue = self.queue();
        queue.waiting.bytes.extend_from_slice(datagram);
        let end = queue.waiting.bytes.len();
        queue.waiting.ends.push((end, to));
        if !queue.open || end > MOST {
            let mut all = std::mem::take(&mut queue.waiting);
            drop(queue);
            self.send_all(&mut all);
            return;
        }
        let waker = queue.waker.take();
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Sends what waits. Pending then, until there is more.
    pub(super) fn poll_flush(&self, task: &mut Context<'_>, spare: &mut Datagrams) -> Poll<()> {
        let mut queue = self.queue();
        queue.open = true;
        std::mem::swap(&mut queue.waiting, spare);
        // Other foms may send while this one does. It then has another turn.
        queue.waker = Some(task.waker().clone());
        drop(queue);
        if !spare.ends.is_empty() {
            self.send_all(spare);
        }
        Poll::Pending
    }

    /// Sends what waits, and from now on each datagram at once.
    pub(super) fn close(&self) {
        let mut queue = self.queue();
        queue.open = false;
        queue.waker = None;
        let mut all = std::mem::take(&mut queue.waiting);
        drop(queue);
        self.send_all(&mut all);
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // No critical section leaves the queue half changed.
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send_all(&self, datagrams: &mut Datagrams) {
        let (mut begin, mut sent) = (0, 0);
        for (end, to) in &datagrams.ends {
            let datagram = &datagrams.bytes[begin..*end];
            begin = *end;
            sent += u64::from(self.0.socket.send_to(datagram, to).is_ok());
        }
        let unsent = datagrams.ends.len() as u64 - sent;
        self.0.sent.fetch_add(sent, Ordering::Relaxed);
        self.0.unsent.fetch_add(unsent, Ordering::Relaxed);
        datagrams.bytes.clear();
        datagrams.ends.clear();
    }
}

impl fmt::Debug for UdpSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UdpSender")
            .field("local", &self.0.local)
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}
