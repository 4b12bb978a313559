//! Transitions that could not be committed, because the disk was full or failed: kept in memory, and committed when the journal
//! works again. Then their foms go on.

use std::{any::TypeId, collections::HashMap, sync::Arc, time::Instant};

use fom_journal::{Batch, Change, Journal, JournalError};

use crate::{
    durable::{
        Committer, Kind, Types,
        committer::AGAIN,
        entry_of,
        record::{is_fom, number_of},
    },
    error::RestoreError,
    id::{FomId, Key},
    lock::LockGuard,
    runtime::{Announced, World},
    sync::now,
};

/// How often a journal may refuse before the rest waits for the next time: each refusal may cost a write.
const MOST_REFUSALS: usize = 64;

/// The same as long as it has taken nothing: then it most likely takes nothing at all.
const MOST_FRUITLESS: usize = 24;

/// How many of those that were refused by themselves are tried at a time.
const MOST_ALONE: usize = 8;

/// The group of one fom's transition.
pub(crate) struct Stalled {
    pub(crate) id: FomId,
    group: Batch,
    error: JournalError,
    /// Its operation type and key: kept for it until it comes back.
    place: Option<(TypeId, Key)>,
    /// The long locks that it held: nobody sees what may be undone.
    locks: Vec<LockGuard>,
    /// The announced numbers of what it sends: the journal may have these entries already, or may get them later.
    _announced: Vec<Announced>,
    /// It was refused where others were not, and is tried by itself.
    alone: bool,
    /// It is not tried before.
    again: Option<Instant>,
}

impl World {
    /// A transition could not be committed: its fom ends now, and is listed until it can be.
    pub(crate) fn list_stalled(&self, stalled: &Stalled) {
        let reason = RestoreError::NotCommitted(stalled.error.to_string());
        let bytes = stalled.own().unwrap_or_default();
        self.set_aside.put(self.aside(stalled.id, reason, bytes));
    }

    /// Its fom has left all tables: from now on it may come back.
    pub(crate) fn stall(&self, stalled: Stalled) {
        if let Some(committer) = self.committer() {
            committer.stalled.lock().push(stalled);
            committer.look();
        }
    }
}

impl Stalled {
    pub(crate) fn new(
        id: FomId,
        group: Batch,
        error: JournalError,
        place: Option<(TypeId, Key)>,
        locks: Vec<LockGuard>,
        announced: Vec<Announced>,
    ) -> Self {
        Self {
            id,
            group,
            error,
            place,
            locks,
            _announced: announced,
            alone: false,
            again: None,
        }
    }

    /// It does not come back: others may have its key.
    pub(super) fn give_key(&self, world: &World) {
        if let Some((of, key)) = &self.place {
            world.directory.remove(world, (*of, key.clone()), self.id);
        }
    }

    /// Whether its fom comes back.
    pub(crate) fn comes_back(&self) -> bool {
        self.own().is_some_and(is_fom)
    }

    /// What it puts for itself, and not for those that it sends.
    fn own(&self) -> Option<&[u8]> {
        let of = entry_of(self.id.get());
        let mut changes = self.group.groups().flat_map(|group| group.changes());
        changes.find_map(|change| match change {
            Change::Put { id, bytes } if id == of => Some(bytes),
            _ => None,
        })
    }
}

impl Committer {
    /// Whether there are transitions that could not be committed.
    pub(super) fn is_stalled(&self) -> bool {
        !self.stalled.lock().is_empty()
    }

    /// Tries to commit them, all at once if that can be. What they started goes on.
    pub(super) fn try_stalled(
        &self,
        journal: &mut dyn Journal,
        world: &Arc<World>,
        commit: impl FnMut(&mut dyn Journal, &mut Batch) -> Result<(), JournalError>,
    ) {
        let now = now();
        let (due, later) = std::mem::take(&mut *self.stalled.lock())
            .into_iter()
            .partition::<Vec<_>, _>(|one| one.again.is_none_or(|again| again <= now));
        let (mut alone, together) = due.into_iter().partition::<Vec<_>, _>(|one| one.alone);
        let mut round = Round {
            committer: self,
            journal,
            commit,
            failed: 0,
            done: Vec::new(),
            refused: Vec::new(),
            left: Vec::new(),
        };
        let works = together.is_empty();
        round.halve(together);
        if works || !round.done.is_empty() {
            // Those that were tried now come after the others next time.
            let rest = alone.split_off(alone.len().min(MOST_ALONE));
            for one in alone {
                round.halve(vec![one]);
            }
            round.left.extend(rest);
        } else {
            round.left.extend(alone);
        }
        let Round {
            done,
            refused,
            mut left,
            ..
        } = round;
        for (mut one, error) in refused {
            // It is refused where others are not: they do not wait for it any more.
            if !done.is_empty() && !one.alone {
                one.alone = true;
                one.error = error;
                world.list_stalled(&one);
            }
            left.push(one);
        }
        for one in &mut left {
            one.again = Some(now + AGAIN);
        }
        {
            let mut kept = self.stalled.lock();
            let since = std::mem::replace(&mut *kept, later);
            kept.extend(left);
            kept.extend(since);
        }
        go_on(world, done);
    }
}

/// One time that it is tried to commit what has stalled.
struct Round<'a, F> {
    committer: &'a Committer,
    journal: &'a mut dyn Journal,
    commit: F,
    /// How often the journal has refused.
    failed: usize,
    /// What is committed now, in the order in which it stalled.
    done: Vec<Stalled>,
    /// What was refused by itself.
    refused: Vec<(Stalled, JournalError)>,
    /// What was not tried by itself.
    left: Vec<Stalled>,
}

impl<F: FnMut(&mut dyn Journal, &mut Batch) -> Result<(), JournalError>> Round<'_, F> {
    /// Commits them; where that cannot be, one half of them and then the other, down to those that are refused by themselves.
    fn halve(&mut self, all: Vec<Stalled>) {
        let mut stack = vec![all];
        while let Some(mut some) = stack.pop() {
            if some.is_empty() {
                continue;
            }
            if self.failed >= MOST_REFUSALS || self.done.is_empty() && self.failed >= MOST_FRUITLESS
            {
                self.left.extend(some);
                continue;
            }
            let Err(error) = self.commit(&some) else {
                self.done.extend(some);
                continue;
            };
            self.failed += 1;
            let second = some.split_off(some.len() / 2);
            match (some.is_empty(), second) {
                (true, second) => {
                    let refused = second.into_iter().map(|one| (one, error.clone()));
                    self.refused.extend(refused);
                }
                (false, second) => stack.extend([second, some]),
            }
        }
    }

    fn commit(&mut self, some: &[Stalled]) -> Result<(), JournalError> {
        let mut batch = Batch::new();
        // A batch that failed may have brought what these are read with.
        let schemas = self.committer.schemas.put(&mut batch);
        for one in some {
            batch.append(&mut one.group.clone());
        }
        (self.commit)(self.journal, &mut batch)?;
        self.committer.schemas.committed(&schemas);
        Ok(())
    }
}

/// What is committed now is there again: first who comes back, then what was sent to them, in order. Only after that somebody runs,
/// and may send more.
fn go_on(world: &Arc<World>, mut done: Vec<Stalled>) {
    let mut foms = Vec::new();
    let mut messages = Vec::new();
    let held = done.iter_mut().filter(|one| !one.locks.is_empty());
    let held = held.map(|one| (one.id, std::mem::take(&mut one.locks)));
    let mut held: HashMap<_, _> = held.collect();
    for one in &done {
        if !one.comes_back() {
            drop(world.set_aside.take(one.id));
            one.give_key(world);
        }
        for change in one.group.groups().flat_map(|group| group.changes()) {
            match change {
                Change::Put { id, bytes } if bytes.first() == Some(&(Kind::Message as u8)) => {
                    messages.push((id, bytes));
                }
                Change::Put { id, bytes } => match Types::take_in(world, id, bytes) {
                    Ok(fom) => {
                        if let Some(fom) = &fom
                            && let Some(locks) = held.remove(&fom.id())
                        {
                            fom.take_over(locks);
                        }
                        foms.extend(fom);
                    }
                    Err(aside) => {
                        world.set_aside.put(*aside);
                        if id == entry_of(one.id.get()) {
                            one.give_key(world);
                        }
                    }
                },
                Change::Delete { .. } => {}
            }
        }
    }
    messages.sort_by_key(|(id, bytes)| (number_of(bytes), *id));
    for (id, bytes) in messages {
        if let Err(aside) = Types::take_in(world, id, bytes) {
            world.set_aside.put(*aside);
        }
    }
    for fom in foms {
        crate::locality::enqueue(world, fom);
    }
    // What is committed now may be seen.
    drop(held);
}
