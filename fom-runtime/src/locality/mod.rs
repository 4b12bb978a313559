//! A locality: a partition of the machine where one handler thread runs at a time.
//!
//! All that belongs to one locality alone is one value, the [`Core`]; only the thread that holds it may touch it. What
//! other threads may touch is in [`Locality`]. `README.md` beside this file describes how the core goes from thread to
//! thread, and why no wake is lost.

mod block;
mod block_guess;
mod block_watch;
mod budget;
mod chores;
pub(crate) mod context;
mod core;
mod estimates;
mod handler;
mod idle;
mod localities;
mod move_foms;
mod move_processors;
mod parts;
mod queue;
mod reactor;
mod run_here;
mod sleep;
mod threads;
mod timers;
mod trim;
mod wheel;

use std::{
    any::Any,
    ops::Deref,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::{self, NonNull},
    sync::Arc,
};

use crossbeam_utils::CachePadded;

pub use self::threads::Followers;
pub(crate) use self::{
    block::{Away, enter_block, regain_leaked},
    block_watch::BlockWatch,
    chores::Chores,
    context::{
        has_core, holding, is_taken, peek, running, running_any, runs_fom_of, runs_foms, with_core,
    },
    core::Core,
    estimates::{Estimate, Estimates, Gauge, Gauges, estimate},
    idle::IdleSet,
    localities::{Localities, Owner, Settings},
    parts::AnyPart,
    reactor::Reactor,
    threads::Spawner,
    timers::{Sleeper, Timer, Timers},
};
use crate::{
    fom::{AnyRef, Env, EnvRef, Header, LocalFoms, Pool, Resident},
    topology::LocalityPlan,
};
pub(crate) use budget::BudgetLimits;
use fom_protocol::{
    HandoffSlot, Inbox, Link, Linked, Reader, Watched, panic_message,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence},
};
pub use parts::{PartId, Pause};
pub use run_here::Ran;
pub(crate) use run_here::run_here;
pub use sleep::Sleep;

/// Work for a locality that is not a fom.
pub(crate) type Job = Box<dyn FnOnce(&mut Core) + Send>;

/// An item in the inbox of a locality: a fom that is new or was woken, or a job.
pub(crate) enum Parcel {
    Fom(Resident),
    Job(Job),
}

/// A job in the inbox. It begins like a fom's header, so the pool behind a link tells which of the two it is.
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

    // SAFETY: asks of its caller what the trait says.
    unsafe fn from_link(link: NonNull<Link>) -> Self {
        // SAFETY: the pool comes right after the link, in a fom as in a message.
        let pool = unsafe { (&raw const (*link.cast::<Message>().as_ptr()).pool).read() };
        if pool.is_null() {
            // SAFETY: only a message has no pool; it was leaked in `into_link`.
            let message = unsafe { Box::from_raw(link.cast::<Message>().as_ptr()) };
            Self::Job(message.job)
        } else {
            // SAFETY: the link is a fom's.
            Self::Fom(unsafe { Resident::from_link(link) })
        }
    }
}

/// The part of a locality that every thread may touch.
pub(crate) struct Locality {
    pub(crate) index: usize,
    pub(crate) plan: LocalityPlan,
    /// Whether the locality's threads are bound to the processors of the plan.
    pub(crate) bound: bool,
    pub(crate) foms: Arc<LocalFoms>,
    /// The times that its adaptive phases get.
    pub(crate) gauges: Gauges,
    /// Number of foms in the run queue, as the handler last saw it.
    pub(crate) ready: AtomicUsize,
    inbox: CachePadded<Inbox<Parcel>>,
    alarm: reactor::Alarm,
    /// The place where enter-block leaves the core.
    slot: HandoffSlot<Core>,
    /// The sections that the block watch watches.
    watched: CachePadded<Watched>,
    threads: threads::Threads,
    processors: move_processors::Processors,
    /// Whether the runtime wants this locality to end after its last fom.
    stopping: AtomicBool,
    /// Whether the locality has ended. What is posted from then on is rejected.
    closed: AtomicBool,
    /// Whether no fom can live in its memory any more.
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
            foms: Arc::default(),
            gauges: Gauges::default(),
            ready: AtomicUsize::new(0),
            inbox: CachePadded::new(Inbox::new()),
            alarm: reactor::Alarm::default(),
            slot: HandoffSlot::new(),
            watched: CachePadded::new(Watched::new()),
            threads: threads::Threads::new(followers),
            processors: move_processors::Processors::default(),
            stopping: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            released: AtomicBool::new(false),
            reactor: reactor.entrance(),
        }
    }

    /// Puts a parcel into the inbox and wakes the thread that must read it.
    pub(crate) fn post(&self, parcel: Parcel) {
        let reader = self.inbox.push(parcel);
        self.rouse(reader);
        self.reject_when_closed();
    }

    pub(crate) fn post_job(&self, job: Job) {
        self.post(Parcel::Job(job));
    }

    /// Makes the handler check everything once more.
    pub(crate) fn poke(&self) {
        let reader = self.inbox.poke();
        self.rouse(reader);
    }

    fn rouse(&self, reader: Reader) {
        match reader {
            Reader::Awake => {}
            Reader::Asleep => self.alarm.ring(),
            Reader::Missing => self.threads.wake_one(),
        }
    }

    /// After the end there is no reader, so a thread that puts something in takes it out again. The last reader sets
    /// `closed` before its last drain, so one of the two sees the parcel.
    fn reject_when_closed(&self) {
        if self.is_closed() {
            for parcel in self.inbox.drain() {
                parcel.reject();
            }
            // A late parcel may have made new pools, which would keep the runtime alive for ever.
            if self.released.load(Ordering::SeqCst) {
                self.release();
            }
        }
    }

    /// Gives up the memory of the locality. What handles still refer to lives until they are gone. From then on no
    /// listing shows its foms.
    pub(crate) fn release(&self) {
        self.released.store(true, Ordering::SeqCst);
        self.pools.clear();
        self.outer.lock().clear();
    }

    /// Lets the locality end once its last fom has ended.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.poke();
    }

    /// Takes back the count of a refused submission. A stopping handler may be waiting for that fom, so wake it.
    pub(crate) fn take_back(&self) {
        self.counts.one_back();
        // Either the handler sees the new count after the stop was set, or this thread sees the stop.
        if self.stopping.load(Ordering::SeqCst) {
            self.poke();
        }
    }

    /// Takes back the counts of this many refused foms; see [`take_back`](Self::take_back).
    pub(crate) fn take_back_all(&self, foms: u64) {
        self.counts.back(foms);
        if self.stopping.load(Ordering::SeqCst) {
            self.poke();
        }
    }

    /// Returns whether the locality has ended: nothing that is posted runs any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Returns the number of handler, blocked, unblocking and idle threads together.
    pub(crate) fn threads(&self) -> usize {
        self.threads.count().0
    }
}

impl Deref for Locality {
    type Target = LocalFoms;

    #[inline]
    fn deref(&self) -> &LocalFoms {
        &self.foms
    }
}

impl Parcel {
    /// Rejects the parcel because the locality has ended. Callers that wait for its result learn so.
    fn reject(self) {
        match self {
            // No fom is expected here: a locality does not end while a fom is counted. If there is one, it gets an
            // answer.
            Self::Fom(fom) => fom.reject(),
            // Dropping the job drops its end of any reply channel.
            Self::Job(job) => drop(job),
        }
    }
}

/// An owned reference to a locality. It keeps the runtime alive.
#[derive(Clone)]
pub(crate) struct Home {
    env: EnvRef,
    /// A pointer into the runtime, which does not move. It saves the lookup at each access.
    locality: NonNull<Locality>,
}

// SAFETY: equivalent to an `EnvRef` and an index.
unsafe impl Send for Home {}
// SAFETY: as above.
unsafe impl Sync for Home {}

impl Deref for Home {
    type Target = Locality;

    #[inline]
    fn deref(&self) -> &Locality {
        // SAFETY: the runtime owns its localities until it is dropped, and `self` keeps the runtime.
        unsafe { self.locality.as_ref() }
    }
}

impl Home {
    pub(crate) fn new(env: EnvRef, index: usize) -> Self {
        let locality = NonNull::from(&Localities::of(&env)[index]);
        Self { env, locality }
    }

    /// Returns the locality that the fom lives in.
    pub(crate) fn of(fom: &Header) -> Self {
        Self::new(fom.env().clone(), fom.home_index())
    }

    /// Returns the runtime, and what its foms share.
    #[inline]
    pub(crate) fn env(&self) -> &EnvRef {
        &self.env
    }

    /// Returns all localities of the runtime.
    #[inline]
    pub(crate) fn localities(&self) -> &Localities {
        Localities::of(&self.env)
    }

    /// Returns whether this is locality `index` of this runtime.
    #[inline]
    pub(crate) fn is(&self, env: &Env, index: usize) -> bool {
        self.env.is(env) && self.index == index
    }

    /// Wakes every fom that waits here, so that it sees the shutdown. Returns `true` if there was one. Only the handler
    /// calls this.
    pub(crate) fn sweep(&self) -> bool {
        let localities = self.localities();
        // A fom that was moved here has its memory in another locality.
        let pools = if localities.balance.moves_foms() {
            localities as &[Locality]
        } else {
            &localities[self.index..=self.index]
        };
        let mut found = false;
        // A fom that begins to wait meanwhile, elsewhere, is seen here, or sees that the runtime is closed.
        fence(Ordering::SeqCst);
        for fom in pools.iter().flat_map(|home| home.pools.foms()) {
            found |= fom.home_index() == self.index && fom.sweep();
        }
        found
    }

    /// Returns whether a thread wants the core back in leave-block.
    #[inline]
    pub(crate) fn is_awaited(&self) -> bool {
        self.threads.is_awaited()
    }

    /// Creates the first threads and gives one of them the core.
    pub(crate) fn start(&self, reactor: Reactor) -> std::io::Result<()> {
        self.threads.spawn_first(self)?;
        self.slot.put(Box::new(Core::new(self.clone(), reactor)));
        self.threads.wake_one();
        Ok(())
    }

    /// Calls user code that belongs to no fom. A panic in that code is reported, and the handler goes on.
    pub(crate) fn fenced(&self, what: &str, f: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(f)) {
            self.report_panic(what, panic);
        }
    }

    /// Reports a panic of user code that belongs to no fom.
    #[cold]
    fn report_panic(&self, what: &str, panic: Box<dyn Any + Send>) {
        let message = panic_message(panic);
        self.env.report(format!(
            "{what} locality {} panicked: {message}",
            self.index
        ));
    }
}

/// Queues a ready fom at its home: on the home's own thread straight into the run queue. The caller keeps the runtime
/// alive, because the fom may be gone as soon as it is queued.
#[inline]
pub(crate) fn enqueue(localities: &Localities, fom: Resident) {
    let index = fom.home_index();
    // SAFETY: only pointers are queued; no user code runs.
    match unsafe { peek() } {
        Some(mut core) if core.home.is(&localities.env, index) => core.enqueue_after_mail(fom),
        _ => post_fom(localities, index, fom),
    }
}

/// Queues a fom that was just woken; otherwise as [`enqueue`].
#[inline(never)]
pub(crate) fn enqueue_woken(env: &EnvRef, fom: Resident) {
    let index = fom.home_index();
    // SAFETY: as in `enqueue`.
    match unsafe { peek() } {
        Some(mut core) if core.home.is(env, index) => core.enqueue_ready(fom),
        _ => post_fom(Localities::of(env), index, fom),
    }
}

#[cold]
#[inline(never)]
fn post_fom(localities: &Localities, index: usize, fom: Resident) {
    localities[index].post(Parcel::Fom(fom));
}

/// Returns whether this thread holds the core of this locality.
#[inline]
pub(crate) fn holds(env: &Env, index: usize) -> bool {
    // SAFETY: only pointers are compared.
    unsafe { peek() }.is_some_and(|core| core.home.is(env, index))
}

/// Returns the locality of this runtime of which this thread holds the core.
#[inline]
pub(crate) fn here_in(env: &Env) -> Option<usize> {
    // SAFETY: as in `holds`.
    let core = unsafe { peek() }?;
    let index = core.home.index;
    core.home.is(env, index).then_some(index)
}

/// Runs `f` soon, on the thread that holds the core of the fom's home. The fom keeps that home while `f` runs.
pub(crate) fn at_home_of(fom: AnyRef, f: impl FnOnce(&AnyRef) + Send + 'static) {
    let home = Home::of(&fom);
    home.post_job(Box::new(move |core| {
        if core.home.is(fom.env(), fom.home_index()) {
            f(&fom);
        } else {
            // The fom was moved while the job was on its way.
            at_home_of(fom, f);
        }
    }));
}

/// Counts a step of a fom against its budget. Returns the time as of a few steps ago, and whether the fom must go to
/// the tail.
#[inline]
pub(crate) fn step(env: &Env) -> (u64, bool) {
    // SAFETY: the clock is the runtime's own, so no user code runs.
    match unsafe { peek() } {
        Some(mut core) => {
            let core = &mut *core;
            let now = core.run_budget.step(&core.home.env.clock);
            (now, core.run_budget.spend())
        }
        // User code has leaked the guard of a blocking section. That state ends with the run.
        None => (away(env), true),
    }
}

/// Returns the time for a thread that has no core.
#[cold]
#[inline(never)]
fn away(env: &Env) -> u64 {
    env.clock.nanos()
}

/// Notes the first step of a fom, which is free. Otherwise a thread might lose its processor just before that step. A
/// fom that has not run at all would then go to the tail, behind foms submitted after it.
#[inline]
pub(crate) fn first_step(env: &Env) -> u64 {
    // SAFETY: as in `step`.
    match unsafe { peek() } {
        Some(mut core) => {
            let core = &mut *core;
            core.run_budget.step(&core.home.env.clock)
        }
        None => away(env),
    }
}

/// Reads the clock.
pub(crate) fn look(env: &Env) -> u64 {
    // SAFETY: as in `step`.
    match unsafe { peek() } {
        Some(mut core) => {
            let core = &mut *core;
            core.run_budget.look(&core.home.env.clock)
        }
        None => away(env),
    }
}

/// Returns whether the running fom must go to the tail.
#[inline]
pub(crate) fn spent() -> bool {
    // SAFETY: only a number is read.
    unsafe { peek() }.is_none_or(|core| core.run_budget.spent())
}

/// Returns the time as of a few steps ago, on a thread that holds a core.
#[inline]
pub(crate) fn now(env: &Env) -> u64 {
    // SAFETY: as in `spent`.
    unsafe { peek() }.map_or_else(|| away(env), |core| core.now())
}
