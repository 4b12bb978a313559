//! The registered services by name.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::Instant,
};

use crate::service::{DomainState, Happened, Services, entry::Entry, events::Watcher};
use fom_protocol::{
    caught,
    sync::{
        Mutex,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
};
use fom_runtime::{
    Runtime,
    extension::{Attachment, Listing, RuntimeState, UnfinishedStop},
    observe::IncidentKind,
};

/// The state of all services after the end of the runtime: they are stopped and stay stopped.
const ENDED: u8 = DomainState::Stopped as u8 + 1;

pub(crate) struct Registry {
    domain: AtomicU8,
    next: AtomicU64,
    /// Calls to names that are not registered, or with other types.
    pub(super) unknown: AtomicU64,
    pub(super) names: Mutex<Names>,
    /// Held while all services are started or stopped.
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
    /// Set with the first service.
    pub(super) listing: OnceLock<Listing>,
}

#[derive(Default)]
pub(super) struct Names {
    pub(super) by_name: BTreeMap<String, Arc<Entry>>,
    /// Unregistered services of which something still runs.
    pub(super) leaving: Vec<Arc<Entry>>,
    /// Unregistered services with a stop that the end of the runtime has cut off.
    pub(super) cut_off: Vec<Arc<Entry>>,
    /// The runtime has ended.
    pub(super) ended: bool,
    pub(super) watchers: Vec<Arc<Watcher>>,
    /// The watchers with changes that they do not know yet. Empty while no code holds the lock.
    pub(super) told: Vec<Arc<Watcher>>,
}

impl Default for Registry {
    fn default() -> Self {
        Self {
            domain: AtomicU8::new(DomainState::Normal as u8),
            next: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
            names: Mutex::new(Names::default()),
            turn: Arc::default(),
            listing: OnceLock::new(),
        }
    }
}

impl Attachment for Registry {
    fn drain(self: Arc<Self>, runtime: &Runtime, by: Instant) {
        Services::of(runtime, self).stop_by(by);
    }

    fn state_changed(self: Arc<Self>, runtime: &Runtime) {
        if runtime.extension().state() == RuntimeState::Closed {
            self.refuse_all();
        }
    }

    fn close(self: Arc<Self>, runtime: &Runtime) -> Vec<UnfinishedStop> {
        Services::of(runtime, self).end()
    }
}

impl Registry {
    /// Returns a number that is unique here.
    pub(super) fn next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Goes to this state, unless the runtime has ended.
    pub(super) fn go(&self, to: DomainState) {
        let next = |now| (now != ENDED).then_some(to as u8);
        // A start or a stop that was under way at the end of the runtime may still call this later.
        let _ = self
            .domain
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
    }

    /// Returns the registered and the leaving services, by level and number.
    pub(super) fn all(&self) -> Vec<Arc<Entry>> {
        let names = self.names.lock();
        in_order(names.by_name.values().chain(&names.leaving))
    }

    /// Returns the registered services, by level and number.
    pub(super) fn registered(&self) -> Vec<Arc<Entry>> {
        in_order(self.names.lock().by_name.values())
    }

    /// Refuses all further calls.
    pub(super) fn refuse_all(&self) {
        let least = DomainState::Stopping as u8;
        self.domain.fetch_max(least, Ordering::SeqCst);
    }

    /// Returns whether no service needs a stop. A service that is registered later appears in the shutdown report: its
    /// stop was not run.
    pub(super) fn is_empty(&self) -> bool {
        let names = self.names.lock();
        names.by_name.is_empty() && names.leaving.is_empty()
    }
}

impl Services {
    /// Returns the state of all services together.
    pub fn domain(&self) -> DomainState {
        // The matching state of the runtime counts if that is further.
        let own = DomainState::of(self.registry.domain.load(Ordering::SeqCst));
        let runtime = self.runtime.extension().state();
        if runtime >= RuntimeState::Closed {
            own.max(DomainState::Stopping)
        } else if runtime >= RuntimeState::Draining {
            own.max(DomainState::Drain)
        } else {
            own
        }
    }

    /// Ends all services with the runtime. Callers that still wait get an answer, and every service is stopped and
    /// stays stopped. The user's functions are dropped, because they may hold this runtime. Returns the stops that did
    /// not finish, in their order.
    fn end(&self) -> Vec<UnfinishedStop> {
        self.registry.refuse_all();
        for entry in self.registry.all() {
            for call in entry.calls() {
                if let Err(panic) = caught(|| call.shut_down()) {
                    self.runtime.report(
                        IncidentKind::Panicked,
                        "a call",
                        format!("a call could not be answered: {panic}"),
                    );
                }
            }
        }
        let all = self.end_all();
        for entry in &all {
            entry.forget();
        }
        let unfinished = all.iter().rev().filter_map(|entry| entry.unfinished());
        unfinished.collect()
    }

    /// Stops all services in one step, as a watcher sees it. After that no event follows.
    fn end_all(&self) -> Vec<Arc<Entry>> {
        self.with_names(|names| {
            let now = self.runtime.now();
            let registered: Vec<_> = names.by_name.values().cloned().collect();
            for entry in &registered {
                if entry.end(now) {
                    names.tell(entry, Happened::Stopped);
                }
            }
            for entry in &names.leaving {
                entry.end(now);
            }
            names.ended = true;
            self.registry.domain.store(ENDED, Ordering::SeqCst);
            names.close();
            in_order(
                registered
                    .iter()
                    .chain(&names.leaving)
                    .chain(&names.cut_off),
            )
        })
    }
}

/// Returns the services by level and number.
fn in_order<'a>(entries: impl Iterator<Item = &'a Arc<Entry>>) -> Vec<Arc<Entry>> {
    let mut all: Vec<_> = entries.cloned().collect();
    all.sort_by_key(|entry| (entry.level, entry.number));
    all
}
