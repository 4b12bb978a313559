//! Transitions that could not be committed, because the disk was full or failed: kept in memory, and committed when the journal
//! works again. Then their foms go on.

use std::{any::TypeId, sync::Arc};

use crate::{
    durable::{Committer, Kind, Types, entry_of},
    error::RestoreError,
    id::{FomId, Key},
    journal::{Batch, Change, EntryId, Journal, JournalError},
    runtime::World,
};

/// The group of one fom's transition.
pub(crate) struct Stalled {
    pub(crate) id: FomId,
    pub(crate) group: Batch,
    pub(crate) error: JournalError,
    /// Its operation type and key: kept for it until it comes back.
    pub(crate) place: Option<(TypeId, Key)>,
}

impl World {
    /// A transition could not be committed: its fom ends now, and is listed until it can be.
    pub(crate) fn list_stalled(&self, stalled: &Stalled) {
        let reason = RestoreError::NotCommitted(stalled.error.to_string());
        let bytes = first_put(&stalled.group).unwrap_or_default();
        self.set_aside.put(self.aside(stalled.id, reason, &bytes));
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
    /// It does not come back: others may have its key.
    pub(super) fn give_key(&self, world: &World) {
        if let Some((of, key)) = &self.place {
            world.directory.remove(world, (*of, key.clone()), self.id);
        }
    }

    /// Whether its fom comes back.
    pub(crate) fn comes_back(&self) -> bool {
        let of = entry_of(self.id.get());
        let mut changes = self.group.groups().flat_map(|group| group.changes());
        changes.any(|change| match change {
            Change::Put { id, bytes } => id == of && bytes.first() == Some(&(Kind::Fom as u8)),
            Change::Delete { .. } => false,
        })
    }
}

fn first_put(group: &Batch) -> Option<Vec<u8>> {
    group
        .groups()
        .flat_map(|group| group.changes())
        .find_map(|change| match change {
            Change::Put { bytes, .. } => Some(bytes.to_vec()),
            Change::Delete { .. } => None,
        })
}

impl Committer {
    /// Whether there are transitions that could not be committed.
    pub(super) fn is_stalled(&self) -> bool {
        !self.stalled.lock().is_empty()
    }

    /// Tries to commit them. What they started goes on.
    pub(super) fn try_stalled(
        &self,
        journal: &mut dyn Journal,
        world: &Arc<World>,
        commit: impl FnOnce(&mut dyn Journal, &mut Batch) -> Result<(), JournalError>,
    ) {
        let stalled = std::mem::take(&mut *self.stalled.lock());
        let mut whole = Batch::new();
        // A batch that failed may have brought what these are read with.
        let schemas = self.schemas.put(&mut whole);
        for one in &stalled {
            whole.append(&mut one.group.clone());
        }
        if commit(journal, &mut whole).is_err() {
            let mut kept = self.stalled.lock();
            let since = std::mem::replace(&mut *kept, stalled);
            kept.extend(since);
            return;
        }
        self.schemas.committed(&schemas);
        // First who comes back, and then what was sent to them, in order.
        let mut messages = Vec::new();
        for one in &stalled {
            if !one.comes_back() {
                drop(world.set_aside.take(one.id));
                one.give_key(world);
            }
            for change in one.group.groups().flat_map(|group| group.changes()) {
                match change {
                    Change::Put { id, bytes } if bytes.first() == Some(&(Kind::Message as u8)) => {
                        messages.push((id, bytes));
                    }
                    Change::Put { id, bytes } => {
                        if !go_on(world, id, bytes) && id == entry_of(one.id.get()) {
                            one.give_key(world);
                        }
                    }
                    Change::Delete { .. } => {}
                }
            }
        }
        messages.sort_by_key(|message| message.0);
        for (id, bytes) in messages {
            let _ = go_on(world, id, bytes);
        }
    }
}

/// What was put is a fom again, or is set aside: then not.
fn go_on(world: &Arc<World>, id: EntryId, bytes: &[u8]) -> bool {
    let done = Types::take_in(world, id, bytes);
    match done {
        Ok(_) => true,
        Err(aside) => {
            world.set_aside.put(*aside);
            false
        }
    }
}
