//! `fom journal list`.

use fom_durable::reading::{Content, Record};
use fom_runtime::{FomId, Key};
use serde_json::json;

use super::{fom_of, id_text, or_unknown, pass};
use crate::{args::List, failure::Failure, output::Output};

pub(super) fn run(list: &List, output: &mut Output<'_>) -> Result<u8, Failure> {
    let mut is_first = true;
    let pass = pass::over(&list.place.directory, output, &mut |output, record| {
        if !is_listed(list, record) {
            return Ok(());
        }
        let Some(fom) = fom_of(record) else {
            return Ok(());
        };
        let cause = match &record.content {
            Content::Failed(_, failure) => Some(&failure.cause),
            _ => None,
        };
        if output.is_json() {
            return output.object(&json!({
                "id": record.id.map(FomId::get),
                "operation": fom.operation,
                "version": fom.version,
                "phase": fom.phase,
                "key": fom.key.as_ref().map(Key::to_string),
                "operation_id": fom.once.as_ref().map(Key::to_string),
                "failed": cause,
                "attempts": fom.attempts.len(),
                "bytes": record.bytes,
            }));
        }
        if std::mem::take(&mut is_first) {
            output.line(&format!(
                "{:>8} {:<32} {:<16} state",
                "id", "operation and key", "phase"
            ))?;
        }
        let mut named = or_unknown(fom.operation.as_ref()).to_owned();
        if let Some(key) = &fom.key {
            named.push_str(&format!(" {key}"));
        }
        let state = match cause {
            Some(cause) => format!("failed: {cause}"),
            None if fom.attempts.is_empty() => "in flight".to_owned(),
            None => format!("in flight, {} failed attempts", fom.attempts.len()),
        };
        let (id, phase) = (id_text(record.id), or_unknown(fom.phase.as_ref()));
        output.line(&format!("{id:>8} {named:<32} {phase:<16} {state}"))
    })?;
    Ok(pass.report(output))
}

fn is_listed(list: &List, record: &Record<'_>) -> bool {
    let Some(fom) = fom_of(record) else {
        return false;
    };
    let fits =
        |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
    fits(&list.operation, &fom.operation)
        && fits(&list.phase, &fom.phase)
        && (!list.failed || matches!(record.content, Content::Failed(..)))
}
