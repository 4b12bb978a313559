//! Pointers to foms: counted ones for everybody, and the one that the runtime has.

use std::{
    alloc::Layout,
    any::TypeId,
    mem::ManuallyDrop,
    num::NonZeroU16,
    ops::Deref,
    ptr::NonNull,
    task::{RawWaker, RawWakerVTable, Waker},
};

use crate::{
    fom::{Extra, Header, Outcome, Pool, Progress},
    operation::Operation,
    protocol::{Cancelled, FomState, Link},
    sync::atomic::{self, Ordering},
};

/// What can be done with a fom whose operation type is not known.
///
/// # Safety
///
/// Each function but `prepare` takes the header of a fom of the type that the table is of. The memory of that fom is
/// alive for the whole call, unless the call gives the reference up that keeps it.
pub(crate) struct Vtable {
    pub(super) layout: Layout,
    /// Where the deadlines stand behind the header, if there are any.
    pub(super) timing: Option<NonZeroU16>,
    /// Makes the header of a new slot.
    // SAFETY (caller): The pointer leads to unused memory of `layout`, which no other thread has seen. The pool is the
    // slot's own, and outlives the slot.
    pub(super) prepare: unsafe fn(NonNull<Header>, *const Pool),
    /// Runs it once. When it ends, so does the runtime's reference.
    // SAFETY (caller): This thread has the core of the fom's home, has put the token into Running, and owns the
    // runtime's reference. After `Progress::Finished` the caller uses the fom only through another reference.
    pub(super) run: unsafe fn(NonNull<Header>) -> Progress,
    /// Ends it before it has run: the locality has ended. It takes the runtime's reference.
    // SAFETY (caller): The caller owns the runtime's reference and gives it up. No other thread runs the fom or ends
    // it.
    pub(super) reject: unsafe fn(NonNull<Header>),
    /// Ends it before it has run, with the outcome in this `Option<Outcome>`. It takes the runtime's reference.
    // SAFETY (caller): As for `reject`. The fom has never run. The pointer leads to an `Option<Outcome<O>>` of the
    // fom's operation type, and nothing else refers to it during the call.
    pub(super) settle: unsafe fn(NonNull<Header>, *mut ()),
    /// Into room for an `Option` of the event.
    // SAFETY (caller): This thread runs the fom. The pointer is valid for the write of an `Option<O::Event>`.
    pub(super) take_event: unsafe fn(NonNull<Header>, *mut ()),
    /// Into an `Outcome`, out of the body.
    // SAFETY (caller): The fom has ended, and its marks leave the outcome to the caller alone, which takes it once. The
    // pointer is valid for the write of an `Outcome<O>`.
    pub(super) take_outcome: unsafe fn(NonNull<Header>, *mut ()),
    /// How many events it has not taken.
    // SAFETY (caller): The caller has a reference to the fom. Any thread may call it.
    pub(super) events: unsafe fn(NonNull<Header>) -> usize,
    /// Answers the handle and the watchers, although the fom cannot be stopped.
    // SAFETY (caller): The caller has a reference to the fom. Any thread may call it.
    pub(super) abandon: unsafe fn(NonNull<Header>),
    /// Drops all but the header.
    // SAFETY (caller): The last reference has gone, so no other thread reaches the fom. The caller calls it once for
    // each fom.
    pub(super) clear: unsafe fn(NonNull<Header>),
}

/// The reference that the runtime has from the submission of a fom to its end: in the inbox, in a run queue, running; while
/// it waits, whoever wakes it makes it anew. There is one of a fom at any time.
#[derive(Debug)]
pub(crate) struct Resident(NonNull<Header>);

// SAFETY: a header is `Sync`, and all that is reached through it is `Send`.
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
    /// # Safety
    ///
    /// There is no other one of this fom, and the fom has not ended: it was just made, or its token was just taken from
    /// Waiting to Ready.
    #[inline]
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

    /// # Safety
    ///
    /// The link came from [`into_link`](Self::into_link).
    #[inline]
    pub(crate) unsafe fn from_link(link: NonNull<Link>) -> Self {
        Self(link.cast())
    }

    /// Runs it once, on the thread that has its locality's core laid down; after that the core is laid down again. None: it
    /// has ended, and this was the reference that the runtime had.
    #[inline]
    pub(crate) fn run(self) -> (Option<Self>, Progress) {
        // SAFETY: alive; the handler has just put the token into Running.
        let progress = unsafe { (self.pool().vtable.run)(self.0) };
        ((progress != Progress::Finished).then_some(self), progress)
    }

    /// The locality has ended: the fom never runs, and whoever waits for it hears so.
    pub(crate) fn reject(self) {
        // SAFETY: alive; and whoever takes it out of the inbox of a locality that has ended has it alone.
        unsafe { (self.pool().vtable.reject)(self.0) };
    }
}

impl Resident {
    /// It ends before it has run, with an outcome that another had.
    pub(crate) fn settle<O: Operation>(self, outcome: Outcome<O>) {
        assert_eq!(self.type_id(), TypeId::of::<O>());
        let mut outcome = Some(outcome);
        // SAFETY: alive, of `O`, and who made it has it alone.
        unsafe { (self.pool().vtable.settle)(self.0, (&raw mut outcome).cast()) };
    }
}

/// A counted pointer to a fom: keeps its memory, not the fom.
pub(crate) struct AnyRef(NonNull<Header>);

// SAFETY: as for `Resident`; the count is atomic.
unsafe impl Send for AnyRef {}
// SAFETY: as above.
unsafe impl Sync for AnyRef {}

impl Deref for AnyRef {
    type Target = Header;

    #[inline]
    fn deref(&self) -> &Header {
        // SAFETY: it is counted.
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
            // SAFETY: that was the last one.
            unsafe { dispose(self.0, self.pool().vtable.clear) };
        }
    }
}

impl Header {
    /// Wakes it: it looks again at what it waits for.
    pub(crate) fn wake(&self) {
        if self.token.wake() {
            self.ready();
        }
    }

    /// Tells it to end; what it does is dropped at its next wait.
    pub(crate) fn cancel(&self) {
        if self.token.cancel() == Cancelled::Enqueue {
            self.ready();
        }
    }

    /// As [`wake`](Self::wake), on the thread that has its locality's core in hand. `true`: it was waiting, and the caller
    /// enqueues it.
    #[inline]
    pub(crate) fn wake_here(&self) -> bool {
        if self.is_alone() {
            self.token.wake_alone()
        } else {
            self.token.wake()
        }
    }

    /// The runtime is closed: wakes it if it waits, so that it sees that. Only on a thread that has its locality's core.
    pub(crate) fn sweep(&self) -> bool {
        let waits = self.token.state() == FomState::Waiting && !self.awaits_commit();
        if waits {
            self.wake();
        }
        waits
    }

    /// Its token was taken from Waiting to Ready by this thread, just now.
    fn ready(&self) {
        // SAFETY: so there is no other resident reference, and this one is to be enqueued.
        let fom = unsafe { Resident::new(self.whole()) };
        crate::locality::enqueue_woken(self.world(), fom);
    }
}

/// # Safety
///
/// The last reference has gone. `clear` is that of the fom's table.
#[inline(always)]
pub(super) unsafe fn dispose(slot: NonNull<Header>, clear: unsafe fn(NonNull<Header>)) {
    // SAFETY: the header outlives the fom, and the pool the slot.
    let header = unsafe { slot.as_ref() };
    let pool = header.pool;
    /// Also when something of the user's panics in its drop.
    struct GiveBack(*const Pool, NonNull<Header>);
    impl Drop for GiveBack {
        #[inline(always)]
        fn drop(&mut self) {
            // SAFETY: the last reference has gone, and what was in it is dropped or leaked by a panic.
            unsafe { Pool::give_back(self.0, self.1) };
        }
    }
    let _give_back = GiveBack(pool, slot);
    // SAFETY: nobody else can reach it any more.
    unsafe { clear(slot) };
    let extra = header.extra.load(Ordering::Relaxed);
    if !extra.is_null() {
        // SAFETY: made by `Box::into_raw`, and nobody else frees it.
        drop(unsafe { Box::<Extra>::from_raw(extra) });
    }
}

/// Gives one reference up. Returns whether it was the last, so that the caller must dispose of the fom. Takes a
/// pointer: a reference to the header would be valid until the return, and another thread may free the fom before.
///
/// # Safety
///
/// The caller has this reference, and uses it no more unless it was the last.
#[inline(always)]
pub(super) unsafe fn give_up(fom: NonNull<Header>) -> bool {
    // SAFETY: alive until the count goes down; the count is an atomic, which may be freed while it is borrowed.
    let refs = unsafe { &(*fom.as_ptr()).refs };
    let last = refs.fetch_sub(1, Ordering::Release) == 1;
    if last {
        atomic::fence(Ordering::Acquire);
    }
    last
}

impl AnyRef {
    /// One more reference.
    pub(crate) fn of(fom: &Header) -> Self {
        let before = fom.refs.fetch_add(1, Ordering::Relaxed);
        // A leak of four billion addresses would make the count wrong, and memory be used after it is freed.
        if before > u32::MAX / 2 {
            std::process::abort();
        }
        Self(fom.whole())
    }

    /// Takes over a reference that is counted already.
    ///
    /// # Safety
    ///
    /// The count of this fom has one for it.
    pub(crate) unsafe fn from_raw(header: NonNull<Header>) -> Self {
        Self(header)
    }

    pub(crate) fn as_ptr(&self) -> NonNull<Header> {
        self.0
    }

    /// A reference to the fom in this slot, if there is one.
    ///
    /// # Safety
    ///
    /// There is a header, and its page is held.
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
        // SAFETY: alive.
        unsafe { (self.pool().vtable.events)(self.0) }
    }

    pub(crate) fn abandon(&self) {
        // SAFETY: alive.
        unsafe { (self.pool().vtable.abandon)(self.0) }
    }

    /// The size of its slot.
    pub(crate) fn bytes(&self) -> usize {
        self.pool().vtable.layout.size()
    }

    /// A waker that wakes it.
    fn into_waker(self) -> Waker {
        let fom = ManuallyDrop::new(self);
        // SAFETY: the table keeps the count: the waker has the reference that is not dropped here.
        unsafe { Waker::from_raw(raw(fom.0)) }
    }
}

/// Calls `f` with a waker of the fom that costs nothing unless it is cloned.
pub(super) fn with_waker<R>(fom: &Header, f: impl FnOnce(&Waker) -> R) -> R {
    // SAFETY: never dropped, so it needs no reference of its own: the caller has one as long as `f` runs.
    let waker = ManuallyDrop::new(unsafe { Waker::from_raw(raw(fom.whole())) });
    f(&waker)
}

fn raw(fom: NonNull<Header>) -> RawWaker {
    RawWaker::new(fom.as_ptr().cast_const().cast(), &WAKER)
}

static WAKER: RawWakerVTable = RawWakerVTable::new(
    |fom| {
        // SAFETY: a waker's pointer is that of a fom that it, or whoever lent it, has a reference to.
        let waker = AnyRef::of(unsafe { &*fom.cast::<Header>() }).into_waker();
        let waker = ManuallyDrop::new(waker);
        RawWaker::new(waker.data(), &WAKER)
    },
    |fom| owned(fom).wake(),
    |fom| ManuallyDrop::new(owned(fom)).wake(),
    |fom| drop(owned(fom)),
);

/// The reference that a waker has.
fn owned(fom: *const ()) -> AnyRef {
    // SAFETY: it came from `raw`, so it is not null.
    AnyRef(unsafe { NonNull::new_unchecked(fom.cast_mut().cast()) })
}
