//! `fom journal stats`.

use std::{collections::BTreeMap, fs, path::Path};

use fom_durable::reading::Content;
use serde_json::json;

use super::{fom_of, or_unknown, pass, size};
use crate::{failure::Failure, output::Output};

/// The most groups that are counted one by one. A hostile journal can have a phase for each fom.
const MOST: usize = 10_000;

#[derive(Default)]
struct Counts {
    foms: BTreeMap<(String, Option<u32>, String), (u64, u64)>,
    kinds: BTreeMap<&'static str, (u64, u64)>,
}

pub(super) fn run(directory: &Path, output: &mut Output<'_>) -> Result<u8, Failure> {
    let mut counts = Counts::default();
    let pass = pass::over(directory, output, &mut |_, record| {
        let kind = match &record.content {
            Content::Head { .. } | Content::Schema { .. } => "journal",
            Content::Fom(_) => "foms",
            Content::Failed(..) => "failed",
            Content::Outcome(_) => "outcomes",
            Content::Event(_) => "events",
            Content::Sent => "sent",
            _ => "unreadable",
        };
        let bytes = record.bytes as u64;
        add(counts.kinds.entry(kind).or_default(), bytes);
        if let Some(fom) = fom_of(record) {
            let name = |name: &Option<String>| or_unknown(name.as_ref()).to_owned();
            let mut group = (name(&fom.operation), fom.version, name(&fom.phase));
            if counts.foms.len() >= MOST && !counts.foms.contains_key(&group) {
                group = ("(others)".to_owned(), None, String::new());
            }
            add(counts.foms.entry(group).or_default(), bytes);
        }
        Ok(())
    })?;
    let files = files(directory);
    if output.is_json() {
        let foms = counts.foms.iter().map(|((operation, version, phase), (count, bytes))| {
            json!({ "operation": operation, "version": version, "phase": phase, "foms": count, "bytes": bytes })
        });
        let kinds = counts.kinds.iter().map(|(kind, (count, bytes))| {
            (
                (*kind).to_owned(),
                json!({ "records": count, "bytes": bytes }),
            )
        });
        output.object(&json!({
            "foms": foms.collect::<Vec<_>>(),
            "records": kinds.collect::<serde_json::Map<_, _>>(),
            "segments": pass.files.segments,
            "file_bytes": files,
            "closed": pass.files.closed,
            "in_use": pass.files.in_use,
            "damaged": pass.damaged,
        }))?;
        return Ok(pass.report(output));
    }
    for ((operation, version, phase), (count, bytes)) in &counts.foms {
        let version = version.map_or_else(String::new, |version| format!(" (version {version})"));
        let (named, bytes) = (format!("{operation}{version}"), size(*bytes));
        output.line(&format!("{count:>9} {named:<32} {phase:<16} {bytes}"))?;
    }
    for (kind, (count, bytes)) in &counts.kinds {
        output.line(&format!("{count:>9} {kind}, {}", size(*bytes)))?;
    }
    let state = match (pass.files.in_use, pass.files.closed) {
        (true, _) => "a program has it open",
        (false, true) => "closed",
        (false, false) => "not closed: its program was killed, or the machine",
    };
    output.line(&format!(
        "{:>9} segments, {} in files; {state}",
        pass.files.segments,
        size(files)
    ))?;
    Ok(pass.report(output))
}

fn add((count, total): &mut (u64, u64), bytes: u64) {
    *count += 1;
    *total += bytes;
}

/// Returns the size of the journal's files.
pub(super) fn files(directory: &Path) -> u64 {
    segments(directory).sum()
}

/// Returns the sizes of the journal's segments.
pub(super) fn segments(directory: &Path) -> impl Iterator<Item = u64> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            entry
                .path()
                .extension()
                .is_some_and(|extension| extension == "log")
        })
        .filter_map(|entry| Some(entry.metadata().ok()?.len()))
}
