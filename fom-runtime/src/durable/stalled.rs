//! Transitions that could not be committed, because the disk was full or failed: kept in memory, and committed when the journal
//! works again. Then their foms go on.

use std::sync::Arc;

use crate::{
    durable::{Committer, Kind, SetAside, Types},
    error::RestoreError,
    id::FomId,
    journal::{Batch, Change, EntryId, Journal, JournalError},
    runtime::World,
};

/// The group of one fom's transition.
pub(crate) struct Stalled {
    pub(crate) id: FomId,
    pub(crate) group: Batch,
    pub(crate) error: JournalError,
}

impl World {
    /// A transition could not be committed: its fom ends here, and comes back when it can be.
    pub(crate) fn stall(&self, stalled: Stalled) {
        self.set_aside.lock().push(SetAside {
            id: stalled.id,
            reason: RestoreError::NotCommitted(stalled.error.to_string()),
            bytes: first_put(&stalled.group).unwrap_or_default(),
        });
        if let Some(committer) = self.committer() {
            committer.stalled.lock().push(stalled);
        }
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
        for one in &stalled {
            whole.append(&mut one.group.clone());
        }
        if commit(journal, &mut whole).is_err() {
            let mut kept = self.stalled.lock();
            let since = std::mem::replace(&mut *kept, stalled);
            kept.extend(since);
            return;
        }
        world
            .set_aside
            .lock()
            .retain(|aside| stalled.iter().all(|one| one.id != aside.id));
        for one in stalled {
            for change in one.group.groups().flat_map(|group| group.changes()) {
                if let Change::Put { id, bytes } = change {
                    go_on(world, id, bytes);
                }
            }
        }
    }
}

/// What was put is a fom again, or is set aside.
fn go_on(world: &Arc<World>, id: EntryId, bytes: &[u8]) {
    if bytes.first() == Some(&(Kind::Outcome as u8)) {
        if let Err(aside) = Types::remember_again(world, id, bytes) {
            world.set_aside.lock().push(aside);
        }
        return;
    }
    match Types::bring_back(world, id, bytes) {
        Ok(fom) => {
            let orphans = world
                .committer()
                .and_then(|committer| committer.orphans.lock().remove(&fom.id()));
            for message in orphans.into_iter().flatten() {
                // It has just been made, so it takes them.
                let _ = fom.kept().map(|kept| kept.post(message));
            }
            crate::locality::enqueue(world, fom);
        }
        Err(aside) => world.set_aside.lock().push(aside),
    }
}
