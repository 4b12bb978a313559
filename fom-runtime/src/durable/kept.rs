//! What a fom has beside it as long as it is kept in a journal.

use std::collections::VecDeque;

use fom_journal::{EntryId, JournalError};

use crate::{
    durable::{EventId, Meta, Posted, Rare, Stalled},
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering},
    },
    watch::TransitionCause,
};

/// Nothing of it is on its way.
const CALM: u8 = 0;
/// It waits until its last step is committed.
const PENDING: u8 = 1;
/// It may go on.
const ANSWERED: u8 = 2;

/// From here on the late function numbers its requests.
const LATE: u32 = 1 << 31;
/// From here on the functions for a failure do.
const FAILED: u32 = LATE | 1 << 30;
/// From here on the exhausted function does.
const EXHAUSTED: u32 = 1 << 30;

/// Made with the fom. Written by the thread that runs the fom, which tells the committer; and by whoever brings the answer.
pub(crate) struct Kept {
    state: AtomicU8,
    /// Whether the journal has a record of it.
    recorded: AtomicBool,
    /// Requests made since the phase function was entered. Written by the thread that runs the fom.
    requests: AtomicU32,
    inner: Mutex<Inner>,
}

/// Small, since there may be very many foms. Key and operation id stand elsewhere beside the fom.
pub(crate) struct Inner {
    /// The number of the step that is on its way, or was committed last.
    pub(crate) step: u64,
    pub(crate) due: Option<u64>,
    /// The last event that its function has taken since the last step.
    event: Option<EventId>,
    /// What comes after the commit.
    then: Option<Then>,
    more: Option<Box<More>>,
    pub(crate) attempt: u32,
    pub(super) home: u16,
    pub(super) settled: bool,
    pub(super) priority: u8,
    /// It takes no more events that come through an outbox.
    closed: bool,
}

/// What few foms have, made when it is needed.
#[derive(Default)]
pub(crate) struct More {
    pub(crate) causes: Vec<String>,
    pub(crate) kept: Option<(u64, String)>,
    pub(super) rare: Rare,
    /// As [`Meta::number`].
    number: Option<u64>,
    /// Why its step could not be committed.
    error: Option<JournalError>,
    /// Events that came through an outbox.
    inbox: VecDeque<Posted>,
    /// Entries of those that were taken since the last step was committed.
    pub(crate) taken: Vec<EntryId>,
    /// Its last step, which could not be committed: tried again when it has gone.
    pub(crate) stalled: Option<Stalled>,
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

    /// The number that it had before it began, if an outbox sent it.
    pub(crate) fn number(&self) -> Option<u64> {
        self.more()?.number
    }

    pub(crate) fn set_number(&mut self, number: u64) {
        self.more_made().number = Some(number);
    }

    /// The fom begins. Returns the number that it had.
    pub(crate) fn begins(&mut self) -> Option<u64> {
        let more = self.more_mut()?;
        more.rare.queues = false;
        more.number.take()
    }

    /// When its next attempt is due, if one has failed.
    pub(crate) fn retry(&self) -> Option<u64> {
        self.more()?.rare.retry
    }

    pub(crate) fn set_retry(&mut self, at: Option<u64>) {
        if self.retry() != at {
            self.more_made().rare.retry = at;
        }
    }

    /// Whether it holds long locks, and has more to do with them.
    pub(crate) fn locked(&self) -> bool {
        self.more().is_some_and(|more| more.rare.locked)
    }

    pub(crate) fn set_locked(&mut self, locked: bool) {
        if self.locked() != locked {
            self.more_made().rare.locked = locked;
        }
    }

    /// Entries of events that were taken since the last step was committed.
    pub(crate) fn taken(&self) -> &[EntryId] {
        self.more().map_or(&[], |more| &more.taken)
    }

    fn forget_taken(&mut self) {
        self.event = None;
        if let Some(more) = self.more_mut() {
            more.taken.clear();
        }
    }

    /// What comes after the commit of the step that is being written down.
    pub(crate) fn set_then(&mut self, then: Then) {
        self.then = Some(then);
    }
}

/// What a fom does when its step is committed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Then {
    /// It enters the phase that it is in by now.
    Enter {
        from: Option<u8>,
        cause: TransitionCause,
    },
    /// It waits for the next event in this visit.
    Stay,
    /// It waits until then, and enters the phase again.
    Retry(u64),
    /// It has failed.
    Fail,
}

/// Whether a step is committed.
#[derive(Debug)]
pub(crate) enum Answer {
    /// None is on its way.
    Calm,
    Pending,
    Committed(Then),
    Failed(JournalError),
}

impl Kept {
    /// Of a fom that was restored, or (`recorded` is false) of a new one. Key and operation id are left to the caller.
    pub(crate) fn new(meta: Meta, recorded: bool) -> Box<Self> {
        let has_more = !meta.causes.is_empty()
            || meta.kept.is_some()
            || meta.rare.is_some()
            || meta.number.is_some();
        let more = has_more.then(|| {
            Box::new(More {
                causes: meta.causes,
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
                due: meta.due,
                event: None,
                then: None,
                more,
                attempt: meta.attempt,
                home: meta.home,
                settled: meta.settled,
                priority: meta.priority,
                closed: false,
            }),
        })
    }

    pub(crate) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Whether the journal has a record of it.
    pub(crate) fn is_recorded(&self) -> bool {
        self.recorded.load(Ordering::Relaxed)
    }

    /// Whether its last step is to be tried again when it has gone.
    pub(crate) fn is_stalled(&self) -> bool {
        let inner = self.inner.lock();
        inner.more().is_some_and(|more| more.stalled.is_some())
    }

    /// The number of the visit, and the last event that its function has taken.
    pub(crate) fn visit(&self) -> (u64, Option<EventId>) {
        let inner = self.inner.lock();
        (inner.step, inner.event)
    }

    /// Its function has taken an event, and numbers its requests from 1 again. Only the thread that runs the fom.
    pub(crate) fn took(&self, event: EventId) {
        let function = self.requests.load(Ordering::Relaxed) & FAILED;
        self.requests.store(function, Ordering::Relaxed);
        self.inner.lock().event = Some(event);
    }

    /// Later effects no longer belong to the last event that was taken. Only the thread that runs the fom.
    pub(crate) fn leave_event(&self) {
        self.inner.lock().event = None;
    }

    /// The number of the next request.
    pub(crate) fn next_part(&self) -> u32 {
        let number = self.requests.load(Ordering::Relaxed).wrapping_add(1);
        self.requests.store(number, Ordering::Relaxed);
        number
    }

    /// The late function is entered: it numbers its requests for itself, however many there were before.
    pub(crate) fn late(&self) {
        self.requests.store(LATE, Ordering::Relaxed);
    }

    /// The exhausted function is entered: it numbers its requests for itself, however many the last attempt came to.
    pub(crate) fn exhausted(&self) {
        self.requests.store(EXHAUSTED, Ordering::Relaxed);
    }

    /// A step is made that nobody waits for: the next function numbers its requests anew.
    pub(crate) fn stepped(&self) {
        self.requests.store(0, Ordering::Relaxed);
    }

    /// A function for a failure is entered: it numbers its requests for itself, too.
    pub(crate) fn failed(&self) {
        self.requests.store(FAILED, Ordering::Relaxed);
    }

    /// An event came through an outbox; given back when the fom has ended.
    pub(crate) fn post(&self, message: Posted) -> Result<(), Posted> {
        let mut inner = self.inner.lock();
        if inner.closed {
            return Err(message);
        }
        inner.more_made().inbox.push_back(message);
        Ok(())
    }

    /// The oldest event that `takes`. Only the thread that runs the fom.
    pub(crate) fn take_message<E: 'static>(&self, takes: impl Fn(&E) -> bool) -> Option<E> {
        let taken = {
            let mut inner = self.inner.lock();
            let more = inner.more_mut()?;
            let at = more.inbox.iter().position(|message| {
                let event = message.event.downcast_ref();
                event.is_some_and(&takes)
            })?;
            let taken = more.inbox.remove(at)?;
            more.taken.push(taken.entry);
            taken
        };
        self.took(taken.id());
        taken.event.downcast().ok().map(|event| *event)
    }

    /// How many events came through an outbox and were not taken.
    pub(crate) fn messages(&self) -> usize {
        let inner = self.inner.lock();
        inner.more().map_or(0, |more| more.inbox.len())
    }

    /// Takes no more of them, and gives back what is left.
    pub(crate) fn close(&self) -> Vec<Posted> {
        let mut inner = self.inner.lock();
        inner.closed = true;
        let left = inner.more_mut().map(|more| std::mem::take(&mut more.inbox));
        left.map(Vec::from).unwrap_or_default()
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.state.load(Ordering::Acquire) == PENDING
    }

    /// The step that was just written down is on its way to the committer. Only the thread that runs the fom.
    pub(crate) fn begin(&self) {
        self.state.store(PENDING, Ordering::Relaxed);
    }

    /// The step is on its way, and nobody waits for it. Only the thread that runs the fom.
    pub(crate) fn went_on(&self) {
        self.stepped();
        self.recorded.store(true, Ordering::Relaxed);
        self.inner.lock().forget_taken();
    }

    /// By whoever brings the answer; then the fom is to be woken.
    pub(crate) fn answer(&self, answer: &Result<(), JournalError>) {
        if let Err(error) = answer {
            self.inner.lock().more_made().error = Some(error.clone());
        }
        self.state.store(ANSWERED, Ordering::Release);
    }

    /// What became of the step, once. Only the thread that runs the fom.
    pub(crate) fn take_answer(&self) -> Answer {
        match self.state.load(Ordering::Acquire) {
            CALM => Answer::Calm,
            PENDING => Answer::Pending,
            _ => {
                self.state.store(CALM, Ordering::Relaxed);
                self.stepped();
                let mut inner = self.inner.lock();
                let then = inner.then.take().unwrap_or(Then::Fail);
                match inner.more_mut().and_then(|more| more.error.take()) {
                    None => {
                        self.recorded.store(true, Ordering::Relaxed);
                        inner.forget_taken();
                        Answer::Committed(then)
                    }
                    Some(error) => Answer::Failed(error),
                }
            }
        }
    }
}
