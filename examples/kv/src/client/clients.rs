//! Who is connected.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use fom_runtime::{FomRef, Key};

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
    /// Whom its rate is counted for: its host, however often that connects.
    pub(crate) key: Key,
    pub(crate) locality: usize,
    /// On the runtime's clock.
    since: Duration,
    about: Mutex<About>,
    commands: AtomicU64,
    /// When it last said something, on the runtime's clock, in nanoseconds; known only where idle clients are sent away.
    heard: AtomicU64,
    fom: OnceLock<FomRef<Connection>>,
}

impl Client {
    /// It sent one more command.
    pub(crate) fn one_more(&self) {
        self.commands.fetch_add(1, Ordering::Relaxed);
    }

    /// It said something.
    pub(crate) fn heard(&self, now: Duration) {
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        self.heard.store(now, Ordering::Relaxed);
    }

    /// When it last said something.
    pub(crate) fn last_heard(&self) -> Duration {
        Duration::from_nanos(self.heard.load(Ordering::Relaxed))
    }

    pub(crate) fn about(&self) -> MutexGuard<'_, About> {
        self.about.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A line about it.
    pub(crate) fn line(&self, now: Duration) -> String {
        let about = self.about();
        format!(
            "id={} addr={} name={} age={} locality={} cmds={} fom={} resp={} lib-name={} lib-ver={}\n",
            self.id,
            self.address,
            about.name,
            now.saturating_sub(self.since).as_secs(),
            self.locality,
            self.commands.load(Ordering::Relaxed),
            self.fom.get().map_or(0, |fom| fom.id().get()),
            about.protocol.number(),
            about.library,
            about.library_version,
        )
    }
}

/// Who is connected, and how many were.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    here: Mutex<BTreeMap<u64, Arc<Client>>>,
    ever: AtomicU64,
    turned_away: AtomicU64,
    slow: AtomicU64,
    malformed: AtomicU64,
    idle: AtomicU64,
    /// Commands of those who have left.
    commands: AtomicU64,
}

impl Clients {
    fn here(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new one, in the locality that has the fewest; none where there are so many already.
    pub(crate) fn come(
        &self,
        address: SocketAddr,
        now: Duration,
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

    /// It is served by this fom.
    pub(crate) fn is_served_by(&self, client: &Client, fom: FomRef<Connection>) {
        // Each is served by one fom, and that is told once.
        let _ = client.fom.set(fom);
    }

    /// One was sent away, or left.
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

    /// How many did not read, were not understood, and said nothing.
    pub(crate) fn away(&self) -> [u64; 3] {
        [&self.slow, &self.malformed, &self.idle].map(|count| count.load(Ordering::Relaxed))
    }

    /// It has left.
    pub(crate) fn left(&self, client: &Client) {
        let commands = client.commands.load(Ordering::Relaxed);
        self.commands.fetch_add(commands, Ordering::Relaxed);
        self.here().remove(&client.id);
    }

    /// Wakes the foms of all of them.
    pub(crate) fn wake(&self) {
        for client in self.all() {
            client.fom.get().into_iter().for_each(FomRef::wake);
        }
    }

    /// All that are here.
    pub(crate) fn all(&self) -> Vec<Arc<Client>> {
        self.here().values().cloned().collect()
    }

    /// What is said of all of them.
    pub(crate) fn list(&self, now: Duration) -> Reply {
        Reply::verbatim(
            self.all()
                .iter()
                .map(|client| client.line(now))
                .collect::<String>(),
        )
    }

    /// How many are here, were ever here, and were turned away.
    pub(crate) fn counts(&self) -> (usize, u64, u64) {
        let (ever, turned_away) = (&self.ever, &self.turned_away);
        (
            self.here().len(),
            ever.load(Ordering::Relaxed),
            turned_away.load(Ordering::Relaxed),
        )
    }

    /// How many commands they have sent.
    pub(crate) fn commands(&self) -> u64 {
        let here: u64 = self
            .all()
            .iter()
            .map(|client| client.commands.load(Ordering::Relaxed))
            .sum();
        here + self.commands.load(Ordering::Relaxed)
    }
}
