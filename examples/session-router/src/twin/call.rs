//! A call as a task: each phase of [`Stage`](crate::call::Stage) as a function.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep};

use super::Shared;
use crate::call::{Call, CallEvent, Happened, Outcome};
use crate::cdr::Record;
use crate::locator::{Binding, Found};
use crate::report::{figures, micros};
use crate::wire::message::Request;

/// The longest duration of a call, if no packet tells its end.
const LONGEST: Duration = Duration::from_secs(12 * 3600);

/// An ended call, for its record.
pub(super) struct Ended {
    pub(super) record: Record,
    pub(super) outcome: Outcome,
}

/// The task of one call, from the first INVITE to the last straggler.
pub(super) async fn run(shared: Arc<Shared>, call: Call, events: mpsc::Receiver<CallEvent>) {
    let gone = Gone {
        call_id: call.invite().call_id.clone(),
        shared,
    };
    let mut task = Task {
        entered: gone.shared.now(),
        shared: &gone.shared,
        call,
        events,
        timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
    };
    loop {
        let found = task.locate();
        task.left(Part::Locate);
        let outcome = match found {
            Ok(bindings) => {
                let answered = task.ring(&bindings).await;
                task.left(Part::Ring);
                match answered {
                    Ok(()) => {
                        let outcome = task.talk().await;
                        task.left(Part::Talk);
                        outcome
                    }
                    Err(outcome) => outcome,
                }
            }
            Err(outcome) => outcome,
        };
        task.record(outcome);
        let again = task.linger().await;
        task.left(Part::Linger);
        match again {
            Some(invite) => {
                task.call.again(invite);
            }
            None => return,
        }
    }
}

/// Removes the call from the map, also when its task panics.
struct Gone {
    call_id: String,
    shared: Arc<Shared>,
}

impl Drop for Gone {
    fn drop(&mut self) {
        let mut calls = self.shared.calls();
        calls.remove(&self.call_id);
        if calls.is_empty() {
            self.shared.empty.notify_waiters();
        }
    }
}

struct Task<'a> {
    shared: &'a Arc<Shared>,
    call: Call,
    events: mpsc::Receiver<CallEvent>,
    /// Reset for every wait: a new timer for each wait would be entered and removed each time.
    timer: Pin<Box<Sleep>>,
    entered: Duration,
}

impl Task<'_> {
    fn locate(&mut self) -> Result<Vec<Binding>, Outcome> {
        let now = self.shared.now();
        self.call.began = Some(now);
        self.call.trying();
        let user = self.call.invite().user().unwrap_or_default().to_owned();
        let found = self.shared.table().find(&user, now);
        match found {
            Found::At(bindings) => Ok(bindings),
            Found::Unknown => Err(self.call.refuse(404, "", now)),
            Found::Away => Err(self.call.refuse(480, "", now)),
        }
    }

    /// Rings everywhere. An error means that there was no call.
    async fn ring(&mut self, bindings: &[Binding]) -> Result<(), Outcome> {
        let (shared, timers) = (self.shared, self.shared.settings.timers);
        while let Ok(event) = self.events.try_recv() {
            if let Happened::Cancelled = self.call.take(event, shared.now()) {
                return Err(self.call.refuse(487, "", shared.now()));
            }
        }
        self.call.ring_at(bindings, shared.now());
        loop {
            if let Some(refusal) = self.call.forks.verdict() {
                return Err(self.call.refuse_as(&refusal, shared.now()));
            }
            if let Some(event) = self.event_within(self.call.quiet(shared.now())).await {
                match self.call.take(event, shared.now()) {
                    Happened::Answered => {
                        self.call.forks.cancel(&shared.net, shared.now(), &timers);
                        return Ok(());
                    }
                    Happened::Cancelled => {
                        self.call.forks.cancel(&shared.net, shared.now(), &timers);
                    }
                    Happened::Again(invite) => {
                        self.call.refuse_other(&invite, 500, "Retry-After: 5\r\n");
                    }
                    _ => {}
                }
            }
            self.call.tick(shared.now());
        }
    }

    async fn talk(&mut self) -> Outcome {
        let answered = self.shared.now();
        self.call.set_up(answered);
        self.call.pay();
        let mut hung_up = false;
        while !hung_up {
            let now = self.shared.now();
            let unconfirmed = self.call.unconfirmed_for();
            let until = answered + unconfirmed.unwrap_or(LONGEST);
            if now >= until {
                return match unconfirmed {
                    Some(_) => Outcome::Unconfirmed,
                    None => Outcome::Forgotten,
                };
            }
            let wait = self.call.quiet(now).min(until - now);
            if let Some(event) = self.event_within(wait).await {
                match self.call.take(event, self.shared.now()) {
                    Happened::HungUp => hung_up = true,
                    Happened::Answered | Happened::Confirmed => self.call.pay(),
                    Happened::Again(invite) => {
                        self.call.refuse_other(&invite, 500, "Retry-After: 5\r\n");
                    }
                    _ => {}
                }
            }
            hung_up |= self.call.tick(self.shared.now());
        }
        self.call.talked(self.shared.now() - answered);
        Outcome::Completed
    }

    /// Queues the call detail record for writing, without waiting.
    fn record(&mut self, outcome: Outcome) {
        self.call.pay();
        let counters = self.shared.net.counters();
        match outcome {
            Outcome::Completed | Outcome::Forgotten => counters.completed.add(),
            Outcome::Unconfirmed => counters.unconfirmed.add(),
            Outcome::Cancelled => counters.cancelled.add(),
            Outcome::Rejected(_) => counters.rejected.add(),
        }
        let record = self.call.record.clone();
        if self.shared.records.send(Ended { record, outcome }).is_err() {
            counters.unrecorded.add();
        }
    }

    /// Waits for stragglers. Returns the INVITE if the caller asks again.
    async fn linger(&mut self) -> Option<Box<Request>> {
        let (shared, timers) = (self.shared, self.shared.settings.timers);
        self.call.free_unneeded_memory();
        let mut draining = shared.net.draining();
        let mut until = shared.now() + timers.give_up();
        loop {
            let now = shared.now();
            if now >= until {
                return None;
            }
            let wait = self.call.quiet(now).min(until - now);
            let event = tokio::select! {
                event = self.event_within(wait) => event,
                _ = draining.wait_for(|draining| *draining) => return None,
            };
            match event.map(|event| self.call.take(event, shared.now())) {
                Some(Happened::Acked) => until = until.min(shared.now() + timers.t4),
                Some(Happened::Answered | Happened::Confirmed) => self.call.pay(),
                Some(Happened::Again(invite)) => return Some(invite),
                _ => {}
            }
            self.call.tick(shared.now());
        }
    }

    /// Returns the next packet, if one comes in time.
    async fn event_within(&mut self, wait: Duration) -> Option<CallEvent> {
        if let Ok(event) = self.events.try_recv() {
            return Some(event);
        }
        self.timer.as_mut().reset(Instant::now() + wait);
        tokio::select! {
            biased;
            event = self.events.recv() => event,
            () = &mut self.timer => None,
        }
    }

    /// Notes the time spent in this part of the call.
    fn left(&mut self, part: Part) {
        let now = self.shared.now();
        self.shared.times.note(part, now - self.entered);
        self.entered = now;
    }
}

#[derive(Debug, Clone, Copy)]
enum Part {
    Locate,
    Ring,
    Talk,
    Linger,
}

/// The time that calls have spent in each part.
pub(super) struct Times(Mutex<[Histogram<u64>; 4]>);

impl Default for Times {
    fn default() -> Self {
        Times(Mutex::new([(); 4].map(|()| micros())))
    }
}

impl Times {
    fn note(&self, part: Part, stayed: Duration) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)[part as usize]
            .saturating_record(stayed.as_micros() as u64);
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for part in [Part::Locate, Part::Ring, Part::Talk, Part::Linger] {
            writeln!(
                f,
                "  {:<10} {}",
                format!("{part:?}"),
                figures(&times[part as usize])
            )?;
        }
        Ok(())
    }
}
