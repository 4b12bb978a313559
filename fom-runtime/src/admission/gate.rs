//! The gate: one short lock for the whole intake, and nobody's code behind it.
//!
//! Whoever has something to say (a submission, an end, a cancel) puts it into the inbox under the lock, and, if the desk is
//! there, takes it away and does the work, outside of the lock; who finds it gone leaves the work to the one who has it, and who
//! looks into the inbox again before it puts the desk back. So policies, callbacks, wakers and drops of operations never run
//! under a lock, run one at a time, and may use the intake themselves.
//!
//! Nobody works for the others for ever: after some rounds the desk goes on in a locality, between its foms.

use std::{
    collections::VecDeque,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak},
};

use tokio::sync::oneshot;

use crate::{
    admission::{
        AdmissionStatus, Level, Policy, Request, WhenFull, desk::Desk, place::Entry,
        request::Unstarted, status::Marks,
    },
    error::RefusedReason,
    fom::panic_message,
    runtime::{Front, World},
    shrink::Shrink as _,
    sync::{Mutex, MutexGuard, atomic::Ordering},
};

/// Rounds that one thread works for others, before the work goes on elsewhere. Each has what came during the one before.
const ROUNDS: usize = 16;

/// What the desk is told, in order.
pub(super) enum Event {
    /// Let in.
    Submitted(Request),
    /// It waited for room, and is let in now.
    LetIn(Arc<dyn Entry>),
    /// Let in where there is no room: one is to be shed.
    Shed(Arc<dyn Entry>),
    /// Dropped by a policy.
    Fallen(Request),
    Cancel(Arc<dyn Entry>),
    Promote(Arc<dyn Entry>),
    /// The fom of this one, which came from the policy of this number, has ended or could not be made.
    Ended(Arc<dyn Entry>, u64),
    Policy(Box<dyn Policy>),
    Level(Level),
    /// Time has passed, settings have changed, or the runtime is closing.
    Look,
    Status(oneshot::Sender<AdmissionStatus>),
}

/// What an intake was made with.
pub(super) struct Settings {
    pub(super) in_flight: usize,
    pub(super) low: usize,
    pub(super) high: usize,
    pub(super) when_full: WhenFull,
    pub(super) on_level: Option<Box<dyn Fn(Level) + Send + Sync>>,
}

pub(super) struct Shared {
    pub(super) world: Arc<World>,
    pub(super) settings: Settings,
    pub(super) me: Weak<Self>,
    gate: Mutex<Gate>,
}

/// Behind the lock.
struct Gate {
    inbox: Vec<Event>,
    /// Away while somebody works.
    desk: Option<Box<Desk>>,
    /// Let in, and neither started nor answered.
    queued: usize,
    full: bool,
    /// Those who wait for room.
    waiting: VecDeque<Arc<dyn Entry>>,
    /// The number of the next that is let in.
    next: u64,
    filled: u64,
    refused: u64,
}

impl Shared {
    pub(super) fn new(world: Arc<World>, settings: Settings, policy: Box<dyn Policy>) -> Arc<Self> {
        let shared = Arc::new_cyclic(|me| Self {
            gate: Mutex::new(Gate {
                inbox: Vec::new(),
                desk: Some(Box::new(Desk::new(settings.in_flight))),
                queued: 0,
                full: false,
                waiting: VecDeque::new(),
                next: 0,
                filled: 0,
                refused: 0,
            }),
            world,
            settings,
            me: Weak::clone(me),
        });
        let front: Weak<Self> = Arc::downgrade(&shared);
        shared.world.join_fronts(front);
        shared.deliver(Event::Policy(policy));
        shared
    }

    pub(super) fn myself(&self) -> Arc<Self> {
        match self.me.upgrade() {
            Some(me) => me,
            None => unreachable!("whoever calls this has it"),
        }
    }

    pub(super) fn queued(&self) -> usize {
        self.gate.lock().queued
    }

    pub(super) fn level(&self) -> Level {
        Level::of(self.gate.lock().full)
    }

    /// Lets a request in if there is room, or if others are shed for it.
    pub(super) fn submit(&self, entry: &Arc<dyn Entry>) -> Result<(), RefusedReason> {
        // Counted before the mode is looked at, so that a shutdown that begins meanwhile waits for it or refuses it.
        self.world.queued.one_sent();
        let mut gate = self.gate.lock();
        let refused = if self.world.is_late() {
            Some(RefusedReason::ShuttingDown)
        } else if self.settings.when_full == WhenFull::Shed || gate.has_room() {
            None
        } else {
            Some(RefusedReason::Full)
        };
        if let Some(reason) = refused {
            gate.refused += 1;
            drop(gate);
            self.leave(1);
            return Err(reason);
        }
        gate.accept(self, entry);
        self.work(gate);
        Ok(())
    }

    /// As [`submit`](Self::submit), at the tail of those who wait for room, if there is none. Says whether it is in.
    pub(super) fn submit_or_wait(&self, entry: &Arc<dyn Entry>) -> Result<bool, RefusedReason> {
        self.world.queued.one_sent();
        let mut gate = self.gate.lock();
        if self.world.is_late() {
            gate.refused += 1;
            drop(gate);
            self.leave(1);
            return Err(RefusedReason::ShuttingDown);
        }
        if gate.has_room() {
            gate.accept(self, entry);
            self.work(gate);
            return Ok(true);
        }
        gate.waiting.push_back(Arc::clone(entry));
        drop(gate);
        // It is not in the queue yet: a drain does not wait for it.
        self.leave(1);
        Ok(false)
    }

    /// Takes it away from those who wait for room; `false` when it is in the queue by now, or gone.
    pub(super) fn wait_no_more(&self, entry: &Arc<dyn Entry>) -> bool {
        let mut gate = self.gate.lock();
        let place = gate
            .waiting
            .iter()
            .position(|waiting| Arc::ptr_eq(waiting, entry));
        let found = place.and_then(|place| gate.waiting.remove(place));
        drop(gate);
        found.is_some()
    }

    /// So many have left the queue, or were not let in. Their foms, if any, are counted by then.
    fn leave(&self, left: usize) {
        for _ in 0..left {
            self.world.queued.one_back();
        }
        self.world.tell_idle();
    }

    pub(super) fn deliver(&self, event: Event) {
        let mut gate = self.gate.lock();
        gate.inbox.push(event);
        self.work(gate);
    }

    pub(super) async fn status(&self) -> AdmissionStatus {
        let (tell, told) = oneshot::channel();
        self.deliver(Event::Status(tell));
        // The desk answers whatever it is told, unless its work panicked, which is reported elsewhere.
        told.await.unwrap_or_default()
    }

    /// What of the status stands here.
    pub(super) fn marks(&self) -> Marks {
        let gate = self.gate.lock();
        Marks {
            waiting: gate.waiting.len(),
            level: Level::of(gate.full),
            filled: gate.filled,
            refused: gate.refused,
        }
    }

    /// Does what is to be done, unless somebody is at it.
    fn work<'a>(&'a self, mut gate: MutexGuard<'a, Gate>) {
        let Some(mut desk) = gate.desk.take() else {
            return;
        };
        for _ in 0..ROUNDS {
            let batch = mem::replace(&mut gate.inbox, desk.spare());
            drop(gate);
            let worked = catch_unwind(AssertUnwindSafe(|| desk.work(self, batch)));
            if let Err(panic) = worked {
                self.world.incident(format!(
                    "the queue in front of the localities panicked: {}",
                    panic_message(panic)
                ));
            }
            let left = desk.take_left();
            if left > 0 {
                self.leave(left);
            }
            gate = self.gate.lock();
            gate.one_left(self, left);
            if gate.inbox.is_empty() {
                gate.desk = Some(desk);
                return;
            }
        }
        gate.desk = Some(desk);
        drop(gate);
        let next = self.world.turn.fetch_add(1, Ordering::Relaxed) % self.world.localities.len();
        let again = GoOn(self.myself());
        self.world.localities[next].post_job(Box::new(move |_| drop(again)));
    }
}

/// Goes on with the work when it is dropped: also when a locality that has ended drops the job that it is in.
struct GoOn(Arc<Shared>);

impl Drop for GoOn {
    fn drop(&mut self) {
        let gate = self.0.gate.lock();
        if !gate.inbox.is_empty() {
            self.0.work(gate);
        }
    }
}

impl Front for Shared {
    fn mode_changed(&self) {
        if !self.world.takes_nothing() {
            return;
        }
        let waiting = mem::take(&mut self.gate.lock().waiting);
        for entry in waiting {
            entry.answer(Unstarted::Refused(RefusedReason::ShuttingDown));
        }
        self.deliver(Event::Look);
    }
}

impl Gate {
    /// Those who wait come first.
    fn has_room(&self) -> bool {
        !self.full && self.waiting.is_empty()
    }

    fn accept(&mut self, shared: &Shared, entry: &Arc<dyn Entry>) {
        entry.tags().number.store(self.next, Ordering::Relaxed);
        self.next += 1;
        self.queued += 1;
        let request = Request::new(Arc::clone(entry), shared.myself());
        self.inbox.push(Event::Submitted(request));
        if self.queued > shared.settings.high {
            self.inbox.push(Event::Shed(Arc::clone(entry)));
        }
        if self.queued >= shared.settings.high && !self.full {
            self.full = true;
            self.filled += 1;
            self.inbox.push(Event::Level(Level::Full));
        }
    }

    /// So many have left: there may be room again.
    fn one_left(&mut self, shared: &Shared, left: usize) {
        self.queued = self.queued.saturating_sub(left);
        if self.full && self.queued <= shared.settings.low {
            self.full = false;
            self.inbox.push(Event::Level(Level::Normal));
        }
        self.waiting.shrink();
        // Those who wait are refused, when the runtime is closed.
        while !self.full
            && !shared.world.is_closed()
            && let Some(entry) = self.waiting.pop_front()
        {
            shared.world.queued.one_sent();
            self.inbox.push(Event::LetIn(Arc::clone(&entry)));
            self.accept(shared, &entry);
        }
    }
}
