//! The thread that commits for all localities. Changes that arrive during a sync are committed with the next sync.

mod later;
mod listed;
mod thread;

pub(super) use thread::encode_head;

use std::{
    any::TypeId,
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock, Weak},
    time::{Duration, Instant},
};

use fom_journal::{Batch, EntryId, Journal, JournalError, JournalStats, Statement};
use tokio::sync::watch;

use crate::durable::{
    Head, IdempotencyStore, Posted, Uncommitted,
    buffer::Handover,
    committer::{
        later::{Next, Turn, Turns},
        thread::CommitThread,
    },
    group_commit::Gather,
    identity::{Clocks, Identity},
    schemas::Schemas,
};
use fom_protocol::{
    panic_message,
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
        now,
    },
};
use fom_runtime::{
    __durability::{self as seam, Shared, Tried},
    FomId,
    observe::IncidentKind,
    snapshot::SnapshotError,
};

/// The entry of [`Head`].
pub(crate) const HEAD_ENTRY: EntryId = EntryId(1);

/// Maximum age of a lazy commit before it is written.
pub(crate) const LAZY: Duration = Duration::from_millis(50);

/// Idle time after which the thread makes room in the journal even without a commit.
const IDLE: Duration = Duration::from_millis(20);

/// Idle time after which the committer gives its spare memory back. While others commit, the thread looks this often for room to make,
/// unless it knows of some.
const CALM: Duration = Duration::from_millis(150);

/// Delay before the thread retries what could not be committed.
pub(super) const AGAIN: Duration = Duration::from_millis(500);

/// Number of batches kept for reuse.
const SPARES: usize = 16;

/// Size in bytes above which a batch gives its memory back.
const LARGE: usize = 4 << 20;

/// The link between the localities and the thread that commits.
pub(crate) struct Committer {
    /// The numbers of the journal.
    pub(crate) journal: Identity,
    pub(super) clocks: Clocks,
    /// Offset from the runtime's time to the journal's time.
    ahead: u64,
    /// How long a locality may gather before it hands over, in nanoseconds.
    pub(crate) pause: AtomicU64,
    limits: Limits,
    /// Whether the last batch could not be committed. A caller that got this error sees the flag until a later batch
    /// succeeds.
    fails: AtomicBool,
    queue: Mutex<Queue>,
    /// Notified when the queue gets something, or is closed.
    todo: Condvar,
    /// Notified when the thread has ended and the journal is closed.
    ended: Condvar,
    stats: Mutex<JournalStats>,
    pub(super) schemas: Schemas,
    /// Events for foms that will come back.
    pub(super) orphans: Mutex<HashMap<FomId, Vec<Posted>>>,
    /// Entries that are no longer needed.
    pub(super) dropped: Mutex<Vec<EntryId>>,
    /// Transitions that could not be committed.
    pub(super) uncommitted: Mutex<Vec<Uncommitted>>,
    /// The remembered outcomes. The committer deletes the entries of forgotten ones.
    memory: Arc<IdempotencyStore>,
}

/// What the journal takes.
struct Limits {
    /// Maximum length of an entry in bytes.
    longest: AtomicU64,
    /// The type of the statements that the journal executes.
    executes: OnceLock<TypeId>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            longest: AtomicU64::new(u64::MAX),
            executes: OnceLock::new(),
        }
    }
}

#[derive(Default)]
struct Queue {
    parts: Vec<Handover>,
    /// Whether a caller waits for one of the parts.
    waited_for: bool,
    /// The time when the first lazy part came.
    lazy_since: Option<Instant>,
    gather: Gather,
    /// The time since when there are lazy groups that could not be committed.
    owed_since: Option<Instant>,
    /// The begin of the commit that is under way.
    under_way: Option<Instant>,
    turns: Turns,
    #[expect(clippy::vec_box, reason = "they are handed on as boxes")]
    spares: Vec<Box<Batch>>,
    closed: bool,
    ended: bool,
    ownership: Ownership,
    /// Tells that the runtime has ended, because another process has the journal.
    moved: watch::Sender<bool>,
}

/// Whether this process may commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Ownership {
    #[default]
    Ours,
    /// Another process has the journal, and the runtime does not know yet.
    Lost,
    /// The runtime was told, and ends.
    Told,
}

impl Committer {
    pub(crate) fn new(
        head: &Head,
        clocks: Clocks,
        schemas: Schemas,
        memory: &Arc<IdempotencyStore>,
    ) -> Arc<Self> {
        Arc::new(Self {
            journal: head.identity(),
            ahead: head
                .time_now(&clocks)
                .saturating_sub(seam::nanos(&clocks.runtime)),
            clocks,
            pause: AtomicU64::new(0),
            limits: Limits::default(),
            fails: AtomicBool::new(false),
            queue: Mutex::default(),
            todo: Condvar::default(),
            ended: Condvar::default(),
            stats: Mutex::default(),
            schemas,
            orphans: Mutex::default(),
            dropped: Mutex::default(),
            uncommitted: Mutex::default(),
            memory: Arc::clone(memory),
        })
    }

    /// Converts a time of the runtime's clock to journal time.
    pub(crate) fn to_journal(&self, at: u64) -> u64 {
        at.saturating_add(self.ahead)
    }

    /// Converts a past time of the runtime's clock, which may be before the start of that clock, to journal time.
    pub(crate) fn past_to_journal(&self, at: u64) -> u64 {
        at.wrapping_add(self.ahead)
    }

    /// Converts a past journal time to a time of the runtime's clock, which may be before the start of that clock.
    pub(crate) fn past_on_clock(&self, at: u64) -> u64 {
        at.wrapping_sub(self.ahead)
    }

    /// Converts the times of attempts to journal time.
    pub(crate) fn in_journal(&self, mut tried: Vec<Tried>) -> Vec<Tried> {
        for attempt in &mut tried {
            attempt.at = self.past_to_journal(attempt.at);
        }
        tried
    }

    /// Converts the times of attempts to the runtime's clock.
    pub(crate) fn on_clock(&self, mut tried: Vec<Tried>) -> Vec<Tried> {
        for attempt in &mut tried {
            attempt.at = self.past_on_clock(attempt.at);
        }
        tried
    }

    /// Returns how long it is from now until this journal time.
    pub(crate) fn left_until(&self, at: u64) -> u64 {
        at.saturating_sub(self.to_journal(seam::nanos(&self.clocks.runtime)))
    }

    /// Asks the journal what it takes. Must be called before anything is written: the thread may start later than the first
    /// fom.
    pub(crate) fn ask_limits(&self, journal: &dyn Journal) {
        if let Ok(longest) = fenced(|| Ok(journal.longest())) {
            self.limits.longest.store(longest as u64, Ordering::Relaxed);
        }
        if let Ok(Some(kind)) = fenced(|| Ok(journal.executes())) {
            // Asked once.
            let _ = self.limits.executes.set(kind);
        }
    }

    /// Whether the journal executes statements of this type.
    pub(crate) fn executes(&self, statement: &Statement) -> bool {
        self.limits.executes.get() == Some(&statement.kind())
    }

    /// Checks that the journal takes an entry of this length.
    pub(crate) fn check_length(&self, length: usize) -> Result<(), SnapshotError> {
        let most = self.limits.longest.load(Ordering::Relaxed);
        if length as u64 <= most {
            return Ok(());
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Err(SnapshotError::TooLong { length, most })
    }

    /// Returns the journal's statistics as of the last commit.
    pub(crate) fn stats(&self) -> JournalStats {
        *self.stats.lock()
    }

    /// Returns a batch to fill.
    pub(crate) fn spare(&self) -> Box<Batch> {
        self.queue.lock().spares.pop().unwrap_or_default()
    }

    /// Takes over what a locality gathered.
    pub(crate) fn take(&self, part: Handover) {
        self.push(part, false);
    }

    /// As [`take`](Self::take), and begins to commit on this thread if that needs no wait. The caller holds no lock.
    pub(crate) fn take_now(&self, part: Handover) {
        self.push(part, true);
    }

    fn push(&self, part: Handover, begins: bool) {
        for graph in &part.schemas {
            self.schemas.want(graph);
        }
        let mut queue = self.queue.lock();
        if queue.closed {
            drop(queue);
            part.answer(&Err(JournalError::Closed));
            return;
        }
        // The first lazy part sets the time of the next commit. Later lazy parts do not change it.
        let wakes = part.is_waited_for() || queue.lazy_since.is_none() || part.came_round;
        // The end of a commit that no thread waits for looks at the parts.
        let wakes = wakes && queue.turns.turn != Turn::Later;
        queue.waited_for |= part.is_waited_for();
        if part.lazy.is_some() {
            // Set even if the part is also waited for: the thread may come late, and lazy foms go on meanwhile.
            queue.lazy_since.get_or_insert(part.since);
        }
        if part.came_round {
            queue.gather.came_round(part.since);
        }
        queue.parts.push(part);
        self.go_on(queue, begins, wakes);
    }

    /// Notes that a locality has run the foms that were answered last, and has nothing to commit. May begin to commit what others
    /// handed over. The caller holds no lock.
    pub(crate) fn came_round(&self) {
        let mut queue = self.queue.lock();
        queue.gather.came_round(now());
        let wakes = queue.waited_for;
        self.go_on(queue, true, wakes);
    }

    /// Begins to commit on this thread, if it may and that needs no wait. Otherwise wakes the thread of the committer, if there is
    /// something for it.
    fn go_on(&self, mut queue: MutexGuard<'_, Queue>, begins: bool, wakes: bool) {
        let later = begins.then(|| queue.take_for_later(Turn::Free)).flatten();
        drop(queue);
        match later {
            Some((thread, parts)) => CommitThread::commit_later(&thread, parts),
            None if wakes => self.todo.notify_one(),
            None => {}
        }
    }

    /// Whether a lazy commit has waited longer than it may.
    pub(crate) fn is_behind(&self) -> bool {
        let queue = self.queue.lock();
        let since = queue.owed_since.into_iter().chain(queue.lazy_since).min();
        since.is_some_and(|since| now().saturating_duration_since(since) > LAZY)
    }

    /// Whether the last commit failed: then it is unknown how much of its batch the journal has.
    pub(crate) fn fails(&self) -> bool {
        self.fails.load(Ordering::Acquire)
    }

    /// Wakes the thread, because something must be retried after a while.
    pub(super) fn look(&self) {
        // The lock makes sure that the thread either sees the change or already waits.
        drop(self.queue.lock());
        self.todo.notify_one();
    }

    /// Notes that another process has the journal. The thread then ends the runtime.
    pub(super) fn lost(&self) {
        {
            let mut queue = self.queue.lock();
            if queue.ownership == Ownership::Ours {
                queue.ownership = Ownership::Lost;
            }
        }
        self.todo.notify_one();
    }

    /// Waits until another process has the journal.
    pub(super) fn moved(&self) -> impl Future<Output = ()> + use<> {
        let mut moved = self.queue.lock().moved.subscribe();
        async move {
            if moved.wait_for(|moved| *moved).await.is_err() {
                // The runtime is gone, and no other process has taken the journal from it.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Closes the queue. The thread commits what is left, and then closes the journal.
    pub(crate) fn close(&self) {
        self.queue.lock().closed = true;
        self.todo.notify_one();
    }

    /// Waits until the journal is closed, at most until `by`.
    pub(crate) fn wait_closed(&self, by: Instant) {
        let queue = self.queue.lock();
        drop(self.ended.wait_until(queue, by, |queue| queue.ended));
    }

    /// Waits for parts to commit, or until there is something else to do.
    fn next(&self, idle_in: Option<Duration>) -> Next {
        let begun = now();
        let mut idle_at = idle_in.map(|time| begun + time);
        let look_in = idle_in.unwrap_or(CALM);
        let mut nap_until = None;
        let mut queue = self.queue.lock();
        if queue.turns.turn == Turn::Thread {
            queue.turns.turn = Turn::Free;
        }
        loop {
            queue.turns.naps = false;
            let now = now();
            match queue.turns.turn {
                Turn::Stashed => {
                    queue.turns.turn = Turn::Thread;
                    return Next::Stash;
                }
                Turn::Later => {
                    let until = *nap_until.get_or_insert(now + look_in);
                    let left = until.saturating_duration_since(now);
                    if left.is_zero() || queue.closed || queue.ownership == Ownership::Lost {
                        queue.turns.wanted = true;
                        queue = self.todo.wait(queue);
                    } else {
                        queue.turns.naps = true;
                        (queue, _) = self.todo.wait_for(queue, left);
                    }
                    continue;
                }
                Turn::Free | Turn::Thread => nap_until = None,
            }
            let lazy_at = queue.lazy_since.map(|since| since + LAZY);
            let gathered_at = queue.gather.until().filter(|until| now < *until);
            if queue.waited_for && gathered_at.is_none()
                || queue.turns.wanted
                || queue.closed
                || queue.ownership == Ownership::Lost
                || lazy_at.is_some_and(|at| at <= now)
            {
                if queue.parts.is_empty() && queue.closed {
                    return Next::Closed;
                }
                return queue.thread_works();
            }
            let gathered_at = gathered_at.filter(|_| queue.waited_for);
            if idle_at.is_none() && self.is_stalled() {
                // Foms report their stalled transitions only after they got the error.
                idle_at = Some(now + AGAIN);
            }
            if idle_at.is_none() && queue.turns.untidy {
                idle_at = Some(now + look_in);
            }
            let idle_at = idle_at.filter(|_| !queue.waited_for);
            let until = lazy_at.into_iter().chain(idle_at).chain(gathered_at).min();
            match until {
                None => queue = self.todo.wait(queue),
                Some(until) => {
                    let left = until.saturating_duration_since(now);
                    if left.is_zero() && !queue.waited_for {
                        return queue.thread_idles();
                    }
                    queue.turns.naps = true;
                    (queue, _) = self.todo.wait_for(queue, left);
                }
            }
        }
    }

    /// Runs the thread until the queue is closed.
    pub(crate) fn run(
        self: &Arc<Self>,
        journal: Box<dyn Journal>,
        head: Head,
        shared: &Weak<Shared>,
    ) {
        let _ended = Ended(self);
        let commits_later = fenced(|| Ok(journal.commits_later()));
        let thread = CommitThread::new(self, journal, head, shared);
        let thread = Arc::new(Mutex::new(thread));
        if commits_later.unwrap_or(false) {
            self.queue.lock().turns.later = Some(Arc::downgrade(&thread));
        }
        CommitThread::run(self, &thread);
    }

    /// Marks the thread as ended, or as never started. Then no caller waits for it.
    pub(crate) fn end(&self) {
        let parts = {
            let mut queue = self.queue.lock();
            queue.closed = true;
            queue.ended = true;
            std::mem::take(&mut queue.parts)
        };
        self.ended.notify_all();
        for part in parts {
            part.answer(&Err(JournalError::Closed));
        }
    }

    /// Commits a batch.
    fn commit(&self, journal: &mut dyn Journal, batch: &Batch) -> Result<(), JournalError> {
        {
            let mut queue = self.queue.lock();
            if queue.ownership != Ownership::Ours {
                return Err(JournalError::Fenced);
            }
            queue.under_way = Some(now());
        }
        let done = fenced(|| journal.commit(batch));
        self.queue.lock().under_way = None;
        done
    }

    /// Notes whether there are lazy groups that could not be committed. Reports only the first failure.
    fn owe(&self, owes: bool, done: &Result<(), JournalError>, shared: &Weak<Shared>) {
        let mut queue = self.queue.lock();
        let before = queue.owed_since.is_some();
        queue.owed_since = match owes {
            true => queue.owed_since.or(queue.lazy_since).or(Some(now())),
            false => None,
        };
        drop(queue);
        if owes
            && !before
            && let (Err(error), Some(shared)) = (done, shared.upgrade())
        {
            seam::report(
                &shared,
                IncidentKind::Journal,
                "the journal",
                format!("lazy transitions could not be committed, and are tried again: {error}"),
            );
        }
    }

    fn look_at_stats(&self, journal: &dyn Journal) {
        if let Ok(stats) = fenced(|| Ok(journal.stats())) {
            *self.stats.lock() = stats;
        }
    }

    fn finish(&self, parts: Vec<Handover>, done: &Result<(), JournalError>, took: Duration) {
        let answered = parts.iter().filter(|part| part.is_waited_for()).count();
        {
            let mut queue = self.queue.lock();
            let lazy = queue.parts.iter().filter(|part| part.lazy.is_some());
            queue.lazy_since = lazy.map(|part| part.since).min();
            queue.gather.answered(took, answered, now());
            let pause = fom_protocol::nanos(queue.gather.pause());
            self.pause.store(pause, Ordering::Relaxed);
        }
        let mut filled = Vec::new();
        for mut part in parts {
            filled.push(std::mem::take(&mut part.batch));
            filled.extend(part.lazy.take());
            part.answer(done);
        }
        let mut queue = self.queue.lock();
        for batch in filled {
            if queue.spares.len() < SPARES && (1..=LARGE).contains(&batch.allocated_bytes()) {
                queue.spares.push(batch);
            }
        }
    }
}

/// Ends the committer when the thread ends, also by a panic, so that each waiting caller gets an answer.
struct Ended<'a>(&'a Committer);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Turns a panic of the journal, which may be the user's code, into an error.
pub(super) fn fenced<T>(f: impl FnOnce() -> Result<T, JournalError>) -> Result<T, JournalError> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        let what = format!("it panicked: {}", panic_message(panic));
        Err(JournalError::Other(Arc::from(Box::<
            dyn std::error::Error + Send + Sync,
        >::from(what))))
    })
}
