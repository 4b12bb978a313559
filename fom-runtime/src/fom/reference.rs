//! Pointers to foms: counted references for all users, and the single reference of the runtime.

use std::{
    alloc::Layout,
    mem::ManuallyDrop,
    num::NonZeroU16,
    ops::Deref,
    ptr::{self, NonNull},
    task::{RawWaker, RawWakerVTable, Waker},
};

use crate::fom::{Header, Pool, Progress, hand};
use fom_protocol::{
    Cancelled, FomState, Link, Owner,
    sync::atomic::{self, Ordering},
};

/// The functions for a fom of an unknown operation type.
///
/// # Safety
///
/// Each function but `prepare` takes the header of a fom of the table's type. The memory of that fom is alive for the
/// whole call, unless the call gives up the reference that keeps it alive.
pub(crate) struct Vtable {
    pub(crate) layout: Layout,
    /// The offset of the deadlines behind the header, if there are any.
    pub(crate) timing: Option<NonZeroU16>,
    /// Makes the header of a new slot.
    // SAFETY (caller): The pointer leads to unused memory of `layout`, which no other thread has seen. The pool is the
    // slot's own, and outlives the slot.
    pub(crate) prepare: unsafe fn(NonNull<Header>, *const Pool),
    /// Runs the fom once. If the fom ends, the function gives up the runtime's reference.
    // SAFETY (caller): This thread has the core of the fom's home, has put the token into Running, and owns the
    // runtime's reference. After `Progress::Finished` the caller uses the fom only through another reference.
    pub(crate) run: unsafe fn(NonNull<Header>) -> Progress,
    /// Ends the fom before its first run, because the locality has ended. Takes the runtime's reference.
    // SAFETY (caller): The caller owns the runtime's reference and gives it up. No other thread runs the fom or ends
    // it.
    pub(crate) reject: unsafe fn(NonNull<Header>),
    /// Ends the fom before its first run, with the outcome in this `Option<Outcome>`. Takes the runtime's reference.
    // SAFETY (caller): As for `reject`. The fom has never run. The pointer leads to an `Option<Outcome<O>>` of the
    // fom's operation type, and nothing else refers to it during the call.
    pub(crate) settle: unsafe fn(NonNull<Header>, *mut ()),
    /// Takes an event, into memory for an `Option` of the event.
    // SAFETY (caller): This thread runs the fom. The pointer is valid for the write of an `Option<O::Event>`.
    pub(crate) take_event: unsafe fn(NonNull<Header>, *mut ()),
    /// Takes the outcome from the body, into memory for an `Outcome`.
    // SAFETY (caller): The fom has ended, and its marks leave the outcome to the caller alone, which takes it once. The
    // pointer is valid for the write of an `Outcome<O>`.
    pub(crate) take_outcome: unsafe fn(NonNull<Header>, *mut ()),
    /// Returns the number of events that the fom has not taken.
    // SAFETY (caller): The caller has a reference to the fom. Any thread may call it.
    pub(crate) events: unsafe fn(NonNull<Header>) -> usize,
    /// Answers the handle and the watchers of a fom that cannot be stopped.
    // SAFETY (caller): The caller has a reference to the fom. Any thread may call it.
    pub(crate) abandon: unsafe fn(NonNull<Header>),
    /// Drops all but the header.
    // SAFETY (caller): The last reference has gone, so no other thread reaches the fom. The caller calls it once for
    // each fom.
    pub(crate) clear: unsafe fn(NonNull<Header>),
}

/// The runtime's reference from the submission of a fom to its end: in the inbox, in a run queue, and while it runs.
/// While the fom waits there is no such reference, and the thread that wakes the fom makes it anew. A fom has at most
/// one at any time.
#[derive(Debug)]
pub struct Resident(NonNull<Header>);

// SAFETY: a header is `Sync`, and all values that are reached through it are `Send`.
unsafe impl Send for Resident {}

impl Deref for Resident {
    type Target = Header;

    #[inline]
    fn deref(&self) -> &Header {
        // SAFETY: a fom is alive until its resident reference is given up.
        unsafe { self.0.as_ref() }
    }
}

impl Resident {
    #[inline]
    /// # Safety
    /// There is no other `Resident` of this fom, and the fom has not ended. It was just made, or its token was just
    /// taken from Waiting to Ready.
    pub(crate) unsafe fn new(header: NonNull<Header>) -> Self {
        Self(header)
    }

    #[inline]
    pub(crate) fn as_ptr(&self) -> NonNull<Header> {
        self.0
    }

    #[inline]
    pub(crate) fn into_link(self) -> NonNull<Link> {
        self.0.cast()
    }

    #[inline]
    /// # Safety
    /// The link came from [`into_link`](Self::into_link).
    pub(crate) unsafe fn from_link(link: NonNull<Link>) -> Self {
        Self(link.cast())
    }

    /// Runs the fom once, on the thread that has put down the core of its locality. After the run the core is put
    /// down again. Returns `None` if the fom has ended; then the runtime's reference is gone.
    #[inline]
    pub(crate) fn run(self) -> (Option<Self>, Progress) {
        // SAFETY: the fom is alive; the handler has just put the token into Running.
        let progress = unsafe { (self.pool().vtable.run)(self.0) };
        ((progress != Progress::Finished).then_some(self), progress)
    }

    /// Makes a fom that was just made wait. The thread that wakes the fom makes this reference anew.
    pub(crate) fn park(self) {
        self.token.park();
    }

    /// Ends the fom without a run, because the locality has ended. Its waiters get an outcome.
    pub fn reject(self) {
        // SAFETY: the fom is alive. The thread that takes it out of the inbox of an ended locality has it alone.
        unsafe { (self.pool().vtable.reject)(self.0) };
    }
}

/// A counted pointer to a fom. It keeps the memory alive, but not the fom.
#[allow(missing_debug_implementations, reason = "hidden, for `fom-durable`")]
pub struct AnyRef(NonNull<Header>);

// SAFETY: as for `Resident`; the count is atomic.
unsafe impl Send for AnyRef {}
// SAFETY: as above.
unsafe impl Sync for AnyRef {}

impl Deref for AnyRef {
    type Target = Header;

    #[inline]
    fn deref(&self) -> &Header {
        // SAFETY: the reference is counted.
        unsafe { self.0.as_ref() }
    }
}

impl Clone for AnyRef {
    fn clone(&self) -> Self {
        Self::of(self)
    }
}

impl Drop for AnyRef {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this counted reference is given up here, and only here.
        if unsafe { give_up(self.0) } {
            // SAFETY: that was the last reference.
            unsafe { dispose(self.0, self.pool().vtable.clear) };
        }
    }
}

impl Owner for AnyRef {
    #[inline]
    fn wake(&self) {
        Header::wake(self);
    }
}

impl Header {
    /// Wakes the fom, which then checks again what it waits for.
    pub fn wake(&self) {
        if self.token.wake() {
            self.ready();
        }
    }

    /// Like [`wake`](Self::wake), and ends the pause before the next attempt.
    pub(crate) fn wake_to_retry(&self) {
        if let Some(timing) = self.timing() {
            timing.hurry_retry();
        }
        self.wake();
    }

    /// Tells the fom to end. Its work is dropped at its next wait.
    pub(crate) fn cancel(&self) {
        if self.token.cancel() == Cancelled::Enqueue {
            self.ready();
        }
    }

    /// As [`cancel`](Self::cancel), also if the fom has a way out of a cancel.
    pub(crate) fn abort(&self) {
        if self.token.abort() == Cancelled::Enqueue {
            self.ready();
        }
    }

    /// Like [`wake`](Self::wake), on the thread that has the core of the fom's locality in hand. On `true` the fom
    /// was waiting, and the caller must enqueue it.
    #[inline]
    pub(crate) fn wake_here(&self) -> bool {
        if self.is_alone() {
            self.token.wake_alone()
        } else {
            self.token.wake()
        }
    }

    /// Wakes the fom if it waits, so that it sees that the runtime is closed. Returns whether it was waiting. Only a
    /// thread that has the core of its locality calls this.
    pub(crate) fn sweep(&self) -> bool {
        let waits = self.token.state() == FomState::Waiting && !self.awaits_commit();
        if waits {
            self.wake();
        }
        waits
    }

    /// Enqueues the fom. This thread has just taken its token from Waiting to Ready.
    fn ready(&self) {
        // SAFETY: the token was taken from Waiting, so there is no other resident reference, and this one is enqueued.
        let fom = unsafe { Resident::new(self.whole()) };
        hand::enqueue_woken(self.env(), fom);
    }
}

/// Drops a fom without references, and gives its slot back.
///
/// # Safety
///
/// The last reference has gone. `clear` belongs to the table of the fom.
#[inline(always)]
// SAFETY (caller): as the section above says.
pub(crate) unsafe fn dispose(slot: NonNull<Header>, clear: unsafe fn(NonNull<Header>)) {
    // SAFETY: the header outlives the fom, and the pool outlives the slot.
    let header = unsafe { slot.as_ref() };
    let pool = header.pool;
    /// Gives the slot back even if a drop of the user's panics.
    struct GiveBack(*const Pool, NonNull<Header>);
    impl Drop for GiveBack {
        #[inline(always)]
        fn drop(&mut self) {
            // SAFETY: the last reference has gone, and the contents are dropped, or leaked by a panic.
            unsafe { Pool::give_back(self.0, self.1) };
        }
    }
    let _give_back = GiveBack(pool, slot);
    // SAFETY: no other thread can reach the fom any more.
    unsafe { clear(slot) };
    // SAFETY: as above.
    unsafe { header.cold.free() };
}

/// Gives up one reference. Returns whether it was the last; then the caller must dispose of the fom. Takes a pointer,
/// because a reference would have to stay valid until the return, and another thread may free the fom earlier.
///
/// # Safety
///
/// The caller has this reference, and does not use it any more unless it was the last.
#[inline(always)]
// SAFETY (caller): as the section above says.
pub(crate) unsafe fn give_up(fom: NonNull<Header>) -> bool {
    // SAFETY: the fom is alive until the count goes down. The count is an atomic, which may be freed while it is
    // borrowed.
    let refs = unsafe { &(*fom.as_ptr()).refs };
    let last = refs.fetch_sub(1, Ordering::Release) == 1;
    if last {
        atomic::fence(Ordering::Acquire);
    }
    last
}

impl AnyRef {
    /// Adds a reference.
    pub fn of(fom: &Header) -> Self {
        let before = fom.refs.fetch_add(1, Ordering::Relaxed);
        // If four billion addresses leaked, the count would be wrong, and memory would be used after it is freed.
        if before > u32::MAX / 2 {
            std::process::abort();
        }
        Self(fom.whole())
    }

    /// Takes over a reference that is counted already.
    ///
    /// # Safety
    ///
    /// The count of this fom includes this reference.
    pub(crate) unsafe fn from_raw(header: NonNull<Header>) -> Self {
        Self(header)
    }

    pub(crate) fn as_ptr(&self) -> NonNull<Header> {
        self.0
    }

    /// Returns a reference to the fom in this slot, if there is a fom.
    ///
    /// # Safety
    ///
    /// The slot has a header, and its page is held.
    pub(super) unsafe fn upgrade(slot: NonNull<Header>) -> Option<Self> {
        // SAFETY: the caller's promise.
        let header = unsafe { slot.as_ref() };
        header
            .refs
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |refs| {
                (refs > 0).then_some(refs + 1)
            })
            .ok()
            .map(|_| Self(slot))
    }

    pub(crate) fn events(&self) -> usize {
        // SAFETY: the fom is alive.
        unsafe { (self.pool().vtable.events)(self.0) }
    }

    pub(crate) fn abandon(&self) {
        // SAFETY: the fom is alive.
        unsafe { (self.pool().vtable.abandon)(self.0) }
    }

    /// Returns the size of the fom's slot.
    pub(crate) fn bytes(&self) -> usize {
        self.pool().vtable.layout.size()
    }

    /// Returns a waker that wakes the fom.
    fn into_waker(self) -> Waker {
        let fom = ManuallyDrop::new(self);
        // SAFETY: the table maintains the count: the waker has the reference that is not dropped here.
        unsafe { Waker::from_raw(raw(fom.0)) }
    }
}

/// Calls `f` with a waker of the fom. The waker costs nothing unless it is cloned.
pub(crate) fn with_waker<R>(fom: &Header, f: impl FnOnce(&Waker) -> R) -> R {
    // SAFETY: the waker is never dropped, so it needs no reference of its own: the caller has one while `f` runs.
    let waker = ManuallyDrop::new(unsafe { Waker::from_raw(raw(fom.whole())) });
    f(&waker)
}

/// Returns the waker if it does not belong to this fom.
#[inline]
pub(crate) fn foreign<'a>(fom: &Header, waker: &'a Waker) -> Option<&'a Waker> {
    let own = waker.data().addr() == ptr::from_ref(fom).addr() && ptr::eq(waker.vtable(), &WAKER);
    (!own).then_some(waker)
}

/// Returns the fom that the waker belongs to, if it belongs to one.
#[inline]
pub(crate) fn of_waker(waker: &Waker) -> Option<&Header> {
    let fom = waker.data().cast::<Header>();
    // SAFETY: the pointer of a waker with this table leads to a fom. The waker, or the code that lent it, has a
    // reference to that fom.
    ptr::eq(waker.vtable(), &WAKER).then(|| unsafe { &*fom })
}

fn raw(fom: NonNull<Header>) -> RawWaker {
    RawWaker::new(fom.as_ptr().cast_const().cast(), &WAKER)
}

static WAKER: RawWakerVTable = RawWakerVTable::new(
    |fom| {
        // SAFETY: the pointer of a waker leads to a fom. The waker, or the code that lent the waker, has a reference
        // to that fom.
        let waker = AnyRef::of(unsafe { &*fom.cast::<Header>() }).into_waker();
        let waker = ManuallyDrop::new(waker);
        RawWaker::new(waker.data(), &WAKER)
    },
    |fom| owned(fom).wake(),
    |fom| ManuallyDrop::new(owned(fom)).wake(),
    |fom| drop(owned(fom)),
);

/// Returns the reference that a waker owns.
fn owned(fom: *const ()) -> AnyRef {
    // SAFETY: the pointer came from `raw`, so it is not null.
    AnyRef(unsafe { NonNull::new_unchecked(fom.cast_mut().cast()) })
}
