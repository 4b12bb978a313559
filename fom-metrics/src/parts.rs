//! The named parts of the program.

use fom_runtime::observe::{PartInfo, PartValue};

use crate::{
    catalog::{self, Described},
    readings::Readings,
    value::Value,
};

/// The counters of the parts of one kind, each with its metric. A label is the name of the part.
type Table = &'static [(&'static str, &'static Described)];

const ADMISSION: Table = &[
    ("running", catalog::ADMISSION_RUNNING),
    ("in_flight", catalog::ADMISSION_LIMIT),
    ("waiting_for_room", catalog::ADMISSION_WAITING),
    ("full", catalog::ADMISSION_FULL),
    ("throttled_for", catalog::ADMISSION_THROTTLED),
    ("filled", catalog::ADMISSION_FILLED),
    ("refused", catalog::ADMISSION_REFUSED),
    ("ended", catalog::ADMISSION_ENDED),
    ("cancelled", catalog::ADMISSION_CANCELLED),
    ("shed", catalog::ADMISSION_SHED),
];

const LOCK_TABLE: Table = &[
    ("locks", catalog::LOCKS),
    ("holders", catalog::LOCK_HOLDERS),
    ("reads", catalog::LOCK_READS),
    ("writes", catalog::LOCK_WRITES),
    ("waits", catalog::LOCK_WAITS),
    ("given_up", catalog::LOCK_GIVEN_UP),
    ("wait_time", catalog::LOCK_WAIT_SECONDS),
    ("hold_time", catalog::LOCK_HOLD_SECONDS),
    ("longest_wait", catalog::LOCK_LONGEST_WAIT),
    ("longest_hold", catalog::LOCK_LONGEST_HOLD),
];

const STREAM: Table = &[
    ("bound", catalog::STREAM_BOUND),
    ("full_keys", catalog::STREAM_FULL_KEYS),
    ("refused", catalog::STREAM_REFUSED),
];

const ACTIVE_OBJECT: Table = &[
    ("running", catalog::OBJECT_RUNNING),
    ("full", catalog::OBJECT_FULL),
];

const SERVICE: Table = &[
    ("running", catalog::SERVICE_RUNNING),
    ("callers", catalog::SERVICE_CALLERS),
    ("done", catalog::SERVICE_DONE),
    ("failed", catalog::SERVICE_FAILED),
    ("cancelled", catalog::SERVICE_CANCELLED),
    ("refused", catalog::SERVICE_REFUSED),
];

const LIMIT: Table = &[
    ("running", catalog::LIMIT_RUNNING),
    ("places", catalog::LIMIT_PLACES),
];

/// The one journal of a runtime, so without a label.
const JOURNAL: Table = &[
    ("entries", catalog::JOURNAL_ENTRIES),
    ("live_bytes", catalog::JOURNAL_LIVE),
    ("size_bytes", catalog::JOURNAL_SIZE),
    ("written_bytes", catalog::JOURNAL_WRITTEN),
    ("moved_bytes", catalog::JOURNAL_MOVED),
    ("syncs", catalog::JOURNAL_SYNCS),
    ("term", catalog::JOURNAL_TERM),
    ("lease", catalog::JOURNAL_LEASE),
];

pub(crate) fn read(parts: &[PartInfo], into: &mut Readings) {
    for part in parts {
        let name = name(part);
        let labels = [part.kind, name];
        if let Some(queued) = part.queued {
            into.count(catalog::PART_QUEUED, &labels, queued);
        }
        if let Some(oldest) = part.oldest {
            into.seconds(catalog::PART_OLDEST, &labels, oldest);
        }
        into.count(catalog::PART_BUSY, &labels, part.busy.into());
        match part.kind {
            "admission" => counters(part, ADMISSION, &[name], into),
            "lock table" => counters(part, LOCK_TABLE, &[name], into),
            "stream" => counters(part, STREAM, &[name], into),
            "active object" => {
                into.count(catalog::OBJECTS, &[name], 1);
                counters(part, ACTIVE_OBJECT, &[name], into);
            }
            "service" => {
                if let Some(PartValue::Text(state)) = part.get("state") {
                    into.count(catalog::SERVICE_STATE, &[name, state], 1);
                }
                counters(part, SERVICE, &[name], into);
            }
            "limit" => counters(part, LIMIT, &[name], into),
            "journal" => counters(part, JOURNAL, &[], into),
            _ => {}
        }
    }
}

/// Returns the name of a part without a key. The name of an active object has its key.
fn name(part: &PartInfo) -> &str {
    match part.get("object") {
        Some(PartValue::Text(object)) => object,
        _ => &part.name,
    }
}

fn counters(part: &PartInfo, table: Table, labels: &[&str], into: &mut Readings) {
    for (name, metric) in table {
        let value = match part.get(name) {
            Some(PartValue::Count(count)) => Value::Count(*count),
            Some(PartValue::Flag(flag)) => Value::Count((*flag).into()),
            Some(PartValue::Time(time)) => Value::Number(time.as_secs_f64()),
            _ => continue,
        };
        into.add(metric, labels, value);
    }
}
