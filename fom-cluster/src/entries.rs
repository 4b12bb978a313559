//! What an operator does with what one slot has in quarantine.

use std::sync::Arc;

use fom_durable::DurableExt as _;
use fom_runtime::{FomId, Runtime, snapshot::Quarantined};

use crate::{apart::apart, call::Reply, node::Node, quarantine::InQuarantine, slot::Slot};

/// Lists what is in quarantine.
pub(crate) fn list(runtime: &Runtime, slot: Slot) -> Reply {
    let shown = |entry: Quarantined| InQuarantine {
        slot,
        id: entry.id,
        reason: entry.reason.to_string(),
        operation: entry.operation,
        phase: entry.phase,
        key: entry.key,
    };
    let all = runtime.quarantine().list().into_iter();
    Reply::InQuarantine(all.map(shown).collect())
}

/// Tries an entry again.
pub(crate) async fn retry(node: &Arc<Node>, slot: Slot, runtime: &Runtime, id: FomId) -> Reply {
    if !is_there(runtime, id) {
        return Reply::Unknown;
    }
    if !free(node, slot, id).await {
        return Reply::Moved;
    }
    match runtime.quarantine().retry(id) {
        Ok(()) => Reply::Done,
        Err(error) => Reply::Failed(error.to_string()),
    }
}

/// Removes an entry.
pub(crate) async fn discard(node: &Arc<Node>, slot: Slot, runtime: &Runtime, id: FomId) -> Reply {
    if !is_there(runtime, id) {
        return Reply::Unknown;
    }
    match runtime.quarantine().discard(id).await {
        Ok(_) => {}
        Err(error) => return Reply::Failed(error.to_string()),
    }
    // Notes about an entry that is gone do no harm.
    free(node, slot, id).await;
    Reply::Done
}

fn is_there(runtime: &Runtime, id: FomId) -> bool {
    let all = runtime.quarantine().list();
    all.iter().any(|entry| entry.id == id)
}

/// Forgets that a fom has ended its owners: the next owner runs it as any other. Returns whether this node owns the slot.
async fn free(node: &Arc<Node>, slot: Slot, id: FomId) -> bool {
    let Some(noter) = node.noter(slot) else {
        return true;
    };
    // The write waits for the engine. Without a thread, the caller tries again.
    let freed = apart("fom-notes", move || noter.free(id)).await;
    freed.unwrap_or(false)
}
