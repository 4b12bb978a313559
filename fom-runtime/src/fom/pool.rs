//! The memory of the foms of one operation type in one locality: slots in pages, taken and given back without a lock.
//!
//! Each pool has one owner. For local submissions that is the core of its locality; for submissions from elsewhere it
//! is the holder of the locality's lock. The owner takes slots, and gives back slots that it frees itself. Slots
//! freed by other threads come back through [`FreeList`].
//!
//! A slot stays a slot of its type until its page is freed, and so does the header in it, even without a fom. So the
//! pages also serve as the registry: a listing of the locality walks them, and takes a reference to each fom that is
//! alive. A page is freed with its pool, or when none of its slots was needed for a while: see [`trim`](super::trim).

use std::{
    alloc::{Layout, alloc, dealloc, handle_alloc_error},
    any::TypeId,
    ops::ControlFlow,
    ptr::{self, NonNull},
    sync::{Arc, OnceLock},
};

use crossbeam_utils::CachePadded;

use crate::{
    fom::{
        AnyRef, EnvRef, Header, LocalCounters, LocalFoms, Timing, Totals, TypeCounters, Vtable,
        hand, trim::Trim,
    },
    graph::Graph,
    heap,
    id::FomId,
    topology::{BOUND_ALIGN, bind_memory, unbind_memory},
};
use fom_protocol::{
    FreeList, Link, Returned,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

/// The first page is small, so that a type with few foms costs little. Later pages grow up to the largest.
const FIRST_PAGE: usize = 4 << 10;
pub(super) const LARGEST_PAGE: usize = 256 << 10;
/// The number of slots that are made at once.
const MADE_AT_ONCE: usize = 8;

/// On cache lines of its own: each end writes the totals, and the pool of another locality may be adjacent.
#[repr(align(128))]
pub(crate) struct Pool {
    pub(crate) vtable: &'static Vtable,
    pub(crate) env: EnvRef,
    /// The locality that owns this memory.
    pub(crate) home: usize,
    /// The index in the stocks of the core, or `None` for the pool of submissions from elsewhere.
    place: Option<usize>,
    pub(crate) type_id: TypeId,
    pub(crate) graph: &'static Graph,
    pub(crate) totals: Totals,
    /// The counters of the type, once a transition was counted.
    counters: OnceLock<PoolCounters>,
    returns: FreeList,
    pages: Mutex<Vec<Arc<Page>>>,
}

/// The counters of a pool's type.
struct PoolCounters {
    of_type: Arc<TypeCounters>,
    /// Those of the pool's own locality, which most foms need.
    here: Arc<CachePadded<LocalCounters>>,
}

/// A piece of memory for slots.
pub(crate) struct Page {
    memory: NonNull<u8>,
    layout: Layout,
    /// Whether the memory is bound to a NUMA node.
    bound: bool,
    slot: usize,
    /// The number of slots with a header.
    made: AtomicUsize,
}

// SAFETY: the memory is the page's own; what is in it is reached through headers, which are `Sync`.
unsafe impl Send for Page {}
// SAFETY: as above; `made` is atomic.
unsafe impl Sync for Page {}

impl Drop for Page {
    fn drop(&mut self) {
        if self.is_large() {
            // An allocator may keep freed memory, so its contents go back to the system first.
            heap::empty(self.memory, self.layout.size());
        }
        if self.bound {
            unbind_memory(self.memory, self.layout.size());
        }
        // SAFETY: the memory was allocated with this layout. No fom is in it: a pool goes after its last slot, and the
        // owner of a trimmed page has all its slots. The headers of empty slots have nothing to drop.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) }
    }
}

impl Page {
    /// As [`Pool::visit`], for the foms of this page.
    pub(crate) fn visit<B>(
        &self,
        is_wanted: &impl Fn(&Header) -> bool,
        visit: &mut impl FnMut(AnyRef) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let made = self.made.load(Ordering::Acquire);
        for index in 0..made {
            // SAFETY: the index is below `made`, so there is a header.
            let header = unsafe { self.memory.byte_add(index * self.slot).cast::<Header>() };
            // SAFETY: as above; without a reference only the header is read.
            if !is_wanted(unsafe { header.as_ref() }) {
                continue;
            }
            // SAFETY: as above.
            if let Some(fom) = unsafe { AnyRef::upgrade(header) }
                && fom.flags.is_listed()
            {
                visit(fom)?;
            }
        }
        ControlFlow::Continue(())
    }
}

/// The owner's end of a pool.
pub(crate) struct Stock {
    pool: Arc<Pool>,
    /// The free slots that were given back, as a linked list.
    free: *mut Link,
    /// The page in which new slots are made.
    page: Option<Arc<Page>>,
    /// Boxed to keep stocks small: a stock is found by its index, which is cheaper then.
    trim: Box<Trim>,
}

// SAFETY: the list of free slots is the owner's alone, wherever that is.
unsafe impl Send for Stock {}

impl Pool {
    /// Returns the counters of the type in a locality.
    #[inline]
    pub(crate) fn counters(&self, locality: usize) -> &LocalCounters {
        match self.counters.get() {
            Some(counters) if locality == self.home => &counters.here,
            _ => self.counters_elsewhere(locality),
        }
    }

    /// Few foms live in another locality than their memory.
    #[cold]
    fn counters_elsewhere(&self, locality: usize) -> &LocalCounters {
        let counters = self.counters.get_or_init(|| {
            let env = &self.env;
            let of_type = env.counters().of(self.type_id, self.graph, env.homes.len());
            PoolCounters {
                here: Arc::clone(of_type.at(self.home)),
                of_type,
            }
        });
        counters.of_type.at(locality)
    }

    fn home(&self) -> &LocalFoms {
        &self.env.homes[self.home]
    }

    /// Makes the handler of the owner look after the memory, and wakes it.
    #[cold]
    fn want_trim(&self) {
        self.home().trims.want();
        self.env.host().poke(self.home);
    }

    #[inline]
    pub(crate) fn timing_of<'a>(&self, header: &'a Header) -> Option<&'a Timing> {
        let offset = self.vtable.timing?;
        // SAFETY: the vtable says where the timing is in the slots of this type. The timing was made with the header.
        Some(unsafe {
            header
                .whole()
                .byte_add(offset.get().into())
                .cast::<Timing>()
                .as_ref()
        })
    }

    /// Gives `visit` every fom of the pool that has not ended, until it breaks. Of each slot, `is_wanted` is asked first,
    /// without a reference: the slot may be that of another fom a moment later, so `visit` asks again.
    pub(crate) fn visit<B>(
        &self,
        is_wanted: impl Fn(&Header) -> bool,
        mut visit: impl FnMut(AnyRef) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let mut pages = self.pages().into_iter();
        pages.try_for_each(|page| page.visit(&is_wanted, &mut visit))
    }

    /// Returns the pages of the pool.
    pub(crate) fn pages(&self) -> Vec<Arc<Page>> {
        self.pages.lock().clone()
    }

    /// Puts back the slot of a fom that is gone. Takes a pointer, because the pool may go with the slot.
    #[inline]
    // SAFETY: asks that the slot is of this pool, its last reference is gone, and its contents are dropped.
    pub(super) unsafe fn give_back(this: *const Self, slot: NonNull<Header>) {
        // SAFETY: a pool lives as long as a slot of it is in use, and this one is until it is put back.
        if let Some(place) = unsafe { (*this).place } {
            // SAFETY: the contents of the slot are dropped already; the guard only puts a pointer into a list.
            if let Some(mut hand) = unsafe { hand::context::peek() } {
                // SAFETY: as above.
                let pool = unsafe { &*this };
                if hand.is(&pool.env, pool.home) {
                    hand.stocks.put(place, slot.cast());
                    return;
                }
            }
        }
        // SAFETY: the caller's promise.
        unsafe { Self::give_back_from_elsewhere(this, slot) }
    }

    /// A separate function, so that foms that end at home do not pay for it.
    #[inline(never)]
    // SAFETY: asks of its caller what `give_back` asks.
    unsafe fn give_back_from_elsewhere(this: *const Self, slot: NonNull<Header>) {
        // SAFETY: a pool lives as long as a slot of it is in use, and this one is until it is put back.
        let returns = unsafe { &raw const (*this).returns };
        // SAFETY: this is called before the slot is put back, so the pool is alive as above.
        let tell = || unsafe { (*this).want_trim() };
        // SAFETY: the pool is alive as above; the link belongs to the slot, and no other thread has the slot.
        if unsafe { (*returns).put(slot.cast(), tell) } == Returned::Last {
            Self::freed(this);
        }
    }

    /// Frees the pool. The owner has gone, and the last slot in use has come back.
    fn freed(this: *const Self) {
        // SAFETY: `Stock::drop` left one count for the slots in use. The thread that brings back the last slot gives
        // it up, once.
        drop(unsafe { Arc::from_raw(this) });
    }
}

impl Stock {
    fn new(pool: Arc<Pool>) -> Self {
        Self {
            pool,
            free: ptr::null_mut(),
            page: None,
            trim: Box::default(),
        }
    }

    pub(crate) fn totals(&self) -> &Totals {
        &self.pool.totals
    }

    /// Takes a slot with a header that has no references.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> NonNull<Header> {
        if self.free.is_null() {
            self.refill();
        }
        let slot = NonNull::new(self.free).expect("refilled");
        // SAFETY: free slots belong to the owner alone.
        self.free = unsafe { slot.as_ref() }.next();
        // The slots that other threads freed are in their caches.
        hand::prefetch_fom(self.free.cast());
        slot.cast()
    }

    #[inline]
    fn put(&mut self, slot: NonNull<Link>) {
        // SAFETY: the caller gives the slot away.
        unsafe { slot.as_ref() }.set_next(self.free);
        self.free = slot.as_ptr();
    }

    #[cold]
    #[inline(never)]
    fn refill(&mut self) {
        self.free = self.pool.returns.take();
        if self.free.is_null() && self.trim.has_free() {
            self.free = self.trim.take();
        }
        if !self.free.is_null() {
            return;
        }
        self.make_slots();
    }

    fn make_slots(&mut self) {
        let vtable = self.pool.vtable;
        let full = |page: &Page| {
            let made = page.made.load(Ordering::Relaxed);
            (made + 1) * page.slot > page.layout.size()
        };
        let page = match self.page.take() {
            Some(page) if !full(&page) => page,
            _ => self.add_page(),
        };
        let made = page.made.load(Ordering::Relaxed);
        let count = MADE_AT_ONCE.min(page.layout.size() / page.slot - made);
        // The last slot comes first, so that slots are taken in the order of their addresses.
        for index in (made..made + count).rev() {
            // SAFETY: the page has room for `made + count` slots.
            let slot = unsafe { page.memory.byte_add(index * page.slot) }.cast::<Header>();
            // SAFETY: memory for a slot of this type that no other thread has seen yet.
            unsafe { (vtable.prepare)(slot, Arc::as_ptr(&self.pool)) };
            self.put(slot.cast());
        }
        // This comes after the headers, because from now on a listing may read them.
        page.made.store(made + count, Ordering::Release);
        self.trim.made += count;
        self.page = Some(page);
    }

    /// Adds a page about as large as all earlier pages together, within the limits. A page of a NUMA node is large from
    /// the start, because only whole system pages lie on a node.
    fn add_page(&mut self) -> Arc<Page> {
        let vtable = self.pool.vtable;
        let before = (self.trim.made * vtable.layout.size()).next_power_of_two();
        let node = self.pool.home().node;
        let least = node.map_or(FIRST_PAGE, |_| LARGEST_PAGE);
        let page = Page::new(vtable, before.clamp(least, LARGEST_PAGE), node);
        self.pool.pages.lock().push(Arc::clone(&page));
        self.trim.add(Arc::clone(&page));
        if page.is_large() {
            self.pool.home().trims.want();
        }
        page
    }

    /// Lays the free slots aside, and finds the slots that were laid aside at the last look and not needed since.
    fn look(&mut self) {
        if self.trim.look(self.free) {
            self.free = self.pool.returns.take();
        }
    }

    /// Returns, after a look, whether no slot was used since the look before it. If so, the next slot that another
    /// thread gives back tells the owner.
    fn rests(&self) -> bool {
        !self.trim.has_large()
            || self.free.is_null() && self.trim.rests() && self.pool.returns.watch()
    }

    /// Returns whether slots were used since the stock rested.
    fn is_stirred(&self) -> bool {
        !self.free.is_null() && self.trim.has_large()
    }

    /// Frees a part of what the last look found. Returns the number of bytes, or `None` if there is nothing left to do.
    fn trim(&mut self) -> Option<usize> {
        if !self.trim.is_busy() {
            return None;
        }
        let freed = self.trim.go_on();
        if freed == 0 {
            return Some(0);
        }
        let pages = self.trim.pages();
        if let Some(page) = &self.page
            && !pages.iter().any(|other| Arc::ptr_eq(other, page))
        {
            self.page = None;
        }
        // A listing may still hold the pages that were taken out. They contain no fom.
        let before = std::mem::replace(&mut *self.pool.pages.lock(), pages);
        drop(before);
        Some(freed * self.pool.vtable.layout.size())
    }
}

impl Drop for Stock {
    fn drop(&mut self) {
        // This count stands for the slots in use, and `Pool::freed` gives it up. The pointer does not come from a
        // reference, because a reference covers no counts beside the pool.
        let pool = Arc::as_ptr(&self.pool);
        // SAFETY: an `Arc` still holds `pool` here.
        unsafe { Arc::increment_strong_count(pool) };
        let free = length(self.free) + self.trim.free();
        if self
            .pool
            .returns
            .close(|back| self.trim.made - free - length(back))
            == Returned::Last
        {
            Pool::freed(pool);
        }
    }
}

pub(super) fn length(mut list: *mut Link) -> usize {
    let mut length = 0;
    while !list.is_null() {
        length += 1;
        // SAFETY: the slots in the list are ours.
        list = unsafe { (*list).next() };
    }
    length
}

impl Page {
    fn new(vtable: &Vtable, size: usize, node: Option<usize>) -> Arc<Self> {
        let slot = vtable.layout.size();
        let size = size.max(slot);
        // No system page exceeds this. So the system gets the whole page back.
        let least = if size >= LARGEST_PAGE { BOUND_ALIGN } else { 1 };
        let layout = Layout::from_size_align(size, vtable.layout.align().max(least))
            .expect("a page is no larger than a slot or a quarter of a megabyte");
        // SAFETY: a slot has a header, so the size is not zero.
        let memory = NonNull::new(unsafe { alloc(layout) });
        let memory = memory.unwrap_or_else(|| handle_alloc_error(layout));
        // `Header::whole` turns a reference to a header back into a pointer to the whole fom.
        memory.as_ptr().expose_provenance();
        // Without the binding, the page lies on the node of the thread that touches it first.
        let bound = node.is_some_and(|node| bind_memory(memory, size, node).is_ok());
        Arc::new(Self {
            memory,
            layout,
            bound,
            slot,
            made: AtomicUsize::new(0),
        })
    }

    /// Returns whether the page may be freed before its pool. A stock has few small pages.
    pub(super) fn is_large(&self) -> bool {
        self.layout.size() >= LARGEST_PAGE
    }

    pub(super) fn address(&self) -> usize {
        self.memory.addr().get()
    }

    /// Returns the number of slots with a header.
    pub(super) fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    /// Returns whether no slot of the page has a reference. Only the owner calls this, with all slots of the page in
    /// its lists.
    pub(super) fn is_vacant(&self) -> bool {
        (0..self.made()).all(|index| {
            // SAFETY: the index is below `made`, so there is a header, and the page is held.
            let header = unsafe {
                self.memory
                    .byte_add(index * self.slot)
                    .cast::<Header>()
                    .as_ref()
            };
            header.refs.load(Ordering::Relaxed) == 0
        })
    }
}

/// The stocks of one owner, by operation type.
#[derive(Default)]
pub(crate) struct Stocks {
    stocks: Vec<Stock>,
    /// The index of the stock that was wanted last.
    last: usize,
    /// The owner is the core.
    of_core: bool,
}

impl Stocks {
    pub(crate) fn of_core() -> Self {
        Self {
            of_core: true,
            ..Self::default()
        }
    }

    /// Drops the stocks at the end of the locality.
    pub(crate) fn clear(&mut self) {
        self.stocks.clear();
    }

    /// See [`Stock::look`].
    pub(crate) fn look(&mut self) {
        self.stocks.iter_mut().for_each(Stock::look);
    }

    /// Frees memory that the last look found, for a short time. Returns the number of bytes, or `None` if there is
    /// nothing left to do.
    pub(crate) fn trim(&mut self) -> Option<usize> {
        self.stocks.iter_mut().find_map(Stock::trim)
    }

    /// Called after a look. Returns whether nothing can be freed for now: until slots are used, or until another thread
    /// gives back a slot, which tells the owner.
    pub(crate) fn rest(&self) -> bool {
        self.stocks.iter().all(Stock::rests)
    }

    /// Returns whether slots were used here since the stocks rested.
    pub(crate) fn are_stirred(&self) -> bool {
        self.stocks.iter().any(Stock::is_stirred)
    }

    /// Returns the stock of a type. For the first fom of the type, makes a new pool and lists it in the locality.
    #[inline(always)]
    pub(crate) fn of(&mut self, type_id: TypeId, make: impl FnOnce() -> PoolOf) -> &mut Stock {
        let known = |stock: &Stock| stock.pool.type_id == type_id;
        if self.stocks.get(self.last).is_some_and(known) {
            return &mut self.stocks[self.last];
        }
        self.last = match self.stocks.iter().position(known) {
            Some(place) => place,
            None => self.add(make()),
        };
        &mut self.stocks[self.last]
    }

    #[cold]
    fn add(&mut self, of: PoolOf) -> usize {
        if let Some(flight) = of.env.flight() {
            flight.learn(of.graph);
        }
        let pool = Arc::new(Pool {
            vtable: of.vtable,
            env: of.env,
            home: of.home,
            place: self.of_core.then_some(self.stocks.len()),
            type_id: of.type_id,
            graph: of.graph,
            totals: Totals::default(),
            counters: OnceLock::new(),
            returns: FreeList::new(),
            pages: Mutex::new(Vec::new()),
        });
        pool.home().pools.add(Arc::clone(&pool));
        self.stocks.push(Stock::new(Arc::clone(&pool)));
        self.stocks.len() - 1
    }

    #[inline]
    fn put(&mut self, place: usize, slot: NonNull<Link>) {
        self.stocks[place].put(slot);
    }
}

/// The properties of a new pool.
pub(crate) struct PoolOf {
    pub(crate) vtable: &'static Vtable,
    pub(crate) env: EnvRef,
    pub(crate) home: usize,
    pub(crate) type_id: TypeId,
    pub(crate) graph: &'static Graph,
}

/// All pools of a locality. Any thread can list them.
#[derive(Default)]
pub(crate) struct Pools(Mutex<Vec<Arc<Pool>>>);

impl Pools {
    fn add(&self, pool: Arc<Pool>) {
        self.0.lock().push(pool);
    }

    pub(crate) fn all(&self) -> Vec<Arc<Pool>> {
        self.0.lock().clone()
    }

    /// Drops the pools, because the locality has ended. Each pool goes when its last slot comes back.
    pub(crate) fn clear(&self) {
        let pools = std::mem::take(&mut *self.0.lock());
        drop(pools);
    }

    /// Returns every fom of the locality that has not ended.
    pub(crate) fn foms(&self) -> Vec<AnyRef> {
        let mut foms = Vec::new();
        for pool in self.all() {
            let _: ControlFlow<()> = pool.visit(
                |_| true,
                |fom| {
                    foms.push(fom);
                    ControlFlow::Continue(())
                },
            );
        }
        foms
    }

    /// Returns the fom of the locality with this id, if it has not ended.
    pub(crate) fn find(&self, id: FomId) -> Option<AnyRef> {
        let is_it = |fom: &Header| fom.id() == id;
        let take = |fom: AnyRef| match is_it(&fom) {
            true => ControlFlow::Break(fom),
            false => ControlFlow::Continue(()),
        };
        let mut pools = self.all().into_iter();
        pools.find_map(|pool| pool.visit(is_it, take).break_value())
    }
}
