//! The intake: one short lock for all its events. No user code runs under the lock.
//!
//! A thread with an event (a submission, an end, a cancel) puts the event into the inbox under the lock. If the
//! dispatcher is there, the thread takes it and does the work outside of the lock. If another thread has the
//! dispatcher, the work is left to that thread: it looks into the inbox again before it puts the dispatcher back. So
//! policies, callbacks, wakers and drops of operations never run under the lock. They run one at a time, and may use
//! the intake themselves.
//!
//! No thread works for the others forever: after some rounds the work continues in a locality, between its foms.

use std::{
    collections::VecDeque,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak},
};

use fom_protocol::{
    panic_message,
    shrink::Shrink as _,
    sync::{Mutex, MutexGuard, atomic::Ordering},
};
use fom_runtime::{
    Runtime,
    error::RefusedReason,
    extension::{Attachment, PendingWork, RuntimeState},
};
use tokio::sync::oneshot;

use crate::admission::{
    AdmissionStatus, Level, Policy, Request, WhenFull, dispatcher::Dispatcher, request::Unstarted,
    status::Marks, waiting_request::Entry,
};

/// The number of rounds that one thread works for others before the work continues elsewhere. Each round handles the
/// events that came during the round before.
const ROUNDS: usize = 16;

/// An event for the dispatcher. The dispatcher handles events in order.
pub(super) enum Event {
    /// The request was let in.
    Submitted(Request),
    /// The entry waited for room, and is let in now.
    LetIn(Arc<dyn Entry>),
    /// The entry was let in without room: a request must be shed.
    Shed(Arc<dyn Entry>),
    /// A policy dropped the request.
    Fallen(Request),
    Cancel(Arc<dyn Entry>),
    Promote(Arc<dyn Entry>),
    /// The fom of this entry has ended or could not be made. The number is that of the policy that gave the request.
    Ended(Arc<dyn Entry>, u64),
    Policy(Box<dyn Policy>),
    Level(Level),
    /// Time has passed, settings have changed, or the runtime is closing.
    Look,
    Status(oneshot::Sender<AdmissionStatus>),
}

/// The settings of an intake.
pub(super) struct Settings {
    pub(super) in_flight: usize,
    pub(super) low: usize,
    pub(super) high: usize,
    pub(super) when_full: WhenFull,
    pub(super) on_level: Option<Box<dyn Fn(Level) + Send + Sync>>,
}

pub(super) struct Shared {
    pub(super) runtime: Runtime,
    pub(super) settings: Settings,
    pub(super) me: Weak<Self>,
    /// Counts the requests in the queue.
    pending: PendingWork,
    intake: Mutex<Intake>,
}

/// The state behind the lock.
struct Intake {
    inbox: Vec<Event>,
    /// `None` while a thread works.
    dispatcher: Option<Box<Dispatcher>>,
    /// Requests that were let in, and are neither started nor answered.
    queued: usize,
    full: bool,
    /// Entries that wait for room.
    waiting: VecDeque<Arc<dyn Entry>>,
    /// The number of the next request that is let in.
    next: u64,
    filled: u64,
    refused: u64,
}

impl Shared {
    pub(super) fn new(runtime: Runtime, settings: Settings, policy: Box<dyn Policy>) -> Arc<Self> {
        let shared = Arc::new_cyclic(|me| Self {
            intake: Mutex::new(Intake {
                inbox: Vec::new(),
                dispatcher: Some(Box::new(Dispatcher::new(settings.in_flight))),
                queued: 0,
                full: false,
                waiting: VecDeque::new(),
                next: 0,
                filled: 0,
                refused: 0,
            }),
            pending: runtime.extension().pending_work(),
            runtime,
            settings,
            me: Weak::clone(me),
        });
        let front: Weak<Self> = Arc::downgrade(&shared);
        shared.runtime.extension().attach(front);
        shared.deliver(Event::Policy(policy));
        shared
    }

    pub(super) fn strong(&self) -> Arc<Self> {
        match self.me.upgrade() {
            Some(me) => me,
            None => unreachable!("the caller holds this value"),
        }
    }

    pub(super) fn queued(&self) -> usize {
        self.intake.lock().queued
    }

    pub(super) fn level(&self) -> Level {
        Level::of(self.intake.lock().full)
    }

    /// Lets a request in if there is room, or if the intake sheds another request for it.
    pub(super) fn submit(&self, entry: &Arc<dyn Entry>) -> Result<(), RefusedReason> {
        // Counted before the mode is read: a shutdown that begins meanwhile waits for the request or refuses it.
        self.pending.enter();
        let mut intake = self.intake.lock();
        let refused = if !self.runtime.extension().is_accepting() {
            Some(RefusedReason::ShuttingDown)
        } else if self.settings.when_full == WhenFull::Shed || intake.has_room() {
            None
        } else {
            Some(RefusedReason::Full)
        };
        if let Some(reason) = refused {
            intake.refused += 1;
            drop(intake);
            self.pending.leave(1);
            return Err(reason);
        }
        intake.accept(self, entry);
        self.work(intake);
        Ok(())
    }

    /// Like [`submit`](Self::submit), but without room the entry waits behind the other waiting entries. Returns
    /// whether the entry is in the queue.
    pub(super) fn submit_or_wait(&self, entry: &Arc<dyn Entry>) -> Result<bool, RefusedReason> {
        self.pending.enter();
        let mut intake = self.intake.lock();
        if !self.runtime.extension().is_accepting() {
            intake.refused += 1;
            drop(intake);
            self.pending.leave(1);
            return Err(RefusedReason::ShuttingDown);
        }
        if intake.has_room() {
            intake.accept(self, entry);
            self.work(intake);
            return Ok(true);
        }
        intake.waiting.push_back(Arc::clone(entry));
        drop(intake);
        // The entry is not in the queue yet, so a drain does not wait for it.
        self.pending.leave(1);
        Ok(false)
    }

    /// Removes an entry that waits for room. Returns `false` if the entry is in the queue by now, or gone.
    pub(super) fn stop_waiting(&self, entry: &Arc<dyn Entry>) -> bool {
        let mut intake = self.intake.lock();
        let place = intake
            .waiting
            .iter()
            .position(|waiting| Arc::ptr_eq(waiting, entry));
        let found = place.and_then(|place| intake.waiting.remove(place));
        drop(intake);
        found.is_some()
    }

    /// Returns whether the runtime is closed: no request starts any more.
    pub(super) fn is_closed(&self) -> bool {
        self.runtime.extension().state() == RuntimeState::Closed
    }

    pub(super) fn deliver(&self, event: Event) {
        let mut intake = self.intake.lock();
        intake.inbox.push(event);
        self.work(intake);
    }

    pub(super) async fn status(&self) -> AdmissionStatus {
        let (tell, told) = oneshot::channel();
        self.deliver(Event::Status(tell));
        // The dispatcher answers every such event, unless its work panicked. The panic is reported elsewhere.
        told.await.unwrap_or_default()
    }

    /// Returns the part of the status that the intake holds.
    pub(super) fn marks(&self) -> Marks {
        let intake = self.intake.lock();
        Marks {
            waiting: intake.waiting.len(),
            level: Level::of(intake.full),
            filled: intake.filled,
            refused: intake.refused,
        }
    }

    /// Handles the events in the inbox, unless another thread does.
    fn work<'a>(&'a self, mut intake: MutexGuard<'a, Intake>) {
        let Some(mut dispatcher) = intake.dispatcher.take() else {
            return;
        };
        for _ in 0..ROUNDS {
            let batch = mem::replace(&mut intake.inbox, dispatcher.spare());
            drop(intake);
            let worked = catch_unwind(AssertUnwindSafe(|| dispatcher.work(self, batch)));
            if let Err(panic) = worked {
                self.runtime.report(format!(
                    "the admission queue panicked: {}",
                    panic_message(panic)
                ));
            }
            let left = dispatcher.take_left();
            if left > 0 {
                self.pending.leave(left);
            }
            intake = self.intake.lock();
            intake.one_left(self, left);
            if intake.inbox.is_empty() {
                intake.dispatcher = Some(dispatcher);
                return;
            }
        }
        intake.dispatcher = Some(dispatcher);
        drop(intake);
        let again = Continue(self.strong());
        // A refused post drops the closure, and the work continues here.
        let _ = self
            .runtime
            .post(self.runtime.extension().next_locality(), move |_| {
                drop(again)
            });
    }
}

/// Continues the work when it is dropped, also when a locality that has ended drops the job that holds it.
struct Continue(Arc<Shared>);

impl Drop for Continue {
    fn drop(&mut self) {
        let intake = self.0.intake.lock();
        if !intake.inbox.is_empty() {
            self.0.work(intake);
        }
    }
}

impl Attachment for Shared {
    fn state_changed(self: Arc<Self>, runtime: &Runtime) {
        if runtime.extension().state() == RuntimeState::Open {
            return;
        }
        let waiting = mem::take(&mut self.intake.lock().waiting);
        for entry in waiting {
            entry.answer(Unstarted::Refused(RefusedReason::ShuttingDown));
        }
        self.deliver(Event::Look);
    }
}

impl Intake {
    /// Returns whether a new request has room. Waiting entries come first.
    fn has_room(&self) -> bool {
        !self.full && self.waiting.is_empty()
    }

    fn accept(&mut self, shared: &Shared, entry: &Arc<dyn Entry>) {
        entry.tags().number.store(self.next, Ordering::Relaxed);
        self.next += 1;
        self.queued += 1;
        let request = Request::new(Arc::clone(entry), shared.strong());
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

    /// Takes back the count of `left` requests, and lets waiting entries in while there is room.
    fn one_left(&mut self, shared: &Shared, left: usize) {
        self.queued = self.queued.saturating_sub(left);
        if self.full && self.queued <= shared.settings.low {
            self.full = false;
            self.inbox.push(Event::Level(Level::Normal));
        }
        self.waiting.shrink();
        // When the runtime is closed, the waiting entries are refused.
        while !self.full
            && !shared.is_closed()
            && let Some(entry) = self.waiting.pop_front()
        {
            shared.pending.enter();
            self.inbox.push(Event::LetIn(Arc::clone(&entry)));
            self.accept(shared, &entry);
        }
    }
}
