//! The journal of `fom-durable`.

use std::path::Path;

use fom_durable::{
    DurableExt as _, DurableInspectExt as _, QuarantineKind, Quarantined,
    journal::{Damage, EntryId},
    reading::{self, Content, Reader, Record, SavedFom},
};
use fom_runtime::{FomId, Runtime, extension::block_on};
use serde_json::{Value, json};

use crate::{problem::Problem, samples::Rates};

/// The kinds of entries, with their names in the API.
const KINDS: [(&str, QuarantineKind); 5] = [
    ("damaged", QuarantineKind::Damaged),
    ("unreadable", QuarantineKind::Unreadable),
    ("failed", QuarantineKind::Failed),
    ("no_receiver", QuarantineKind::NoReceiver),
    ("uncommitted", QuarantineKind::Uncommitted),
];

/// Returns the syncs of the journal, and the bytes that it wrote. `None` without a journal.
pub(crate) fn written(runtime: &Runtime) -> Option<(u64, u64)> {
    let stats = runtime.inspect().journal_stats()?;
    Some((stats.syncs, stats.written_bytes))
}

/// Returns the number of entries in quarantine. `None` without a journal.
pub(crate) fn quarantined(runtime: &Runtime) -> Option<usize> {
    runtime.inspect().journal_stats()?;
    let quarantine = runtime.quarantine();
    Some(KINDS.iter().map(|(_, kind)| quarantine.count(*kind)).sum())
}

/// Lists the journal. The rates are those of its syncs and of its written bytes.
pub(crate) fn list(
    runtime: &Runtime,
    limit: usize,
    [syncs, written]: [Rates; 2],
) -> Result<Value, Problem> {
    let Some(stats) = runtime.inspect().journal_stats() else {
        let message = "the program has no journal; give it one with `Builder::journal`";
        return Err(Problem::unavailable(message));
    };
    let mut entries = runtime.quarantine().list();
    let total = entries.len();
    let count = |kind| entries.iter().filter(|entry| entry.kind() == kind).count();
    let counts: serde_json::Map<_, _> = KINDS
        .iter()
        .map(|(name, kind)| ((*name).to_owned(), count(*kind).into()))
        .collect();
    entries.truncate(limit);
    Ok(json!({
        "journal": {
            "entries": stats.entries,
            "live_bytes": stats.live_bytes,
            "size_bytes": stats.size_bytes,
            "written_bytes": stats.written_bytes,
            "moved_bytes": stats.moved_bytes,
            "prepared_bytes": stats.prepared_bytes,
            "syncs": stats.syncs,
            "rates": {"syncs": syncs, "written_bytes": written},
        },
        "quarantine": {"counts": counts, "total": total, "entries": entries},
    }))
}

fn find(runtime: &Runtime, id: FomId) -> Result<Quarantined, Problem> {
    let mut all = runtime.quarantine().list().into_iter();
    let found = all.find(|entry| entry.id == id);
    found.ok_or_else(|| Problem::no_entry(id))
}

/// Returns the bytes of an entry in quarantine.
pub(crate) fn bytes(runtime: &Runtime, id: FomId) -> Result<Vec<u8>, Problem> {
    Ok(find(runtime, id)?.bytes.to_vec())
}

/// Returns the data of a fom as of its last commit.
pub(crate) fn data(journal: &Path, id: FomId) -> Result<Value, Problem> {
    let mut found = Found { id, data: None };
    let read = reading::read(journal, &mut found);
    read.map_err(|error| Problem::unavailable(format!("the journal cannot be read: {error}")))?;
    let missing = || {
        let message = format!("not available: the journal has no data of the fom {id}");
        Problem::not_found(message)
    };
    found.data.ok_or_else(missing)
}

/// The record of one fom.
struct Found {
    id: FomId,
    data: Option<Value>,
}

impl Reader for Found {
    fn record(&mut self, record: Record<'_>) {
        if record.id != Some(self.id) {
            return;
        }
        if let Content::Fom(fom) | Content::Failed(fom, _) = &record.content {
            self.data = data_of(fom);
        }
    }

    fn damaged(&mut self, _: EntryId, _: Damage) {}
}

fn data_of(fom: &SavedFom<'_>) -> Option<Value> {
    let values = fom.values.as_ref()?;
    let fields = values.fields.iter();
    let fields = fields.map(|(name, value)| (name.clone(), json!(value)));
    Some(json!({
        "phase": fom.phase,
        "step": fom.step,
        "values": values.operation,
        "fields": fields.collect::<serde_json::Map<_, _>>(),
    }))
}

/// Tries an entry again. Returns what was done.
pub(crate) fn retry(runtime: &Runtime, id: FomId) -> Result<String, Problem> {
    let entry = find(runtime, id)?;
    let done = runtime.quarantine().retry(id);
    done.map_err(|error| Problem::conflict(error.to_string()))?;
    Ok(format!("tried {} {id} again", entry.named()))
}

/// Removes an entry, and waits for the journal. Returns what was done.
pub(crate) fn discard(runtime: &Runtime, id: FomId) -> Result<String, Problem> {
    find(runtime, id)?;
    let gone = block_on(runtime.quarantine().discard(id));
    let gone = gone.map_err(|error| Problem::conflict(error.to_string()))?;
    Ok(format!("discarded {} {id}", gone.named()))
}
