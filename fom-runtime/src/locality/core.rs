//! The core: all that belongs to one locality alone. Whoever holds it is the handler.

use std::{any::Any, collections::VecDeque, sync::Arc};

use tokio::sync::oneshot;

use crate::{
    fom::AnyFom,
    locality::{Job, Locality, Reactor, queue::RunQueue, timers::Timers},
    protocol::FomState,
    sync::atomic::Ordering,
};

pub(crate) struct Core {
    pub(crate) home: Arc<Locality>,
    pub(crate) timers: Timers,
    pub(crate) jobs: VecDeque<Job>,
    /// The fom that runs on the thread that holds the core.
    pub(crate) running: Option<Arc<dyn AnyFom>>,
    /// The locality's own data, one value a type.
    pub(crate) data: Vec<Box<dyn Any + Send>>,
    /// Runs of foms and jobs so far.
    pub(crate) runs: u64,
    /// Who waits until there is nothing to run here.
    pub(crate) quiet: Vec<oneshot::Sender<u64>>,
    pub(super) queue: RunQueue,
    pub(super) reactor: Reactor,
    pub(super) since_turn: u32,
}

impl Core {
    pub(super) fn new(home: Arc<Locality>, reactor: Reactor) -> Self {
        Self {
            home,
            timers: Timers::default(),
            jobs: VecDeque::new(),
            running: None,
            data: Vec::new(),
            runs: 0,
            quiet: Vec::new(),
            queue: RunQueue::default(),
            reactor,
            since_turn: 0,
        }
    }

    /// To the tail of its run queue.
    pub(crate) fn enqueue(&mut self, fom: Arc<dyn AnyFom>) {
        let header = fom.header();
        if header.token.state() == FomState::Init {
            header.token.admit();
        }
        let priority = header.priority;
        self.queue.push(priority, fom);
    }

    /// The locality's data of this type.
    pub(crate) fn data_mut<T: 'static>(&mut self) -> Option<&mut T> {
        self.data.iter_mut().find_map(|data| data.downcast_mut())
    }

    /// Takes in what came meanwhile.
    pub(super) fn drain(&mut self) {
        let home = Arc::clone(&self.home);
        for parcel in home.inbox.drain() {
            parcel.deliver(self);
        }
    }

    pub(super) fn has_work(&self) -> bool {
        !self.queue.is_empty() || !self.jobs.is_empty()
    }

    /// Wakes the foms whose time has come.
    pub(super) fn fire_timers(&mut self) {
        if self.timers.is_empty() {
            return;
        }
        let now = self.home.world.clock.nanos();
        while let Some(due) = self.timers.pop_due(now) {
            due.fire(self, now);
        }
    }

    pub(super) fn publish(&self) {
        self.home.ready.store(self.queue.len(), Ordering::Relaxed);
    }

    /// Nothing to run: tells those who wait for that, unless somebody here is in a blocking section.
    pub(super) fn tell_quiet(&mut self) {
        if !self.quiet.is_empty() && self.home.threads().1 == 0 {
            let runs = self.runs;
            for waiter in self.quiet.drain(..) {
                self.home.fenced("who waited for quiet in", || {
                    // Who no longer listens need not hear.
                    let _ = waiter.send(runs);
                });
            }
        }
    }
}
