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
//! - A push takes the item and a drain gives it back, so an item is in at most one inbox at most once: whoever has it is the
//!   only one who writes to its [`Link`].
//! - A poke is a read-modify-write even when there is something already: what the poker stored before is then visible
//!   to the reader after its next drain, whoever's item it drains.

use std::{fmt, marker::PhantomData, mem, ptr, ptr::NonNull};

use crate::sync::atomic::{AtomicPtr, Ordering};

/// What can be put into an [`Inbox`]: something that owns a [`Link`] in memory that does not move.
///
/// # Safety
///
/// The link stays where it is, and alive, from [`into_link`](Self::into_link) to [`from_link`](Self::from_link); its address
/// is above 8.
pub unsafe trait Linked: Sized + Send {
    /// Its link, which stands for it from now on.
    fn into_link(self) -> NonNull<Link>;
    /// What the link stands for.
    ///
    /// # Safety
    ///
    /// The link came from [`into_link`](Self::into_link) of this type, and is turned back once.
    unsafe fn from_link(link: NonNull<Link>) -> Self;
}

/// The place in an item that ties it into an inbox, or into any other list while it is in none.
#[derive(Debug)]
#[repr(align(8))]
pub struct Link {
    next: AtomicPtr<Link>,
}

impl Default for Link {
    fn default() -> Self {
        Self::new()
    }
}

impl Link {
    /// A link that is in no inbox.
    pub fn new() -> Self {
        Self {
            next: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// What its owner stored last. Only for who owns the item.
    #[inline]
    pub fn next(&self) -> *mut Link {
        self.next.load(Ordering::Relaxed)
    }

    /// For lists of the owner's own.
    #[inline]
    pub fn set_next(&self, next: *mut Link) {
        self.next.store(next, Ordering::Relaxed);
    }
}

fn poked() -> *mut Link {
    ptr::without_provenance_mut(2)
}

fn asleep() -> *mut Link {
    ptr::without_provenance_mut(3)
}

fn vacant() -> *mut Link {
    ptr::without_provenance_mut(4)
}

fn is_item(head: *mut Link) -> bool {
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
pub struct Inbox<T: Linked> {
    head: AtomicPtr<Link>,
    items: PhantomData<fn(T) -> T>,
}

impl<T: Linked> fmt::Debug for Inbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inbox")
    }
}

impl<T: Linked> Default for Inbox<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Linked> Inbox<T> {
    /// An empty inbox whose reader is awake.
    pub fn new() -> Self {
        Self {
            head: AtomicPtr::new(ptr::null_mut()),
            items: PhantomData,
        }
    }

    /// Puts an item in.
    pub fn push(&self, item: T) -> Reader {
        let link = item.into_link();
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            let older = if is_item(head) { head } else { ptr::null_mut() };
            // SAFETY: alive (`Linked`), and not in the list yet: it is ours alone.
            unsafe { link.as_ref() }.set_next(older);
            match self.head.compare_exchange_weak(
                head,
                link.as_ptr(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return reader(head),
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
        Drain::of(self.head.swap(ptr::null_mut(), Ordering::AcqRel))
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

    fn mark(&self, mark: *mut Link) -> bool {
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

fn reader(head: *mut Link) -> Reader {
    if head == asleep() {
        Reader::Asleep
    } else if head == vacant() {
        Reader::Missing
    } else {
        Reader::Awake
    }
}

impl<T: Linked> Drop for Inbox<T> {
    fn drop(&mut self) {
        drop(self.drain());
    }
}

/// The items of one [`Inbox::drain`], oldest first. Dropping it drops the rest.
pub struct Drain<T: Linked> {
    head: *mut Link,
    items: PhantomData<T>,
}

impl<T: Linked> fmt::Debug for Drain<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Drain")
    }
}

impl<T: Linked> Drain<T> {
    /// Turns the list round, which is ours since the swap.
    fn of(mut newest: *mut Link) -> Self {
        let mut oldest: *mut Link = ptr::null_mut();
        while is_item(newest) {
            // SAFETY: the swap made this list ours, and `Linked` keeps its links alive.
            let link = unsafe { &*newest };
            let next = link.next();
            link.set_next(oldest);
            oldest = newest;
            newest = next;
        }
        Self {
            head: oldest,
            items: PhantomData,
        }
    }
}

impl<T: Linked> Iterator for Drain<T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        let link = NonNull::new(self.head)?;
        // SAFETY: the drained list is ours alone, and its links are alive until turned back.
        self.head = unsafe { link.as_ref() }.next();
        // SAFETY: it was pushed by `into_link` of this type, and leaves the list here.
        Some(unsafe { T::from_link(link) })
    }
}

impl<T: Linked> Drop for Drain<T> {
    fn drop(&mut self) {
        if mem::needs_drop::<T>() {
            self.for_each(drop);
        }
    }
}

#[cfg(all(test, not(any(fom_loom, fom_shuttle))))]
mod tests {
    use super::*;

    struct Item(Box<Link>);

    // SAFETY: what a box holds does not move with it.
    unsafe impl Linked for Item {
        fn into_link(self) -> NonNull<Link> {
            NonNull::from(Box::leak(self.0))
        }
        unsafe fn from_link(link: NonNull<Link>) -> Self {
            // SAFETY: leaked above.
            Self(unsafe { Box::from_raw(link.as_ptr()) })
        }
    }

    /// A thread marks the inbox only after it has laid the core down: by then another one may have the core, and sleep.
    #[test]
    fn a_late_vacate_leaves_the_sleeper_to_be_woken() {
        let inbox = Inbox::<Item>::new();
        assert!(inbox.sleep());
        assert!(inbox.vacate());
        assert!(inbox.is_asleep());
        assert_eq!(inbox.push(Item(Box::default())), Reader::Asleep);
        assert_eq!(inbox.drain().count(), 1);
        // The other way round there is a reader, which is the one to be woken.
        assert!(inbox.vacate());
        assert!(inbox.sleep());
        assert_eq!(inbox.poke(), Reader::Asleep);
    }
}
