//! The runtime state of one fom, and its wakes as a coalesced token.
//!
//! # Why it is right
//!
//! State, "woken meanwhile" and "cancelled" are bits of one word, so each question is answered by one
//! read-modify-write. A wake that meets a fom that waits makes it ready, and exactly one of any number of wakers is told
//! to enqueue it. A wake that meets a running fom leaves a mark which makes its next stop a return to the queue. A wake
//! that meets a ready fom has nothing to do, and one that meets a finished fom is nothing.
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
//! Who may overwrite whom: a fom that nobody has an address of (no handle, no sender, no waker) can be woken by nobody, so
//! its own steps are plain stores then. Whoever makes the first address does so on the thread that runs it, between two
//! of its steps; and who gives the last one back does so with a release that the next step's look at the count acquires.

use std::fmt;

use crate::sync::atomic::{AtomicU8, Ordering};

/// What the runtime does with a fom at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FomState {
    /// Submitted, not yet admitted by its home locality.
    Init,
    /// In the run queue.
    Ready,
    /// Its phase function runs, or is between enter-block and leave-block.
    Running,
    /// It waits: for an event, an answer, a timer, or whatever its future awaits.
    Waiting,
    /// It ended, one way or another.
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

/// What became of a fom that stopped running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// It waits.
    Waiting,
    /// A wake came while it ran: it is ready again and must be enqueued.
    Ready,
}

/// What a cancel met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It was waiting: it is ready now, and the caller must enqueue it.
    Enqueue,
    /// It will see the mark by itself.
    Marked,
    /// It has ended already.
    Ended,
}

/// The state word of one fom.
#[derive(Debug)]
pub struct Token(AtomicU8);

impl Default for Token {
    fn default() -> Self {
        Self::new()
    }
}

impl Token {
    /// In [`FomState::Init`].
    pub fn new() -> Self {
        Self(AtomicU8::new(INIT))
    }

    /// Back to [`FomState::Init`], or to [`FomState::Ready`] at once, for the next fom in the same place.
    #[inline]
    pub fn reset(&self, ready: bool) {
        self.0
            .store(if ready { READY } else { INIT }, Ordering::Relaxed);
    }

    /// The state now; another thread may change it at once.
    pub fn state(&self) -> FomState {
        match self.0.load(Ordering::Acquire) & STATE {
            INIT => FomState::Init,
            READY => FomState::Ready,
            RUNNING => FomState::Running,
            WAITING => FomState::Waiting,
            _ => FomState::Finished,
        }
    }

    /// Whether [`cancel`](Self::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire) & CANCELLED != 0
    }

    /// Whether a wake came since it began to run. Only the thread that runs the fom.
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

    /// Init → Waiting: it waits before it has run. Whoever cancelled it before has enqueued nothing: look at
    /// [`is_cancelled`](Self::is_cancelled) after this.
    pub fn park(&self) {
        self.step(
            false,
            |word| (word & STATE == INIT).then_some(word & !(STATE | WOKEN) | WAITING),
            "park",
        );
    }

    /// Ready → Running; wakes up to now are used up by this run.
    #[inline]
    pub fn start(&self, alone: bool) {
        self.step(
            alone,
            |word| (word & STATE == READY).then_some(word & !(STATE | WOKEN) | RUNNING),
            "start",
        );
    }

    /// Running → Waiting, or → Ready when a wake came meanwhile.
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

    /// Running → Ready: it has more to do, and others are due first.
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

    /// As [`wake`](Self::wake), for who knows that nobody else can reach the fom, except for a run of it.
    #[inline]
    pub fn wake_alone(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        if word & STATE != WAITING {
            // While it runs elsewhere (in a blocking section) it may make an address, and be woken by that.
            return self.wake();
        }
        self.0.store(word & !STATE | READY, Ordering::Relaxed);
        true
    }

    /// Remembers a wake. `true`: it was waiting, is ready now, and the caller must enqueue it.
    ///
    /// From any thread, without a lock and without allocating.
    pub fn wake(&self) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let new = match word & STATE {
                WAITING => word - WAITING + READY,
                RUNNING => word | WOKEN,
                // The same word again, but as a read-modify-write: what the waker stored before is then visible to
                // the run that this wake coalesces into.
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

    /// Marks it as cancelled and wakes it.
    pub fn cancel(&self) -> Cancelled {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let new = match word & STATE {
                WAITING => word & !STATE | READY | CANCELLED,
                RUNNING => word | WOKEN | CANCELLED,
                INIT | READY => word | CANCELLED,
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

    /// Every own step of the fom goes through here. `alone`: nobody else can reach the fom at this moment, so that nobody
    /// can be overwritten.
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
