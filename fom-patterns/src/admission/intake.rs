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
    borrow::Cow,
    collections::VecDeque,
    mem,
    sync::{Arc, OnceLock, Weak, mpsc},
};

use crate::admission::{
    AdmissionStatus, Level, Policy, Request, WhenFull,
    dispatcher::Dispatcher,
    waiting_request::{Unstarted, WaitingRequest},
};
use fom_protocol::{
    caught,
    shrink::Shrink as _,
    sync::{Mutex, MutexGuard, atomic::Ordering},
};
use fom_runtime::{
    Runtime,
    error::RefusedReason,
    extension::{Attachment, Listing, PendingWork, RuntimeState},
    observe::IncidentKind,
};

/// The number of rounds that one thread works for others before the work continues elsewhere. Each round handles the
/// events that came during the round before.
const ROUNDS: usize = 16;

/// An event for the dispatcher. The dispatcher handles events in order.
pub(super) enum Event {
    /// The request was let in.
    Submitted(Request),
    /// The request waited for room, and is let in now.
    LetIn(Arc<WaitingRequest>),
    /// The request was let in without room: a request must be shed.
    Shed(Arc<WaitingRequest>),
    /// A policy dropped the request.
    Fallen(Request),
    Cancel(Arc<WaitingRequest>),
    Promote(Arc<WaitingRequest>),
    /// Promotes the oldest request of this client. The answer is whether there was one.
    PromoteClient(String, mpsc::Sender<bool>),
    /// The fom of this request has ended or could not be made.
    Ended(Arc<WaitingRequest>),
    Policy(Box<dyn Policy>),
    Level(Level),
    /// Time has passed, settings have changed, or the runtime is closing.
    Look,
    Status(Box<dyn FnOnce(AdmissionStatus) + Send>),
}

/// The settings of an intake.
pub(super) struct Settings {
    pub(super) name: Cow<'static, str>,
    pub(super) in_flight: usize,
    pub(super) low: usize,
    pub(super) high: usize,
    pub(super) when_full: WhenFull,
    pub(super) on_level: Option<Box<dyn Fn(Level) + Send + Sync>>,
}

pub(super) struct Shared {
    pub(super) runtime: Runtime,
    pub(super) settings: Settings,
    /// Counts the requests in the queue.
    pending: PendingWork,
    intake: Mutex<Intake>,
    /// Set when the intake is made.
    pub(super) listing: OnceLock<Listing>,
}

/// The state behind the lock.
#[derive(Default)]
struct Intake {
    inbox: Vec<Event>,
    /// `None` while a thread works.
    dispatcher: Option<Box<Dispatcher>>,
    /// Requests that were let in, and are neither started nor answered.
    queued: usize,
    level: Level,
    /// Requests that wait for room.
    waiting: VecDeque<Arc<WaitingRequest>>,
    /// The number of the next request that is let in.
    next: u64,
    filled: u64,
    refused: u64,
}

impl Shared {
    pub(super) fn new(runtime: Runtime, settings: Settings, policy: Box<dyn Policy>) -> Arc<Self> {
        let shared = Arc::new(Self {
            intake: Mutex::new(Intake {
                dispatcher: Some(Box::new(Dispatcher::new(&runtime))),
                ..Intake::default()
            }),
            pending: runtime.extension().pending_work(),
            runtime,
            settings,
            listing: OnceLock::new(),
        });
        let front: Weak<Self> = Arc::downgrade(&shared);
        let listed: Weak<Self> = Arc::downgrade(&shared);
        let extension = shared.runtime.extension();
        extension.attach(front);
        // It is set once.
        let _ = shared.listing.set(extension.list(listed));
        shared.deliver(Event::Policy(policy));
        shared
    }

    pub(super) fn queued(&self) -> usize {
        self.intake.lock().queued
    }

    pub(super) fn level(&self) -> Level {
        self.intake.lock().level
    }

    /// Lets a request in if there is room, or if the intake sheds another request for it. Without room, a request that
    /// `waits` waits behind the others that do. Returns whether the request is in the queue.
    pub(super) fn submit(
        self: &Arc<Self>,
        request: Arc<WaitingRequest>,
        waits: bool,
    ) -> Result<bool, RefusedReason> {
        // Counted before the mode is read: a shutdown that begins meanwhile waits for the request or refuses it.
        self.pending.enter();
        let mut intake = self.intake.lock();
        let sheds = !waits && self.settings.when_full == WhenFull::Shed;
        let outcome = if !self.runtime.extension().is_accepting() {
            Err(self.runtime.extension().late_reason())
        } else if sheds || intake.has_room() {
            intake.accept(&self.settings, request);
            self.work(intake);
            return Ok(true);
        } else if waits {
            intake.waiting.push_back(request);
            Ok(false)
        } else {
            Err(RefusedReason::Full)
        };
        intake.refused += u64::from(outcome.is_err());
        drop(intake);
        // The request is not in the queue, so a drain does not wait for it.
        self.pending.leave(1);
        outcome
    }

    /// Removes a request that waits for room. Returns `false` if the request is in the queue by now, or gone.
    pub(super) fn stop_waiting(&self, request: &Arc<WaitingRequest>) -> bool {
        let mut intake = self.intake.lock();
        let place = intake
            .waiting
            .iter()
            .position(|waiting| Arc::ptr_eq(waiting, request));
        let found = place.and_then(|place| intake.waiting.remove(place));
        drop(intake);
        found.is_some()
    }

    /// Returns whether the runtime is closed: no request starts any more.
    pub(super) fn is_closed(&self) -> bool {
        self.runtime.extension().state() == RuntimeState::Closed
    }

    /// Returns why a request does not start in a closed runtime.
    pub(super) fn ended(&self) -> Unstarted {
        match self.runtime.extension().late_reason() {
            RefusedReason::Moved => Unstarted::Moved,
            _ => Unstarted::Shutdown,
        }
    }

    pub(super) fn deliver(self: &Arc<Self>, event: Event) {
        let mut intake = self.intake.lock();
        intake.inbox.push(event);
        self.work(intake);
    }

    /// Asks the dispatcher for the status. This can run the policies on the calling thread.
    pub(super) fn ask(self: &Arc<Self>, tell: impl FnOnce(AdmissionStatus) + Send + 'static) {
        self.deliver(Event::Status(Box::new(tell)));
    }

    /// Returns the part of the status that the intake holds. This runs no policy.
    pub(super) fn part_of_status(&self) -> AdmissionStatus {
        let intake = self.intake.lock();
        AdmissionStatus {
            name: self.settings.name.to_string(),
            queued: intake.queued,
            in_flight: self.settings.in_flight,
            waiting_for_room: intake.waiting.len(),
            level: intake.level,
            filled: intake.filled,
            refused: intake.refused,
            ..AdmissionStatus::default()
        }
    }

    /// Handles the events in the inbox, unless another thread does.
    fn work<'a>(self: &'a Arc<Self>, mut intake: MutexGuard<'a, Intake>) {
        let Some(mut dispatcher) = intake.dispatcher.take() else {
            return;
        };
        for _ in 0..ROUNDS {
            let batch = mem::replace(&mut intake.inbox, dispatcher.spare());
            drop(intake);
            if let Err(panic) = caught(|| dispatcher.work(self, batch)) {
                self.runtime.report(
                    IncidentKind::Panicked,
                    "the admission queue",
                    format!("the admission queue panicked: {panic}"),
                );
            }
            let left = dispatcher.take_left();
            if left > 0 {
                self.pending.leave(left);
            }
            intake = self.intake.lock();
            intake.leave(self, left);
            if intake.inbox.is_empty() {
                intake.dispatcher = Some(dispatcher);
                return;
            }
        }
        intake.dispatcher = Some(dispatcher);
        drop(intake);
        let again = Continue(Arc::clone(self));
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
        for request in waiting {
            request.progress.end_wait(false);
        }
        self.deliver(Event::Look);
    }
}

impl Intake {
    /// Returns whether a new request has room. Waiting requests come first.
    fn has_room(&self) -> bool {
        self.level == Level::Normal && self.waiting.is_empty()
    }

    fn accept(&mut self, settings: &Settings, request: Arc<WaitingRequest>) {
        request.tags.number.store(self.next, Ordering::Relaxed);
        self.next += 1;
        self.queued += 1;
        let submitted = Request::new(Arc::clone(&request));
        self.inbox.push(Event::Submitted(submitted));
        if self.queued > settings.high {
            self.inbox.push(Event::Shed(request));
        }
        if self.queued >= settings.high && self.level == Level::Normal {
            self.level = Level::Full;
            self.filled += 1;
            self.inbox.push(Event::Level(Level::Full));
        }
    }

    /// Takes back the count of `left` requests, and lets waiting requests in while there is room.
    fn leave(&mut self, shared: &Shared, left: usize) {
        self.queued = self.queued.saturating_sub(left);
        if self.level == Level::Full && self.queued <= shared.settings.low {
            self.level = Level::Normal;
            self.inbox.push(Event::Level(Level::Normal));
        }
        self.waiting.shrink();
        // When the runtime is closed, the waiting requests are refused.
        while self.level == Level::Normal
            && !shared.is_closed()
            && let Some(request) = self.waiting.pop_front()
        {
            shared.pending.enter();
            self.inbox.push(Event::LetIn(Arc::clone(&request)));
            self.accept(&shared.settings, request);
        }
    }
}
