//! The changes that the foms of one locality want to commit: gathered without a lock, handed over in one piece.

use std::{ptr, time::Instant};

use fom_journal::{Batch, EntryId, JournalError};
use tokio::sync::oneshot;

use crate::{
    durable::{Committer, Durable, DurableState, recovery::in_locality},
    entry::entry_of,
};
use fom_protocol::sync::{atomic::Ordering, now};
use fom_runtime::{
    __durability::{self as seam, AnyRef, Home, Shared},
    context::Local,
    extension::{Part, Pause},
    machine::Graph,
};

/// At this number of groups, the locality hands over at the latest.
const MOST: usize = 4096;

/// At this number of statements, the locality hands over at the latest: they share one transaction.
pub(super) const MOST_STATEMENTS: usize = 256;

/// The pending commits of one locality: a part of the locality.
#[derive(Default)]
pub(crate) struct CommitBuffer {
    /// Whether there is something to hand over. Checked after each run.
    filled: bool,
    /// Groups that foms wait for. Boxed, because each step takes the batch out and puts it back.
    batch: Option<Box<Batch>>,
    /// Lazy groups, which no fom waits for. They go first: if a lazy fom sends something to a fom that waits, the
    /// receiver's commit must not overtake the sender's.
    lazy: Option<Box<Batch>>,
    /// Foms that wait for the commit.
    pub(crate) waiting: Vec<AnyRef>,
    /// The machines of all records so far, in this batch or an earlier one.
    machines: Vec<&'static Graph>,
    /// The number of `machines` that the committer knows.
    told: usize,
    /// The number of handovers that foms wait for, and that are not answered yet.
    unanswered: usize,
    /// Whether the locality got an answer, and has not yet reported that it ran the answered foms.
    owes_round: bool,
    /// The time of the first group, on the runtime's clock.
    since: u64,
}

/// What one locality hands over to the committer.
pub(crate) struct Handover {
    pub(super) batch: Box<Batch>,
    /// Lazy groups, which no fom waits for. They go first.
    pub(super) lazy: Option<Box<Batch>>,
    waiting: Vec<AnyRef>,
    /// Foms with a statement that failed. Their groups are left out.
    failed: Vec<(AnyRef, JournalError)>,
    /// Machines that had no record before.
    pub(super) schemas: Vec<&'static Graph>,
    /// The time of the handover.
    pub(super) since: Instant,
    /// Whether the locality has run all answered foms since.
    pub(super) came_round: bool,
    home: Option<Home>,
    /// Tells a waiting caller that is no fom.
    tell: Option<Answered>,
}

/// Hears of the answer, on the thread that commits.
pub(crate) type Answered = Box<dyn FnOnce(&Result<(), JournalError>) + Send>;

impl Handover {
    /// Returns a handover that belongs to no locality.
    pub(crate) fn alone(batch: Batch, tell: oneshot::Sender<Result<(), JournalError>>) -> Self {
        Self::answered(
            batch,
            Box::new(|answer| {
                // The caller may have gone.
                let _ = tell.send(answer.clone());
            }),
        )
    }

    /// As [`alone`](Self::alone), with a function that hears of the answer.
    pub(crate) fn answered(batch: Batch, tell: Answered) -> Self {
        Self {
            batch: Box::new(batch),
            lazy: None,
            waiting: Vec::new(),
            failed: Vec::new(),
            schemas: Vec::new(),
            since: now(),
            came_round: false,
            home: None,
            tell: Some(tell),
        }
    }

    /// As [`alone`](Self::alone), for changes that no caller waits for. They are committed soon, and tried again until
    /// the journal takes them.
    pub(crate) fn owed(batch: Batch) -> Self {
        Self {
            lazy: Some(Box::new(batch)),
            ..Self::alone(Batch::new(), oneshot::channel().0)
        }
    }

    /// Whether a fom or another caller waits for the handover.
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.waiting.is_empty() || !self.failed.is_empty() || self.tell.is_some()
    }

    /// Returns the number of statements.
    pub(crate) fn statements(&self) -> usize {
        self.batch.statements().count()
    }

    /// Returns the length of all entries, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.batch.bytes() + self.lazy.as_ref().map_or(0, |lazy| lazy.bytes())
    }

    /// Notes that a statement of the fom with this entry failed, if the fom waits for this handover. Returns whether it does.
    pub(crate) fn fails(&mut self, entry: EntryId, error: &JournalError) -> bool {
        let is_it = |fom: &AnyRef| entry_of(fom.id()) == entry;
        let Some(place) = self.waiting.iter().position(is_it) else {
            return false;
        };
        let fom = self.waiting.remove(place);
        self.failed.push((fom, error.clone()));
        true
    }

    /// Sends the answer to all that wait. The foms of a locality get one message together, inside the locality.
    pub(crate) fn answer(self, answer: &Result<(), JournalError>) {
        if let Some(tell) = self.tell {
            tell(answer);
        }
        let waits = !self.waiting.is_empty() || !self.failed.is_empty();
        let Some(home) = self.home.filter(|_| waits) else {
            return;
        };
        let (waiting, failed, answer) = (self.waiting, self.failed, answer.clone());
        seam::post(&home, move |local| {
            let shared = seam::owned(seam::shared_at(seam::home(local)));
            if let Some(buffer) = Durable::of(&shared).buffer(local) {
                buffer.unanswered -= 1;
                buffer.owes_round = true;
            }
            // By reference: the last handle of a fom drops the user's data, which may panic before all foms are told.
            for fom in &waiting {
                tell(local, fom, &answer);
            }
            for (fom, error) in &failed {
                tell(local, fom, &Err(error.clone()));
            }
        });
    }
}

/// Tells a fom how its commit ended, inside its locality.
fn tell(local: &mut Local<'_>, fom: &AnyRef, answer: &Result<(), JournalError>) {
    if let Some(kept) = DurableState::of(fom) {
        kept.answer(answer);
    }
    seam::wake_here(local, fom);
}

impl Part for CommitBuffer {
    fn pause(&mut self, local: &mut Local<'_>, pause: Pause) -> bool {
        let home = seam::home(local);
        let nothing_left = local.ready_foms() == 0;
        let at_once = pause != Pause::Passing || nothing_left;
        if let Some(committer) = Durable::of(seam::shared_at(home)).committer()
            && self.is_due(at_once, seam::last_look(local), committer)
        {
            self.hand_over(home, committer, nothing_left);
        }
        !self.is_empty()
    }

    fn is_quiet(&self) -> bool {
        !self.are_awaited()
    }
}

impl Durable {
    /// Returns the buffer of this locality.
    #[inline]
    pub(super) fn buffer<'a>(&self, local: &'a mut Local<'_>) -> Option<&'a mut CommitBuffer> {
        let id = *self.buffers.get(local.index())?.get()?;
        local.part(id)
    }

    /// Hands over at once what this locality has gathered.
    pub(super) fn hand_over_now(&self, local: &mut Local<'_>) {
        let home = seam::home(local).clone();
        let nothing_left = local.ready_foms() == 0;
        if let Some(committer) = self.committer()
            && let Some(buffer) = self.buffer(local)
        {
            buffer.hand_over(&home, committer, nothing_left);
        }
    }
}

impl CommitBuffer {
    /// Gives each locality of this runtime its buffer. Must be called before the first fom.
    pub(super) fn add_to(shared: &Shared) {
        let runtime = seam::runtime_of(shared);
        for index in 0..runtime.localities() {
            let shared = seam::owned(shared);
            in_locality(&runtime, index, move |local| {
                let id = local.add_part(Self::default());
                // Called once.
                let _ = Durable::of(&shared).buffers[index].set(id);
            });
        }
    }

    /// Takes the batch that a group is written to. The core stays in its place while the user's code writes the group.
    /// The caller must [give the batch back](Self::added).
    pub(crate) fn take_batch(&mut self, waits: bool) -> Option<Box<Batch>> {
        let place = if waits {
            &mut self.batch
        } else {
            &mut self.lazy
        };
        place.take()
    }

    /// Whether there is nothing to hand over.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        !self.filled
    }

    fn len(&self) -> usize {
        let batches = [&self.batch, &self.lazy].into_iter().flatten();
        batches.map(|batch| batch.len()).sum()
    }

    /// Returns the number of statements. Only steps that foms wait for have some.
    fn statements(&self) -> usize {
        let batch = self.batch.as_ref();
        batch.map_or(0, |batch| batch.statements().count())
    }

    /// Notes that the batch has a record of this machine.
    #[inline]
    pub(crate) fn uses(&mut self, graph: &'static Graph) {
        if !self.machines.iter().any(|known| ptr::eq(*known, graph)) {
            self.machines.push(graph);
        }
    }

    /// Puts back the batch that was taken out. A group was added to it at `now`, if the group could be written.
    pub(crate) fn added(&mut self, waits: bool, batch: Box<Batch>, now: u64) {
        let place = if waits {
            &mut self.batch
        } else {
            &mut self.lazy
        };
        if !self.filled && !batch.is_empty() {
            self.filled = true;
            self.since = now;
        }
        *place = Some(batch);
    }

    /// Whether to hand over now: nothing more comes soon, or the groups have waited long enough.
    #[inline]
    pub(crate) fn is_due(&self, nothing_more: bool, now: u64, committer: &Committer) -> bool {
        nothing_more
            || self.len() >= MOST
            || self.statements() >= MOST_STATEMENTS
            || now.saturating_sub(self.since) > committer.pause.load(Ordering::Relaxed)
            // A test's clock may stand still forever.
            || !seam::is_real(&committer.clocks.runtime)
    }

    /// Whether a fom of this locality waits for a commit.
    pub(crate) fn are_awaited(&self) -> bool {
        self.unanswered > 0 || !self.waiting.is_empty()
    }

    /// Hands over all groups. `nothing_more`: the locality has nothing to run.
    pub(crate) fn hand_over(&mut self, home: &Home, committer: &Committer, nothing_more: bool) {
        let came_round = nothing_more && std::mem::take(&mut self.owes_round);
        if self.is_empty() {
            if came_round {
                committer.came_round();
            }
        } else {
            self.unanswered += usize::from(!self.waiting.is_empty());
            let filled = |batch: &mut Option<Box<Batch>>| match batch {
                Some(batch) if !batch.is_empty() => {
                    Some(std::mem::replace(batch, committer.spare()))
                }
                _ => None,
            };
            committer.take_now(Handover {
                batch: filled(&mut self.batch).unwrap_or_default(),
                lazy: filled(&mut self.lazy),
                waiting: std::mem::take(&mut self.waiting),
                failed: Vec::new(),
                schemas: self.machines[self.told..].to_vec(),
                since: now(),
                came_round,
                home: Some(home.clone()),
                tell: None,
            });
            self.told = self.machines.len();
            self.filled = false;
        }
    }
}
