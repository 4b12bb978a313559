//! The nodes that the wheel has reached, as the sorted runs of a continuous merge sort.
//!
//! A node goes to the end of the youngest run, or begins a new run if it is earlier than that end. Two runs of one
//! rank are merged into one of the next rank. So the earliest node is the first node of one of a few runs, and a node
//! takes part in few merges. Younger runs have lower ranks.

use std::ptr::NonNull;

use super::ring::{self, Heads, Links, Node};

/// Number of ranks. A run of the highest rank took so many merges that what is merged into it may stay there.
pub(super) const RANKS: usize = 16;

pub(super) struct Runs {
    heads: Heads<RANKS>,
    /// A bit for each rank that has a run.
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

    /// Returns the earliest node. Of equal times, it is the node that was added first.
    pub(super) fn first(&self) -> Option<NonNull<Node>> {
        let mut first: Option<NonNull<Node>> = None;
        let mut left = self.there;
        while left != 0 {
            let run = self.run(left.trailing_zeros());
            left &= left - 1;
            // SAFETY: a rank marked in `there` has a first node, which is armed, so it is alive.
            unsafe {
                let node = NonNull::new_unchecked(ring::next(run).cast::<Node>());
                // From the youngest run to the oldest: the oldest run wins when times are equal.
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
        // SAFETY: the node is alive; each rank marked in `there` has a first and a last node.
        unsafe {
            let at = node.as_ref().at();
            if self.there != 0 {
                let youngest = self.run(self.there.trailing_zeros());
                if ring::at(ring::prev(youngest)) <= at {
                    return ring::insert(node, youngest);
                }
            }
            // Like adding one to a binary number: all runs below the first rank without a run become one run of that
            // rank.
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

    /// Merges all runs into one, for many calls of `first`.
    pub(super) fn join(&mut self) {
        while self.there.count_ones() > 1 {
            let younger = self.run(self.there.trailing_zeros());
            self.there &= self.there - 1;
            // SAFETY: heads are linked, and these two have different ranks.
            unsafe { ring::merge(younger, self.run(self.there.trailing_zeros())) };
        }
    }

    /// Notes that `unlink` left this ring empty. Returns `false` if the ring is none of these.
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

    #[cfg(all(test, not(fom_shuttle)))]
    pub(super) fn there(&self) -> u16 {
        self.there
    }
}
