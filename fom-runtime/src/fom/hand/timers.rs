//! The timers of one locality: those of its foms and those of sleeps.

use std::{cell::Cell, mem, ptr, ptr::NonNull, sync::Arc, task::Waker};

use crate::fom::{
    Header,
    hand::wheel::{Node, Wheel},
};
use fom_protocol::sync::Mutex;

/// One timer, inside the value that it belongs to. Only the holder of the core touches it.
#[repr(C)]
pub(crate) struct Timer {
    /// First, so that a pointer to the node is a pointer to the timer.
    node: Node,
    /// The distance from the header of the fom to its timer; zero for the timer of a [`Sleeper`].
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

    pub(crate) fn at(&self) -> Option<u64> {
        self.node.is_armed().then(|| self.node.at())
    }
}

/// What a [`Sleep`](crate::time::Sleep) leaves in its locality.
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
            timer: Timer::of_fom(0),
            waker: Mutex::new(Some(waker)),
        });
        // The wheel knows only the node, and `pop_due` makes the whole sleeper from it.
        Arc::as_ptr(&sleeper).expose_provenance();
        sleeper
    }
}

pub(crate) struct Timers(Wheel);

// SAFETY: only the holder of the core touches the nodes in the wheel, and the wheel is part of the core.
unsafe impl Send for Timers {}

/// What `pop_due` found due.
pub(crate) enum Due {
    Fom(NonNull<Header>),
    Sleeper(Arc<Sleeper>),
}

impl Timers {
    pub(crate) fn new(now: u64) -> Self {
        Self(Wheel::new(now))
    }

    /// Arms the timer of a fom of this locality. A timer that is armed already is moved.
    pub(crate) fn arm(&mut self, timer: &Timer, at: u64) {
        // SAFETY: a fom's slot does not move. A fom leaves its timer armed neither at its end nor when it changes its
        // locality.
        unsafe { self.0.arm(NonNull::from(&timer.node), at) };
    }

    pub(crate) fn disarm(&mut self, timer: &Timer) {
        // SAFETY: the node is in no other wheel.
        unsafe { self.0.disarm(NonNull::from(&timer.node)) };
    }

    pub(crate) fn arm_sleeper(&mut self, sleeper: &Arc<Sleeper>, at: u64) {
        if !sleeper.timer.held.replace(true) {
            mem::forget(Arc::clone(sleeper));
        }
        // SAFETY: the wheel holds a reference to the sleeper until the timer is disarmed or fires.
        unsafe { self.0.arm(NonNull::from(&sleeper.timer.node), at) };
    }

    pub(crate) fn disarm_sleeper(&mut self, sleeper: &Arc<Sleeper>) {
        self.disarm(&sleeper.timer);
        if sleeper.timer.held.replace(false) {
            // SAFETY: this is the wheel's reference, forgotten when the timer was armed.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(sleeper)) };
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a time that is not after the next due time.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.0.next_at()
    }

    pub(crate) fn pop_due(&mut self, now: u64) -> Option<Due> {
        let address = self.0.pop_due(now)?.as_ptr().addr();
        // SAFETY: a node is the beginning of a timer. The memory around it was exposed as a whole (a page of foms, or a
        // sleeper).
        let timer = unsafe { &*ptr::with_exposed_provenance::<Timer>(address) };
        if timer.behind == 0 {
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
        // Drops the references to sleepers that outlive their locality.
        while let Some(due) = self.pop_due(u64::MAX) {
            drop(due);
        }
    }
}
