//! `fom journal stats`.

use std::{collections::BTreeMap, fs, io, path::Path};

use fom_durable::reading::{Content, Record};
use serde_json::{Value, json};

use super::{
    fom_of, or_unknown,
    pass::{self, Pass},
    size,
};
use crate::{failure::Failure, output::Output};

/// The most groups that are counted one by one. A hostile journal can have a phase for each fom.
const MOST: usize = 10_000;

#[derive(Default)]
struct Counts {
    foms: BTreeMap<(String, Option<u32>, String), (u64, u64)>,
    kinds: BTreeMap<&'static str, (u64, u64)>,
}

impl Counts {
    fn add(&mut self, record: &Record<'_>) {
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
        add(self.kinds.entry(kind).or_default(), bytes);
        if let Some(fom) = fom_of(record) {
            let name = |name: &Option<String>| or_unknown(name.as_ref()).to_owned();
            let mut group = (name(&fom.operation), fom.version, name(&fom.phase));
            if self.foms.len() >= MOST && !self.foms.contains_key(&group) {
                group = ("(others)".to_owned(), None, String::new());
            }
            add(self.foms.entry(group).or_default(), bytes);
        }
    }
}

pub(super) fn run(directory: &Path, output: &mut Output<'_>) -> Result<u8, Failure> {
    let mut counts = Counts::default();
    let pass = pass::over(directory, output, &mut |_, record| {
        counts.add(record);
        Ok(())
    })?;
    let files = files(directory);
    match output.is_json() {
        true => output.object(&json(&counts, &pass, files))?,
        false => print(&counts, &pass, files, output)?,
    }
    Ok(pass.report(output))
}

fn json(counts: &Counts, pass: &Pass, files: u64) -> Value {
    let foms = counts.foms.iter().map(|((operation, version, phase), (count, bytes))| {
        json!({ "operation": operation, "version": version, "phase": phase, "foms": count, "bytes": bytes })
    });
    let kinds = counts.kinds.iter().map(|(kind, (count, bytes))| {
        let counted = json!({ "records": count, "bytes": bytes });
        ((*kind).to_owned(), counted)
    });
    json!({
        "foms": foms.collect::<Vec<_>>(),
        "records": kinds.collect::<serde_json::Map<_, _>>(),
        "segments": pass.files.segments,
        "file_bytes": files,
        "closed": pass.files.closed,
        "in_use": pass.files.in_use,
        "damaged": pass.damaged,
    })
}

fn print(counts: &Counts, pass: &Pass, files: u64, output: &mut Output<'_>) -> io::Result<()> {
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
    ))
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
