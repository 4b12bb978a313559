//! What other threads hand to a locality: an intrusive stack that is emptied whole and read in order of arrival.
//!
//! # Why it is right
//!
//! One atomic word holds all there is to know: the newest item, or one of the marks below. So "is there work" and "does
//! the reader sleep" cannot disagree, and a wake cannot be lost between the two.
//!
//! ```text
//!              push / poke                        push / poke: the caller must wake the reader
//!   EMPTY ───────────────────▶ items or POKED ◀──────────────────── ASLEEP   (reader sleeps in its reactor)
//!     ▲  ▲───── drain ────────────────┘  ▲
//!     │                                  └───────────────────────── VACANT   (nobody reads; a follower must be woken)
//!     └── sleep: EMPTY or VACANT → ASLEEP, vacate: EMPTY → VACANT; both fail when something is there
//! ```
//!
//! - Whoever vacates may be late: another thread may have become the reader meanwhile, and may even sleep. So vacating
//!   never takes away the mark of a sleeper, which would then be woken by nobody; while sleeping does take away a late
//!   VACANT, since there is a reader.
//!
//! - A push is one compare-exchange; the item's memory is published by its `Release` and read after the drain's
//!   `Acquire`. Pushing and draining are lock-free and allocate nothing.
//! - The list is built newest first and turned round when drained, so that items of one pusher come out in the order
//!   of its pushes (a plain stack would run bursts backwards).
//! - A [`Link`] is in at most one inbox at most once: [`Link::claim`] takes it with one compare-exchange, and only the
//!   thread that claimed it writes to it until the reader has released it.
//! - A poke is a read-modify-write even when there is something already: what the poker stored before is then visible
//!   to the reader after its next drain, whoever's item it drains.

use std::{fmt, marker::PhantomData, ptr, sync::Arc};

use crate::sync::{
    UnsafeCell,
    atomic::{AtomicPtr, Ordering},
};

/// What can be put into an [`Inbox`]: something with a [`Link`] of its own.
pub trait Linked {
    /// The link of this item.
    fn link(&self) -> &Link<Self>;
}

/// The place in an item that ties it into an inbox.
pub struct Link<T: ?Sized> {
    /// `FREE` when in no inbox, else the next older item, or null.
    next: AtomicPtr<Link<T>>,
    /// The item itself while it is in an inbox; keeps it alive there.
    owner: UnsafeCell<Option<Arc<T>>>,
}

// SAFETY: `owner` is only touched by the thread that claimed the link (between `claim` and the push), then by the one
// that drained it (between the drain's swap and `release`); claim and release order those accesses.
unsafe impl<T: ?Sized + Send + Sync> Sync for Link<T> {}
// SAFETY: a link owns at most an `Arc<T>`, which is `Send` under these bounds.
unsafe impl<T: ?Sized + Send + Sync> Send for Link<T> {}

impl<T: ?Sized> fmt::Debug for Link<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Link")
    }
}

impl<T: ?Sized> Default for Link<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: ?Sized> Link<T> {
    /// A link that is in no inbox.
    pub fn new() -> Self {
        Self {
            next: AtomicPtr::new(free()),
            owner: UnsafeCell::new(None),
        }
    }

    fn claim(&self) -> bool {
        self.next
            .compare_exchange(
                free(),
                ptr::null_mut(),
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .is_ok()
    }
}

fn free<T: ?Sized>() -> *mut Link<T> {
    ptr::without_provenance_mut(1)
}

fn poked<T: ?Sized>() -> *mut Link<T> {
    ptr::without_provenance_mut(2)
}

fn asleep<T: ?Sized>() -> *mut Link<T> {
    ptr::without_provenance_mut(3)
}

fn vacant<T: ?Sized>() -> *mut Link<T> {
    ptr::without_provenance_mut(4)
}

fn is_item<T: ?Sized>(head: *mut Link<T>) -> bool {
    head.addr() > 4
}

/// What the reader was doing when something was put in: who put it in must wake it accordingly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// It will look by itself.
    Awake,
    /// It sleeps: wake it.
    Asleep,
    /// There is none: find one.
    Missing,
}

/// An unbounded queue of many writers and one reader, emptied whole.
pub struct Inbox<T: ?Sized> {
    head: AtomicPtr<Link<T>>,
    items: PhantomData<Arc<T>>,
}

impl<T: ?Sized> fmt::Debug for Inbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inbox")
    }
}

impl<T: ?Sized + Linked> Default for Inbox<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: ?Sized + Linked> Inbox<T> {
    /// An empty inbox whose reader is awake.
    pub fn new() -> Self {
        Self {
            head: AtomicPtr::new(ptr::null_mut()),
            items: PhantomData,
        }
    }

    /// Puts an item in. `None` when it is in an inbox already; then nothing changed.
    pub fn push(&self, item: Arc<T>) -> Option<Reader> {
        let link: *const Link<T> = item.link();
        // SAFETY: `item` is alive here, and with it its link.
        if !unsafe { &*link }.claim() {
            return None;
        }
        // SAFETY: alive, as above.
        let owner = unsafe { &(*link).owner };
        // SAFETY: claimed above, so no other thread touches `owner` until the reader has drained it.
        owner.with_mut(|owner| unsafe { *owner = Some(item) });
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            let older = if is_item(head) { head } else { ptr::null_mut() };
            // SAFETY: not in the list yet, and `owner` keeps it alive.
            unsafe { &*link }.next.store(older, Ordering::Relaxed);
            match self.head.compare_exchange_weak(
                head,
                link.cast_mut(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(reader(head)),
                Err(now) => head = now,
            }
        }
    }

    /// Makes the reader look round once more, although there is no item.
    ///
    /// All that the caller stored before is visible to the reader after its next [`drain`](Self::drain).
    pub fn poke(&self) -> Reader {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            let new = if is_item(head) { head } else { poked() };
            match self
                .head
                .compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return reader(head),
                Err(now) => head = now,
            }
        }
    }

    /// Whether a drain would find something, or a poke. A hint: the reader decides by [`sleep`](Self::sleep).
    pub fn has_mail(&self) -> bool {
        let head = self.head.load(Ordering::Relaxed);
        is_item(head) || head == poked()
    }

    /// Takes all items, oldest first, and clears every mark. Only the reader calls this.
    pub fn drain(&self) -> Drain<T> {
        let mut newest = self.head.swap(ptr::null_mut(), Ordering::AcqRel);
        let mut oldest: *mut Link<T> = ptr::null_mut();
        while is_item(newest) {
            // SAFETY: the swap made this list ours, and each item's `owner` keeps it alive.
            let next = unsafe { &*newest }.next.load(Ordering::Relaxed);
            // SAFETY: as above.
            unsafe { &*newest }.next.store(oldest, Ordering::Relaxed);
            oldest = newest;
            newest = next;
        }
        Drain {
            head: oldest,
            items: PhantomData,
        }
    }

    /// The reader goes to sleep. `false` when there is something to do first.
    pub fn sleep(&self) -> bool {
        self.mark(asleep())
    }

    /// The reader has gone away and may have left nobody. `false` when there is something to do. A reader that has taken
    /// its place meanwhile, and sleeps, goes on sleeping.
    pub fn vacate(&self) -> bool {
        self.mark(vacant())
    }

    /// Whether the reader's sleep has not been ended by anybody yet.
    pub fn is_asleep(&self) -> bool {
        self.head.load(Ordering::Acquire) == asleep()
    }

    fn mark(&self, mark: *mut Link<T>) -> bool {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            if is_item(head) || head == poked() {
                return false;
            }
            if head == asleep() {
                return true;
            }
            match self
                .head
                .compare_exchange_weak(head, mark, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(now) => head = now,
            }
        }
    }
}

fn reader<T: ?Sized>(head: *mut Link<T>) -> Reader {
    if head == asleep() {
        Reader::Asleep
    } else if head == vacant() {
        Reader::Missing
    } else {
        Reader::Awake
    }
}

impl<T: ?Sized> Drop for Inbox<T> {
    fn drop(&mut self) {
        let head = self.head.swap(ptr::null_mut(), Ordering::AcqRel);
        drop(Drain {
            head: if is_item(head) { head } else { ptr::null_mut() },
            items: PhantomData,
        });
    }
}

/// The items of one [`Inbox::drain`], oldest first. Dropping it releases the rest.
pub struct Drain<T: ?Sized> {
    head: *mut Link<T>,
    items: PhantomData<Arc<T>>,
}

impl<T: ?Sized> fmt::Debug for Drain<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Drain")
    }
}

impl<T: ?Sized> Iterator for Drain<T> {
    type Item = Arc<T>;

    fn next(&mut self) -> Option<Arc<T>> {
        if self.head.is_null() {
            return None;
        }
        // SAFETY: the drained list is ours alone, and the item's `owner` keeps its link alive until taken below.
        let link = unsafe { &*self.head };
        // Before the link is released: from then on another thread may write to it.
        let next = link.next.load(Ordering::Relaxed);
        // SAFETY: between the drain's swap and the release below nobody else touches `owner`.
        let item = link.owner.with_mut(|owner| unsafe { (*owner).take() });
        self.head = next;
        link.next.store(free(), Ordering::Release);
        item
    }
}

impl<T: ?Sized> Drop for Drain<T> {
    fn drop(&mut self) {
        while self.next().is_some() {}
    }
}

#[cfg(all(test, not(any(fom_loom, fom_shuttle))))]
mod tests {
    use super::*;

    struct Item(Link<Self>);

    impl Linked for Item {
        fn link(&self) -> &Link<Self> {
            &self.0
        }
    }

    /// A thread marks the inbox only after it has laid the core down: by then another one may have the core, and sleep.
    #[test]
    fn a_late_vacate_leaves_the_sleeper_to_be_woken() {
        let inbox = Inbox::<Item>::new();
        assert!(inbox.sleep());
        assert!(inbox.vacate());
        assert!(inbox.is_asleep());
        assert_eq!(
            inbox.push(Arc::new(Item(Link::new()))),
            Some(Reader::Asleep)
        );
        assert_eq!(inbox.drain().count(), 1);
        // The other way round there is a reader, which is the one to be woken.
        assert!(inbox.vacate());
        assert!(inbox.sleep());
        assert_eq!(inbox.poke(), Reader::Asleep);
    }
}
