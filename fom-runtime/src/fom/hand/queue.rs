//! The run queues: one per priority, each first in, first out, linked through the foms.

use std::ptr::NonNull;

use crate::fom::{Priority, Resident, hand::prefetch_fom};
use fom_protocol::Link;

/// One pick in this many goes to the lowest queue that has work, so no priority starves.
const LOWEST_EVERY: u32 = 16;

#[derive(Default)]
pub(crate) struct RunQueue {
    /// One for each value that the flags can hold, so that a push needs no check. The last one stays empty.
    queues: [Queue; Priority::VALUES],
    picks: u32,
    len: usize,
}

struct Queue {
    /// The first link of the queue, or `None` if it is empty.
    first: Option<NonNull<Link>>,
    /// The last link, unless the queue is empty.
    last: NonNull<Link>,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            first: None,
            last: NonNull::dangling(),
        }
    }
}

// SAFETY: the foms in the queue are `Send`, and so are the links that stand for them.
unsafe impl Send for Queue {}

impl Queue {
    #[inline]
    fn push(&mut self, fom: Resident) {
        let link = fom.into_link();
        // SAFETY: the resident reference owns the link.
        unsafe { link.as_ref() }.set_next(std::ptr::null_mut());
        if self.first.is_none() {
            self.first = Some(link);
        } else {
            // SAFETY: the link is in this queue, so only the queue touches it.
            unsafe { self.last.as_ref() }.set_next(link.as_ptr());
        }
        self.last = link;
    }

    #[inline]
    fn pop(&mut self) -> Option<Resident> {
        let first = self.first?;
        // SAFETY: the link is in this queue, so only the queue touches it.
        let next = unsafe { first.as_ref() }.next();
        // Another core may have written to it last.
        prefetch_fom(next.cast());
        self.first = NonNull::new(next);
        // SAFETY: `push` put the link in, and it is out now.
        Some(unsafe { Resident::from_link(first) })
    }
}

impl Queue {
    /// Takes out every other movable fom, until `taken` has `most` foms or `looks` foms were looked at.
    fn take_every_other(&mut self, most: usize, mut looks: usize, taken: &mut Vec<Resident>) {
        let Some(mut kept) = self.first else {
            return;
        };
        while taken.len() < most && looks > 0 {
            looks -= 1;
            // SAFETY: the link is in this queue, so only the queue touches it.
            let Some(link) = NonNull::new(unsafe { kept.as_ref() }.next()) else {
                return;
            };
            // SAFETY: `push` put the link in. The fom is either taken out below or given back to the queue.
            let fom = unsafe { Resident::from_link(link) };
            if !fom.may_move() {
                kept = fom.into_link();
                continue;
            }
            // SAFETY: as above.
            let after = unsafe { link.as_ref() }.next();
            // SAFETY: as above.
            unsafe { kept.as_ref() }.set_next(after);
            taken.push(fom);
            let Some(after) = NonNull::new(after) else {
                self.last = kept;
                return;
            };
            debug_assert_ne!(link, self.last);
            kept = after;
        }
    }
}

impl RunQueue {
    /// Takes out every other movable fom, at most `most`, and leaves the others in their order. Looks at no more than
    /// `looks` foms per priority.
    pub(crate) fn take_every_other(&mut self, most: usize, looks: usize) -> Vec<Resident> {
        let mut taken = Vec::new();
        for queue in &mut self.queues {
            queue.take_every_other(most, looks, &mut taken);
        }
        self.len -= taken.len();
        self.picks = self.picks.wrapping_add(taken.len() as u32);
        taken
    }

    #[inline]
    pub(crate) fn push(&mut self, fom: Resident) {
        self.len += 1;
        self.queues[fom.flags.priority()].push(fom);
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Resident> {
        if self.len == 0 {
            return None;
        }
        self.len -= 1;
        self.picks = self.picks.wrapping_add(1);
        if self.picks.is_multiple_of(LOWEST_EVERY) {
            self.queues.iter_mut().rev().find_map(Queue::pop)
        } else {
            self.queues.iter_mut().find_map(Queue::pop)
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns how many foms have left the queue. The number starts again at zero after the largest one.
    pub(crate) fn left(&self) -> u32 {
        self.picks
    }

    /// Returns how many foms have entered the queue, as [`left`](Self::left) does.
    pub(crate) fn entered(&self) -> u32 {
        self.picks.wrapping_add(self.len as u32)
    }
}
