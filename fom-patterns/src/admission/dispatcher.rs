//! The work behind the lock of the intake: gives requests to the policies, and starts them in the localities while
//! permits are free.

use std::{
    collections::{HashMap, VecDeque},
    mem,
    sync::Arc,
    time::Duration,
};

use fom_protocol::{caught, shrink::Shrink as _};
use fom_runtime::{
    Key, Runtime,
    extension::{Alarm, RuntimeState},
    observe::IncidentKind,
    time::Instant,
};

use crate::admission::{
    AdmissionStatus, Next, Nudge, QueueStatus, Request, Tags,
    intake::{Event, Shared},
    policy_set::PolicySet,
    series_lines::SeriesLines,
    waiting_request::{Unstarted, WaitingRequest},
};

pub(super) struct Dispatcher {
    policies: PolicySet,
    changing: Changing,
    series: SeriesLines,
    /// The number of foms that run.
    running: usize,
    timer: Option<(Instant, Alarm)>,
    /// Requests that left the queue since the last call of `take_left`.
    left: usize,
    /// The memory of the last batch, to be used again.
    spare: Vec<Event>,
    ended: u64,
    cancelled: u64,
    shed: u64,
}

/// Keeps the order of each client while an old policy is emptied.
#[derive(Default)]
struct Changing {
    /// Requests with a smaller number are older than the policy in use.
    since: u64,
    /// The number of older requests that each client has in the queue.
    older: HashMap<Option<Key>, usize>,
    /// Later requests of the same clients.
    behind: HashMap<Option<Key>, VecDeque<Request>>,
}

impl Dispatcher {
    pub(super) fn new(runtime: &Runtime) -> Self {
        Self {
            policies: PolicySet::new(runtime),
            changing: Changing::default(),
            series: SeriesLines::default(),
            running: 0,
            timer: None,
            left: 0,
            spare: Vec::new(),
            ended: 0,
            cancelled: 0,
            shed: 0,
        }
    }

    /// Returns an empty inbox.
    pub(super) fn spare(&mut self) -> Vec<Event> {
        mem::take(&mut self.spare)
    }

    /// Returns how many requests have left the queue since the last call.
    pub(super) fn take_left(&mut self) -> usize {
        mem::take(&mut self.left)
    }

    pub(super) fn work(&mut self, shared: &Arc<Shared>, mut batch: Vec<Event>) {
        let now = shared.runtime.now();
        for event in batch.drain(..) {
            self.event(shared, event, now);
        }
        self.spare = batch;
        self.start_all(shared, now);
    }

    fn event(&mut self, shared: &Arc<Shared>, event: Event, now: Instant) {
        match event {
            Event::LetIn(request) => fenced(shared, || request.progress.end_wait(true)),
            Event::Submitted(request) => self.enqueue(shared, request, now),
            Event::Fallen(request) if shared.is_closed() => {
                self.policies.one_less(request.waiting());
                self.answer(shared, request, shared.ended());
            }
            Event::Fallen(request) => self.policies.fallen(request, now),
            Event::Shed(request) => self.shed(shared, &request, now),
            // An operation that has left the queue is cancelled by its `Progress`.
            Event::Cancel(request) => {
                if let Some(request) = self.take_out(&request, now) {
                    self.cancelled += 1;
                    self.answer(shared, request, Unstarted::Cancelled);
                }
            }
            Event::Promote(request) => self.policies.promote(&request),
            Event::PromoteClient(client, tell) => {
                // The caller may have gone.
                let _ = tell.send(self.policies.promote_client(&client));
            }
            Event::Ended(request) => {
                self.running -= 1;
                self.ended += 1;
                self.policies.ended(&request);
                self.series.release(&request.tags);
                // This may be the last reference, and its drop runs user code.
                fenced(shared, || drop(request));
            }
            Event::Policy(policy) => {
                let nudge = Nudge(Arc::downgrade(shared));
                self.policies.change(policy, nudge);
                self.begin_change(now);
            }
            Event::Level(level) => {
                if let Some(on_level) = &shared.settings.on_level {
                    fenced(shared, || on_level(level));
                }
            }
            Event::Look => {}
            Event::Status(tell) => {
                let status = self.status(shared, now);
                fenced(shared, || tell(status));
            }
        }
    }

    fn enqueue(&mut self, shared: &Shared, request: Request, now: Instant) {
        if shared.is_closed() {
            self.answer(shared, request, shared.ended());
            return;
        }
        let changing = &mut self.changing;
        if !changing.older.is_empty() && changing.older.contains_key(&request.client().cloned()) {
            let client = request.client().cloned();
            changing
                .behind
                .entry(client)
                .or_default()
                .push_back(request);
            return;
        }
        self.policies.enqueue(request, now);
    }

    /// Notes that a new policy is in use: all requests queued now are older.
    fn begin_change(&mut self, now: Instant) {
        let Changing {
            since,
            older,
            behind,
        } = &mut self.changing;
        older.clear();
        let mut note = |tags: &Tags| {
            *since = (*since).max(tags.number() + 1);
            *older.entry(tags.client().cloned()).or_default() += 1;
        };
        self.policies.visit(&mut note);
        self.series.iter().for_each(|request| note(request));
        // A policy may have lost the older requests that these were behind.
        let free: Vec<_> = behind
            .extract_if(|client, _| !older.contains_key(client))
            .flat_map(|(_, requests)| requests)
            .collect();
        for request in free {
            self.policies.enqueue(request, now);
        }
    }

    /// Notes that a request starts or leaves the queue. Requests behind it may be next.
    fn gone(&mut self, tags: &Tags, now: Instant) {
        let changing = &mut self.changing;
        if changing.older.is_empty() || tags.number() >= changing.since {
            return;
        }
        let client = tags.client().cloned();
        let Some(older) = changing.older.get_mut(&client) else {
            return;
        };
        *older -= 1;
        if *older > 0 {
            return;
        }
        changing.older.remove(&client);
        changing.older.shrink();
        for request in changing.behind.remove(&client).into_iter().flatten() {
            self.policies.enqueue(request, now);
        }
        changing.behind.shrink();
    }

    fn queued(&self) -> usize {
        let behind = self.changing.behind.values();
        let behind = behind.map(VecDeque::len).sum::<usize>();
        self.policies.queued() + behind + self.series.len()
    }

    /// Takes a request out, if it has not started.
    fn take_out(&mut self, request: &Arc<WaitingRequest>, now: Instant) -> Option<Request> {
        if let Some(request) = self.series.remove(request) {
            // Its policy gave it, and may count it among those that run.
            self.policies.ended(request.waiting());
            self.gone(&request, now);
            return Some(request);
        }
        let client = request.tags.client().cloned();
        let behind = &mut self.changing.behind;
        if let Some(line) = behind.get_mut(&client) {
            let number = request.tags.number();
            let place = line.iter().position(|behind| behind.number() == number);
            let found = place.and_then(|place| line.remove(place));
            if line.is_empty() {
                behind.remove(&client);
            }
            if found.is_some() {
                return found;
            }
        }
        let request = self.policies.remove(request)?;
        self.gone(&request, now);
        Some(request)
    }

    /// Sheds a request, if there is one too many since `newest` came.
    fn shed(&mut self, shared: &Arc<Shared>, newest: &Arc<WaitingRequest>, now: Instant) {
        self.start_all(shared, now);
        if self.queued() <= shared.settings.high {
            return;
        }
        let victim = match self.policies.victim() {
            Some(request) => {
                self.gone(&request, now);
                Some(request)
            }
            None => self.take_out(newest, now),
        };
        if let Some(request) = victim {
            self.shed += 1;
            self.answer(shared, request, Unstarted::Shed);
        }
    }

    /// Answers a request that leaves the queue without having started.
    fn answer(&mut self, shared: &Shared, request: Request, why: Unstarted) {
        self.left += 1;
        fenced(shared, move || request.answer(why));
    }

    /// Starts as many requests as there are free permits.
    fn start_all(&mut self, shared: &Arc<Shared>, now: Instant) {
        if shared.is_closed() {
            let behind = mem::take(&mut self.changing.behind);
            let kept: Vec<_> = self.series.drain().collect();
            for request in &kept {
                self.policies.ended(request.waiting());
            }
            for request in behind.into_values().flatten().chain(kept) {
                self.answer(shared, request, shared.ended());
            }
            if self.policies.queued() > 0 {
                self.policies.clear();
            }
            return;
        }
        // When the runtime drains, queued requests are in flight: they are served, past any rate.
        let force = shared.runtime.extension().state() != RuntimeState::Open;
        while self.running < shared.settings.in_flight {
            if let Some(request) = self.series.next() {
                self.gone(&request, now);
                self.start(shared, request);
                continue;
            }
            match self.policies.next(now, force) {
                Next::Request(request) => {
                    if let Some(request) = self.series.admit(request) {
                        self.gone(&request, now);
                        self.start(shared, request);
                    }
                }
                Next::Throttled(at) => {
                    self.set_timer(shared, at, now);
                    return;
                }
                Next::Empty => return,
            }
        }
    }

    fn start(&mut self, shared: &Shared, request: Request) {
        self.running += 1;
        self.left += 1;
        fenced(shared, move || request.start());
    }

    /// Makes the dispatcher look again at this time, or earlier.
    fn set_timer(&mut self, shared: &Arc<Shared>, at: Instant, now: Instant) {
        if let Some((armed, _)) = &self.timer
            && *armed <= at
            && *armed > now
        {
            return;
        }
        let look = Arc::new(Nudge(Arc::downgrade(shared)));
        self.timer = Some((at, shared.runtime.extension().alarm(at, look.into())));
    }

    fn status(&mut self, shared: &Shared, now: Instant) -> AdmissionStatus {
        let mut queues: HashMap<_, QueueStatus> = HashMap::new();
        let mut count = |tags: &Tags| {
            let of = (tags.client().cloned(), tags.class().cloned());
            let queue = queues.entry(of).or_insert_with_key(|of| QueueStatus {
                client: of.0.clone(),
                class: of.1.clone(),
                queued: 0,
                longest: Duration::ZERO,
            });
            queue.queued += 1;
            queue.longest = queue.longest.max(now - tags.since());
        };
        self.policies.visit(&mut count);
        let behind = self.changing.behind.values().flatten();
        for request in behind.chain(self.series.iter()) {
            count(request);
        }
        let mut queues: Vec<_> = queues.into_values().collect();
        queues.sort_by(|a, b| (&a.client, &a.class).cmp(&(&b.client, &b.class)));
        let throttled = self.timer.as_ref().map(|(at, _)| *at);
        AdmissionStatus {
            policies: self.policies.status(),
            queues,
            // The dispatcher's own count, so that it fits the other numbers.
            queued: self.queued(),
            running: self.running,
            in_flight: shared.settings.in_flight,
            ended: self.ended,
            cancelled: self.cancelled,
            shed: self.shed,
            throttled_for: throttled
                .filter(|at| *at > now && self.running < shared.settings.in_flight)
                .map(|at| at - now),
            ..shared.part_of_status()
        }
    }
}

/// Calls code that is or may be the user's: a callback, a waker, the drop of an operation.
fn fenced(shared: &Shared, f: impl FnOnce()) {
    if let Err(panic) = caught(f) {
        let incident = format!("a closure in the admission queue panicked: {panic}");
        shared
            .runtime
            .report(IncidentKind::Panicked, "the admission queue", incident);
    }
}
