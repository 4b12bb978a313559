//! A locality: a partition of the machine where one handler thread runs at a time.
//!
//! All that belongs to a locality alone is one value, the [`Core`], and only the thread that holds it may touch it. What
//! other threads may touch is in [`Locality`]. How the core goes from thread to thread stands in `README.md` beside
//! this file, with the reasons why no wake is lost.

mod block;
mod core;
mod crew;
mod handler;
mod here;
mod queue;
mod reactor;
mod registry;
mod timers;
#[allow(dead_code, reason = "the locality's timers are moved to it next")]
mod wheel;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crossbeam_utils::CachePadded;

pub use self::crew::Followers;
pub(crate) use self::{
    block::{Away, enter_block},
    core::Core,
    crew::Spawner,
    here::{is_taken, runs_fom_of, spend, spent, with_core},
    reactor::Reactor,
    timers::TimerKey,
};
use crate::{
    clock::Moved,
    fom::{AnyFom, panic_message},
    protocol::{Inbox, Link, Linked, Reader, Slot},
    runtime::{Types, World},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    topology::LocalityPlan,
};

/// What is put into the inbox of a locality: a fom that is new or was woken, or a job.
pub(crate) trait Parcel: Send + Sync {
    fn link(&self) -> &Link<dyn Parcel>;
    /// On the thread that holds the core.
    fn deliver(self: Arc<Self>, core: &mut Core);
    /// The locality has ended: whoever waits for it must hear so.
    fn reject(self: Arc<Self>);
}

impl Linked for dyn Parcel {
    fn link(&self) -> &Link<dyn Parcel> {
        Parcel::link(self)
    }
}

/// Work for a locality that is no fom.
pub(crate) type Job = Box<dyn FnOnce(&mut Core) + Send>;

struct Message {
    link: Link<dyn Parcel>,
    job: Mutex<Option<Job>>,
}

impl Parcel for Message {
    fn link(&self) -> &Link<dyn Parcel> {
        &self.link
    }

    fn deliver(self: Arc<Self>, core: &mut Core) {
        if let Some(job) = self.job.lock().take() {
            core.jobs.push_back(job);
        }
    }

    fn reject(self: Arc<Self>) {
        // Dropping the job drops its end of whatever it would have answered.
        let job = self.job.lock().take();
        drop(job);
    }
}

/// The part of a locality that every thread may touch.
pub(crate) struct Locality {
    pub(crate) index: usize,
    pub(crate) plan: LocalityPlan,
    /// Whether its threads are bound to the processors of the plan.
    pub(crate) bound: bool,
    pub(crate) world: Arc<World>,
    /// Foms here that were submitted and have not ended. On a cache line of its own, as all that other threads write to.
    pub(crate) live: CachePadded<AtomicUsize>,
    pub(crate) registry: registry::Registry,
    /// Totals of the foms here, so that no count is written by two localities.
    pub(crate) types: Types,
    /// How many foms are in the run queue, as the handler last saw it.
    pub(crate) ready: AtomicUsize,
    inbox: CachePadded<Inbox<dyn Parcel>>,
    alarm: reactor::Alarm,
    /// Where enter-block leaves the core.
    slot: Slot<Core>,
    crew: crew::Crew,
    /// The runtime wants this locality to end when its last fom has.
    stopping: AtomicBool,
    /// It has ended; what is posted now is rejected.
    closed: AtomicBool,
    reactor: reactor::Entrance,
}

impl Locality {
    pub(crate) fn new(
        index: usize,
        plan: LocalityPlan,
        bound: bool,
        world: Arc<World>,
        followers: Followers,
        reactor: &Reactor,
    ) -> Arc<Self> {
        Arc::new(Self {
            index,
            plan,
            bound,
            world,
            live: CachePadded::new(AtomicUsize::new(0)),
            registry: registry::Registry::default(),
            types: Types::default(),
            ready: AtomicUsize::new(0),
            inbox: CachePadded::new(Inbox::new()),
            alarm: reactor::Alarm::default(),
            slot: Slot::new(),
            crew: crew::Crew::new(followers),
            stopping: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            reactor: reactor.entrance(),
        })
    }

    /// Creates the first threads and gives one of them the core.
    pub(crate) fn start(self: &Arc<Self>, reactor: Reactor) -> std::io::Result<()> {
        self.crew.muster(self)?;
        self.slot
            .put(Box::new(Core::new(Arc::clone(self), reactor)));
        self.crew.wake_one();
        Ok(())
    }

    /// Puts a parcel into the inbox and wakes whoever must read it.
    pub(crate) fn post(&self, parcel: Arc<dyn Parcel>) {
        if let Some(reader) = self.inbox.push(parcel) {
            self.rouse(reader);
        }
        self.reject_when_closed();
    }

    pub(crate) fn post_job(&self, job: Job) {
        self.post(Arc::new(Message {
            link: Link::new(),
            job: Mutex::new(Some(job)),
        }));
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
        }
    }

    /// Tells every fom to end that has not been told. `true` when there was one: also one whose submission was taken just
    /// before the runtime closed, and that nobody else saw.
    pub(crate) fn sweep(&self) -> bool {
        let untold: Vec<_> = self
            .registry
            .all()
            .into_iter()
            .filter(|fom| !fom.header().is_shut_down())
            .collect();
        let found = !untold.is_empty();
        untold.into_iter().for_each(crate::fom::shut_down);
        found
    }

    /// Lets the locality end once its last fom has.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.poke();
    }

    /// Calls code of the user's that belongs to no fom: a panic in it is reported, and the handler goes on.
    fn fenced(&self, what: &str, f: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(f)) {
            let message = panic_message(panic);
            self.world.incident(format!(
                "{what} locality {} panicked: {message}",
                self.index
            ));
        }
    }

    /// Whether it has ended: nothing that is posted runs any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Handler, blocked, unblocking and idle threads together, and how many of them are blocked or unblocking.
    pub(crate) fn threads(&self) -> (usize, usize) {
        self.crew.count()
    }
}

impl Moved for Locality {
    fn moved(&self) {
        self.poke();
    }
}

/// Puts a fom that became ready where its home will find it: straight into the run queue on its own thread.
pub(crate) fn enqueue(fom: Arc<dyn AnyFom>) {
    let mut fom = Some(fom);
    with_core(|core| {
        if let Some(ready) = fom.take_if(|fom| Arc::ptr_eq(&fom.header().home, &core.home)) {
            // This thread may have put something into the inbox while its core was out of reach (`Cx::local`): that came
            // first.
            if core.home.inbox.has_mail() {
                core.drain();
            }
            core.enqueue(ready);
        }
    });
    if let Some(fom) = fom {
        let home = Arc::clone(&fom.header().home);
        home.post(fom);
    }
}
