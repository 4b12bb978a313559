//! The thread that commits: batches, what is owed, what stalled, and the room in the journal.

use std::{
    ops::Range,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use fom_journal::{Batch, Change, EntryId, Journal, JournalError};

use crate::{
    durable::{
        Durable, Head, Kind,
        buffer::{Handover, MOST_STATEMENTS},
        committer::{
            AGAIN, CALM, Committer, HEAD_ENTRY, IDLE, LARGE, Ownership, fenced,
            later::{Begun, Next, Stash},
        },
    },
    entry::fom_of,
};
use fom_protocol::sync::{Mutex, atomic::Ordering, now};
use fom_runtime::__durability::{self as seam, Schema, Shared};
use fom_runtime::observe::IncidentKind;

/// What is kept from one batch to the next. The thread that commits has it, or [another one](super::later) whose turn it is.
pub(super) struct CommitThread {
    pub(super) committer: Arc<Committer>,
    /// `None` once it is closed.
    pub(super) journal: Option<Box<dyn Journal>>,
    head: Head,
    shared: Weak<Shared>,
    /// The batch, kept for its memory.
    pub(super) whole: Box<Batch>,
    /// The commit that no thread waits for.
    pub(super) begun: Option<Begun>,
    /// What the thread goes on with.
    pub(super) stash: Option<Stash>,
    /// Lazy groups that could not be committed.
    owed: Batch,
    /// Whether the journal has more room to make.
    untidy: bool,
    /// Whether the journal could not make room the last time.
    was_untidy_error: bool,
    /// Whether the spare memory was given back since the last batch.
    is_calm: bool,
    /// Whether another process has the journal.
    is_lost: bool,
}

/// The parts of a batch that are looked at when the journal has answered.
pub(super) struct Gathered {
    schemas: Vec<Arc<Schema>>,
    /// The places of the lazy groups.
    lazy: Vec<Range<usize>>,
    /// Entries that are no longer needed.
    dropped: Vec<EntryId>,
}

impl CommitThread {
    pub(super) fn new(
        committer: &Arc<Committer>,
        journal: Box<dyn Journal>,
        head: Head,
        shared: &Weak<Shared>,
    ) -> Self {
        Self {
            committer: Arc::clone(committer),
            journal: Some(journal),
            head,
            shared: Weak::clone(shared),
            whole: Box::default(),
            begun: None,
            stash: None,
            owed: Batch::new(),
            untidy: true,
            was_untidy_error: false,
            is_calm: true,
            is_lost: false,
        }
    }

    /// Commits until the queue is closed, and then closes the journal.
    pub(super) fn run(committer: &Committer, this: &Arc<Mutex<Self>>) {
        loop {
            let idle_in = this.lock().idle_in();
            let next = committer.next(idle_in);
            let mut thread = this.lock();
            let is_closed = matches!(next, Next::Closed);
            if committer.queue.lock().ownership == Ownership::Lost {
                thread.lose();
            }
            let works = match next {
                Next::Stash => thread.go_on(),
                Next::Closed => thread.commit_if_any(Vec::new()),
                Next::Parts { parts, stays } => {
                    thread.calm_down(parts.is_empty());
                    let later = !stays && !parts.is_empty() && committer.gives_turn_away();
                    if later {
                        drop(thread);
                        Self::commit_later(this, parts);
                        continue;
                    }
                    thread.commit_if_any(parts)
                }
            };
            if is_closed {
                break;
            }
            if works && committer.is_stalled() {
                thread.try_stalled();
            }
            if !thread.is_lost {
                thread.tidy();
            }
        }
        this.lock().close();
    }

    /// Whether a commit is one like most.
    pub(super) fn is_usual(&self) -> bool {
        self.head.kept && self.owed.is_empty() && !self.is_lost && !self.committer.is_stalled()
    }

    fn commit_if_any(&mut self, parts: Vec<Handover>) -> bool {
        parts.is_empty() && self.owed.is_empty() || self.commit(parts)
    }

    /// Returns the idle time after which there is something to do.
    fn idle_in(&self) -> Option<Duration> {
        match (
            self.untidy,
            self.committer.is_stalled() || !self.owed.is_empty(),
        ) {
            (true, _) => Some(IDLE),
            (false, true) => Some(AGAIN),
            (false, false) => (!self.is_calm).then_some(CALM),
        }
    }

    /// Gives the spare memory back, once, when there was nothing to do for a while.
    fn calm_down(&mut self, idle: bool) {
        let calms = idle && !self.untidy && !self.is_calm;
        self.is_calm = idle && (calms || self.is_calm);
        if calms {
            let freed = self.committer.give_back(&mut self.whole);
            if let Some(shared) = self.shared.upgrade() {
                seam::freed(&shared, freed);
            }
        }
    }

    /// Commits the parts, and what is owed. Returns whether the journal took them.
    pub(super) fn commit(&mut self, parts: Vec<Handover>) -> bool {
        let mut works = true;
        let mut parts = parts.into_iter().peekable();
        loop {
            // Usually all parts are in one batch.
            let mut statements = 0;
            let some = std::iter::from_fn(|| {
                parts.next_if(|part| {
                    let takes =
                        statements == 0 || statements + part.statements() <= MOST_STATEMENTS;
                    statements += part.statements();
                    takes
                })
            });
            works &= self.commit_some(some.collect());
            if parts.peek().is_none() {
                return works;
            }
        }
    }

    fn commit_some(&mut self, mut parts: Vec<Handover>) -> bool {
        let gathered = self.gather(&mut parts);
        self.commit_gathered(parts, gathered, now(), None)
    }

    /// Commits the batch. `answer`: the journal has failed already.
    pub(super) fn commit_gathered(
        &mut self,
        mut parts: Vec<Handover>,
        mut gathered: Gathered,
        begun: Instant,
        mut answer: Option<JournalError>,
    ) -> bool {
        let done = loop {
            let done = match answer.take() {
                Some(error) => Err(error),
                None => self.commit_whole(),
            };
            match done {
                Err(error) if self.leave_out(&mut parts, &mut gathered, &error) => {}
                done => break done,
            }
        };
        if matches!(done, Err(JournalError::Fenced)) {
            self.lose();
        }
        self.committed(parts, gathered, begun, &done)
    }

    fn commit_whole(&mut self) -> Result<(), JournalError> {
        match &mut self.journal {
            Some(journal) => self.committer.commit(&mut **journal, &self.whole),
            None => Err(JournalError::Closed),
        }
    }

    /// Notes and tells how a commit ended. Returns whether the journal took it.
    pub(super) fn committed(
        &mut self,
        parts: Vec<Handover>,
        gathered: Gathered,
        begun: Instant,
        done: &Result<(), JournalError>,
    ) -> bool {
        let committer = Arc::clone(&self.committer);
        let works = done.is_ok();
        self.is_calm = false;
        committer.fails.store(!works, Ordering::Release);
        if works {
            self.head.kept = true;
            committer.schemas.committed(&gathered.schemas);
        } else if !self.is_lost {
            committer.drop_later(gathered.dropped);
            self.owed = some_of(&self.whole, &gathered.lazy);
        }
        let took = now().saturating_duration_since(begun);
        committer.owe(!self.owed.is_empty(), done, &self.shared);
        if let Some(journal) = &self.journal {
            committer.look_at_stats(&**journal);
        }
        committer.finish(parts, done, took);
        if self.whole.bytes() > LARGE {
            *self.whole = Batch::new();
        }
        works
    }

    /// Leaves out the group with the statement that failed, and notes the failure. Returns whether the others can be committed.
    #[cold]
    fn leave_out(
        &mut self,
        parts: &mut [Handover],
        gathered: &mut Gathered,
        error: &JournalError,
    ) -> bool {
        let JournalError::Statement { statement, source } = error else {
            return false;
        };
        let mut statements = self.whole.statements();
        let Some((group, _)) = statements.nth(*statement) else {
            return false;
        };
        drop(statements);
        let first = self.whole.statements().position(|(of, _)| of == group);
        let error = JournalError::Statement {
            statement: statement - first.unwrap_or(0),
            source: Arc::clone(source),
        };
        let Some(failed) = self.whole.groups().nth(group) else {
            return false;
        };
        let waits = failed.changes().any(|change| {
            let (Change::Put { id, .. } | Change::Delete { id }) = change;
            parts.iter_mut().any(|part| part.fails(id, &error))
        });
        if !waits {
            return false;
        }
        *self.whole = self.whole.without(group);
        for range in &mut gathered.lazy {
            range.start -= usize::from(range.start > group);
            range.end -= usize::from(range.end > group);
        }
        true
    }

    /// Makes one batch of the parts, and of what is owed.
    pub(super) fn gather(&mut self, parts: &mut [Handover]) -> Gathered {
        let (committer, whole) = (&*self.committer, &mut self.whole);
        whole.clear();
        if !self.head.kept {
            // A crash can break off a batch and keep its first groups. So the head comes first: an entry in the
            // journal implies a head.
            committer.add_head(whole, &mut self.head);
        }
        let schemas = committer.schemas.put(whole);
        let mut lazy = Vec::new();
        append(whole, &mut self.owed, &mut lazy);
        for part in parts {
            if let Some(groups) = &mut part.lazy {
                append(whole, groups, &mut lazy);
            }
            // Usually there is one part, and then nothing is copied.
            if whole.is_empty() {
                std::mem::swap(whole, &mut part.batch);
                whole.end_group();
            } else {
                whole.append(&mut part.batch);
            }
        }
        let dropped = std::mem::take(&mut *committer.dropped.lock());
        for entry in &dropped {
            whole.delete(*entry);
            whole.end_group();
        }
        committer.add_head(whole, &mut self.head);
        Gathered {
            schemas,
            lazy,
            dropped,
        }
    }

    /// Tries again what could not be committed.
    fn try_stalled(&mut self) {
        let Some(shared) = self.shared.upgrade() else {
            return;
        };
        let Some(journal) = &mut self.journal else {
            return;
        };
        let (committer, head) = (&*self.committer, &mut self.head);
        committer.try_stalled(&mut **journal, &shared, |journal, batch| {
            if !head.kept {
                let mut first = Batch::new();
                committer.add_head(&mut first, head);
                committer.commit(journal, &first)?;
                head.kept = true;
            }
            committer.add_head(batch, head);
            committer.commit(journal, batch)
        });
    }

    /// Ends the runtime, because another process has the journal: nothing is tried again, and no key is kept.
    #[cold]
    fn lose(&mut self) {
        if std::mem::replace(&mut self.is_lost, true) {
            return;
        }
        self.committer.queue.lock().ownership = Ownership::Told;
        self.untidy = false;
        self.owed = Batch::new();
        if let Some(shared) = self.shared.upgrade() {
            seam::report(
                &shared,
                IncidentKind::Journal,
                "the journal",
                "another process has taken the journal over; this runtime ends, and its operations go on there"
                    .to_owned(),
            );
            seam::end_moved(&shared);
        }
        self.give_up_uncommitted();
        self.committer.queue.lock().moved.send_replace(true);
    }

    /// Lets the journal make room.
    fn tidy(&mut self) {
        let Some(journal) = &mut self.journal else {
            return;
        };
        match fenced(|| journal.tidy()) {
            Ok(more) => {
                self.untidy = more;
                self.was_untidy_error = false;
            }
            Err(error) => {
                self.untidy = false;
                // Reported once, however long the error lasts.
                if !std::mem::replace(&mut self.was_untidy_error, true)
                    && let Some(shared) = self.shared.upgrade()
                {
                    seam::report(
                        &shared,
                        IncidentKind::Journal,
                        "the journal",
                        format!("the journal could not make room: {error}"),
                    );
                }
            }
        }
    }

    /// Gives up the transitions that could not be committed. The runtime keeps the keys of their foms, and these keys
    /// would keep the runtime alive.
    fn give_up_uncommitted(&self) {
        if let Some(shared) = self.shared.upgrade() {
            let left = std::mem::take(&mut *self.committer.uncommitted.lock());
            for uncommitted in left {
                uncommitted.give_key(&shared);
                if self.is_lost {
                    drop(Durable::of(&shared).quarantine.take(uncommitted.id));
                }
                // The drop of its gate is code of another package, or the user's.
                let _ = fenced(|| {
                    drop(uncommitted);
                    Ok(())
                });
            }
        }
    }

    /// Gives up what is left, and closes the journal.
    fn close(&mut self) {
        self.give_up_uncommitted();
        // If the drop panics, there is nothing more to close.
        let journal = self.journal.take();
        let _ = fenced(|| {
            drop(journal);
            Ok(())
        });
    }
}

impl Committer {
    /// Frees the memory of batches. Returns the number of bytes.
    fn give_back(&self, whole: &mut Batch) -> usize {
        let spares = std::mem::take(&mut self.queue.lock().spares);
        let before = std::mem::take(whole);
        let batches = spares.iter().map(|batch| &**batch).chain([&before]);
        batches.map(Batch::allocated_bytes).sum()
    }

    /// Adds the last group of each batch: the used ids and the time.
    pub(super) fn add_head(&self, whole: &mut Batch, head: &mut Head) {
        let beyond = whole.next_id().max(EntryId::HEAD);
        head.next_id = head.next_id.max(fom_of(beyond).get());
        head.time = self.to_journal(seam::nanos(&self.clocks.runtime));
        head.seen = self.clocks.stamp();
        // If this batch does not get into the journal, the next start forgets these entries again.
        for entry in self.memory.take_forgotten(head.time) {
            whole.delete(entry);
        }
        whole.put_with(HEAD_ENTRY, |out| encode_head(head, out));
        whole.end_group();
    }
}

/// Appends groups, and adds their places to `which`.
fn append(whole: &mut Batch, groups: &mut Batch, which: &mut Vec<Range<usize>>) {
    if !groups.is_empty() {
        let from = whole.len();
        whole.append(groups);
        which.push(from..whole.len());
    }
}

/// Returns the groups at these places.
fn some_of(whole: &Batch, which: &[Range<usize>]) -> Batch {
    let mut some = Batch::new();
    if which.is_empty() {
        return some;
    }
    let groups = whole.groups().enumerate();
    let wanted = groups.filter(|(place, _)| which.iter().any(|range| range.contains(place)));
    for (_, group) in wanted {
        some.extend(group);
        some.end_group();
    }
    some
}

pub(crate) fn encode_head(head: &Head, out: &mut Vec<u8>) {
    out.push(Kind::Head as u8);
    // Numbers and a short text cannot fail to encode, and writes to memory cannot fail.
    let _ = rmp_serde::encode::write_named(out, head);
}
