//! The same router without fom, for comparison: a tokio task for each call, and shared state behind locks.
//!
//! The wire, the meaning of a packet for a call, and the transactions are the router's own ([`wire`](crate::wire),
//! [`call`](crate::call)). So are the packets. Only the way in which calls run differs:
//!
//! | | [`Router`](crate::router::Router) | here |
//! | --- | --- | --- |
//! | a call | a fom: phases, and the ways between them | a task: a function with loops |
//! | found by its Call-ID | `runtime.find` | a map of channels behind a mutex |
//! | its packets | events, kept until a phase takes them | a channel |
//! | its timers | `cx.event_within`, `within` | one [`Sleep`](tokio::time::Sleep), set again |
//! | where users are | a thread of its own, that foms ask | a table behind a mutex: the faster of the two |
//! | its record | a phase that may block | a thread of its own with a channel |
//!
//! The router has more than the twin. In the twin, the caller gets no 500 if a call panics, calls cannot be listed with
//! their phases, and draining returns only a number. The twin has no limits for each source: one source that sends
//! INVITEs takes all of its capacity. `compare` gives the router limits that no call reaches. The comparison includes
//! the router's checks of the source and of the Call-ID.

mod call;
mod front;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::net::UdpSocket;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use crate::call::CallEvent;
use crate::cdr::Records;
use crate::counters::Counters;
use crate::locator::Table;
use crate::router::{Settings, StartError};
use crate::wire::udp::Net;

/// The most packets of one call that may wait.
const MAILBOX: usize = 64;

/// A running twin.
pub struct Twin {
    shared: Arc<Shared>,
    receiver: JoinHandle<()>,
}

/// The state that all tasks share.
struct Shared {
    net: Net,
    settings: Settings,
    began: Instant,
    calls: Mutex<HashMap<String, mpsc::Sender<CallEvent>>>,
    /// Notified when the last call of a draining router is gone.
    empty: Notify,
    table: Mutex<Table>,
    records: mpsc::UnboundedSender<call::Ended>,
    times: call::Times,
}

impl Twin {
    /// Starts a router. Its tasks run in the tokio runtime of the caller.
    ///
    /// # Errors
    ///
    /// Fails with [`StartError`].
    pub fn start(settings: Settings) -> Result<Twin, StartError> {
        let listen = |error| StartError::Listen(settings.listen, error);
        let net = Net::bind(&settings).map_err(listen)?;
        let socket = net.reader().and_then(UdpSocket::from_std).map_err(listen)?;
        let records = Records::open(settings.records.as_deref()).map_err(StartError::Records)?;
        let table = Table::new(&settings.endpoints, settings.fork).map_err(StartError::Endpoint)?;
        let (sender, mut ended) = mpsc::unbounded_channel::<call::Ended>();
        let writing = net.clone();
        thread::Builder::new()
            .name("records".to_owned())
            .spawn(move || {
                while let Some(ended) = ended.blocking_recv() {
                    if records.write(&ended.record, ended.outcome).is_err() {
                        writing.counters().unrecorded.add();
                    }
                }
            })
            .map_err(StartError::Thread)?;
        let shared = Arc::new(Shared {
            net,
            settings,
            began: Instant::now(),
            calls: Mutex::default(),
            empty: Notify::new(),
            table: Mutex::new(table),
            records: sender,
            times: call::Times::default(),
        });
        let receiver = tokio::spawn(front::receive(Arc::clone(&shared), socket));
        Ok(Twin { shared, receiver })
    }

    /// Returns the address that the router listens on.
    pub fn local(&self) -> std::net::SocketAddr {
        self.shared.net.local()
    }

    /// Returns the router's counters.
    pub fn counters(&self) -> &Counters {
        self.shared.net.counters()
    }

    /// Returns the time that calls have spent in each of their parts, as a table.
    pub fn times(&self) -> impl fmt::Display + '_ {
        &self.shared.times
    }

    /// Ends the router: talking calls have until `limit` to end. Returns how many did not. The router still takes new
    /// calls, since no user of the twin would notice the difference.
    pub async fn drain(&self, limit: Duration) -> usize {
        self.shared.net.drain();
        let empty = async {
            loop {
                let told = self.shared.empty.notified();
                if self.shared.calls().is_empty() {
                    return;
                }
                told.await;
            }
        };
        let _ = tokio::time::timeout(limit, empty).await;
        self.receiver.abort();
        self.shared.net.note_dropped();
        self.shared.calls().len()
    }
}

impl fmt::Debug for Twin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Twin")
            .field("net", &self.shared.net)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// Returns the time since the start.
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<String, mpsc::Sender<CallEvent>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
