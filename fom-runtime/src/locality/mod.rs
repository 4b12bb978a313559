//! A locality: a partition of the machine where one handler thread runs at a time.
//!
//! All that belongs to a locality alone is one value, the [`Core`], and only the thread that holds it may touch it. What
//! other threads may touch is in [`Locality`]. How the core goes from thread to thread stands in `README.md` beside
//! this file, with the reasons why no wake is lost.

mod block;
mod chores;
mod core;
mod crew;
mod estimates;
mod give;
mod handler;
pub(crate) mod here;
mod idle;
mod lend;
mod outlook;
mod pace;
mod patrol;
mod queue;
mod reactor;
mod timers;
mod trim;
mod wheel;

use std::{
    ops::Deref,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::{self, NonNull},
    sync::Arc,
};

use crossbeam_utils::CachePadded;

pub use self::crew::Followers;
pub(crate) use self::{
    block::{Away, enter_block, regain_leaked},
    chores::Chores,
    core::Core,
    crew::Spawner,
    estimates::{Estimate, Estimates, Gauge, Gauges, estimate},
    here::{has_core, is_taken, peek, running, runs_fom_of, runs_foms, with_core},
    idle::IdleSet,
    patrol::Patrol,
    reactor::Reactor,
    timers::{Sleeper, Timer, Timers},
};
use crate::{
    fom::{AnyRef, Pool, Pools, Resident, Stocks, panic_message},
    protocol::{Counts, Inbox, Link, Linked, Reader, Slot, Watched},
    runtime::World,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering, fence},
    },
    topology::LocalityPlan,
};

/// Work for a locality that is no fom.
pub(crate) type Job = Box<dyn FnOnce(&mut Core) + Send>;

/// What is put into the inbox of a locality: a fom that is new or was woken, or a job.
pub(crate) enum Parcel {
    Fom(Resident),
    Job(Job),
}

/// A job in the inbox. Laid out as a fom's header begins: who takes a link out tells by the pool which it is.
#[repr(C)]
struct Message {
    link: Link,
    pool: *const Pool,
    job: Job,
}

// SAFETY: a fom's header and a boxed message do not move, and both begin with their link.
unsafe impl Linked for Parcel {
    fn into_link(self) -> NonNull<Link> {
        match self {
            Self::Fom(fom) => fom.into_link(),
            Self::Job(job) => {
                let message = Box::new(Message {
                    link: Link::new(),
                    pool: ptr::null(),
                    job,
                });
                NonNull::from(Box::leak(message)).cast()
            }
        }
    }

    unsafe fn from_link(link: NonNull<Link>) -> Self {
        // SAFETY: behind the link of a fom or a message stands its pool.
        let pool = unsafe { (&raw const (*link.cast::<Message>().as_ptr()).pool).read() };
        if pool.is_null() {
            // SAFETY: only a message has none; it was leaked in `into_link`.
            let message = unsafe { Box::from_raw(link.cast::<Message>().as_ptr()) };
            Self::Job(message.job)
        } else {
            // SAFETY: it is a fom's.
            Self::Fom(unsafe { Resident::from_link(link) })
        }
    }
}

/// The part of a locality that every thread may touch.
pub(crate) struct Locality {
    pub(crate) index: usize,
    pub(crate) plan: LocalityPlan,
    /// Whether its threads are bound to the processors of the plan.
    pub(crate) bound: bool,
    pub(crate) counts: Counts,
    /// Where its foms are, and their totals by operation type.
    pub(crate) pools: Pools,
    /// What its adaptive phases are given.
    pub(crate) gauges: Gauges,
    /// Memory for the foms that are submitted from elsewhere.
    pub(crate) outer: Mutex<Stocks>,
    /// Whether a part of this memory, or of the handler's own, may be given back later.
    pub(crate) trims: trim::Trims,
    /// How many foms are in the run queue, as the handler last saw it.
    pub(crate) ready: AtomicUsize,
    inbox: CachePadded<Inbox<Parcel>>,
    alarm: reactor::Alarm,
    /// Where enter-block leaves the core.
    slot: Slot<Core>,
    /// The sections that the patrol looks after.
    watched: CachePadded<Watched>,
    crew: crew::Crew,
    processors: lend::Processors,
    /// The runtime wants this locality to end when its last fom has.
    stopping: AtomicBool,
    /// It has ended; what is posted now is rejected.
    closed: AtomicBool,
    /// No fom can live in its memory any more.
    released: AtomicBool,
    reactor: reactor::Entrance,
}

impl Locality {
    pub(crate) fn new(
        index: usize,
        plan: LocalityPlan,
        bound: bool,
        followers: Followers,
        reactor: &Reactor,
    ) -> Self {
        Self {
            index,
            plan,
            bound,
            counts: Counts::default(),
            pools: Pools::default(),
            gauges: Gauges::default(),
            outer: Mutex::default(),
            trims: trim::Trims::default(),
            ready: AtomicUsize::new(0),
            inbox: CachePadded::new(Inbox::new()),
            alarm: reactor::Alarm::default(),
            slot: Slot::new(),
            watched: CachePadded::new(Watched::new()),
            crew: crew::Crew::new(followers),
            processors: lend::Processors::default(),
            stopping: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            released: AtomicBool::new(false),
            reactor: reactor.entrance(),
        }
    }

    /// Puts a parcel into the inbox and wakes whoever must read it.
    pub(crate) fn post(&self, parcel: Parcel) {
        let reader = self.inbox.push(parcel);
        self.rouse(reader);
        self.reject_when_closed();
    }

    pub(crate) fn post_job(&self, job: Job) {
        self.post(Parcel::Job(job));
    }

    /// Makes the handler look round once more.
    pub(crate) fn poke(&self) {
        let reader = self.inbox.poke();
        self.rouse(reader);
    }

    fn rouse(&self, reader: Reader) {
        match reader {
            Reader::Awake => {}
            Reader::Asleep => self.alarm.ring(),
            Reader::Missing => self.crew.wake_one(),
        }
    }

    /// After the end there is no reader: whoever puts something in takes it out again. The last reader sets `closed`
    /// before its last drain, so one of the two sees the parcel.
    fn reject_when_closed(&self) {
        if self.is_closed() {
            for parcel in self.inbox.drain() {
                parcel.reject();
            }
            // What came too late may have made pools anew, which would keep the runtime for ever.
            if self.released.load(Ordering::SeqCst) {
                self.release();
            }
        }
    }

    /// Gives its memory up. What handles still refer to lives until they are gone. From then on no listing shows its
    /// foms.
    pub(crate) fn release(&self) {
        self.released.store(true, Ordering::SeqCst);
        self.pools.clear();
        self.outer.lock().clear();
    }

    /// Lets the locality end once its last fom has.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.poke();
    }

    /// A submission that was counted is refused. It may have been what a handler that is to stop took for a fom in flight: then
    /// nothing else would wake it.
    pub(crate) fn take_back(&self) {
        self.counts.one_back();
        // Either the handler sees the count after it was told to stop, or this sees that it was.
        if self.stopping.load(Ordering::SeqCst) {
            self.poke();
        }
    }

    /// The same of so many.
    pub(crate) fn take_back_all(&self, foms: u64) {
        self.counts.back(foms);
        if self.stopping.load(Ordering::SeqCst) {
            self.poke();
        }
    }

    /// Whether it has ended: nothing that is posted runs any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Handler, blocked, unblocking and idle threads together.
    pub(crate) fn threads(&self) -> usize {
        self.crew.count().0
    }
}

impl Parcel {
    /// The locality has ended: whoever waits for it hears so.
    fn reject(self) {
        match self {
            // A locality does not end while one is counted, so there is none; if there were, it would be answered.
            Self::Fom(fom) => fom.reject(),
            // Dropping the job drops its end of whatever it would have answered.
            Self::Job(job) => drop(job),
        }
    }
}

/// A locality with the runtime that it is of, to be kept.
#[derive(Clone)]
pub(crate) struct Home {
    world: Arc<World>,
    /// In `world`, which does not move: found once instead of at each look.
    locality: NonNull<Locality>,
}

// SAFETY: as good as an `Arc<World>` and an index.
unsafe impl Send for Home {}
// SAFETY: as above.
unsafe impl Sync for Home {}

impl Deref for Home {
    type Target = Locality;

    #[inline]
    fn deref(&self) -> &Locality {
        // SAFETY: the runtime owns its localities until it is dropped, and this holds the runtime.
        unsafe { self.locality.as_ref() }
    }
}

impl Home {
    pub(crate) fn new(world: Arc<World>, index: usize) -> Self {
        let locality = NonNull::from(&world.localities[index]);
        Self { world, locality }
    }

    #[inline]
    pub(crate) fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// Whether it is this locality of this runtime.
    #[inline]
    pub(crate) fn is(&self, world: &World, index: usize) -> bool {
        ptr::eq(Arc::as_ptr(&self.world), world) && self.index == index
    }

    /// Wakes every fom that waits here, so that it sees the shutdown. `true` when there was one. Only the handler.
    pub(crate) fn sweep(&self) -> bool {
        let localities = &self.world.localities;
        // One that was moved here has its memory elsewhere.
        let pools = if self.world.balance.moves_foms() {
            localities
        } else {
            &localities[self.index..=self.index]
        };
        let mut found = false;
        // Whoever begins to wait meanwhile, elsewhere, is seen here, or sees that the runtime is closed.
        fence(Ordering::SeqCst);
        for fom in pools.iter().flat_map(|home| home.pools.foms()) {
            found |= fom.home_index() == self.index && fom.sweep();
        }
        found
    }

    /// Whether a thread comes back from leave-block.
    #[inline]
    pub(crate) fn somebody_returns(&self) -> bool {
        self.crew.somebody_returns()
    }

    /// Creates the first threads and gives one of them the core.
    pub(crate) fn start(&self, reactor: Reactor) -> std::io::Result<()> {
        self.crew.muster(self)?;
        self.slot.put(Box::new(Core::new(self.clone(), reactor)));
        self.crew.wake_one();
        Ok(())
    }

    /// Calls code of the user's that belongs to no fom: a panic in it is reported, and the handler goes on.
    pub(crate) fn fenced(&self, what: &str, f: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(f)) {
            let message = panic_message(panic);
            self.world.incident(format!(
                "{what} locality {} panicked: {message}",
                self.index
            ));
        }
    }
}

/// Puts a fom that became ready where its home will find it: straight into the run queue on its own thread. The caller keeps
/// the runtime: the fom may be gone as soon as it is in.
#[inline]
pub(crate) fn enqueue(world: &World, fom: Resident) {
    let index = fom.home_index();
    // SAFETY: only pointers are queued; no code of users runs.
    match unsafe { peek() } {
        Some(mut core) if core.home.is(world, index) => core.enqueue_after_mail(fom),
        _ => post_fom(world, index, fom),
    }
}

/// As [`enqueue`], one that was just woken.
#[inline(never)]
pub(crate) fn enqueue_woken(world: &World, fom: Resident) {
    let index = fom.home_index();
    // SAFETY: as in `enqueue`.
    match unsafe { peek() } {
        Some(mut core) if core.home.is(world, index) => core.enqueue_ready(fom),
        _ => post_fom(world, index, fom),
    }
}

#[cold]
#[inline(never)]
fn post_fom(world: &World, index: usize, fom: Resident) {
    world.localities[index].post(Parcel::Fom(fom));
}

/// Whether this thread holds the core of this locality.
#[inline]
pub(crate) fn holds(world: &World, index: usize) -> bool {
    // SAFETY: only pointers are compared.
    unsafe { peek() }.is_some_and(|core| core.home.is(world, index))
}

/// The locality of this runtime that this thread holds the core of.
#[inline]
pub(crate) fn here_in(world: &World) -> Option<usize> {
    // SAFETY: as in `holds`.
    let core = unsafe { peek() }?;
    let index = core.home.index;
    core.home.is(world, index).then_some(index)
}

/// Runs `f` soon, on the thread that holds the core of the fom's home, which it stays while `f` runs.
pub(crate) fn at_home_of(fom: AnyRef, f: impl FnOnce(&AnyRef) + Send + 'static) {
    let home = fom.home_owned();
    home.post_job(Box::new(move |core| {
        if core.home.is(fom.world(), fom.home_index()) {
            f(&fom);
        } else {
            // It was moved while this was on its way.
            at_home_of(fom, f);
        }
    }));
}

/// A step of a fom was made, and counts against its budget: the time, as it was a few steps ago, and whether the fom must go to
/// the tail.
#[inline]
pub(crate) fn step(world: &World) -> (u64, bool) {
    // SAFETY: the clock is the runtime's own, so no code of users runs.
    match unsafe { peek() } {
        Some(mut core) => {
            let core = &mut *core;
            let now = core.pace.step(&core.home.world.clock);
            (now, core.pace.spend())
        }
        // User code has leaked its guard of a blocking section. That state ends with the run.
        None => (away(world), true),
    }
}

/// The time for who has no core.
#[cold]
#[inline(never)]
fn away(world: &World) -> u64 {
    world.clock.nanos()
}

/// The first step of a fom, which is free: else a thread that loses its processor just before it would send a fom to the tail
/// that has not run at all, behind those that were submitted after it.
#[inline]
pub(crate) fn first_step(world: &World) -> u64 {
    // SAFETY: as in `step`.
    match unsafe { peek() } {
        Some(mut core) => {
            let core = &mut *core;
            core.pace.step(&core.home.world.clock)
        }
        None => away(world),
    }
}

/// The time as it is.
pub(crate) fn look(world: &World) -> u64 {
    // SAFETY: as in `step`.
    match unsafe { peek() } {
        Some(mut core) => {
            let core = &mut *core;
            core.pace.look(&core.home.world.clock)
        }
        None => away(world),
    }
}

/// Whether the running fom must go to the tail.
#[inline]
pub(crate) fn spent() -> bool {
    // SAFETY: only a number is read.
    unsafe { peek() }.is_none_or(|core| core.pace.spent())
}

/// The time as it was a few steps ago, on a thread that holds a core.
#[inline]
pub(crate) fn now(world: &World) -> u64 {
    // SAFETY: as in `spent`.
    unsafe { peek() }.map_or_else(|| away(world), |core| core.now())
}
