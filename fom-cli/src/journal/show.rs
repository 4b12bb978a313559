//! `fom journal show`.

use std::io;

use fom_durable::reading::Record;
use serde_json::Value;

use super::{is_named, pass};
use crate::{
    args::Show,
    failure::Failure,
    json::{self, Fields, Full},
    output::Output,
};

pub(super) fn run(show: &Show, output: &mut Output<'_>) -> Result<u8, Failure> {
    let mut found = 0;
    let pass = pass::over(&show.place.directory, output, &mut |output, record| {
        if !is_named(record, &show.fom) {
            return Ok(());
        }
        found += 1;
        match output.is_json() {
            true => output.object(&Full(record)),
            false => print(record, output),
        }
    })?;
    let status = pass.report(output);
    if found == 0 {
        let (name, directory) = (&show.fom, show.place.directory.display());
        return Err(Failure::new(format!(
            "no fom in {directory} has the key or id `{name}`; `fom journal list` shows those that are there"
        )));
    }
    Ok(status)
}

/// The properties that come first.
const FIRST: [&str; 7] = [
    "id",
    "kind",
    "operation",
    "version",
    "key",
    "phase",
    "operation_id",
];

/// Prints each property on a line of its own, and the values below.
fn print(record: &Record<'_>, output: &mut Output<'_>) -> io::Result<()> {
    let object = json::head(record);
    let first = FIRST.iter().filter_map(|name| object.get_key_value(*name));
    let rest = object.iter();
    let rest = rest.filter(|(name, _)| !FIRST.contains(&name.as_str()));
    for (name, value) in first.chain(rest) {
        match value {
            Value::Null => {}
            Value::Array(items) if items.is_empty() => {}
            Value::String(text) => output.line(&format!("{name:<13} {text}"))?,
            Value::Array(_) | Value::Object(_) => output.below(name, value)?,
            value => output.line(&format!("{name:<13} {value}"))?,
        }
    }
    if let Some(values) = json::values(record) {
        output.below("values", &values.operation)?;
        if !values.fields.is_empty() {
            output.below("fields", &Fields(&values))?;
        }
    }
    Ok(())
}
