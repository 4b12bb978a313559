//! The connected clients.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use fom_runtime::{FomRef, Key, time::Instant};

use super::{Connection, Why};
use crate::wire::{Protocol, Reply};

/// The name, the library and the protocol of a client.
#[derive(Debug, Default)]
pub(crate) struct About {
    pub(crate) name: String,
    pub(crate) library: String,
    pub(crate) library_version: String,
    pub(crate) protocol: Protocol,
}

/// One client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: u64,
    address: SocketAddr,
    /// The key for its rate: its host, over all its connections.
    pub(crate) key: Key,
    pub(crate) locality: usize,
    /// The time of the connection, on the runtime's clock.
    since: Instant,
    about: Mutex<About>,
    commands: AtomicU64,
    /// The time of its last command, on the runtime's clock, in nanoseconds. Known only if the server sends idle
    /// clients away.
    heard: AtomicU64,
    fom: OnceLock<FomRef<Connection>>,
}

impl Client {
    /// Counts one more command.
    pub(crate) fn one_more(&self) {
        self.commands.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that the client sent something.
    pub(crate) fn heard(&self, now: Instant) {
        let now = u64::try_from(now.duration_since(Instant::START).as_nanos()).unwrap_or(u64::MAX);
        self.heard.store(now, Ordering::Relaxed);
    }

    /// Returns the time at which the client last sent something.
    pub(crate) fn last_heard(&self) -> Instant {
        Instant::START + Duration::from_nanos(self.heard.load(Ordering::Relaxed))
    }

    pub(crate) fn about(&self) -> MutexGuard<'_, About> {
        self.about.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the line of CLIENT LIST for this client.
    pub(crate) fn line(&self, now: Instant) -> String {
        let about = self.about();
        format!(
            "id={} addr={} name={} age={} locality={} cmds={} fom={} resp={} lib-name={} lib-ver={}\n",
            self.id,
            self.address,
            about.name,
            (now - self.since).as_secs(),
            self.locality,
            self.commands.load(Ordering::Relaxed),
            self.fom.get().map_or(0, |fom| fom.id().get()),
            about.protocol.number(),
            about.library,
            about.library_version,
        )
    }
}

/// The connected clients, and counts of all clients so far.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    here: Mutex<BTreeMap<u64, Arc<Client>>>,
    ever: AtomicU64,
    turned_away: AtomicU64,
    slow: AtomicU64,
    malformed: AtomicU64,
    idle: AtomicU64,
    /// The commands of clients that have left.
    commands: AtomicU64,
}

impl Clients {
    fn here(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a client, in the locality with the fewest. Returns `None` if there are too many clients.
    pub(crate) fn come(
        &self,
        address: SocketAddr,
        now: Instant,
        most: usize,
        localities: usize,
    ) -> Option<Arc<Client>> {
        let mut here = self.here();
        if here.len() >= most {
            self.turned_away.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let mut counts = vec![0_usize; localities];
        for client in here.values() {
            counts[client.locality] += 1;
        }
        let id = self.ever.fetch_add(1, Ordering::Relaxed) + 1;
        let client = Arc::new(Client {
            id,
            address,
            key: address.ip().to_string().into(),
            locality: (0..localities).min_by_key(|at| counts[*at]).unwrap_or(0),
            since: now,
            about: Mutex::default(),
            commands: AtomicU64::new(0),
            heard: AtomicU64::new(0),
            fom: OnceLock::new(),
        });
        here.insert(id, Arc::clone(&client));
        Some(client)
    }

    /// Notes the fom that serves the client.
    pub(crate) fn is_served_by(&self, client: &Client, fom: FomRef<Connection>) {
        // One fom serves each client, and it is set once.
        let _ = client.fom.set(fom);
    }

    /// Counts a client that was sent away, or that left.
    pub(crate) fn sent_away(&self, why: Why) {
        let count = match why {
            Why::Slow => &self.slow,
            Why::Malformed => &self.malformed,
            Why::Idle => &self.idle,
            // `Memory` counts the clients that it evicts.
            Why::Left | Why::Quit | Why::Stopping | Why::Evicted => return,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many clients did not read, sent malformed bytes, and were idle.
    pub(crate) fn away(&self) -> [u64; 3] {
        [&self.slow, &self.malformed, &self.idle].map(|count| count.load(Ordering::Relaxed))
    }

    /// Removes a client that has left.
    pub(crate) fn left(&self, client: &Client) {
        let commands = client.commands.load(Ordering::Relaxed);
        self.commands.fetch_add(commands, Ordering::Relaxed);
        self.here().remove(&client.id);
    }

    /// Wakes the foms of all clients.
    pub(crate) fn wake(&self) {
        for client in self.all() {
            client.fom.get().into_iter().for_each(FomRef::wake);
        }
    }

    /// Returns all connected clients.
    pub(crate) fn all(&self) -> Vec<Arc<Client>> {
        self.here().values().cloned().collect()
    }

    /// Returns the reply to CLIENT LIST.
    pub(crate) fn list(&self, now: Instant) -> Reply {
        Reply::verbatim(
            self.all()
                .iter()
                .map(|client| client.line(now))
                .collect::<String>(),
        )
    }

    /// Returns how many clients are here, were ever here, and were turned away.
    pub(crate) fn counts(&self) -> (usize, u64, u64) {
        let (ever, turned_away) = (&self.ever, &self.turned_away);
        (
            self.here().len(),
            ever.load(Ordering::Relaxed),
            turned_away.load(Ordering::Relaxed),
        )
    }

    /// Returns how many commands all clients have sent.
    pub(crate) fn commands(&self) -> u64 {
        let here: u64 = self
            .all()
            .iter()
            .map(|client| client.commands.load(Ordering::Relaxed))
            .sum();
        here + self.commands.load(Ordering::Relaxed)
    }
}
