//! Finds the pages of a stock that were not needed for a while, and gives them back to the system.
//!
//! # How it works
//!
//! The free slots of a stock form a stack. A steady load never touches the lower part of the stack. Each look lays
//! the whole stack aside, in `resting`. New foms take slots from there again. Slots that are still there at the next
//! look were not needed in between. The owner sorts these by page, and frees a page when all its slots are there. So
//! a load that goes up and down between two looks frees nothing. Trimming does not raise the cost of taking a slot or
//! giving it back.
//!
//! The slots of pages in which foms live stay sorted. New foms take slots of the fullest pages first, so that the other
//! pages empty.
//!
//! Sorting and freeing proceed in small steps, and foms run in between.
//!
//! # Why it is right
//!
//! A slot is in use, on its way back in [`FreeList`](fom_protocol::FreeList), or in one list of its owner: here, or
//! in the stack. A page is freed when all its slots are in one list here. So none of them is in use: there is no
//! reference to a fom in that page, and no fom begins there. Other threads gave their slots back with a release, and
//! the owner has acquired them.
//!
//! A listing of the foms may hold the page at this moment. It has an `Arc` of the page, so the memory stays until the
//! listing ends. The listing touches only headers, and finds none with a reference.

use std::{ptr, ptr::NonNull, sync::Arc};

use super::pool::{Page, length};
use fom_protocol::Link;

/// The number of slots that are taken from `resting` at a time.
const TAKEN: usize = 32;
/// The number of slots that one step sorts, and of pages that it frees. Foms and timers wait for a step: with 2,048
/// slots it took half a millisecond, because each slot is a cache miss.
const SORTED: usize = 64;
const FREED: usize = 1;

pub(super) struct Trim {
    /// The slots that were free at the last look, without those that were taken since.
    resting: *mut Link,
    /// The slots that were not needed between the last two looks, and are not sorted yet.
    surplus: *mut Link,
    /// All pages of the stock, by their addresses.
    shelves: Vec<Shelf>,
    /// The addresses of the pages with slots on their shelf, the fullest page last.
    order: Vec<usize>,
    /// The pages that are out of the pool.
    doomed: Vec<Arc<Page>>,
    /// Slots were sorted since pages were last freed.
    sorted: bool,
    /// The number of pages that may be freed.
    large: usize,
    /// The number of slots in all pages of the stock, in use or not.
    pub(super) made: usize,
}

/// The free and sorted slots of one page.
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

    /// Returns the number of shelves that begin at this address or before.
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

    /// Returns the number of free slots.
    pub(super) fn free(&self) -> usize {
        let sorted: usize = self.shelves.iter().map(|shelf| shelf.count).sum();
        length(self.resting) + length(self.surplus) + sorted
    }

    #[inline]
    pub(super) fn has_free(&self) -> bool {
        !self.resting.is_null() || !self.surplus.is_null() || !self.order.is_empty()
    }

    /// Returns slots for new foms, or null.
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
            // SAFETY: slots in a list here belong to the owner alone.
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

    /// Lays `free` aside, if a page could be freed. On `false`, `free` stays where it is.
    pub(super) fn look(&mut self, free: *mut Link) -> bool {
        let looks = self.has_large() && !self.is_busy();
        if looks {
            self.surplus = std::mem::replace(&mut self.resting, free);
        }
        looks
    }

    /// Returns whether all free slots are sorted.
    pub(super) fn rests(&self) -> bool {
        self.resting.is_null() && !self.is_busy()
    }

    /// Returns whether work is left before the next look.
    pub(super) fn is_busy(&self) -> bool {
        !self.surplus.is_null() || self.sorted || !self.doomed.is_empty()
    }

    /// Takes one step. Returns the number of slots in the pages that it takes out of the pool.
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
            // SAFETY: slots in a list here belong to the owner alone.
            self.surplus = unsafe { slot.as_ref() }.next();
            let at = self.after(slot.addr().get()) - 1;
            let shelf = &mut self.shelves[at];
            // SAFETY: as above.
            unsafe { slot.as_ref() }.set_next(shelf.free);
            shelf.free = slot.as_ptr();
            shelf.count += 1;
        }
    }

    /// Takes out the pages that are not needed, and puts the others in the order of use.
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
