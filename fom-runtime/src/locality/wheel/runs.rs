//! The nodes that the wheel has reached, as sorted runs of a merge sort that goes on.
//!
//! A node goes to the end of the youngest run, or begins one when it is earlier, and two runs of one rank are
//! merged into one of the next rank. So the earliest node is the first one of a few runs, and a node takes part in
//! few merges. Younger runs have lower ranks.

use std::ptr::NonNull;

use super::ring::{self, Heads, Links, Node};

/// A run of the highest rank took so many merges that what is merged into it may stay there.
pub(super) const RANKS: usize = 16;

pub(super) struct Runs {
    heads: Heads<RANKS>,
    /// Which ranks have a run.
    there: u16,
}

impl Runs {
    pub(super) fn new() -> Self {
        Self {
            heads: Heads::new(),
            there: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.there == 0
    }

    /// The earliest node; of equal times the one that was added first.
    pub(super) fn first(&self) -> Option<NonNull<Node>> {
        let mut first: Option<NonNull<Node>> = None;
        let mut left = self.there;
        while left != 0 {
            let run = self.run(left.trailing_zeros());
            left &= left - 1;
            // SAFETY: a run that is said to be there has a first node, which is armed, so alive.
            unsafe {
                let node = NonNull::new_unchecked(ring::next(run).cast::<Node>());
                // From the youngest run to the oldest, which wins when times are equal.
                if first.is_none_or(|first| node.as_ref().at() <= first.as_ref().at()) {
                    first = Some(node);
                }
            }
        }
        first
    }

    /// # Safety
    /// The node is alive and in no ring.
    pub(super) unsafe fn add(&mut self, node: NonNull<Node>) {
        // SAFETY: the node is alive; runs that are said to be there have a first and a last node.
        unsafe {
            let at = node.as_ref().at();
            if self.there != 0 {
                let youngest = self.run(self.there.trailing_zeros());
                if ring::at(ring::prev(youngest)) <= at {
                    return ring::insert(node, youngest);
                }
            }
            // As one is added to a binary number: all the runs below the first rank without one become one run there.
            let carry = self.there.trailing_ones();
            let lowest = self.run(0);
            ring::insert(node, ring::later_than(at, ring::next(lowest), lowest));
            for rank in 1..carry {
                ring::merge(self.run(rank - 1), self.run(rank));
            }
            let to = carry.min(RANKS as u32 - 1);
            if carry == to && carry > 0 {
                ring::append(self.run(carry - 1), self.run(to));
            }
            self.there = (self.there | 1 << to) >> to << to;
        }
    }

    /// Makes one run of all, for many calls of `first`.
    pub(super) fn join(&mut self) {
        while self.there.count_ones() > 1 {
            let younger = self.run(self.there.trailing_zeros());
            self.there &= self.there - 1;
            // SAFETY: heads are linked, and these are of different ranks.
            unsafe { ring::merge(younger, self.run(self.there.trailing_zeros())) };
        }
    }

    /// Told of a ring that `unlink` left empty; `false` when it is none of these.
    pub(super) fn left_empty(&mut self, head: *mut Links) -> bool {
        let rank = self.heads.index_of(head);
        if let Some(rank) = rank {
            self.there &= !(1 << rank);
        }
        rank.is_some()
    }

    pub(super) fn run(&self, rank: u32) -> *mut Links {
        self.heads.get(rank as usize)
    }

    #[cfg(all(test, not(any(fom_loom, fom_shuttle))))]
    pub(super) fn there(&self) -> u16 {
        self.there
    }
}
