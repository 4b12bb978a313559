//! The room of a runtime: how many foms it takes, and the submissions that wait for room.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
};

use crossbeam_utils::CachePadded;
use tokio::sync::oneshot;

use crate::{fom::Env, incident::IncidentKind};
use fom_protocol::{
    panic_message,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

/// How much room a runtime has, and which submissions wait for room.
pub(crate) struct Room {
    /// The most foms, or `usize::MAX` for any number.
    capacity: usize,
    /// How much of the capacity is taken. The counts of the localities do not serve for this, because they go down only
    /// after the outcome was reported. A caller that hears of an end may rely on free room.
    taken: CachePadded<AtomicUsize>,
    /// Foms that wait for their next attempt and have lent their room to others.
    paused: AtomicUsize,
    /// The number of submissions that wait; read whenever room becomes free.
    count: AtomicUsize,
    waiting: Mutex<VecDeque<oneshot::Sender<()>>>,
}

impl Room {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            taken: CachePadded::new(AtomicUsize::new(0)),
            paused: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
            waiting: Mutex::default(),
        }
    }

    /// Returns whether the runtime takes any number of foms.
    #[inline]
    pub(super) fn is_unlimited(&self) -> bool {
        self.capacity == usize::MAX
    }

    /// Takes room for one more fom, if there is any.
    pub(crate) fn take(&self) -> bool {
        let one_more = |taken| (taken < self.capacity).then_some(taken + 1);
        self.is_unlimited()
            || self
                .taken
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more)
                .is_ok()
    }

    /// Takes room for a fom even if there is none left.
    pub(crate) fn take_again(&self) {
        if !self.is_unlimited() {
            self.taken.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn put_back(&self) {
        self.taken.fetch_sub(1, Ordering::SeqCst);
    }

    /// Begins a wait for room. Room may become free before the wait has begun, so the caller hands out room after this
    /// call.
    pub(crate) fn join(&self) -> oneshot::Receiver<()> {
        let (tell, told) = oneshot::channel();
        let mut waiting = self.waiting.lock();
        waiting.push_back(tell);
        self.count.store(waiting.len(), Ordering::SeqCst);
        told
    }

    /// Returns whether a submission waits. Called after room was given back: a submission that waits by then is seen
    /// here, or sees the room.
    #[inline]
    fn any_waits(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// Removes and returns the first waiting submission, if there is room for it. Takes that room.
    fn next(&self) -> Option<oneshot::Sender<()>> {
        let mut waiting = self.waiting.lock();
        while waiting.front().is_some_and(oneshot::Sender::is_closed) {
            waiting.pop_front();
        }
        let next = (!waiting.is_empty() && self.take())
            .then(|| waiting.pop_front())
            .flatten();
        self.count.store(waiting.len(), Ordering::SeqCst);
        next
    }
}

impl Env {
    /// Gives back the room of a fom that has ended, or was never made.
    #[inline]
    pub(crate) fn give_room(&self) {
        if !self.room.is_unlimited() {
            self.room.put_back();
            if self.room.any_waits() {
                self.hand_out_room();
            }
        }
    }

    /// Gives room that may be there to the submissions that wait for it.
    #[cold]
    pub(crate) fn hand_out_room(&self) {
        while let Some(teller) = self.room.next() {
            if !self.told("room", || teller.send(()).is_ok()) {
                self.room.put_back();
            }
        }
    }

    /// Ends all waits for room.
    pub(crate) fn dismiss_waits_for_room(&self) {
        self.room.count.store(0, Ordering::SeqCst);
        let waiting = std::mem::take(&mut *self.room.waiting.lock());
        for one in waiting {
            self.told("the end of a wait for room", || {
                drop(one);
                true
            });
        }
    }

    /// Wakes a waiting caller through `tell`, which calls the caller's waker. The waker is user code and may panic.
    /// Returns the result of `tell`, or `true` after a panic.
    pub(crate) fn told(&self, what: &str, tell: impl FnOnce() -> bool) -> bool {
        catch_unwind(AssertUnwindSafe(tell)).unwrap_or_else(|panic| {
            let message = panic_message(panic);
            self.report(
                IncidentKind::Panicked,
                "a waker",
                format!("a waker panicked when it was told of {what}: {message}"),
            );
            true
        })
    }

    /// Lends the room of a fom with a key that waits for its next attempt. At most as much room is lent as the
    /// capacity. Returns `false` if the fom keeps its room.
    pub(super) fn pause_room(&self) -> bool {
        let room = &self.room;
        let one_more = |paused| (paused < room.capacity).then_some(paused + 1);
        let paused = !room.is_unlimited()
            && room
                .paused
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more)
                .is_ok();
        if paused {
            self.give_room();
        }
        paused
    }

    /// Takes room again for a fom that had lent it.
    pub(super) fn resume_room(&self) {
        self.room.take_again();
        self.room.paused.fetch_sub(1, Ordering::AcqRel);
    }
}
