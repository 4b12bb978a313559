//! The state beside a fom that is kept in a journal.

use std::{any::Any, collections::VecDeque, convert::Infallible, sync::Arc};

use tokio::sync::oneshot;

use fom_journal::{Batch, EntryId, JournalError};

use crate::{
    durable::{Committer, Durable, Meta, Path, Posted, RecordRare, Remembering, Uncommitted},
    entry::entry_of,
};
use fom_protocol::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering},
};
use fom_runtime::{
    __durability::{self as seam, Answer, EventId, Function, Header, Then, Tried, TurnWait},
    FomId, Key,
    error::DurabilityError,
};

/// No step is on its way.
const CALM: u8 = 0;
/// The fom waits until its last step is committed.
const PENDING: u8 = 1;
/// The fom may go on.
const ANSWERED: u8 = 2;

/// Number from which the late function numbers its requests.
const LATE: u32 = 1 << 31;
/// Number from which the functions for a failure number their requests.
const FAILED: u32 = LATE | 1 << 30;
/// Number from which the exhausted function numbers its requests.
const EXHAUSTED: u32 = 1 << 30;

/// Made with the fom. Written by the thread that runs the fom and tells the committer, and by the thread that brings
/// the answer.
pub(crate) struct DurableState {
    state: AtomicU8,
    /// Whether the journal has a record of the fom.
    recorded: AtomicBool,
    /// Requests made since the phase function was entered. Written by the thread that runs the fom.
    requests: AtomicU32,
    inner: Mutex<Inner>,
    remembering: Option<Box<Remembering>>,
}

/// Small, because there may be very many foms. The key is stored elsewhere beside the fom.
pub(crate) struct Inner {
    /// The number of the step that is on its way, or was committed last.
    pub(crate) step: u64,
    /// When the fom entered its phase, in the time of the journal.
    pub(crate) since: u64,
    pub(crate) due: Option<u64>,
    /// The last event that the function has taken since the last step.
    event: Option<EventId>,
    /// What the fom does after the commit.
    then: Option<Then>,
    more: Option<Box<More>>,
    pub(crate) attempt: u32,
    pub(super) home: u16,
    pub(super) settled: bool,
    pub(super) priority: u8,
    /// Whether the fom takes no more events that come through an outbox.
    closed: bool,
    path: Path,
}

/// State that few foms have. Made when it is needed.
#[derive(Default)]
pub(crate) struct More {
    /// As [`Meta::tried`].
    pub(crate) tried: Vec<Tried>,
    pub(crate) kept: Option<(u64, String)>,
    pub(super) rare: RecordRare,
    /// The path by the schema of another release, as long as the body is written by that schema.
    kept_path: Option<Path>,
    /// As [`Meta::number`].
    number: Option<u64>,
    /// Why the step could not be committed.
    error: Option<JournalError>,
    /// The state before a step with statements: it comes back if a statement fails.
    before: Option<Before>,
    /// Events that came through an outbox.
    inbox: VecDeque<Posted>,
    /// The events that were taken since the last step was committed.
    taken: Vec<Taken>,
    /// The last step, which could not be committed. Tried again when the fom has gone.
    pub(crate) uncommitted: Option<Uncommitted>,
    /// Set if the fom failed and is kept.
    pub(crate) failed: Option<Failed>,
    /// Dropped when the journal has a record of the fom.
    recording: Vec<oneshot::Sender<Infallible>>,
}

/// The state before a step.
struct Before {
    step: u64,
    since: u64,
    due: Option<u64>,
    attempt: u32,
    path: Path,
    kept_path: Option<Path>,
    retry: Option<u64>,
    held_gate: bool,
    tried: Vec<Tried>,
    kept: Option<(u64, String)>,
}

/// What the journal says of the wait of a fom that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// The fom has a number in the queue for its key.
    Numbered,
    /// The fom takes its place in the queue later.
    Outside,
}

/// An event that a phase took. The journal has its entry until the next step.
struct Taken {
    entry: EntryId,
    /// The entry, for a fom that fails and is kept. `None` if the sender is not kept.
    bytes: Option<Vec<u8>>,
}

/// A fom that failed and is kept, with the events for it.
pub(crate) struct Failed {
    entry: Arc<[u8]>,
    /// The events that it took in its last phase.
    taken: Vec<Taken>,
    /// The events that no phase took.
    left: Vec<Posted>,
}

impl Failed {
    /// Puts the entry, and the entries of the events that the fom took. They are in the journal already, unless a commit
    /// of them failed.
    pub(crate) fn put(&self, id: FomId, group: &mut Batch) {
        group.put(entry_of(id), &self.entry);
        for taken in &self.taken {
            if let Some(bytes) = &taken.bytes {
                group.put(taken.entry, bytes);
            }
        }
    }

    /// Lists the fom, which has left all tables. The events that it took in its last phase, and those that no phase
    /// took, wait for it.
    pub(crate) fn list(self, fom: &Header) {
        let (shared, id, key) = (seam::shared_of(fom), fom.id(), fom.key());
        let durable = Durable::of(shared);
        // The events come first: a retry takes what is there.
        for taken in self.taken {
            durable.wait_for_failed(shared, id, taken.entry, taken.bytes);
        }
        for left in self.left {
            let bytes = left.bytes(key);
            durable.wait_for_failed(shared, id, left.entry, bytes);
        }
        if let Err(unread) = durable.list_failed(shared, id, &self.entry) {
            durable.quarantine.put(*unread);
        }
    }
}

impl Inner {
    pub(crate) fn more(&self) -> Option<&More> {
        self.more.as_deref()
    }

    pub(crate) fn more_mut(&mut self) -> Option<&mut More> {
        self.more.as_deref_mut()
    }

    pub(crate) fn more_made(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }

    /// Returns the number that the fom had before it began, if an outbox sent it.
    pub(crate) fn number(&self) -> Option<u64> {
        self.more()?.number
    }

    /// Returns the series of the fom.
    pub(super) fn series(&self) -> Option<&Key> {
        self.more()?.rare.series.as_ref()
    }

    pub(crate) fn set_number(&mut self, number: u64) {
        self.more_made().number = Some(number);
    }

    /// Notes that the fom begins. Returns what the journal says of its wait, if it has waited.
    pub(crate) fn begins(&mut self) -> Option<Waited> {
        let more = self.more_mut()?;
        let queued = std::mem::take(&mut more.rare.queues);
        let delayed = more.rare.begins.take().is_some();
        match more.number.take() {
            Some(_) => Some(Waited::Numbered),
            None => (queued && delayed).then_some(Waited::Outside),
        }
    }

    /// Whether the fom is delayed, as the journal knows it.
    pub(crate) fn is_delayed(&self) -> bool {
        self.more().is_some_and(|more| more.rare.begins.is_some())
    }

    /// Notes what the fom waits for before it begins. `None`: its turn has come meanwhile.
    pub(crate) fn waits(&mut self, wait: Option<TurnWait>, committer: &Committer) {
        let more = self.more_made();
        (more.number, more.rare.queues, more.rare.begins) = match wait {
            Some(TurnWait::Line(number)) => (Some(number), true, None),
            Some(TurnWait::Time { until, queues }) => {
                (None, queues, Some(committer.to_journal(until)))
            }
            None => (None, false, None),
        };
    }

    /// Returns when the next attempt is due, if an attempt has failed.
    pub(crate) fn retry(&self) -> Option<u64> {
        self.more()?.rare.retry
    }

    pub(crate) fn set_retry(&mut self, at: Option<u64>) {
        if self.retry() != at {
            self.more_made().rare.retry = at;
        }
    }

    /// Whether the fom holds the gate of its phase.
    pub(crate) fn held_gate(&self) -> bool {
        self.more().is_some_and(|more| more.rare.held_gate)
    }

    pub(crate) fn set_held_gate(&mut self, held: bool) {
        if self.held_gate() != held {
            self.more_made().rare.held_gate = held;
        }
    }

    /// Whether events were taken since the last step was committed.
    pub(crate) fn has_taken(&self) -> bool {
        self.more().is_some_and(|more| !more.taken.is_empty())
    }

    /// Returns the entries of the events that were taken since the last step was committed.
    pub(crate) fn taken(&self) -> impl Iterator<Item = EntryId> {
        let taken = self.more().into_iter().flat_map(|more| &more.taken);
        taken.map(|taken| taken.entry)
    }

    /// Returns the entries of the events that were taken since the last step was committed, and of those that were not
    /// taken.
    pub(crate) fn events(&self) -> impl Iterator<Item = EntryId> {
        let inbox = self.more().into_iter().flat_map(|more| &more.inbox);
        self.taken().chain(inbox.map(|posted| posted.entry))
    }

    /// Returns the entry of a fom that failed and is kept.
    pub(crate) fn kept_failure(&self) -> Option<Arc<[u8]>> {
        let failed = self.more()?.failed.as_ref()?;
        Some(Arc::clone(&failed.entry))
    }

    /// Whether the fom failed and is kept.
    pub(crate) fn is_kept_failure(&self) -> bool {
        self.more().is_some_and(|more| more.failed.is_some())
    }

    /// Whether the fom failed and is kept. Then the events that it did not take stay with it until it is listed.
    pub(crate) fn keeps_left(&mut self, left: &mut Vec<Posted>) -> bool {
        let failed = self.more_mut().and_then(|more| more.failed.as_mut());
        let keeps = failed.is_some();
        if let Some(failed) = failed {
            failed.left = std::mem::take(left);
        }
        keeps
    }

    /// Notes that the fom failed, and is kept by this entry.
    pub(crate) fn set_failed(&mut self, entry: Arc<[u8]>) {
        let more = self.more_made();
        more.failed = Some(Failed {
            entry,
            taken: std::mem::take(&mut more.taken),
            left: Vec::new(),
        });
    }

    /// Notes that the last step is in the journal, or will be. Returns what waits for that, if something does.
    fn recorded(&mut self) -> Option<Vec<oneshot::Sender<Infallible>>> {
        self.event = None;
        let more = self.more.as_deref_mut()?;
        more.taken.clear();
        (!more.recording.is_empty()).then(|| std::mem::take(&mut more.recording))
    }

    /// Notes that the fom leaves its phase.
    pub(crate) fn leaves_phase(&mut self, fom: &Header) {
        let phases = fom.graph().phases().len();
        self.path.leaves(seam::phase_index(fom), phases);
        if let Some(more) = self.more_mut() {
            more.kept_path = None;
        }
    }

    /// Returns the path by the schema of the body.
    pub(crate) fn saved_path(&self) -> Path {
        let kept = self.more().and_then(|more| more.kept_path);
        kept.unwrap_or(self.path)
    }

    /// Keeps the path by the schema of another release until the fom leaves its phase.
    pub(super) fn keep_path(&mut self, path: Path) {
        self.more_made().kept_path = Some(path);
    }

    /// Keeps the state before a step with statements.
    pub(crate) fn keep_before(&mut self) {
        let more = self.more.get_or_insert_default();
        more.before = Some(Before {
            step: self.step,
            since: self.since,
            due: self.due,
            attempt: self.attempt,
            path: self.path,
            kept_path: more.kept_path,
            retry: more.rare.retry,
            held_gate: more.rare.held_gate,
            tried: more.tried.clone(),
            kept: more.kept.clone(),
        });
    }

    /// Returns to the state before the step, if it was kept.
    fn return_to(&mut self, before: Option<Before>) {
        let Some(before) = before else {
            return;
        };
        (self.step, self.since) = (before.step, before.since);
        (self.due, self.attempt, self.path) = (before.due, before.attempt, before.path);
        let more = self.more_made();
        (more.kept_path, more.rare.retry) = (before.kept_path, before.retry);
        more.rare.held_gate = before.held_gate;
        (more.tried, more.kept) = (before.tried, before.kept);
    }

    /// Sets what the fom does after the commit of the step that is being written.
    pub(crate) fn set_then(&mut self, then: Then) {
        self.then = Some(then);
    }
}

impl DurableState {
    /// Returns the state of a restored fom, or of a new one if `recorded` is `false`. The caller stores the key, and
    /// says with `remembering` whether the outcome is remembered.
    pub(crate) fn new(
        meta: Meta,
        recorded: bool,
        remembering: Option<Box<Remembering>>,
    ) -> Box<Self> {
        let has_more = !meta.tried.is_empty()
            || meta.kept.is_some()
            || meta.rare.is_some()
            || meta.number.is_some();
        let more = has_more.then(|| {
            Box::new(More {
                tried: meta.tried,
                kept: meta.kept.map(|kept| *kept),
                rare: meta.rare.map(|rare| *rare).unwrap_or_default(),
                number: meta.number,
                ..More::default()
            })
        });
        Box::new(Self {
            state: AtomicU8::new(CALM),
            recorded: AtomicBool::new(recorded),
            requests: AtomicU32::new(0),
            inner: Mutex::new(Inner {
                step: meta.step,
                since: meta.times.map_or(0, |times| times.since),
                due: meta.due,
                event: None,
                then: None,
                more,
                attempt: meta.attempt,
                home: meta.home.index,
                settled: meta.home.settled,
                priority: meta.priority,
                closed: false,
                path: meta.path,
            }),
            remembering,
        })
    }

    /// Returns the state of this fom, if the fom is kept.
    pub(super) fn of(fom: &Header) -> Option<&Self> {
        let state: &dyn Any = fom.kept()?;
        state.downcast_ref()
    }

    /// Returns the names of the last phases that the fom has left, the oldest first.
    pub(super) fn path(&self, fom: &Header) -> Vec<String> {
        let phases = fom.graph().phases();
        let path = self.inner().path.phases(phases.len()).into_iter();
        let names = path.filter_map(|index| phases.get(index));
        names.map(|phase| phase.name().to_owned()).collect()
    }

    /// Returns what remembers the outcome, if it is remembered.
    pub(super) fn remembering(&self) -> Option<&Remembering> {
        self.remembering.as_deref()
    }

    /// Returns the operation id, if the fom was submitted with one.
    pub(super) fn once(&self) -> Option<&Key> {
        self.remembering()?.id.as_ref()
    }

    pub(crate) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Whether the journal has a record of the fom.
    pub(crate) fn is_recorded(&self) -> bool {
        self.recorded.load(Ordering::Relaxed)
    }

    /// Waits until the journal has a record of the fom, or the fom is gone. A lazy step counts when it is written down.
    pub(crate) fn recording(&self) -> impl Future<Output = ()> + use<> {
        let (tell, told) = oneshot::channel();
        let mut inner = self.inner.lock();
        // Under the lock: a step that is recorded from now on finds the sender.
        if !self.is_recorded() {
            inner.more_made().recording.push(tell);
        }
        async {
            let Err(_) = told.await;
        }
    }

    /// Returns the number of the visit, and the last event that the function has taken.
    pub(crate) fn visit(&self) -> (u64, Option<EventId>) {
        let inner = self.inner.lock();
        (inner.step, inner.event)
    }

    /// Notes that the function has taken an event, and numbers requests from 1 again. Only for the thread that runs the
    /// fom.
    pub(crate) fn took(&self, event: EventId) {
        let function = self.requests.load(Ordering::Relaxed) & FAILED;
        self.requests.store(function, Ordering::Relaxed);
        self.inner.lock().event = Some(event);
    }

    /// Ends the last event: later effects no longer belong to it. Only for the thread that runs the fom.
    pub(crate) fn leave_event(&self) {
        self.inner.lock().event = None;
    }

    /// Returns the number of the next request.
    pub(crate) fn next_part(&self) -> u32 {
        let number = self.requests.load(Ordering::Relaxed).wrapping_add(1);
        self.requests.store(number, Ordering::Relaxed);
        number
    }

    /// Enters a special function of the phase. Its requests have their own numbers, however many there were before.
    pub(super) fn enter(&self, function: Function) {
        let from = match function {
            Function::Enter => 0,
            Function::Late => LATE,
            Function::Exhausted => EXHAUSTED,
            Function::Failed => FAILED,
        };
        self.requests.store(from, Ordering::Relaxed);
    }

    /// Notes a step that no fom waits for: the next function numbers its requests from the start.
    pub(crate) fn stepped(&self) {
        self.requests.store(0, Ordering::Relaxed);
    }

    /// Adds an event that came through an outbox. Returns the event if the fom has ended.
    pub(crate) fn post(&self, message: Posted) -> Result<(), Posted> {
        let mut inner = self.inner.lock();
        if inner.closed {
            return Err(message);
        }
        inner.more_made().inbox.push_back(message);
        Ok(())
    }

    /// Takes the oldest event for which `takes` is true. `keeps`: the fom, which has this key, is kept if it fails. Only
    /// for the thread that runs the fom.
    pub(super) fn take_message(
        &self,
        keeps: bool,
        key: Option<&Key>,
        takes: &dyn Fn(&dyn Any) -> bool,
    ) -> Option<Box<dyn Any + Send>> {
        let taken = {
            let mut inner = self.inner.lock();
            let more = inner.more_mut()?;
            let at = more
                .inbox
                .iter()
                .position(|message| takes(&*message.event))?;
            more.inbox.remove(at)?
        };
        // Without the lock, because the user's code writes the event.
        let bytes = if keeps { taken.bytes(key) } else { None };
        let entry = taken.entry;
        self.inner().more_made().taken.push(Taken { entry, bytes });
        self.took(taken.id());
        Some(taken.event)
    }

    /// Returns the number of events that came through an outbox and were not taken.
    pub(crate) fn messages(&self) -> usize {
        let inner = self.inner.lock();
        inner.more().map_or(0, |more| more.inbox.len())
    }

    /// Refuses further events, and returns the events that are left.
    pub(crate) fn close(&self) -> Vec<Posted> {
        let mut inner = self.inner.lock();
        inner.closed = true;
        let left = inner.more_mut().map(|more| std::mem::take(&mut more.inbox));
        left.map(Vec::from).unwrap_or_default()
    }

    /// Whether a step is on its way, or the answer was not taken yet.
    pub(crate) fn is_committing(&self) -> bool {
        self.state.load(Ordering::Acquire) != CALM
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.state.load(Ordering::Acquire) == PENDING
    }

    /// Notes that the step just written is on its way to the committer. Only for the thread that runs the fom.
    pub(super) fn begin_waiting(&self) {
        self.state.store(PENDING, Ordering::Relaxed);
    }

    /// Notes that a step is on its way that no fom waits for. Only for the thread that runs the fom.
    pub(crate) fn went_on(&self) {
        self.stepped();
        self.recorded.store(true, Ordering::Relaxed);
        let told = self.inner.lock().recorded();
        drop(told);
    }

    /// Stores the result of the commit. The caller must wake the fom after that.
    pub(crate) fn answer(&self, answer: &Result<(), JournalError>) {
        if let Err(error) = answer {
            self.inner.lock().more_made().error = Some(error.clone());
        }
        self.state.store(ANSWERED, Ordering::Release);
    }

    /// Returns the result of the step, once. Only for the thread that runs the fom.
    pub(crate) fn take_answer(&self) -> Option<Answer> {
        match self.state.load(Ordering::Acquire) {
            CALM => return None,
            PENDING => return Some(Answer::Pending),
            _ => {}
        }
        self.state.store(CALM, Ordering::Relaxed);
        self.stepped();
        let mut inner = self.inner.lock();
        let then = inner.then.take().unwrap_or(Then::Fail);
        let before = inner.more_mut().and_then(|more| more.before.take());
        Some(match inner.more_mut().and_then(|more| more.error.take()) {
            None => {
                self.recorded.store(true, Ordering::Relaxed);
                let told = inner.recorded();
                drop(inner);
                drop(told);
                Answer::Committed(then)
            }
            Some(error @ JournalError::Statement { .. }) => {
                inner.return_to(before);
                Answer::StatementFailed(then, DurabilityError::new(error))
            }
            Some(error) => Answer::Failed(DurabilityError::new(error)),
        })
    }
}
