//! What a fom has beside it as long as it is kept in a journal.

use std::collections::VecDeque;

use crate::{
    durable::{Meta, Posted, Stalled},
    journal::{EntryId, JournalError},
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU8, AtomicU32, Ordering},
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
    /// Requests made since the phase function was entered. Written by the thread that runs the fom.
    requests: AtomicU32,
    inner: Mutex<Inner>,
    /// Events that came through an outbox; none: it takes no more.
    inbox: Mutex<Option<VecDeque<Posted>>>,
}

pub(crate) struct Inner {
    /// What is kept with operation and phase. `step` is the number of the step that is on its way, or was committed last.
    pub(crate) meta: Meta,
    /// Whether the journal has a record of it.
    pub(crate) recorded: bool,
    /// What comes after the commit.
    pub(crate) then: Option<Then>,
    /// Why it could not be committed; boxed, since there are many foms and few errors.
    error: Option<Box<JournalError>>,
    /// Entries of events that were taken since the last step was committed.
    pub(crate) taken: Vec<EntryId>,
    /// Its last step, which could not be committed: tried again when it has gone.
    pub(crate) stalled: Option<Box<Stalled>>,
}

/// What a fom does when its step is committed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Then {
    /// It enters the phase that it is in by now.
    Enter {
        from: Option<usize>,
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
    /// Of a fom that was restored, or (`recorded` is false) of a new one.
    pub(crate) fn new(meta: Meta, recorded: bool) -> Box<Self> {
        Box::new(Self {
            state: AtomicU8::new(CALM),
            requests: AtomicU32::new(0),
            inner: Mutex::new(Inner {
                meta,
                recorded,
                then: None,
                error: None,
                taken: Vec::new(),
                stalled: None,
            }),
            inbox: Mutex::new(Some(VecDeque::new())),
        })
    }

    pub(crate) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// The number of the visit.
    pub(crate) fn step(&self) -> u64 {
        self.inner.lock().meta.step
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
        match &mut *self.inbox.lock() {
            Some(inbox) => {
                inbox.push_back(message);
                Ok(())
            }
            None => Err(message),
        }
    }

    /// The oldest event that `takes`. Only the thread that runs the fom.
    pub(crate) fn take_message<E: 'static>(&self, takes: impl Fn(&E) -> bool) -> Option<E> {
        let taken = {
            let mut inbox = self.inbox.lock();
            let inbox = inbox.as_mut()?;
            let at = inbox.iter().position(|message| {
                let event = message.event.downcast_ref();
                event.is_some_and(&takes)
            })?;
            inbox.remove(at)?
        };
        self.inner.lock().taken.push(taken.entry);
        taken.event.downcast().ok().map(|event| *event)
    }

    /// How many events came through an outbox and were not taken.
    pub(crate) fn messages(&self) -> usize {
        self.inbox.lock().as_ref().map_or(0, VecDeque::len)
    }

    /// Takes no more of them, and gives back what is left.
    pub(crate) fn close(&self) -> Vec<Posted> {
        self.inbox.lock().take().map(Vec::from).unwrap_or_default()
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.state.load(Ordering::Acquire) == PENDING
    }

    /// The step that was just written down is on its way to the committer. Only the thread that runs the fom.
    pub(crate) fn begin(&self, then: Then) {
        self.inner.lock().then = Some(then);
        self.state.store(PENDING, Ordering::Relaxed);
    }

    /// By whoever brings the answer; then the fom is to be woken.
    pub(crate) fn answer(&self, answer: Result<(), JournalError>) {
        self.inner.lock().error = answer.err().map(Box::new);
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
                match inner.error.take() {
                    None => {
                        inner.recorded = true;
                        inner.taken.clear();
                        Answer::Committed(then)
                    }
                    Some(error) => Answer::Failed(*error),
                }
            }
        }
    }
}
