//! Where requests come into a locality: a contiguous list under a lock, which the locality swaps for an empty one.
//!
//! The first one that comes in after the locality has taken all sends it a signal, and until then nobody else does: so a signal is
//! paid for once for all that comes while the locality is busy with lanes. Nothing sits here for long: a locality that was
//! sent a signal looks here in its next round, and again as long as it finds something.

use std::{collections::VecDeque, ops::DerefMut, sync::Arc};

use crossbeam_utils::CachePadded;
use tokio::sync::Notify;

use crate::{
    locality::Home,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

/// A request on its way.
pub(super) struct Item<O, K> {
    pub(super) hash: u64,
    pub(super) key: K,
    pub(super) operation: O,
}

/// Keys that have as many requests as they may, with their hashes. Few, and seldom any.
pub(super) type FullKeys<K> = Arc<[(u64, K)]>;

/// The end of a set of lanes in one locality that others may touch.
pub(super) struct Inlet<O, K> {
    state: CachePadded<Mutex<State<O, K>>>,
    hints: CachePadded<Hints>,
    full: Mutex<FullKeys<K>>,
    /// Told when there is room again, if somebody waits for it.
    pub(super) room: Notify,
}

/// What a feed looks at before each request, on a cache line that changes seldom while many requests come.
struct Hints {
    /// Some key is full.
    choosy: AtomicBool,
    /// The locality has nothing to do for these lanes.
    resting: AtomicBool,
}

pub(super) struct State<O, K> {
    pub(super) arrived: VecDeque<Item<O, K>>,
    /// The locality knows that something is here.
    signalled: bool,
    /// Requests that the locality has taken from here and that have not ended, as it said last.
    pub(super) taken: usize,
    /// Somebody waits for room.
    pub(super) awaited: bool,
    /// The runtime has shut down: what comes now comes in vain.
    pub(super) closed: bool,
    /// Requests that never ran.
    pub(super) refused: Vec<(K, O)>,
}

impl<O, K> Inlet<O, K> {
    pub(super) fn new() -> Self {
        Self {
            state: CachePadded::new(Mutex::new(State {
                arrived: VecDeque::new(),
                signalled: false,
                taken: 0,
                awaited: false,
                closed: false,
                refused: Vec::new(),
            })),
            hints: CachePadded::new(Hints {
                choosy: AtomicBool::new(false),
                resting: AtomicBool::new(true),
            }),
            full: Mutex::new(Arc::from([])),
            room: Notify::new(),
        }
    }

    #[inline]
    pub(super) fn lock(&self) -> impl DerefMut<Target = State<O, K>> + '_ {
        self.state.lock()
    }

    /// Whether some key takes no more: then each is to be looked at.
    #[inline]
    pub(super) fn is_choosy(&self) -> bool {
        self.hints.choosy.load(Ordering::Relaxed)
    }

    /// Those who are told are the user's, and may panic.
    pub(super) fn tell_room(&self, home: &Home) {
        home.fenced("who waited for room in lanes of", || {
            self.room.notify_waiters()
        });
    }

    #[inline]
    pub(super) fn is_resting(&self) -> bool {
        self.hints.resting.load(Ordering::Relaxed)
    }

    /// Under the lock: else what one says would be overwritten by what another said before.
    pub(super) fn set_resting(&self, resting: bool) {
        self.hints.resting.store(resting, Ordering::Relaxed);
    }

    /// Keeps what will not run for whoever asks.
    pub(super) fn refuse(&self, items: impl Iterator<Item = Item<O, K>>) {
        let items = items.map(|item| (item.key, item.operation));
        self.state.lock().refused.extend(items);
    }

    pub(super) fn full_keys(&self) -> FullKeys<K> {
        Arc::clone(&self.full.lock())
    }

    /// Only the locality.
    pub(super) fn set_full_keys(&self, keys: FullKeys<K>) {
        let choosy = !keys.is_empty();
        let before = std::mem::replace(&mut *self.full.lock(), keys);
        self.hints.choosy.store(choosy, Ordering::Relaxed);
        // Without the lock: keys of the user's.
        drop(before);
    }
}

impl<O, K> State<O, K> {
    /// Requests that were taken in and have not ended.
    pub(super) fn in_flight(&self) -> usize {
        self.arrived.len() + self.taken
    }

    /// Whether the caller is to send a signal.
    #[inline]
    pub(super) fn must_signal(&mut self) -> bool {
        !std::mem::replace(&mut self.signalled, true)
    }

    /// The locality has taken all, and wants a signal for what comes next.
    pub(super) fn rest(&mut self) {
        self.signalled = false;
    }
}
