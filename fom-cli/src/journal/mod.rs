//! The commands for a journal.
//!
//! | file | what |
//! | --- | --- |
//! | `pass.rs` | reads a journal once, and reports damage |
//! | `list.rs`, `show.rs`, `stats.rs`, `verify.rs`, `dump.rs`, `export.rs`, `compact.rs` | one command each |

mod compact;
mod dump;
mod export;
mod list;
mod pass;
mod show;
mod stats;
mod verify;

use fom_durable::reading::{Content, Record, SavedFom};
use fom_runtime::{FomId, Key};

use crate::{args::Journal, failure::Failure, output::Output};

/// Runs a command. Returns its exit status.
pub(crate) fn run(command: &Journal, output: &mut Output<'_>) -> Result<u8, Failure> {
    if !matches!(
        command,
        Journal::List(_) | Journal::Show(_) | Journal::Dump(_)
    ) {
        output.result_comes_last();
    }
    match command {
        Journal::List(list) => list::run(list, output),
        Journal::Show(show) => show::run(show, output),
        Journal::Stats(place) => stats::run(&place.directory, output),
        Journal::Verify(place) => verify::run(&place.directory, output),
        Journal::Dump(place) => dump::run(&place.directory, output),
        Journal::Export(export) => export::run(export, output),
        Journal::Compact(place) => compact::run(&place.directory, output),
    }
}

/// Returns the fom in a record, if there is one.
fn fom_of<'a, 'b>(record: &'a Record<'b>) -> Option<&'a SavedFom<'b>> {
    match &record.content {
        Content::Fom(fom) | Content::Failed(fom, _) => Some(fom),
        _ => None,
    }
}

/// Returns whether the record is of the fom with this key or id.
fn is_named(record: &Record<'_>, name: &str) -> bool {
    let Some(fom) = fom_of(record) else {
        return false;
    };
    let has_id = record.id.is_some_and(|id| id.get().to_string() == name);
    has_id || fom.key.as_ref().map(Key::to_string).as_deref() == Some(name)
}

fn or_unknown(name: Option<&String>) -> &str {
    name.map_or("?", String::as_str)
}

fn id_text(id: Option<FomId>) -> String {
    id.map_or_else(|| "-".to_owned(), |id| id.get().to_string())
}

/// Returns a number of bytes for a human.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut amount = bytes as f64;
    let mut unit = "bytes";
    for next in UNITS {
        if amount < 1024.0 {
            break;
        }
        amount /= 1024.0;
        unit = next;
    }
    match unit {
        "bytes" => format!("{bytes} bytes"),
        _ => format!("{amount:.1} {unit}"),
    }
}
