//! What the foms of one locality want to have committed: gathered without a lock, handed over in one piece.

use std::{ptr, time::Instant};

use fom_journal::{Batch, JournalError};
use tokio::sync::oneshot;

use crate::{
    Graph,
    durable::Committer,
    fom::AnyRef,
    locality::Home,
    sync::{atomic::Ordering, now},
};

/// Groups that are handed over at the latest.
const MOST: usize = 4096;

/// In the core of each locality.
#[derive(Default)]
pub(crate) struct Commits {
    /// There is something to hand over: looked at after each run.
    filled: bool,
    /// What somebody waits for. Boxed, since it is taken out and put back at every step.
    batch: Option<Box<Batch>>,
    /// What nobody waits for. It goes first: who waits is not to overtake what he was sent by who did not.
    lazy: Option<Box<Batch>>,
    /// Those who wait for it.
    pub(crate) waiting: Vec<AnyRef>,
    /// The machines whose records have been handed over or are to be.
    machines: Vec<&'static Graph>,
    /// How many of them the committer knows of.
    told: usize,
    /// What was handed over and is waited for.
    unanswered: usize,
    /// It was answered, and has not told since that it has run those who were.
    owes_round: bool,
    /// When the first one came, on the runtime's clock.
    since: u64,
}

/// What one locality hands over.
pub(crate) struct Part {
    pub(super) batch: Box<Batch>,
    /// What nobody waits for, which goes first.
    pub(super) lazy: Option<Box<Batch>>,
    waiting: Vec<AnyRef>,
    /// Machines of which there was no record before.
    pub(super) schemas: Vec<&'static Graph>,
    /// When it was handed over.
    pub(super) since: Instant,
    /// All who were answered in its locality have run since.
    pub(super) came_round: bool,
    home: Option<Home>,
    /// Somebody who is no fom.
    tell: Option<oneshot::Sender<Result<(), JournalError>>>,
}

impl Part {
    /// What is of no locality.
    pub(crate) fn alone(batch: Batch, tell: oneshot::Sender<Result<(), JournalError>>) -> Self {
        Self {
            batch: Box::new(batch),
            lazy: None,
            waiting: Vec::new(),
            schemas: Vec::new(),
            since: now(),
            came_round: false,
            home: None,
            tell: Some(tell),
        }
    }

    /// Whether somebody waits for it.
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.waiting.is_empty() || self.tell.is_some()
    }

    /// Tells those who wait, inside their locality: with one message for all of them.
    pub(crate) fn answer(self, answer: &Result<(), JournalError>) {
        if let Some(tell) = self.tell {
            // Who asked may have gone.
            let _ = tell.send(answer.clone());
        }
        let Some(home) = self.home.filter(|_| !self.waiting.is_empty()) else {
            return;
        };
        let (waiting, answer) = (self.waiting, answer.clone());
        home.post_job(Box::new(move |core| {
            core.commits.unanswered -= 1;
            core.commits.owes_round = true;
            // By reference: what is dropped with the last of a fom is the user's, and may panic before all are told.
            for fom in &waiting {
                if let Some(kept) = fom.kept() {
                    kept.answer(&answer);
                }
                core.wake(fom);
            }
        }));
    }
}

impl Commits {
    /// Where a group is to be written, so that the user's code in that runs with the core in its place; to be
    /// [given back](Self::added).
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

    /// A record of this machine is in the batch.
    #[inline]
    pub(crate) fn uses(&mut self, graph: &'static Graph) {
        if !self.machines.iter().any(|known| ptr::eq(*known, graph)) {
            self.machines.push(graph);
        }
    }

    /// A group was added at this time to what was taken out before, if it could be written.
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

    /// Whether it is better to hand over now: nothing more comes soon, or it has waited long enough.
    #[inline]
    pub(crate) fn is_due(&self, nothing_more: bool, now: u64, committer: &Committer) -> bool {
        nothing_more
            || self.len() >= MOST
            || now.saturating_sub(self.since) > committer.pause.load(Ordering::Relaxed)
            // It may stand still for ever.
            || !committer.clock.is_real()
    }

    /// Whether somebody here waits for a commit.
    pub(crate) fn are_awaited(&self) -> bool {
        self.unanswered > 0 || !self.waiting.is_empty()
    }

    /// Hands over what there is; `nothing_more`: there is nothing to run.
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
            committer.take(Part {
                batch: filled(&mut self.batch).unwrap_or_default(),
                lazy: filled(&mut self.lazy),
                waiting: std::mem::take(&mut self.waiting),
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
