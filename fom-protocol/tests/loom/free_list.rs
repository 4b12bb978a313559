use super::*;

/// A small pool: its parts are freed when the last slot is back.
struct Pool {
    returns: FreeList,
    slots: [Content; 2],
    freed: AtomicUsize,
    told: AtomicUsize,
}

// SAFETY: only the holder of a slot touches its content; the model checks that these accesses are ordered.
unsafe impl Sync for Pool {}
// SAFETY: as above.
unsafe impl Send for Pool {}

impl Pool {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            returns: FreeList::new(),
            slots: [0, 1].map(|n| Content {
                link: Link::new(),
                pusher: n,
                content: UnsafeCell::new(0),
                alive: None,
            }),
            freed: AtomicUsize::new(0),
            told: AtomicUsize::new(0),
        })
    }

    /// The holder of slot `n` uses it for the last time and puts it back.
    fn put(&self, n: usize) {
        let slot = &self.slots[n];
        // SAFETY: the slot belongs to the caller.
        slot.content.with_mut(|content| unsafe { *content = 1 });
        let tell = || {
            // The caller still has its slot, so the pool is alive.
            assert_eq!(self.freed.load(Ordering::Relaxed), 0, "told too late");
            self.told.fetch_add(1, Ordering::Relaxed);
        };
        // SAFETY: as above, and the pool is alive as long as any thread can look at the slot.
        let returned = unsafe { self.returns.put(NonNull::from(&slot.link), tell) };
        self.free_if(returned);
    }

    fn free_if(&self, returned: Returned) {
        if returned == Returned::Last {
            assert_eq!(self.freed.fetch_add(1, Ordering::Relaxed), 0, "twice");
            // No thread uses any slot any more: all has been written, and all of it is seen here.
            for slot in &self.slots {
                // SAFETY: the model checks this.
                assert_eq!(slot.content.with(|content| unsafe { *content }), 1);
            }
        }
    }
}

/// The owner takes slots in. Their content was written before. Returns their number.
fn walk(mut list: *mut Link) -> usize {
    let mut length = 0;
    while let Some(link) = NonNull::new(list) {
        length += 1;
        // SAFETY: a link in the list is the beginning of a slot that belongs to the owner now.
        let slot = unsafe { link.cast::<Content>().as_ref() };
        // SAFETY: as above.
        assert_eq!(slot.content.with(|content| unsafe { *content }), 1);
        list = slot.link.next();
    }
    length
}

/// Slots come back while their owner takes some in and goes: none is lost or counted twice. Exactly one thread frees
/// the pool, after all the others.
///
/// Seeded: `Relaxed` for the exchange of `put`, or for the count of `left`: loom saw a race for the slot. A close that
/// counts returned slots as still in use: the pool was never freed. The same for a `put` that forgets the slots before
/// its own.
#[test]
fn puts_against_take_and_close() {
    model(|| {
        let pool = Pool::new();
        let users = [0, 1].map(|n| {
            let pool = Arc::clone(&pool);
            thread::spawn(move || pool.put(n))
        });
        let taken = walk(pool.returns.take());
        let returned = pool.returns.close(|back| 2 - taken - walk(back));
        pool.free_if(returned);
        for user in users {
            user.join().unwrap();
        }
        assert_eq!(pool.freed.load(Ordering::Relaxed), 1);
    });
}

/// With no slot in use, the owner is the last.
#[test]
fn closed_with_all_back() {
    model(|| {
        let pool = Pool::new();
        pool.put(0);
        pool.put(1);
        let returned = pool.returns.close(|back| 2 - walk(back));
        assert_eq!(returned, Returned::Last);
    });
}

/// After an owner has stopped looking, it is told of the slots that come back, and finds them.
///
/// Seeded: a `put` that removes the mark and does not tell: the owner was not told. The same for a `watch` that loses a
/// slot.
#[test]
fn puts_against_watch() {
    model(|| {
        let pool = Pool::new();
        let users = [0, 1].map(|n| {
            let pool = Arc::clone(&pool);
            thread::spawn(move || pool.put(n))
        });
        let mut taken = 0;
        let rests = pool.returns.watch();
        if !rests {
            taken += walk(pool.returns.take());
        }
        for user in users {
            user.join().unwrap();
        }
        let left = walk(pool.returns.take());
        assert_eq!(taken + left, 2);
        assert_eq!(pool.told.load(Ordering::Relaxed), usize::from(rests));
        let returned = pool.returns.close(|back| 2 - taken - left - walk(back));
        assert_eq!(returned, Returned::Last);
    });
}

/// The owner watches and goes. Slots that come back then tell the owner at most once, and never after the pool is
/// freed.
#[test]
fn puts_against_watch_and_close() {
    model(|| {
        let pool = Pool::new();
        let users = [0, 1].map(|n| {
            let pool = Arc::clone(&pool);
            thread::spawn(move || pool.put(n))
        });
        let _ = pool.returns.watch();
        let returned = pool.returns.close(|back| 2 - walk(back));
        pool.free_if(returned);
        for user in users {
            user.join().unwrap();
        }
        assert_eq!(pool.freed.load(Ordering::Relaxed), 1);
        assert!(pool.told.load(Ordering::Relaxed) <= 1);
    });
}
