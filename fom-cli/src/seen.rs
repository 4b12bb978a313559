//! Foms and their waits as the API writes them, in words. A field that is missing or of another kind reads as empty.

use serde_json::Value;

use crate::words::time;

/// Returns the text of a field, or an empty one.
pub(crate) fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of[name].as_str().unwrap_or_default()
}

/// Returns the number of a field, or 0.
pub(crate) fn number(of: &Value, name: &str) -> f64 {
    of[name].as_f64().unwrap_or_default()
}

/// Returns the whole number of a field, or 0.
pub(crate) fn whole(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap_or_default()
}

/// Returns the list of a field, or an empty one.
pub(crate) fn list<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of[name].as_array().map_or(&[], Vec::as_slice)
}

/// Returns the operation with its key.
pub(crate) fn named(of: &Value) -> String {
    let operation = text(of, "operation");
    match of["key"].as_str() {
        Some(key) => format!("{operation} {key}"),
        None => operation.to_owned(),
    }
}

/// Returns the state of a fom, or that it blocks.
pub(crate) fn state(fom: &Value) -> &str {
    match fom["blocked"] == true {
        true => "blocked",
        false => text(fom, "state"),
    }
}

/// Returns what a fom waits for, its deadline and its last failed attempt.
pub(crate) fn waiting_for(fom: &Value) -> String {
    let waits: Vec<_> = list(fom, "waits")
        .iter()
        .map(|wait| text(wait, "text"))
        .collect();
    let waits = Some(waits.join(" or ")).filter(|text| !text.is_empty());
    let left = fom["deadline_in"].as_f64();
    let left = left.map(|left| format!("{} left", time(left)));
    let failed = list(fom, "attempts").last().map(attempt);
    let all: Vec<_> = waits.into_iter().chain(left).chain(failed).collect();
    all.join("; ")
}

/// Returns a failed attempt in words.
pub(crate) fn attempt(of: &Value) -> String {
    let (number, error) = (whole(of, "number"), text(of, "error"));
    let ago = time(self::number(of, "age"));
    format!("attempt {number} failed {ago} ago: {error}")
}

/// Returns the foms that hold up a wait, by their names.
pub(crate) fn holders(wait: &Value) -> Vec<&str> {
    let holders = list(wait, "holders").iter();
    holders.map(|holder| text(holder, "name")).collect()
}

/// Returns what tells a warning from others.
pub(crate) fn warning_name(of: &Value) -> String {
    let (kind, detail) = (text(of, "kind"), text(of, "detail"));
    // A warning of the program's own may have no subject.
    let subject = match text(of, "subject") {
        "" => text(of, "text"),
        subject => subject,
    };
    format!("{kind}\n{subject}\n{detail}")
}
