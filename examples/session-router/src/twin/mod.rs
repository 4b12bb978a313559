//! The same router without fom, to compare: a tokio task for each call, and what they share behind locks.
//!
//! The wire, what a packet means to a call, and its transactions are the router's own
//! ([`wire`](crate::wire), [`call`](crate::call)); so is what goes over the wire. What differs is how calls are run:
//!
//! | | [`Router`](crate::router::Router) | here |
//! | --- | --- | --- |
//! | a call | a fom: phases, and the ways between them | a task: a function with loops |
//! | found by its Call-ID | `runtime.find` | a map of channels behind a mutex |
//! | its packets | events, kept until a phase takes them | a channel |
//! | its timers | `cx.event_within`, `within` | one [`Sleep`](tokio::time::Sleep), set anew |
//! | where users are | a thread of its own, that foms ask | a table behind a mutex: the faster of the two |
//! | its record | a phase that may block | a thread of its own with a channel |
//!
//! What the router has and this has not: a caller whose call panics gets no 500, calls cannot be listed with the phase
//! that they are in, and what remains after draining is only a number. Nor has it limits for each source: one source that
//! sends INVITEs takes all of its capacity. `compare` gives the router limits that no call reaches. The comparison includes
//! the router's looks at the source and at the Call-ID.

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

/// The most packets of one call that may wait for it.
const MAILBOX: usize = 64;

/// A running twin.
pub struct Twin {
    shared: Arc<Shared>,
    receiver: JoinHandle<()>,
}

/// What all tasks share.
struct Shared {
    net: Net,
    settings: Settings,
    began: Instant,
    calls: Mutex<HashMap<String, mpsc::Sender<CallEvent>>>,
    /// Told when the last call of a draining router is gone.
    empty: Notify,
    table: Mutex<Table>,
    records: mpsc::UnboundedSender<call::Ended>,
    times: call::Times,
}

impl Twin {
    /// Starts a router. Its tasks run in the tokio runtime that this is called in.
    ///
    /// # Errors
    ///
    /// What it needs is not there.
    pub fn start(settings: Settings) -> Result<Twin, StartError> {
        let listen = |error| StartError::Listen(settings.listen, error);
        let net = Net::bind(&settings).map_err(listen)?;
        let socket = net.reader().and_then(UdpSocket::from_std).map_err(listen)?;
        let records = Records::open(settings.records.as_deref()).map_err(StartError::Records)?;
        let table = Table::new(&settings.endpoints, settings.fork).map_err(StartError::Thread)?;
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

    /// Where it listens.
    pub fn local(&self) -> std::net::SocketAddr {
        self.shared.net.local()
    }

    /// What it has counted.
    pub fn counters(&self) -> &Counters {
        self.shared.net.counters()
    }

    /// The time that calls have spent in each of their parts, as a table.
    pub fn times(&self) -> impl fmt::Display + '_ {
        &self.shared.times
    }

    /// Ends: calls that talk have until `limit` to end. Returns how many had not. New calls are still taken: there is
    /// nobody who would know the difference.
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
    /// The time since it was started.
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
