//! Which pages of a stock were not needed for a while: they go back to the system.
//!
//! # How it works
//!
//! The free slots of a stock are a stack, of which a steady load never touches the lower part. At each look the whole stack is
//! laid aside, in `resting`. New foms take slots from there again, and what is left at the next look was not needed in between.
//! That is sorted by page, and a page of which all slots are there is freed. So a load that goes up and down between two looks
//! frees nothing, and taking and giving back a slot cost what they cost without all this.
//!
//! The slots of pages in which foms live stay sorted. New foms take those of the fullest pages first, so that the others empty.
//!
//! Sorting and freeing go on in small steps: foms run in between.
//!
//! # Why it is right
//!
//! A slot is in use, on its way back in [`Returns`](crate::protocol::Returns), or in one list of its owner: here, or in the stack.
//! A page is freed when all its slots are in one list here. So none of them is in use: nothing has a reference to a fom in there,
//! and no fom will be born there. What others did to a slot before they gave it back has been acquired with it.
//!
//! Whoever lists the foms may have the page in hand at this moment. It has an `Arc` of it, so the memory stays until it is done. It
//! touches nothing but headers, and of these it finds no one with a reference.

use std::{ptr, ptr::NonNull, sync::Arc};

use super::pool::{Page, length};
use crate::protocol::Link;

/// Slots that are taken from `resting` at a time.
const TAKEN: usize = 32;
/// Slots sorted, and pages freed, in one step.
const SORTED: usize = 2048;
const FREED: usize = 8;

pub(super) struct Trim {
    /// What was free at the last look, without what was taken since.
    resting: *mut Link,
    /// What was not needed between the last two looks, and is not sorted yet.
    surplus: *mut Link,
    /// All pages of the stock, by their addresses.
    shelves: Vec<Shelf>,
    /// The addresses of those pages that have something on their shelf, the fullest page last.
    order: Vec<usize>,
    /// The pages that are out of the pool.
    doomed: Vec<Arc<Page>>,
    /// Something was sorted since pages were last freed.
    sorted: bool,
    /// How many pages may be freed.
    large: usize,
    /// Slots in all pages of the stock, in use or not.
    pub(super) made: usize,
}

/// The slots of one page that are free and sorted.
struct Shelf {
    page: Arc<Page>,
    free: *mut Link,
    count: usize,
}

impl Default for Trim {
    fn default() -> Self {
        Self {
            resting: ptr::null_mut(),
            surplus: ptr::null_mut(),
            shelves: Vec::new(),
            order: Vec::new(),
            doomed: Vec::new(),
            sorted: false,
            large: 0,
            made: 0,
        }
    }
}

impl Trim {
    pub(super) fn add(&mut self, page: Arc<Page>) {
        self.large += usize::from(page.is_large());
        let at = self.after(page.address());
        let (free, count) = (ptr::null_mut(), 0);
        self.shelves.insert(at, Shelf { page, free, count });
    }

    /// How many shelves begin at this address or before.
    fn after(&self, address: usize) -> usize {
        let before = |shelf: &Shelf| shelf.page.address() <= address;
        self.shelves.partition_point(before)
    }

    pub(super) fn has_large(&self) -> bool {
        self.large > 0
    }

    pub(super) fn pages(&self) -> Vec<Arc<Page>> {
        let pages = self.shelves.iter().map(|shelf| &shelf.page);
        pages.cloned().collect()
    }

    /// How many free slots there are.
    pub(super) fn free(&self) -> usize {
        let sorted: usize = self.shelves.iter().map(|shelf| shelf.count).sum();
        length(self.resting) + length(self.surplus) + sorted
    }

    #[inline]
    pub(super) fn has_free(&self) -> bool {
        !self.resting.is_null() || !self.surplus.is_null() || !self.order.is_empty()
    }

    /// Slots for new foms, if there are some.
    pub(super) fn take(&mut self) -> *mut Link {
        while let Some(address) = self.order.pop() {
            let at = self.after(address) - 1;
            let shelf = &mut self.shelves[at];
            shelf.count = 0;
            let free = std::mem::replace(&mut shelf.free, ptr::null_mut());
            if !free.is_null() {
                return free;
            }
        }
        if self.resting.is_null() {
            return std::mem::replace(&mut self.surplus, ptr::null_mut());
        }
        let first = self.resting;
        let mut last = first;
        for _ in 1..TAKEN {
            // SAFETY: slots in a list here are the owner's alone.
            let next = unsafe { (*last).next() };
            if next.is_null() {
                break;
            }
            last = next;
        }
        // SAFETY: as above.
        unsafe {
            self.resting = (*last).next();
            (*last).set_next(ptr::null_mut());
        }
        first
    }

    /// Lays aside `free`, if there is a page that could be freed. `false`: it stays where it is.
    pub(super) fn look(&mut self, free: *mut Link) -> bool {
        let looks = self.has_large() && !self.is_busy();
        if looks {
            self.surplus = std::mem::replace(&mut self.resting, free);
        }
        looks
    }

    /// Whether all that is free is sorted.
    pub(super) fn rests(&self) -> bool {
        self.resting.is_null() && !self.is_busy()
    }

    /// Whether there is more to do before the next look.
    pub(super) fn is_busy(&self) -> bool {
        !self.surplus.is_null() || self.sorted || !self.doomed.is_empty()
    }

    /// One step. How many slots are in the pages that it takes out of the pool.
    pub(super) fn go_on(&mut self) -> usize {
        if !self.surplus.is_null() {
            self.sort();
        } else if std::mem::take(&mut self.sorted) {
            return self.choose();
        } else {
            let rest = self.doomed.len().saturating_sub(FREED);
            self.doomed.truncate(rest);
        }
        0
    }

    fn sort(&mut self) {
        self.sorted = true;
        for _ in 0..SORTED {
            let Some(slot) = NonNull::new(self.surplus) else {
                return;
            };
            // SAFETY: slots in a list here are the owner's alone.
            self.surplus = unsafe { slot.as_ref() }.next();
            let at = self.after(slot.addr().get()) - 1;
            let shelf = &mut self.shelves[at];
            // SAFETY: as above.
            unsafe { slot.as_ref() }.set_next(shelf.free);
            shelf.free = slot.as_ptr();
            shelf.count += 1;
        }
    }

    /// Takes out the pages that nobody needs, and says in which order the others are used.
    fn choose(&mut self) -> usize {
        let is_whole =
            |shelf: &mut Shelf| shelf.page.is_large() && shelf.count == shelf.page.made();
        let whole = self.shelves.extract_if(.., is_whole);
        self.doomed.extend(whole.map(|shelf| shelf.page));
        debug_assert!(self.doomed.iter().all(|page| page.is_vacant()));
        self.large -= self.doomed.len();
        let mut order: Vec<_> = self
            .shelves
            .iter()
            .filter(|shelf| shelf.count > 0)
            .collect();
        order.sort_unstable_by_key(|shelf| std::cmp::Reverse(shelf.count));
        self.order = order.iter().map(|shelf| shelf.page.address()).collect();
        self.shelves.shrink_to(2 * self.shelves.len());
        let freed = self.doomed.iter().map(|page| page.made()).sum();
        self.made -= freed;
        freed
    }
}
