//! The inlet of a locality: a contiguous list of requests under a lock, which the locality swaps for an empty one.
//!
//! The first request that comes in after a swap sends the locality a signal. Further requests send none until the next
//! swap. So all requests that come while the locality is busy with the stream cost one signal. Nothing stays here for
//! long: a locality that got a signal looks here in its next round, and again as long as it finds requests.

use std::{
    collections::VecDeque,
    ops::DerefMut,
    sync::{Arc, OnceLock},
};

use crossbeam_utils::CachePadded;
use fom_protocol::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};
use fom_runtime::{
    Operation, Runtime,
    extension::{LocalWork, PartId, Pieces},
};
use tokio::sync::Notify;

use crate::streams::{StreamKey, home::StreamPart};

/// A request on its way.
pub(super) struct Item<O, K> {
    pub(super) hash: u64,
    pub(super) key: K,
    pub(super) operation: O,
}

/// Full keys, with their hashes. There are few, and seldom any.
pub(super) type FullKeys<K> = Arc<[(u64, K)]>;

/// The part of a stream in one locality that other threads may touch.
pub(super) struct Inlet<O: Operation, K> {
    state: CachePadded<Mutex<State<O, K>>>,
    hints: CachePadded<Hints>,
    full: Mutex<FullKeys<K>>,
    /// Notified when there is room again, if a caller waits for room.
    pub(super) room: Notify,
    /// Counts the requests that wait here or in the locality.
    pub(super) work: LocalWork,
    /// The part in the locality. Only the locality uses this. The part is made when the first request comes.
    pub(super) part: OnceLock<PartId<StreamPart<O, K>>>,
}

/// What a producer checks before each request, on a cache line that changes seldom while many requests come.
struct Hints {
    /// Whether some key is full.
    choosy: AtomicBool,
    /// Whether the locality has nothing to do for the stream.
    resting: AtomicBool,
}

pub(super) struct State<O, K> {
    pub(super) arrived: VecDeque<Item<O, K>>,
    /// The count of those that have arrived.
    pub(super) pieces: Pieces,
    /// Whether the locality knows that there are requests here.
    signalled: bool,
    /// Number of requests that the locality has taken from here and that have not ended, as last reported.
    pub(super) taken: usize,
    /// Whether a caller waits for room.
    pub(super) awaited: bool,
    /// Whether the runtime has shut down, so nothing is taken in any more.
    pub(super) closed: bool,
    /// Requests that never ran.
    pub(super) refused: Vec<(K, O)>,
    /// The requests behind each barrier, up to the next one.
    pub(super) behind: VecDeque<Behind<O, K>>,
    /// Whether all requests before the first barrier have ended here.
    passed: bool,
}

/// The requests behind a barrier.
pub(super) struct Behind<O, K> {
    pub(super) items: VecDeque<Item<O, K>>,
    pub(super) pieces: Pieces,
}

impl<O: Operation, K: StreamKey> Inlet<O, K> {
    pub(super) fn new(runtime: &Runtime, index: usize) -> Self {
        Self {
            state: CachePadded::new(Mutex::new(State {
                arrived: VecDeque::new(),
                pieces: Pieces::default(),
                signalled: false,
                taken: 0,
                awaited: false,
                closed: false,
                refused: Vec::new(),
                behind: VecDeque::new(),
                passed: false,
            })),
            hints: CachePadded::new(Hints {
                choosy: AtomicBool::new(false),
                resting: AtomicBool::new(true),
            }),
            full: Mutex::new(Arc::from([])),
            room: Notify::new(),
            work: runtime.extension().local_work(index),
            part: OnceLock::new(),
        }
    }

    #[inline]
    pub(super) fn lock(&self) -> impl DerefMut<Target = State<O, K>> + '_ {
        self.state.lock()
    }

    /// Returns whether some key is full. If so, each request must be checked.
    #[inline]
    pub(super) fn is_choosy(&self) -> bool {
        self.hints.choosy.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn is_resting(&self) -> bool {
        self.hints.resting.load(Ordering::Relaxed)
    }

    /// Called under the lock. Otherwise a late store could overwrite a newer value.
    pub(super) fn set_resting(&self, resting: bool) {
        self.hints.resting.store(resting, Ordering::Relaxed);
    }

    /// Keeps requests that will not run for `take_refused`.
    pub(super) fn refuse(&self, items: impl Iterator<Item = Item<O, K>>) {
        let items = items.map(|item| (item.key, item.operation));
        self.state.lock().refused.extend(items);
    }

    pub(super) fn full_keys(&self) -> FullKeys<K> {
        Arc::clone(&self.full.lock())
    }

    /// Replaces the full keys. Only the locality calls this.
    pub(super) fn set_full_keys(&self, keys: FullKeys<K>) {
        let choosy = !keys.is_empty();
        let before = std::mem::replace(&mut *self.full.lock(), keys);
        self.hints.choosy.store(choosy, Ordering::Relaxed);
        // Dropped without the lock, because the keys are user code.
        drop(before);
    }
}

impl<O, K> State<O, K> {
    /// Returns the number of requests that were taken in and have not ended.
    pub(super) fn in_flight(&self) -> usize {
        let behind = self.behind.iter().map(|behind| behind.items.len());
        self.arrived.len() + self.taken + behind.sum::<usize>()
    }

    /// Takes in requests, behind the last barrier.
    #[inline]
    pub(super) fn put(&mut self, pieces: Pieces, put: impl FnOnce(&mut VecDeque<Item<O, K>>)) {
        let (items, all) = match self.behind.back_mut() {
            Some(behind) => (&mut behind.items, &mut behind.pieces),
            None => (&mut self.arrived, &mut self.pieces),
        };
        put(items);
        all.append(pieces);
    }

    /// Sets a barrier behind all requests that were taken in.
    pub(super) fn set_barrier(&mut self) {
        self.behind.push_back(Behind {
            items: VecDeque::new(),
            pieces: Pieces::default(),
        });
    }

    /// Returns whether the caller must report that all requests before the first barrier have ended here.
    pub(super) fn passes_barrier(&mut self) -> bool {
        let ended = self.arrived.is_empty() && self.taken == 0;
        let passes = ended && !self.passed && !self.behind.is_empty();
        self.passed |= passes;
        passes
    }

    /// Removes the first barrier. Returns whether requests were behind it.
    pub(super) fn open_barrier(&mut self) -> bool {
        self.passed = false;
        let Some(mut behind) = self.behind.pop_front() else {
            return false;
        };
        let any = !behind.items.is_empty();
        self.arrived.append(&mut behind.items);
        self.pieces.append(behind.pieces);
        any
    }

    /// Returns whether the caller must send a signal.
    #[inline]
    pub(super) fn must_signal(&mut self) -> bool {
        !std::mem::replace(&mut self.signalled, true)
    }

    /// Notes that the locality has taken all requests and wants a signal for the next one.
    pub(super) fn rest(&mut self) {
        self.signalled = false;
    }
}
