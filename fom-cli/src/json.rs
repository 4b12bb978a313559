//! Records as JSON.

use std::time::Duration;

use fom_durable::reading::{Content, Record, SavedFom, SavedOutcome, Values};
use fom_runtime::{FomId, Key};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};

/// Everything in a record, as JSON.
pub(crate) struct Full<'a>(pub(crate) &'a Record<'a>);

impl Serialize for Full<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut object = to.serialize_map(None)?;
        for (name, value) in &head(self.0) {
            object.serialize_entry(name, value)?;
        }
        if let Content::Event(event) = &self.0.content {
            object.serialize_entry("event", &event.event)?;
        }
        if let Some(values) = values(self.0) {
            object.serialize_entry("values", &values.operation)?;
            object.serialize_entry("fields", &Fields(&values))?;
        }
        object.end()
    }
}

/// The values of a phase by field, as JSON.
pub(crate) struct Fields<'a>(pub(crate) &'a Values<'a>);

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let fields = self.0.fields.iter();
        to.collect_map(fields.map(|(name, value)| (name, value)))
    }
}

/// Returns the values in a record, if it has any.
pub(crate) fn values<'a>(record: &'a Record<'_>) -> Option<Values<'a>> {
    match &record.content {
        Content::Fom(fom) | Content::Failed(fom, _) => fom.values.clone(),
        Content::Outcome(outcome) => outcome.values(),
        _ => None,
    }
}

/// Returns what is in a record beside its values. Times are in seconds, in the time of the journal.
pub(crate) fn head(record: &Record<'_>) -> Map<String, Value> {
    let mut object = match &record.content {
        Content::Head { journal, time } => json!({
            "kind": "head",
            "journal": format!("{journal:032x}"),
            "time": time.as_secs_f64(),
        }),
        Content::Schema {
            machine,
            operation,
            version,
            phases,
            secrets,
        } => {
            let phases = phases.iter();
            let phases = phases.map(|(name, fields)| (name.clone(), json!(fields)));
            json!({
                "kind": "schema",
                "operation": operation,
                "machine": machine,
                "version": version,
                "phases": phases.collect::<Map<_, _>>(),
                "secrets": secrets,
            })
        }
        Content::Fom(fom) => of_fom("fom", fom),
        Content::Failed(fom, failure) => {
            let mut object = of_fom("failed", fom);
            object["failure"] = json!(failure);
            object
        }
        Content::Outcome(outcome) => of_outcome(outcome),
        Content::Event(event) => json!({
            "kind": "event",
            "operation": event.operation,
            "machine": event.machine,
            "key": text(event.key.as_ref()),
            "receiver": event.receiver.map(FomId::get),
        }),
        Content::Sent => json!({ "kind": "sent" }),
        Content::Unreadable(reason) => {
            json!({ "kind": "unreadable", "reason": reason.to_string() })
        }
        _ => json!({ "kind": "unknown" }),
    };
    object["entry"] = json!(record.entry.0);
    object["id"] = json!(record.id.map(FomId::get));
    object["bytes"] = json!(record.bytes);
    match object {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

fn of_fom(kind: &str, fom: &SavedFom<'_>) -> Value {
    json!({
        "kind": kind,
        "operation": fom.operation,
        "machine": fom.machine,
        "version": fom.version,
        "phase": fom.phase,
        "path": fom.path(),
        "key": text(fom.key.as_ref()),
        "operation_id": text(fom.once.as_ref()),
        "step": fom.step,
        "locality": fom.home,
        "submitted": seconds(fom.submitted),
        "since": seconds(fom.since),
        "due": seconds(fom.due),
        "attempts": fom.attempts,
    })
}

fn of_outcome(outcome: &SavedOutcome) -> Value {
    let mut object = json!({
        "kind": "outcome",
        "operation": outcome.operation,
        "machine": outcome.machine,
        "key": text(outcome.key.as_ref()),
        "operation_id": text(outcome.once.as_ref()),
        "at": outcome.at.as_secs_f64(),
        "expires": outcome.expires.as_secs_f64(),
    });
    match &outcome.end {
        Ok(snapshot) => object["phase"] = json!(snapshot.phase().ok()),
        Err((cause, phase)) => {
            object["phase"] = json!(phase);
            object["cause"] = json!(cause);
        }
    }
    object
}

fn text(key: Option<&Key>) -> Option<String> {
    key.map(Key::to_string)
}

fn seconds(time: Option<Duration>) -> Option<f64> {
    time.map(|time| time.as_secs_f64())
}
