//! Transitions that could not be committed, because the disk was full or failed. They are kept in memory, and committed
//! when the journal works again. Then their foms go on.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Instant,
};

use fom_journal::{Batch, Change, Journal, JournalError};

use crate::{
    durable::{
        Committer, Durable, Kind, Types,
        committer::AGAIN,
        record::{is_fom, number_of},
    },
    entry::entry_of,
};
use fom_protocol::sync::now;
use fom_runtime::{
    __durability::{self as seam, Announced, KeyOf, Shared},
    FomId,
    error::DurabilityError,
    extension::Gate,
    observe::IncidentKind,
    snapshot::RestoreError,
};

/// Limit on refusals in one round, because each refusal may cost a write. The rest waits for the next round.
const MOST_REFUSALS: usize = 64;

/// The limit as long as the journal has taken nothing: then it most likely takes nothing at all.
const MOST_FRUITLESS: usize = 24;

/// How many transitions that were refused alone are tried in one round.
const MOST_ALONE: usize = 8;

/// The group of one fom's transition.
pub(crate) struct Uncommitted {
    pub(crate) id: FomId,
    group: Batch,
    error: DurabilityError,
    /// The operation type and key, kept for the fom until it comes back.
    names: Vec<KeyOf>,
    /// The gate that the fom held. It is kept, so that no fom sees what may be undone.
    gate: Option<Box<dyn Gate>>,
    /// The announced numbers of what the fom sends. The journal may have these entries already, or may get them later.
    _announced: Vec<Announced>,
    /// Whether the group was refused where others were not. It is tried alone.
    alone: bool,
    /// The group is not tried before this time.
    again: Option<Instant>,
}

impl Durable {
    /// Lists a transition that could not be committed. Its fom ends now, and is listed until the transition is
    /// committed.
    pub(crate) fn list_uncommitted(&self, uncommitted: &Uncommitted) {
        let reason = RestoreError::NotCommitted(uncommitted.error.to_string());
        let bytes = uncommitted.own().unwrap_or_default();
        self.quarantine
            .put(self.quarantined(uncommitted.id, reason, bytes));
    }

    /// Queues a transition for a retry. Its fom has left all tables, and may come back from now on.
    pub(crate) fn stall(&self, uncommitted: Uncommitted) {
        if let Some(committer) = self.committer() {
            committer.uncommitted.lock().push(uncommitted);
            committer.look();
        }
    }
}

impl Uncommitted {
    pub(crate) fn new(
        id: FomId,
        group: Batch,
        error: DurabilityError,
        names: Vec<KeyOf>,
        gate: Option<Box<dyn Gate>>,
        announced: Vec<Announced>,
    ) -> Self {
        Self {
            id,
            group,
            error,
            names,
            gate,
            _announced: announced,
            alone: false,
            again: None,
        }
    }

    /// Gives the key to others, because the fom does not come back.
    pub(super) fn give_key(&self, shared: &Shared) {
        for of in &self.names {
            seam::give_key(shared, of.clone(), self.id);
        }
    }

    /// Whether the fom comes back.
    pub(crate) fn comes_back(&self) -> bool {
        self.own().is_some_and(is_fom)
    }

    /// Whether events for the fom wait for it: it comes back, or is kept as a failed one.
    pub(crate) fn is_receiver(&self) -> bool {
        let is_failed = |bytes: &[u8]| bytes.first() == Some(&(Kind::Failed as u8));
        self.own()
            .is_some_and(|bytes| is_fom(bytes) || is_failed(bytes))
    }

    /// Returns the fom's own entry, not the entries that it sends.
    fn own(&self) -> Option<&[u8]> {
        let of = entry_of(self.id);
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
        !self.uncommitted.lock().is_empty()
    }

    /// Tries to commit the transitions, all at once if possible. The foms of committed transitions go on.
    pub(super) fn try_stalled(
        &self,
        journal: &mut dyn Journal,
        shared: &Shared,
        commit: impl FnMut(&mut dyn Journal, &mut Batch) -> Result<(), JournalError>,
    ) {
        let now = now();
        let (due, later) = std::mem::take(&mut *self.uncommitted.lock())
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
            // The ones that were tried now come after the others next time.
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
            // This group is refused where others are not. The others do not wait for it any more.
            if !done.is_empty() && !one.alone {
                one.alone = true;
                one.error = DurabilityError::new(error);
                Durable::of(shared).list_uncommitted(&one);
            }
            left.push(one);
        }
        for one in &mut left {
            one.again = Some(now + AGAIN);
        }
        {
            let mut kept = self.uncommitted.lock();
            let since = std::mem::replace(&mut *kept, later);
            kept.extend(left);
            kept.extend(since);
        }
        go_on(shared, done);
    }
}

/// One round of commit attempts.
struct Round<'a, F> {
    committer: &'a Committer,
    journal: &'a mut dyn Journal,
    commit: F,
    /// How often the journal has refused.
    failed: usize,
    /// Transitions that are committed now, in the order in which they stalled.
    done: Vec<Uncommitted>,
    /// Transitions that were refused alone.
    refused: Vec<(Uncommitted, JournalError)>,
    /// Transitions that were not tried alone.
    left: Vec<Uncommitted>,
}

impl<F: FnMut(&mut dyn Journal, &mut Batch) -> Result<(), JournalError>> Round<'_, F> {
    /// Commits the transitions. If that fails, tries one half and then the other, down to single transitions that are
    /// refused.
    fn halve(&mut self, all: Vec<Uncommitted>) {
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

    fn commit(&mut self, some: &[Uncommitted]) -> Result<(), JournalError> {
        let mut batch = Batch::new();
        // The failed batch may have had the schemas of these entries.
        let schemas = self.committer.schemas.put(&mut batch);
        for one in some {
            batch.append(&mut one.group.clone());
        }
        (self.commit)(self.journal, &mut batch)?;
        self.committer.schemas.committed(&schemas);
        Ok(())
    }
}

/// Brings back what is committed now: first the foms, then the events for them, in order. Only then do foms run, which
/// may send more.
fn go_on(shared: &Shared, mut done: Vec<Uncommitted>) {
    let durable = Durable::of(shared);
    let mut foms = Vec::new();
    let mut messages = Vec::new();
    let held = done
        .iter_mut()
        .filter_map(|one| Some((one.id, one.gate.take()?)));
    let mut held: HashMap<_, _> = held.collect();
    for one in &done {
        if !one.comes_back() {
            if !one.is_receiver() {
                drop(durable.quarantine.take(one.id));
            }
            one.give_key(shared);
        }
        for change in one.group.groups().flat_map(|group| group.changes()) {
            match change {
                Change::Put { id, bytes } if bytes.first() == Some(&(Kind::Message as u8)) => {
                    messages.push((id, bytes));
                }
                Change::Put { id, bytes } => match Types::take_in(shared, id, bytes) {
                    Ok(fom) => {
                        if let Some(fom) = &fom
                            && let Some(gate) = held.remove(&fom.id())
                        {
                            seam::take_over(fom, gate);
                        }
                        foms.extend(fom);
                    }
                    Err(quarantined) => {
                        durable.quarantine.put(*quarantined);
                        if id == entry_of(one.id) {
                            one.give_key(shared);
                        }
                    }
                },
                Change::Delete { .. } => {}
            }
        }
    }
    messages.sort_by_key(|(id, bytes)| (number_of(bytes), *id));
    for (id, bytes) in messages {
        if let Err(quarantined) = Types::take_in(shared, id, bytes) {
            durable.quarantine.put(*quarantined);
        }
    }
    for fom in foms {
        seam::enqueue(shared, fom);
    }
    // What is committed now may be seen. The drop of a gate is code of another package, or the user's.
    for gate in held.into_values() {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(gate))) {
            let message = fom_protocol::panic_message(panic);
            seam::report(
                shared,
                IncidentKind::Panicked,
                "a gate",
                format!("a gate panicked: {message}"),
            );
        }
    }
}
