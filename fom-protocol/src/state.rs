//! The runtime state of one fom, and its coalesced wakes.
//!
//! # Why it is right
//!
//! State, "woken meanwhile" and "cancelled" are bits of one word, so one read-modify-write answers each question. A
//! wake makes a waiting fom ready, and tells exactly one of the wakers to enqueue it. A wake of a running fom leaves
//! a mark, and at its next stop the fom returns to the queue. A wake of a ready or finished fom changes nothing.
//!
//! ```text
//!     ┌──────────────────────park─────────────────────────▶┐
//!   Init ──admit──▶ Ready ──start──▶ Running ──stop──▶ Waiting
//!     │               ▲  ▲──again──────┘│  └(woken)──▶ Ready │
//!     │               └────────wake─────┼────────────────────┘
//!     └──finish──▶ Finished ◀─finish────┘
//! ```
//!
//! Any other step is a bug, and is caught in release builds too.
//!
//! A fom without an address (no handle, no sender, no waker) cannot be woken. So its own steps may be plain stores,
//! which overwrite no change of another thread. The first address is made on the thread that runs the fom, between
//! two steps of the fom. The last address is given back with a release, and the next step acquires it when it reads
//! the count.

use std::fmt;

use crate::sync::atomic::{AtomicU8, Ordering};

/// The state of a fom in the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FomState {
    /// Submitted, not yet admitted by its home locality.
    Init,
    /// In the run queue.
    Ready,
    /// The phase function runs, or is between enter-block and leave-block.
    Running,
    /// Waiting for an event, an answer, a timer, or whatever its future awaits.
    Waiting,
    /// Ended, whether in a phase or in the failed outcome.
    Finished,
}

impl fmt::Display for FomState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Init => "init",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Finished => "finished",
        })
    }
}

const STATE: u8 = 0b0111;
const INIT: u8 = 0;
const READY: u8 = 1;
const RUNNING: u8 = 2;
const WAITING: u8 = 3;
const FINISHED: u8 = 4;
const WOKEN: u8 = 0b0000_1000;
const CANCELLED: u8 = 0b0001_0000;
const ABORTED: u8 = 0b0010_0000;

/// The next state of a fom that stopped running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The fom waits.
    Waiting,
    /// A wake came while the fom ran. The fom is ready again, and the caller must enqueue it.
    Ready,
}

/// The result of a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// The fom was waiting and is ready now. The caller must enqueue it.
    Enqueue,
    /// The fom will see the mark by itself.
    Marked,
    /// The fom has ended already.
    Ended,
}

/// The state word of one fom.
#[derive(Debug)]
pub struct StateCell(AtomicU8);

impl Default for StateCell {
    fn default() -> Self {
        Self::new()
    }
}

impl StateCell {
    /// Creates a word in [`FomState::Init`].
    pub fn new() -> Self {
        Self(AtomicU8::new(INIT))
    }

    /// Resets the word to [`FomState::Init`], or to [`FomState::Ready`] at once, for the next fom in the same slot.
    #[inline]
    pub fn reset(&self, ready: bool) {
        self.0
            .store(if ready { READY } else { INIT }, Ordering::Relaxed);
    }

    /// Returns the current state. Another thread may change it at once.
    #[inline]
    pub fn state(&self) -> FomState {
        match self.0.load(Ordering::Acquire) & STATE {
            INIT => FomState::Init,
            READY => FomState::Ready,
            RUNNING => FomState::Running,
            WAITING => FomState::Waiting,
            _ => FomState::Finished,
        }
    }

    /// Returns whether [`cancel`](Self::cancel) was called.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire) & CANCELLED != 0
    }

    /// Returns whether [`abort`](Self::abort) was called.
    #[inline]
    pub fn is_aborted(&self) -> bool {
        self.0.load(Ordering::Acquire) & ABORTED != 0
    }

    /// Returns whether a wake came since the fom began to run. Only the thread that runs the fom calls this.
    #[inline]
    pub fn is_woken(&self) -> bool {
        self.0.load(Ordering::Acquire) & WOKEN != 0
    }

    /// Init → Ready.
    #[inline]
    pub fn admit(&self, alone: bool) {
        self.step(
            alone,
            |word| (word & STATE == INIT).then_some(word & !(STATE | WOKEN) | READY),
            "admit",
        );
    }

    /// Init → Waiting: the fom waits before its first run. A cancel before this call has enqueued nothing, so the
    /// caller must check [`is_cancelled`](Self::is_cancelled) after this.
    #[inline]
    pub fn park(&self) {
        self.step(
            false,
            |word| (word & STATE == INIT).then_some(word & !(STATE | WOKEN) | WAITING),
            "park",
        );
    }

    /// Ready → Running. This run uses up all earlier wakes.
    #[inline]
    pub fn start(&self, alone: bool) {
        self.step(
            alone,
            |word| (word & STATE == READY).then_some(word & !(STATE | WOKEN) | RUNNING),
            "start",
        );
    }

    /// Running → Waiting, or → Ready if a wake came meanwhile.
    #[inline]
    pub fn stop(&self, alone: bool) -> Stopped {
        let before = self.step(
            alone,
            |word| {
                let next = if word & WOKEN == 0 { WAITING } else { READY };
                (word & STATE == RUNNING).then_some(word & !(STATE | WOKEN) | next)
            },
            "stop",
        );
        if before & WOKEN == 0 {
            Stopped::Waiting
        } else {
            Stopped::Ready
        }
    }

    /// Running → Ready: the fom has more to do, and others run first.
    #[inline]
    pub fn again(&self, alone: bool) {
        self.step(
            alone,
            |word| (word & STATE == RUNNING).then_some(word & !(STATE | WOKEN) | READY),
            "again",
        );
    }

    /// Running or Init → Finished.
    #[inline]
    pub fn finish(&self, alone: bool) {
        self.step(
            alone,
            |word| {
                matches!(word & STATE, RUNNING | INIT).then_some(word & !(STATE | WOKEN) | FINISHED)
            },
            "finish",
        );
    }

    /// Like [`wake`](Self::wake), for a caller that knows that no other thread can reach the fom, except a run of it.
    #[inline]
    pub fn wake_alone(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        if word & STATE != WAITING {
            // While the fom runs elsewhere, in a blocking section, it may make an address and be woken through it.
            return self.wake();
        }
        self.0.store(word & !STATE | READY, Ordering::Relaxed);
        true
    }

    /// Records a wake. On `true` the fom was waiting and is ready now, and the caller must enqueue it.
    ///
    /// Any thread may call this. It takes no lock and allocates nothing.
    #[inline]
    pub fn wake(&self) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let new = match word & STATE {
                WAITING => word - WAITING + READY,
                RUNNING => word | WOKEN,
                // The word stays the same, but by a read-modify-write. So the run that this wake coalesces into sees
                // all that the waker stored before.
                INIT | READY => word,
                _ => return false,
            };
            match self
                .0
                .compare_exchange_weak(word, new, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return word & STATE == WAITING,
                Err(now) => word = now,
            }
        }
    }

    /// Marks the fom as cancelled and wakes it.
    #[inline]
    pub fn cancel(&self) -> Cancelled {
        self.mark(CANCELLED)
    }

    /// Marks the fom as cancelled for good, and wakes it.
    pub fn abort(&self) -> Cancelled {
        self.mark(CANCELLED | ABORTED)
    }

    #[inline]
    fn mark(&self, bits: u8) -> Cancelled {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let new = match word & STATE {
                WAITING => word & !STATE | READY | bits,
                RUNNING => word | WOKEN | bits,
                INIT | READY => word | bits,
                _ => return Cancelled::Ended,
            };
            match self
                .0
                .compare_exchange_weak(word, new, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) if word & STATE == WAITING => return Cancelled::Enqueue,
                Ok(_) => return Cancelled::Marked,
                Err(now) => word = now,
            }
        }
    }

    /// Makes a step of the fom itself. `alone`: no other thread can reach the fom at this moment, so the step
    /// overwrites no change.
    #[inline]
    fn step(&self, alone: bool, next: impl Fn(u8) -> Option<u8>, name: &'static str) -> u8 {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let Some(new) = next(word) else {
                bug(name, word)
            };
            if alone {
                self.0.store(new, Ordering::Release);
                return word;
            }
            match self
                .0
                .compare_exchange_weak(word, new, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(before) => return before,
                Err(now) => word = now,
            }
        }
    }
}

#[cold]
#[inline(never)]
fn bug(step: &str, word: u8) -> ! {
    panic!("bug in fom: `{step}` from state {word:#b}")
}
