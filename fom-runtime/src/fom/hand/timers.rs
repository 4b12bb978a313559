//! The timers of one locality: those of its foms and those of sleeps.

use std::{cell::Cell, mem, ptr, ptr::NonNull, sync::Arc, task::Waker};

use crate::fom::{
    Header,
    hand::{
        prefetch::prefetch_fom,
        timer_slab::{TimerEntry, TimerKey, TimerSlab},
        wheel::{Node, Wheel},
    },
    reference::of_waker,
};
use fom_protocol::sync::Mutex;

/// Marks the timer of a [`Sleeper`].
const SLEEPER: u16 = 0;
/// Marks the timer of a [`TimerEntry`]. A header is longer, so this is no distance.
const ENTRY: u16 = 1;

/// One timer, inside the value that it belongs to. Only the holder of the core touches it.
#[repr(C)]
pub(crate) struct Timer {
    /// First, so that a pointer to the node is a pointer to the timer.
    node: Node,
    /// The distance from the header of the fom to its timer, or [`SLEEPER`] or [`ENTRY`].
    behind: u16,
    /// Whether the wheel holds a reference to the sleeper.
    held: Cell<bool>,
}

impl Timer {
    pub(crate) fn of_fom(behind: u16) -> Self {
        Self {
            node: Node::new(),
            behind,
            held: Cell::new(false),
        }
    }

    pub(super) fn of_entry() -> Self {
        Self::of_fom(ENTRY)
    }

    pub(crate) fn at(&self) -> Option<u64> {
        self.node.is_armed().then(|| self.node.at())
    }
}

/// What an alarm leaves in its locality, and a [`Sleep`](crate::time::Sleep) that was armed by another thread.
#[repr(C)]
pub(crate) struct Sleeper {
    /// First, for the same reason as the node of a timer.
    timer: Timer,
    pub(crate) waker: Mutex<Option<Waker>>,
}

// SAFETY: only the thread that holds the core of the locality touches the timer; the waker is behind a lock.
unsafe impl Sync for Sleeper {}
// SAFETY: as above.
unsafe impl Send for Sleeper {}

impl Sleeper {
    pub(crate) fn new(waker: Waker) -> Arc<Self> {
        let sleeper = Arc::new(Self {
            timer: Timer::of_fom(SLEEPER),
            waker: Mutex::new(Some(waker)),
        });
        // The wheel knows only the node, and `pop_due` makes the whole sleeper from it.
        Arc::as_ptr(&sleeper).expose_provenance();
        sleeper
    }
}

pub(crate) struct Timers {
    wheel: Wheel,
    pub(super) slab: TimerSlab,
}

// SAFETY: only the holder of the core touches the nodes in the wheel and the entries. Both are part of the core.
unsafe impl Send for Timers {}

/// What `pop_due` found due.
pub(crate) enum Due {
    Fom(NonNull<Header>),
    Sleeper(Arc<Sleeper>),
    /// The waker of an entry.
    Entry(Option<Waker>),
}

impl Due {
    /// Brings the fom that will be woken near.
    pub(crate) fn prefetch(&self) {
        match self {
            Self::Fom(fom) => prefetch_fom(fom.as_ptr()),
            Self::Entry(Some(waker)) => {
                if let Some(fom) = of_waker(waker) {
                    prefetch_fom(fom);
                }
            }
            Self::Sleeper(_) | Self::Entry(None) => {}
        }
    }
}

impl Timers {
    pub(crate) fn new(now: u64) -> Self {
        Self {
            wheel: Wheel::new(now),
            slab: TimerSlab::default(),
        }
    }

    /// Arms the timer of a fom of this locality. A timer that is armed already is moved.
    pub(crate) fn arm(&mut self, timer: &Timer, at: u64) {
        // SAFETY: a fom's slot does not move. A fom leaves its timer armed neither at its end nor when it changes its
        // locality.
        unsafe { self.wheel.arm(NonNull::from(&timer.node), at) };
    }

    pub(crate) fn disarm(&mut self, timer: &Timer) {
        // SAFETY: the node is in no other wheel.
        unsafe { self.wheel.disarm(NonNull::from(&timer.node)) };
    }

    pub(crate) fn arm_sleeper(&mut self, sleeper: &Arc<Sleeper>, at: u64) {
        if !sleeper.timer.held.replace(true) {
            mem::forget(Arc::clone(sleeper));
        }
        // SAFETY: the wheel holds a reference to the sleeper until the timer is disarmed or fires.
        unsafe { self.wheel.arm(NonNull::from(&sleeper.timer.node), at) };
    }

    pub(crate) fn disarm_sleeper(&mut self, sleeper: &Arc<Sleeper>) {
        self.disarm(&sleeper.timer);
        if sleeper.timer.held.replace(false) {
            // SAFETY: this is the wheel's reference, forgotten when the timer was armed.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(sleeper)) };
        }
    }

    /// Wakes the waker at this time, unless the entry is disarmed before.
    pub(crate) fn arm_entry(&mut self, waker: Waker, at: u64) -> TimerKey {
        let (entry, key) = self.slab.begin(waker);
        // SAFETY: an entry lives until `TimerSlab::end`, which is called only for an entry whose timer is not armed.
        unsafe { self.wheel.arm(entry.cast(), at) };
        key
    }

    /// Returns whether the entry wakes this waker, or `None` if it has fired.
    pub(crate) fn entry_wakes(&self, key: TimerKey, waker: &Waker) -> Option<bool> {
        self.slab.wakes(key, waker)
    }

    /// Ends an entry before its time, and returns its waker. Returns `None` if the entry has fired.
    pub(crate) fn disarm_entry(&mut self, key: TimerKey) -> Option<Waker> {
        let entry = self.slab.get(key)?;
        // SAFETY: `get` returns an entry that goes on. Its timer is in this wheel, and in none afterwards.
        unsafe {
            self.wheel.disarm(entry.cast());
            self.slab.end(entry)
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.wheel.is_empty()
    }

    /// Returns a time that is not after the next due time.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.wheel.next_at()
    }

    pub(crate) fn pop_due(&mut self, now: u64) -> Option<Due> {
        let address = self.wheel.pop_due(now)?.as_ptr().addr();
        // SAFETY: a node is the beginning of a timer. The memory around it was exposed as a whole (a page of foms, a
        // sleeper, or a chunk of entries).
        let timer = unsafe { &*ptr::with_exposed_provenance::<Timer>(address) };
        if timer.behind == ENTRY {
            let entry = ptr::with_exposed_provenance_mut::<TimerEntry>(address);
            // SAFETY: the timer is the beginning of an entry. An armed entry goes on, and the timer is armed no more.
            let waker = NonNull::new(entry).and_then(|entry| unsafe { self.slab.end(entry) });
            return Some(Due::Entry(waker));
        }
        if timer.behind == SLEEPER {
            timer.held.set(false);
            // SAFETY: a timer that belongs to no fom is the beginning of a sleeper. This is the wheel's reference to
            // that sleeper.
            let sleeper =
                unsafe { Arc::from_raw(ptr::with_exposed_provenance::<Sleeper>(address)) };
            return Some(Due::Sleeper(sleeper));
        }
        let header = address - usize::from(timer.behind);
        NonNull::new(ptr::with_exposed_provenance_mut(header)).map(Due::Fom)
    }
}

impl Drop for Timers {
    fn drop(&mut self) {
        // Drops the references to sleepers that outlive their locality, and empties the entries.
        while let Some(due) = self.pop_due(u64::MAX) {
            drop(due);
        }
    }
}
