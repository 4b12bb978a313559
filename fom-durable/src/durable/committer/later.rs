//! Commits that no thread waits for, if the journal can begin them: the thread that hands something over begins a commit, and the
//! thread that learns of its end answers and begins the next one. The thread of the committer does the rest: what failed,
//! what is lazy, and the room in the journal.

use std::{
    sync::{Arc, Weak},
    time::Instant,
};

use fom_journal::JournalError;
use fom_protocol::sync::{Mutex, now};

use crate::durable::{
    buffer::{Handover, MOST_STATEMENTS},
    committer::{
        Committer, Ownership, Queue, fenced,
        thread::{CommitThread, Gathered},
    },
};

/// The most bytes of parts that a locality, or the thread that answers, prepares for the journal. It does nothing else meanwhile.
const MOST_BYTES: usize = 256 << 10;

/// What happens with the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing. The next thread with something to commit begins.
    #[default]
    Free,
    /// The thread of the committer works.
    Thread,
    /// A commit is under way that no thread waits for.
    Later,
    /// Such a commit could not begin, or failed. The thread goes on with it.
    Stashed,
}

/// What the thread does next.
pub(super) enum Next {
    Parts {
        /// What is to be committed.
        parts: Vec<Handover>,
        /// Whether the thread has something else to do after the commit.
        stays: bool,
    },
    /// The commit that another thread began.
    Stash,
    /// The queue is closed.
    Closed,
}

/// A commit that has begun.
pub(super) struct Begun {
    parts: Vec<Handover>,
    gathered: Gathered,
    at: Instant,
}

/// What the thread goes on with.
pub(super) enum Stash {
    /// Nothing has begun.
    Parts(Vec<Handover>),
    /// The batch is gathered. `Some`: the journal has answered.
    Begun(Begun, Option<JournalError>),
}

/// Which thread commits.
#[derive(Default)]
pub(super) struct Turns {
    pub(super) turn: Turn,
    /// Whether the thread waits for a turn of its own.
    pub(super) wanted: bool,
    /// Whether the thread looks again after a while, without being woken.
    pub(super) naps: bool,
    /// Whether there were commits since the thread last let the journal make room.
    pub(super) untidy: bool,
    /// What commits on other threads, if the journal can.
    pub(super) later: Option<Weak<Mutex<CommitThread>>>,
}

impl Queue {
    /// Takes what is to be committed, if a commit can begin now on the thread that calls this.
    pub(super) fn take_for_later(
        &mut self,
        from: Turn,
    ) -> Option<(Arc<Mutex<CommitThread>>, Vec<Handover>)> {
        let begins = self.turns.turn == from
            && self.waited_for
            && !self.closed
            && !self.turns.wanted
            && self.ownership == Ownership::Ours
            && self.gather.until().is_none_or(|until| until <= now())
            && self.parts.iter().map(Handover::bytes).sum::<usize>() <= MOST_BYTES;
        let thread = begins.then(|| self.turns.later.as_ref()?.upgrade())??;
        Some((thread, self.take_parts(Turn::Later)))
    }

    fn take_parts(&mut self, turn: Turn) -> Vec<Handover> {
        self.turns.turn = turn;
        self.waited_for = false;
        std::mem::take(&mut self.parts)
    }

    /// The thread works on what is to be committed.
    pub(super) fn thread_works(&mut self) -> Next {
        let stays = std::mem::take(&mut self.turns.wanted);
        self.turns.untidy &= !stays;
        Next::Parts {
            parts: self.take_parts(Turn::Thread),
            stays,
        }
    }

    /// The thread does what is to be done while nothing is committed.
    pub(super) fn thread_idles(&mut self) -> Next {
        self.turns.turn = Turn::Thread;
        self.turns.untidy = false;
        Next::Parts {
            parts: Vec::new(),
            stays: true,
        }
    }
}

impl Committer {
    /// Gives the turn of the thread to a commit that ends without it, if the journal can begin such commits. Returns whether it can.
    pub(super) fn gives_turn_away(&self) -> bool {
        let mut queue = self.queue.lock();
        let begins = queue.turns.later.is_some() && queue.ownership == Ownership::Ours;
        if begins {
            queue.turns.turn = Turn::Later;
        }
        begins
    }

    /// Lets the thread go on with what another thread began.
    fn stash(&self) {
        self.queue.lock().turns.turn = Turn::Stashed;
        self.todo.notify_one();
    }
}

impl CommitThread {
    /// Commits parts, and does not wait for the end. The turn is [`Later`](Turn::Later). The caller holds no lock.
    pub(super) fn commit_later(this: &Arc<Mutex<Self>>, parts: Vec<Handover>) {
        let mut thread = this.lock();
        if let Some(stash) = thread.try_later(this, parts) {
            thread.stash = Some(stash);
            let committer = Arc::clone(&thread.committer);
            drop(thread);
            committer.stash();
        }
    }

    /// Begins a commit. Returns what the thread must go on with if it has not begun.
    fn try_later(&mut self, this: &Arc<Mutex<Self>>, mut parts: Vec<Handover>) -> Option<Stash> {
        let statements: usize = parts.iter().map(Handover::statements).sum();
        let is_usual = self.is_usual() && statements <= MOST_STATEMENTS;
        if !is_usual {
            return Some(Stash::Parts(parts));
        }
        let gathered = self.gather(&mut parts);
        let at = now();
        let begun = Begun {
            parts,
            gathered,
            at,
        };
        self.committer.queue.lock().under_way = Some(at);
        let weak = Arc::downgrade(this);
        let done = Box::new(move |result| {
            if let Some(thread) = weak.upgrade() {
                Self::ended_caught(&thread, result);
            }
        });
        let Self { journal, whole, .. } = self;
        let later = match journal {
            Some(journal) => fenced(|| Ok(journal.commit_later(whole, done))),
            None => Err(JournalError::Closed),
        };
        match later {
            Ok(None) => {
                self.begun = Some(begun);
                None
            }
            // The thread commits it, or gets the same error.
            Ok(Some(_)) | Err(_) => Some(Stash::Begun(begun, None)),
        }
    }

    /// As [`ended`](Self::ended). After a panic, which ends the committer, the thread goes on.
    fn ended_caught(this: &Arc<Mutex<Self>>, result: Result<(), JournalError>) {
        let ended = fenced(|| {
            Self::ended(this, result);
            Ok(())
        });
        if ended.is_err() {
            let committer = Arc::clone(&this.lock().committer);
            committer.end();
            committer.stash();
        }
    }

    /// Learns how the commit ended that no thread waits for. Answers, and begins the next one.
    fn ended(this: &Arc<Mutex<Self>>, result: Result<(), JournalError>) {
        let mut thread = this.lock();
        let Some(begun) = thread.begun.take() else {
            return;
        };
        let committer = Arc::clone(&thread.committer);
        committer.queue.lock().under_way = None;
        let is_kept = result.is_ok();
        let settled = fenced(|| {
            if let Some(journal) = &mut thread.journal {
                journal.settle(is_kept);
            }
            result
        });
        if let Err(error) = settled {
            thread.stash = Some(Stash::Begun(begun, Some(error)));
            drop(thread);
            committer.stash();
            return;
        }
        thread.committed(begun.parts, begun.gathered, begun.at, &Ok(()));
        drop(thread);
        let mut queue = committer.queue.lock();
        queue.turns.untidy = true;
        if let Some((thread, parts)) = queue.take_for_later(Turn::Later) {
            drop(queue);
            Self::commit_later(&thread, parts);
            return;
        }
        queue.turns.turn = Turn::Free;
        // If it naps, it looks soon.
        let wakes = !queue.turns.naps
            || queue.closed
            || queue.ownership != Ownership::Ours
            || !queue.parts.is_empty();
        drop(queue);
        if wakes {
            committer.todo.notify_one();
        }
    }

    /// Goes on with a commit that could not begin, or failed. Returns whether the journal took it.
    pub(super) fn go_on(&mut self) -> bool {
        match self.stash.take() {
            None => true,
            Some(Stash::Parts(parts)) => self.commit(parts),
            Some(Stash::Begun(begun, answer)) => {
                self.commit_gathered(begun.parts, begun.gathered, begun.at, answer)
            }
        }
    }
}
