//! Who is registered under which name.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    runtime::World,
    service::{DomainState, entry::Entry, events::Watchers},
    sync::{
        Mutex,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
};

pub(crate) struct Registry {
    domain: AtomicU8,
    next: AtomicU64,
    /// Calls to names that nobody has registered, or with other types.
    pub(super) unknown: AtomicU64,
    pub(super) names: Mutex<Names>,
    /// Held by who starts or stops all.
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
pub(super) struct Names {
    pub(super) by_name: BTreeMap<String, Arc<Entry>>,
    /// Unregistered, with something left that runs.
    pub(super) leaving: Vec<Arc<Entry>>,
    pub(super) watchers: Watchers,
}

impl Default for Registry {
    fn default() -> Self {
        Self {
            domain: AtomicU8::new(DomainState::Normal as u8),
            next: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
            names: Mutex::new(Names::default()),
            turn: Arc::default(),
        }
    }
}

impl Registry {
    /// A number that nothing else here has.
    pub(super) fn next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The state of all services: that of the runtime, if it is further.
    pub(super) fn domain(&self, world: &World) -> DomainState {
        let own = DomainState::of(self.domain.load(Ordering::SeqCst));
        if world.is_closed() {
            own.max(DomainState::Stopping)
        } else if world.takes_nothing() {
            own.max(DomainState::Drain)
        } else {
            own
        }
    }

    pub(super) fn go(&self, to: DomainState) {
        self.domain.store(to as u8, Ordering::SeqCst);
    }

    /// Those that are registered and those that are leaving, by level and number.
    pub(super) fn all(&self) -> Vec<Arc<Entry>> {
        let mut all: Vec<_> = {
            let names = self.names.lock();
            let entries = names.by_name.values().chain(&names.leaving);
            entries.cloned().collect()
        };
        all.sort_by_key(|entry| (entry.level, entry.number));
        all
    }

    /// Those that are registered, by level and number.
    pub(super) fn registered(&self) -> Vec<Arc<Entry>> {
        let mut all: Vec<_> = self.names.lock().by_name.values().cloned().collect();
        all.sort_by_key(|entry| (entry.level, entry.number));
        all
    }

    /// No call is taken any more.
    pub(crate) fn refuse_all(&self) {
        let least = DomainState::Stopping as u8;
        self.domain.fetch_max(least, Ordering::SeqCst);
    }

    /// Whoever still waits is answered, and the user's functions are let go: they may hold this runtime.
    pub(crate) fn close(&self, world: &World) {
        self.refuse_all();
        for entry in self.all() {
            for call in entry.calls() {
                if let Err(panic) = super::caught(|| call.shut_down()) {
                    world.incident(format!("a call could not be answered: {panic}"));
                }
            }
            entry.forget();
        }
        let told = self.names.lock().watchers.close();
        for waker in told {
            super::fenced(|| waker.wake());
        }
    }
}
