//! The timers of one locality: those of its foms, and those of sleeps.

use std::{cell::Cell, mem, ptr, ptr::NonNull, sync::Arc, task::Waker};

use crate::{
    fom::{Header, Resident},
    locality::{
        Core,
        wheel::{Node, Wheel},
    },
    sync::Mutex,
};

/// One timer, in what it belongs to. Touched by whoever has the core alone.
#[repr(C)]
pub(crate) struct Timer {
    /// First: a pointer to one is a pointer to the other.
    node: Node,
    /// How far it is behind the header of its fom; zero when it is a [`Sleeper`]'s.
    behind: u16,
    /// Whether the wheel has a reference to the sleeper.
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

/// What a [`Sleep`](crate::Sleep) leaves in its locality.
#[repr(C)]
pub(crate) struct Sleeper {
    /// First, as above.
    timer: Timer,
    pub(crate) waker: Mutex<Option<Waker>>,
}

// SAFETY: the timer is touched by the thread that has the core of its locality alone; the waker is behind a lock.
unsafe impl Sync for Sleeper {}
// SAFETY: as above.
unsafe impl Send for Sleeper {}

impl Sleeper {
    pub(crate) fn new(waker: Waker) -> Arc<Self> {
        let sleeper = Arc::new(Self {
            timer: Timer::of_fom(0),
            waker: Mutex::new(Some(waker)),
        });
        // The wheel knows the node, and gives it back as the whole.
        Arc::as_ptr(&sleeper).expose_provenance();
        sleeper
    }
}

pub(crate) struct Timers(Wheel);

// SAFETY: the nodes in the wheel are touched by whoever has the core alone, which has the wheel.
unsafe impl Send for Timers {}

/// What is due.
pub(super) enum Due {
    Fom(NonNull<Header>),
    Sleeper(Arc<Sleeper>),
}

impl Timers {
    pub(super) fn new(now: u64) -> Self {
        Self(Wheel::new(now))
    }

    /// Arms the timer of a fom of this locality; one that is armed is moved.
    pub(crate) fn arm(&mut self, timer: &Timer, at: u64) {
        // SAFETY: a fom's slot does not move, and a fom leaves its timer armed neither at its end nor when it changes its
        // locality.
        unsafe { self.0.arm(NonNull::from(&timer.node), at) };
    }

    pub(crate) fn disarm(&mut self, timer: &Timer) {
        // SAFETY: it is in no other wheel.
        unsafe { self.0.disarm(NonNull::from(&timer.node)) };
    }

    pub(crate) fn arm_sleeper(&mut self, sleeper: &Arc<Sleeper>, at: u64) {
        if !sleeper.timer.held.replace(true) {
            mem::forget(Arc::clone(sleeper));
        }
        // SAFETY: the wheel has a reference to it until it is disarmed or fires.
        unsafe { self.0.arm(NonNull::from(&sleeper.timer.node), at) };
    }

    pub(crate) fn disarm_sleeper(&mut self, sleeper: &Arc<Sleeper>) {
        self.disarm(&sleeper.timer);
        if sleeper.timer.held.replace(false) {
            // SAFETY: the wheel's reference, forgotten when it was armed.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(sleeper)) };
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A time that is not after the next one.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.0.next_at()
    }

    pub(super) fn pop_due(&mut self, now: u64) -> Option<Due> {
        let address = self.0.pop_due(now)?.as_ptr().addr();
        // SAFETY: a node is the beginning of a timer, whose memory has been exposed as a whole (a page of foms, a sleeper).
        let timer = unsafe { &*ptr::with_exposed_provenance::<Timer>(address) };
        if timer.behind == 0 {
            timer.held.set(false);
            // SAFETY: a timer that is no fom's is the beginning of a sleeper; this is the wheel's reference to it.
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
        // The references to sleepers that outlive their locality.
        while let Some(due) = self.pop_due(u64::MAX) {
            drop(due);
        }
    }
}

impl Due {
    pub(super) fn fire(self, core: &mut Core, now: u64) {
        match self {
            Self::Fom(header) => {
                // SAFETY: it was armed, so it has not ended.
                let fom = unsafe { header.as_ref() };
                if let Some(timing) = fom.timing() {
                    timing.fired(fom, now);
                }
                if fom.wake_here() {
                    // SAFETY: its token was just taken from Waiting to Ready.
                    core.enqueue(unsafe { Resident::new(header) });
                }
            }
            Self::Sleeper(sleeper) => {
                let waker = sleeper.waker.lock().take();
                if let Some(waker) = waker {
                    // It may be of an executor of the user's.
                    core.home.fenced("the waker of a sleep in", || waker.wake());
                }
            }
        }
    }
}
