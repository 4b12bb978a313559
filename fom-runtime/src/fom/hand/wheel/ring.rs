//! The rings of the wheel: circular, doubly linked lists of armed nodes.
//!
//! A ring begins and ends at its head, which lies in the wheel. So a node is unlinked without knowledge of its
//! ring. If that leaves the ring empty, both neighbours of the node are the same member: the head.
//!
//! All functions here are unsafe for one reason, called *linked* below. The pointers of a ring lead to members of
//! that ring that are alive and that no other thread touches meanwhile. All fields are cells, so shared references
//! to members may overlap.

use std::{cell::Cell, ptr, ptr::NonNull};

/// A member of a ring: its head, or the first part of a [`Node`].
#[repr(C)]
pub(super) struct Links {
    /// Null while the member is in no ring.
    next: Cell<*mut Links>,
    prev: Cell<*mut Links>,
}

impl Links {
    pub(super) const fn new() -> Self {
        Self {
            next: Cell::new(ptr::null_mut()),
            prev: Cell::new(ptr::null_mut()),
        }
    }
}

/// A timer's place in a [`Wheel`](super::Wheel), inside the value that the timer belongs to.
#[repr(C)]
pub(crate) struct Node {
    // First, so that a pointer to the links is a pointer to the node.
    links: Links,
    at: Cell<u64>,
}

impl Node {
    pub(crate) const fn new() -> Self {
        Self {
            links: Links::new(),
            at: Cell::new(0),
        }
    }

    pub(crate) fn is_armed(&self) -> bool {
        !self.links.next.get().is_null()
    }

    /// Returns the time for which the node was last armed, in nanoseconds.
    pub(crate) fn at(&self) -> u64 {
        self.at.get()
    }

    pub(super) fn set_at(&self, at: u64) {
        self.at.set(at);
    }
}

/// The heads of `N` rings. They have an allocation of their own because members point to them.
pub(super) struct Heads<const N: usize>(NonNull<[Links; N]>);

impl<const N: usize> Heads<N> {
    pub(super) fn new() -> Self {
        let heads = Box::into_raw(Box::new([const { Links::new() }; N]));
        // SAFETY: a box is not null.
        let heads = Self(unsafe { NonNull::new_unchecked(heads) });
        for index in 0..N {
            let head = heads.get(index);
            // SAFETY: the head is alive until `drop`.
            let links = unsafe { &*head };
            links.next.set(head);
            links.prev.set(head);
        }
        heads
    }

    /// Returns the head of a ring. It is linked as long as `self` exists.
    pub(super) fn get(&self, index: usize) -> *mut Links {
        assert!(index < N);
        self.0.as_ptr().cast::<Links>().wrapping_add(index)
    }

    /// Returns the index of a head, if it is one of these.
    pub(super) fn index_of(&self, head: *mut Links) -> Option<usize> {
        let offset = head.addr().wrapping_sub(self.0.addr().get());
        Some(offset / size_of::<Links>()).filter(|index| *index < N)
    }
}

impl<const N: usize> Drop for Heads<N> {
    fn drop(&mut self) {
        // No node may still point here.
        for index in 0..N {
            let head = self.get(index);
            // SAFETY: a ring is linked all round, and a member other than the head is a node.
            unsafe {
                while next(head) != head {
                    unlink(NonNull::new_unchecked(next(head).cast()));
                }
            }
        }
        // SAFETY: the pointer came from a box, and no node points there any more.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// # Safety
/// `member` is linked.
pub(super) unsafe fn next(member: *mut Links) -> *mut Links {
    // SAFETY: the member is linked, so it is alive.
    unsafe { (*member).next.get() }
}

/// # Safety
/// `member` is linked.
pub(super) unsafe fn prev(member: *mut Links) -> *mut Links {
    // SAFETY: the member is linked, so it is alive.
    unsafe { (*member).prev.get() }
}

/// Returns the time of a member that is not a head.
///
/// # Safety
/// `member` is linked, and the first part of a node.
pub(super) unsafe fn at(member: *mut Links) -> u64 {
    // SAFETY: the member is linked, so it is alive; the pointer came from one to the whole node.
    unsafe { (*member.cast::<Node>()).at.get() }
}

/// # Safety
/// `head` is linked.
pub(super) unsafe fn is_empty(head: *mut Links) -> bool {
    // SAFETY: the head is linked.
    unsafe { next(head) == head }
}

/// Brings all members of these rings near, from both sides of each ring and of all rings at once.
///
/// # Safety
/// All are heads of rings.
pub(super) unsafe fn reach<const N: usize>(heads: &[*mut Links; N]) {
    let mut ends = heads.map(|head| Some((head, head)));
    while ends.iter().any(Option::is_some) {
        for end in &mut ends {
            // SAFETY: a ring is linked all round, and both are members of one ring.
            *end = end.and_then(|(front, back)| unsafe {
                let front = next(front);
                let back = (front != back).then(|| prev(back))?;
                (front != back).then_some((front, back))
            });
        }
    }
}

/// Inserts a node before a member. If that member is the head, the node goes to the end of the ring.
///
/// # Safety
/// `place` is linked; `node` is alive and in no ring.
pub(super) unsafe fn insert(node: NonNull<Node>, place: *mut Links) {
    let node = node.as_ptr().cast::<Links>();
    // SAFETY: `place` is linked, and so is the member before it; `node` is alive.
    unsafe {
        let before = prev(place);
        (*node).next.set(place);
        (*node).prev.set(before);
        (*before).next.set(node);
        (*place).prev.set(node);
    }
}

/// Takes a node out of its ring. Returns the head of the ring if the ring is empty now.
///
/// # Safety
/// `node` is linked.
pub(super) unsafe fn unlink(node: NonNull<Node>) -> Option<*mut Links> {
    let node = node.as_ptr().cast::<Links>();
    // SAFETY: the node is linked, and so are its neighbours.
    unsafe {
        let (before, after) = (prev(node), next(node));
        (*before).next.set(after);
        (*after).prev.set(before);
        (*node).next.set(ptr::null_mut());
        (before == after).then_some(after)
    }
}

/// Moves the members from `first` up to but not including `end` from their ring to before `place`.
///
/// # Safety
/// All are linked. `end` comes after `first` in its ring. Neither a head nor `place` is among the members that
/// move.
unsafe fn transfer(first: *mut Links, end: *mut Links, place: *mut Links) {
    // SAFETY: the members are linked, and so are their neighbours. `end` is not `first`, so there is a last member
    // to move.
    unsafe {
        let (left, last) = (prev(first), prev(end));
        (*left).next.set(end);
        (*end).prev.set(left);
        let before = prev(place);
        (*before).next.set(first);
        (*first).prev.set(before);
        (*last).next.set(place);
        (*place).prev.set(last);
    }
}

/// Returns the first member later than `time`, searching from `member` to the end of the ring. Returns the head if
/// there is none.
///
/// # Safety
/// `member` is linked, in the ring of `head`.
pub(super) unsafe fn later_than(time: u64, mut member: *mut Links, head: *mut Links) -> *mut Links {
    // SAFETY: a ring is linked all round, and a member other than the head is a node.
    unsafe {
        while member != head && at(member) <= time {
            member = next(member);
        }
    }
    member
}

/// Moves all members of one ring to the end of another.
///
/// # Safety
/// Both are heads of rings.
pub(super) unsafe fn append(from: *mut Links, to: *mut Links) {
    // SAFETY: heads are linked; the members from the first up to the head are all but the head.
    unsafe {
        let first = next(from);
        if first != from {
            transfer(first, from, to);
        }
    }
}

/// Merges a sorted ring into another. Of equal times, those in `older` come first.
///
/// # Safety
/// Both are heads of rings, and of different ones.
pub(super) unsafe fn merge(younger: *mut Links, older: *mut Links) {
    // SAFETY: rings are linked all round, and a member other than the head is a node. The members that move lie
    // between the first member of `younger` and its head, while the place lies in `older`.
    unsafe {
        let mut place = next(older);
        // The common case: timers of one duration are armed in the order of their times, so no search is needed.
        if place != older && next(younger) != younger && at(prev(older)) <= at(next(younger)) {
            place = older;
        }
        loop {
            let first = next(younger);
            if first == younger {
                return;
            }
            place = later_than(at(first), place, older);
            if place == older {
                return append(younger, older);
            }
            let mut end = next(first);
            while end != younger && at(end) < at(place) {
                end = next(end);
            }
            transfer(first, end, place);
        }
    }
}
