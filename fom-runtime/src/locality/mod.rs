//! A locality: a part of the runtime where one thread at a time, the *handler*, runs foms.
//!
//! All that belongs to one locality alone is one value, the [`Core`]. Only the thread that holds the core may touch it.
//! [`Locality`] has what other threads may touch. `README.md` beside this file describes how the core goes from thread
//! to thread, and why no wake is lost.

mod block;
mod block_guess;
mod block_watch;
#[cfg(not(fom_shuttle))]
mod by_hand;
mod context;
mod core;
mod count_foms;
mod handler;
mod idle;
mod load;
mod localities;
mod move_foms;
mod move_processors;
mod parts;
mod reactor;
mod recorded;
mod run_here;
mod run_in_place;
mod sleep;
mod threads;
mod trim;

use std::{
    any::Any,
    ops::Deref,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::NonNull,
    sync::Arc,
};

use crossbeam_utils::CachePadded;

pub use self::threads::Followers;
pub(crate) use self::{
    block::{Away, enter_block, regain},
    block_watch::BlockWatch,
    context::with_core,
    core::Core,
    idle::IdleSet,
    load::{Distribution, Distributions},
    localities::{Localities, Owner, Settings},
    parts::AnyPart,
    reactor::Reactor,
    threads::Spawner,
};
use crate::{
    fom::{
        AnyRef, Env, EnvRef, Header, LocalFoms, Resident,
        hand::{Message, Parcel, context::peek},
    },
    incident::IncidentKind,
    topology::LocalityPlan,
};
use fom_protocol::{
    HandoffSlot, Reader, Watched, panic_message,
    sync::atomic::{AtomicBool, Ordering, fence},
};
pub use parts::{PartId, Pause};
pub use run_here::Ran;
pub(crate) use run_here::run_here;
pub(crate) use run_in_place::run_in_place;
pub use sleep::Sleep;

/// Work for a locality that is not a fom.
pub(crate) type Job = Box<dyn FnOnce(&mut Core) + Send>;

/// The part of a locality that every thread may touch.
#[allow(missing_debug_implementations, reason = "hidden, for `fom-durable`")]
pub struct Locality {
    pub(crate) index: usize,
    pub(crate) plan: LocalityPlan,
    /// Whether the locality's threads are bound to the processors of the plan.
    pub(crate) bound: bool,
    pub(crate) foms: Arc<LocalFoms>,
    /// The load, as the handler last saw it.
    pub(crate) load: load::Load,
    alarm: reactor::Alarm,
    /// The place where enter-block leaves the core.
    slot: HandoffSlot<Core>,
    /// The sections that the block watch watches.
    watched: CachePadded<Watched>,
    threads: threads::Threads,
    processors: move_processors::Processors,
    /// Whether the runtime wants this locality to end after its last fom.
    stopping: AtomicBool,
    reactor: reactor::Entrance,
}

impl Locality {
    pub(crate) fn new(
        index: usize,
        plan: LocalityPlan,
        bound: bool,
        node: Option<usize>,
        followers: Followers,
        reactor: &Reactor,
    ) -> Self {
        let foms = LocalFoms {
            node,
            ..LocalFoms::default()
        };
        Self {
            index,
            plan,
            bound,
            foms: Arc::new(foms),
            load: load::Load::default(),
            alarm: reactor::Alarm::default(),
            slot: HandoffSlot::new(),
            watched: CachePadded::new(Watched::new()),
            threads: threads::Threads::new(followers),
            processors: move_processors::Processors::default(),
            stopping: AtomicBool::new(false),
            reactor: reactor.entrance(),
        }
    }

    /// Puts a parcel (a fom or a message) into the inbox and wakes the thread that must read it.
    pub(crate) fn post(&self, parcel: Parcel) {
        let reader = self.inbox.push(parcel);
        self.posted(reader);
    }

    pub(crate) fn post_job(&self, job: Job) {
        self.post(Parcel::Message(Message::new(job)));
    }

    /// Wakes the thread that must read what was put into the inbox.
    pub(crate) fn posted(&self, reader: Reader) {
        self.rouse(reader);
        self.reject_when_closed();
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
                reject(parcel);
            }
            // A late parcel may have made new pools, which would keep the runtime alive forever.
            if self.released.load(Ordering::SeqCst) {
                self.release();
            }
        }
    }

    /// Gives up the memory of the locality. The memory that handles refer to lives until these handles are gone. From
    /// this call on no listing shows the foms of the locality.
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

    /// Takes back the count of a refused submission. A stopping handler may be waiting for that fom, so this wakes the
    /// handler.
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

    /// Returns the number of handler, blocked, unblocking and idle threads together.
    pub(crate) fn threads(&self) -> usize {
        self.threads.count().0
    }

    /// Returns the number of threads that are blocked or unblocking.
    pub(crate) fn blocked_threads(&self) -> usize {
        // The core lies in the slot while no other thread has taken over from a section.
        self.threads.count().1 + usize::from(self.slot.is_laid())
    }
}

impl Deref for Locality {
    type Target = LocalFoms;

    #[inline]
    fn deref(&self) -> &LocalFoms {
        &self.foms
    }
}

/// Rejects the parcel because the locality has ended. Callers that wait for its result get an error.
fn reject(parcel: Parcel) {
    match parcel {
        // No fom is expected here: a locality does not end while a fom is counted. If there is one, it gets an answer.
        Parcel::Fom(fom) => fom.reject(),
        // Dropping the job drops its end of any reply channel.
        Parcel::Message(message) => drop(message),
    }
}

/// An owned reference to a locality. It keeps the runtime alive.
#[allow(missing_debug_implementations, reason = "hidden, for `fom-durable`")]
#[derive(Clone)]
pub struct Home {
    env: EnvRef,
    /// A pointer into the runtime, which does not move. It saves the lookup at each access.
    locality: NonNull<Locality>,
}

// SAFETY: equivalent to an `EnvRef` and an index.
unsafe impl Send for Home {}
// SAFETY: as above.
unsafe impl Sync for Home {}

/// A [`Home`] that the sleeps of one locality share, so that they do not all count in the line of the runtime.
pub(crate) type SharedHome = Arc<CachePadded<Home>>;

pub(crate) fn share(home: Home) -> SharedHome {
    Arc::new(CachePadded::new(home))
}

/// The home of a core: near for the handler, and shared for the sleeps.
pub(crate) struct CoreHome {
    home: Home,
    pub(crate) shared: SharedHome,
}

impl CoreHome {
    fn new(home: Home) -> Self {
        Self {
            shared: share(home.clone()),
            home,
        }
    }
}

impl Deref for CoreHome {
    type Target = Home;

    #[inline]
    fn deref(&self) -> &Home {
        &self.home
    }
}

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
        self.env.report(
            IncidentKind::Panicked,
            format!("locality {}", self.index),
            format!("{what} locality {} panicked: {message}", self.index),
        );
    }
}

/// Queues a ready fom at its home. On the home's own thread the fom goes straight into the run queue. The caller keeps
/// the runtime alive, because the fom may be gone as soon as it is queued.
#[inline]
pub fn enqueue(localities: &Localities, fom: Resident) {
    let index = fom.home_index();
    // SAFETY: only pointers are queued; no user code runs before the guard drops.
    if let Some(mut hand) = unsafe { peek() }
        && hand.is(&localities.env, index)
    {
        hand.enqueue_after_mail(fom);
        return;
    }
    post_fom(localities, index, fom);
}

#[cold]
#[inline(never)]
fn post_fom(localities: &Localities, index: usize, fom: Resident) {
    localities[index].post(Parcel::Fom(fom));
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
