//! One node: its heartbeats, the slots that it owns with their runtimes, and what it has seen of the others.

mod hand_over;
mod here;
mod load;
mod seen;
mod state;

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use fom_durable::DurableExt as _;
use fom_protocol::{
    schedule::spawn,
    sync::{Condvar, Mutex},
};
use fom_runtime::{Builder, Runtime};

use crate::{
    clock::boot_time,
    commits::{Commits, Owned},
    engine::{Beat, Engine, NodeInfo, Settings, View},
    error::ClusterError,
    membership::{BEAT, LEASE, MARGIN, Membership},
    network::Network,
    poison::Noter,
    registry::Registry,
    room::Room,
    slot::Slot,
    status::Status,
    time::ClusterTime,
};
pub(crate) use here::Here;
use seen::Seen;
use state::{Stage, State};

/// Sets up the runtime of a slot.
pub(crate) type SetUp = Box<dyn Fn(Builder) -> Builder + Send + Sync>;

/// One node of a cluster.
pub(crate) struct Node {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) network: Arc<dyn Network>,
    pub(crate) registry: Registry,
    pub(crate) settings: Settings,
    set_up: SetUp,
    pub(crate) time: Arc<ClusterTime>,
    commits: Arc<Commits>,
    state: Mutex<State>,
    /// Wakes the thread of the heartbeats.
    woken: Condvar,
    /// What the last heartbeat saw.
    pub(crate) seen: Seen,
    pub(crate) room: Room,
    /// Numbers the attempts to deliver a letter.
    pub(crate) attempts: AtomicU64,
}

/// What a node is made of.
pub(crate) struct Parts {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) network: Arc<dyn Network>,
    pub(crate) registry: Registry,
    pub(crate) settings: Settings,
    pub(crate) set_up: SetUp,
    /// The most operations in flight.
    pub(crate) capacity: usize,
}

impl Node {
    pub(crate) fn new(parts: Parts, info: NodeInfo) -> Arc<Self> {
        let time: Arc<ClusterTime> = Arc::default();
        Arc::new(Self {
            commits: Commits::new(Arc::clone(&parts.engine), Arc::clone(&time)),
            engine: parts.engine,
            network: parts.network,
            registry: parts.registry,
            settings: parts.settings,
            set_up: parts.set_up,
            time,
            state: Mutex::new(State::new(info)),
            woken: Condvar::default(),
            seen: Seen::default(),
            room: Room::new(parts.capacity),
            attempts: AtomicU64::new(1),
        })
    }

    /// Starts the threads of the commits and of the heartbeats.
    pub(crate) fn start(self: &Arc<Self>) -> Result<(), ClusterError> {
        let failed = |error| ClusterError::Thread(Arc::new(error));
        self.commits.start().map_err(failed)?;
        let node = Arc::clone(self);
        spawn("fom-beats", move || node.beats()).map_err(|error| {
            self.commits.close();
            failed(error)
        })
    }

    /// Sets where other nodes reach this one.
    pub(crate) fn set_address(&self, address: String) {
        self.state.lock().info.address = address;
    }

    pub(crate) fn name(&self) -> String {
        self.state.lock().info.name.clone()
    }

    /// Returns the incarnation of this process.
    pub(crate) fn incarnation(&self) -> Arc<str> {
        Arc::clone(&self.state.lock().incarnation)
    }

    /// Returns a slot that this node owns, and its runtime.
    pub(crate) fn serving(&self, slot: Slot) -> Option<(Arc<Owned>, Runtime)> {
        self.state.lock().serving(slot)
    }

    /// Takes the room for one more operation. Returns whether there was some.
    pub(crate) fn has_room(&self) -> bool {
        self.room.take(|| {
            let slots = self.served().into_iter();
            let runtimes = slots.filter_map(|(slot, _)| self.serving(slot));
            runtimes.map(|(_, runtime)| runtime.in_flight()).sum()
        })
    }

    /// Returns what writes the notes of a slot of this node, if there are notes.
    pub(crate) fn noter(&self, slot: Slot) -> Option<Arc<Noter>> {
        self.state.lock().noter(slot)
    }

    /// Returns the slots that this node serves, with their terms.
    pub(crate) fn served(&self) -> Vec<(Slot, u64)> {
        self.state.lock().served()
    }

    /// Returns what is wrong with slots of this node, and with its calls to others.
    pub(crate) fn troubles(&self) -> Vec<ClusterError> {
        let mut troubles = self.state.lock().troubles();
        let view = self.view();
        let others = view.nodes.values().map(|row| &row.info);
        troubles.extend(others.filter_map(|info| {
            Some(ClusterError::Unreachable {
                node: info.name.clone(),
                address: info.address.clone(),
                why: self.network.trouble(&info.address)?,
            })
        }));
        troubles
    }

    /// Returns the cluster, as of the last answered heartbeat.
    pub(crate) fn status(&self) -> Status {
        let view = self.view();
        let state = self.state.lock();
        Status::of(&view, state.ownerless(), boot_time())
    }

    pub(crate) fn view(&self) -> Arc<View> {
        self.seen.get().0
    }

    /// Sends a heartbeat at once.
    pub(crate) fn wake(&self) {
        self.state.lock().wakes = true;
        self.woken.notify_all();
    }

    /// Lets the node leave: it gives its slots up, one after the other.
    pub(crate) fn begin_leave(&self) {
        let mut state = self.state.lock();
        if state.stage == Stage::Runs {
            state.stage = Stage::Leaves;
            state.info.weight = 0;
        }
        drop(state);
        self.wake();
    }

    pub(crate) fn has_left(&self) -> bool {
        self.state.lock().stage == Stage::Left
    }

    /// Tells all callers that something has changed.
    fn tell(&self) {
        self.seen.tell();
    }

    fn beats(self: &Arc<Self>) {
        let mut membership = Membership::default();
        loop {
            let sent = boot_time();
            let (incarnation, is_first, info) = self.state.lock().beat();
            let beat = Beat::new(&incarnation, is_first, self.time.now(), &info);
            match self.engine.beat(&beat) {
                Ok(view) => self.beaten(&mut membership, sent, view),
                Err(_) => {
                    membership.break_off();
                    self.tell();
                }
            }
            if self.leaves() {
                return;
            }
            let mut state = self.state.lock();
            if !state.wakes {
                state = self.woken.wait_for(state, BEAT).0;
            }
            state.wakes = false;
        }
    }

    /// Takes the answer to a heartbeat.
    fn beaten(self: &Arc<Self>, membership: &mut Membership, sent: Duration, view: View) {
        let now = boot_time();
        self.time.is_at_least(view.time, now);
        let incarnation = self.incarnation();
        for (dead, beat) in membership.look(&view, now) {
            if *dead != *incarnation {
                // The next heartbeat shows it, or tries again.
                let _ = self.engine.evict(&dead, beat);
            }
        }
        let lost = {
            let mut state = self.state.lock();
            state.note(&view, now);
            match view.is_member {
                true => {
                    // First: the lease of a slot that another node has is not extended.
                    let lost = state.fenced(&view);
                    state.confirm(sent + LEASE - MARGIN);
                    lost
                }
                // Another node has evicted this one.
                false if !state.is_first => state.begin_anew(),
                false => Vec::new(),
            }
        };
        let view = Arc::new(view);
        self.seen.set(Arc::clone(&view));
        self.end(lost);
        if view.is_member {
            self.act(membership, &view, now);
        }
    }

    /// Claims slots, and gives slots up.
    fn act(self: &Arc<Self>, membership: &Membership, view: &View, now: Duration) {
        let (claims, gives, lived, noters) = {
            let mut state = self.state.lock();
            let claims = state.claims(view, now);
            let gives = state.gives(view, membership.changed(), now);
            (claims, gives, state.lived(now), state.noters())
        };
        for noter in lived {
            // Without a thread, the notes go on.
            let _ = spawn("fom-notes", move || noter.has_lived());
        }
        for noter in noters.into_iter().filter(|noter| noter.forgives(view)) {
            let (node, view) = (Arc::clone(self), view.clone());
            let main = move || {
                for fom in noter.forgive(&view) {
                    if let Some((_, runtime)) = node.serving(noter.slot()) {
                        // It may have been tried again, or discarded.
                        let _ = runtime.quarantine().retry(fom);
                    }
                }
            };
            // Without a thread, the next heartbeat tries again.
            let _ = spawn("fom-notes", main);
        }
        for (slot, seen) in claims {
            self.load(slot, seen);
        }
        if let Some((slot, to)) = gives {
            self.hand_over(slot, to);
        }
    }

    /// Ends runtimes of slots that other nodes have.
    fn end(self: &Arc<Self>, lost: Vec<(Arc<Owned>, Option<Runtime>)>) {
        for (owned, runtime) in lost {
            owned.lease.lose();
            owned.end();
            let Some(runtime) = runtime else { continue };
            // The drop of a runtime waits for its threads.
            // Without a thread, it is dropped here.
            let _ = spawn("fom-end", move || drop(runtime));
        }
    }

    /// Removes the node, if it leaves and has given all slots up. Returns whether its threads end.
    fn leaves(&self) -> bool {
        let incarnation = {
            let state = self.state.lock();
            if state.stage != Stage::Leaves || !state.is_empty() {
                return false;
            }
            Arc::clone(&state.incarnation)
        };
        if self.engine.leave(&incarnation).is_err() {
            return false;
        }
        self.state.lock().stage = Stage::Left;
        self.commits.close();
        self.tell();
        true
    }
}

/// Returns a name that no other process, and no earlier run of this one, has.
fn new_incarnation(node: &str) -> Arc<str> {
    use std::hash::{BuildHasher as _, RandomState};
    let random = || RandomState::new().hash_one(boot_time());
    format!("{node} {:016x}{:016x}", random(), random()).into()
}
