//! The items that other threads hand to a locality: an intrusive stack that is emptied whole and read in order of
//! arrival.
//!
//! # Why it is right
//!
//! One atomic word holds the whole state: the newest item, or one of the marks below. So "is there work" and "does
//! the reader sleep" cannot disagree, and no wake is lost between the two.
//!
//! ```text
//!              push / poke                        push / poke: the caller must wake the reader
//!   EMPTY ───────────────────▶ items or POKED ◀──────────────────── ASLEEP   (reader sleeps in its reactor)
//!     ▲  ▲───── drain ────────────────┘  ▲
//!     │                                  └───────────────────────── VACANT   (no reader; a follower must be woken)
//!     └── sleep: EMPTY or VACANT → ASLEEP, vacate: EMPTY → VACANT; both fail when something is there
//! ```
//!
//! - A thread that vacates may be late: another thread may have become the reader, and may even sleep. So `vacate`
//!   never removes the mark of a sleeper, because then no thread would wake the sleeper. But `sleep` does replace a
//!   late VACANT, because there is a reader.
//!
//! - A push is one compare-exchange. Its `Release` publishes the memory of the item, and the `Acquire` of the drain
//!   reads that memory. Push and drain are lock-free and allocate nothing.
//! - The list is built newest first, and a drain reverses it. So the items of one pusher come out in the order of its
//!   pushes. A plain stack would run bursts backwards.
//! - A push takes the item and a drain returns it, so an item is in at most one inbox at most once. Only the owner of
//!   the item writes to its [`Link`].
//! - A poke is a read-modify-write even if the inbox is not empty. So all that the poker stored before is visible to
//!   the reader after its next drain, whichever items that drain returns.

use std::{fmt, marker::PhantomData, mem, ptr, ptr::NonNull};

use crate::sync::atomic::{AtomicPtr, Ordering};

/// An item that can be put into an [`Inbox`]: it owns a [`Link`] in memory that does not move.
///
/// # Safety
///
/// From [`into_link`](Self::into_link) to [`from_link`](Self::from_link) the link stays alive and does not move. Its
/// address is above 8.
pub unsafe trait Linked: Sized + Send {
    /// Turns the item into its link, which represents the item from now on.
    fn into_link(self) -> NonNull<Link>;
    /// Turns the link back into its item.
    ///
    /// # Safety
    ///
    /// The link came from [`into_link`](Self::into_link) of this type, and is turned back only once.
    unsafe fn from_link(link: NonNull<Link>) -> Self;
}

/// The part of an item that links it into an inbox, or into another list while the item is in no inbox.
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
    /// Creates a link that is in no inbox.
    pub fn new() -> Self {
        Self {
            next: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Returns the pointer that the owner of the item stored last. Only the owner calls this.
    #[inline]
    pub fn next(&self) -> *mut Link {
        self.next.load(Ordering::Relaxed)
    }

    /// Sets the next link in a list of the owner's own.
    #[inline]
    pub fn set_next(&self, next: *mut Link) {
        self.next.store(next, Ordering::Relaxed);
    }
}

fn asleep() -> *mut Link {
    ptr::without_provenance_mut(2)
}

fn vacant() -> *mut Link {
    ptr::without_provenance_mut(3)
}

/// The highest mark, so that one comparison tells mail from the other marks.
fn poked() -> *mut Link {
    ptr::without_provenance_mut(4)
}

fn is_item(head: *mut Link) -> bool {
    head.addr() > poked().addr()
}

fn has_mail(head: *mut Link) -> bool {
    head.addr() >= poked().addr()
}

/// The state of the reader at a push or poke. The caller must wake the reader accordingly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// The reader will look by itself.
    Awake,
    /// The reader sleeps. The caller must wake it.
    Asleep,
    /// There is no reader. The caller must find one.
    Missing,
}

/// An unbounded queue with many writers and one reader. The reader empties it whole.
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
    /// Creates an empty inbox with an awake reader.
    pub fn new() -> Self {
        Self {
            head: AtomicPtr::new(ptr::null_mut()),
            items: PhantomData,
        }
    }

    /// Puts an item in.
    #[inline]
    pub fn push(&self, item: T) -> Reader {
        let link = item.into_link();
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            let older = if is_item(head) { head } else { ptr::null_mut() };
            // SAFETY: the link is alive (`Linked`), and is not in the list yet, so it is ours alone.
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

    /// Makes the reader check again, although there is no item.
    ///
    /// All that the caller stored before is visible to the reader after its next [`drain`](Self::drain).
    #[inline]
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

    /// Returns whether the inbox has items or a poke. This is a hint: for the reader, [`sleep`](Self::sleep) decides.
    #[inline]
    pub fn has_mail(&self) -> bool {
        has_mail(self.head.load(Ordering::Relaxed))
    }

    /// Takes all items, oldest first, and clears every mark. Only the reader calls this.
    #[inline]
    pub fn drain(&self) -> Drain<T> {
        Drain::of(self.head.swap(ptr::null_mut(), Ordering::AcqRel))
    }

    /// Marks the reader as asleep. Returns `false` if there are items or a poke.
    #[inline]
    pub fn sleep(&self) -> bool {
        self.mark(asleep())
    }

    /// Records that the reader has left, and that there may be no other reader. Returns `false` if there are items or a
    /// poke. If another reader has taken over and sleeps, its mark stays.
    #[inline]
    pub fn vacate(&self) -> bool {
        self.mark(vacant())
    }

    /// Returns whether the reader is marked as asleep and no thread has ended the sleep.
    #[inline]
    pub fn is_asleep(&self) -> bool {
        self.head.load(Ordering::Acquire) == asleep()
    }

    fn mark(&self, mark: *mut Link) -> bool {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            if has_mail(head) {
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

/// The items of one [`Inbox::drain`], oldest first. A drop of the drain drops the remaining items.
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
    /// Reverses the list, which is ours since the swap.
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
        // SAFETY: the drained list is ours alone, and its links stay alive until they are turned back.
        self.head = unsafe { link.as_ref() }.next();
        // SAFETY: `into_link` of this type made the link, and the link leaves the list here.
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

    // SAFETY: the contents of a box do not move with the box.
    unsafe impl Linked for Item {
        fn into_link(self) -> NonNull<Link> {
            NonNull::from(Box::leak(self.0))
        }
        // SAFETY (caller): as `Linked` says.
        unsafe fn from_link(link: NonNull<Link>) -> Self {
            // SAFETY: the box was leaked in `into_link`.
            Self(unsafe { Box::from_raw(link.as_ptr()) })
        }
    }

    /// A thread marks the inbox only after it has put the core down. By then another thread may have the core, and
    /// may sleep.
    #[test]
    fn a_late_vacate_leaves_the_sleeper_to_be_woken() {
        let inbox = Inbox::<Item>::new();
        assert!(inbox.sleep());
        assert!(inbox.vacate());
        assert!(inbox.is_asleep());
        assert_eq!(inbox.push(Item(Box::default())), Reader::Asleep);
        assert_eq!(inbox.drain().count(), 1);
        // In the other order there is a reader, and the poke must wake it.
        assert!(inbox.vacate());
        assert!(inbox.sleep());
        assert_eq!(inbox.poke(), Reader::Asleep);
    }
}
