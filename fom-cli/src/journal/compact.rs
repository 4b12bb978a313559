//! `fom journal compact`.

use std::path::Path;

use fom_durable::journal::{Damage, EntryId, FileJournal, Journal as _, JournalError, Recover};
use serde_json::json;

use super::{pass, size, stats};
use crate::{
    failure::{FAILED, Failure},
    holder::holder,
    output::Output,
};

pub(super) fn run(directory: &Path, output: &mut Output<'_>) -> Result<u8, Failure> {
    // A look before: `open` makes a journal where there is none, and a damaged one is left as it is.
    let pass = pass::over(directory, output, &mut |_, _| Ok(()))?;
    if pass.files.in_use {
        return Err(locked(directory));
    }
    if pass.report(output) == FAILED {
        return Err(Failure::new(format!(
            "{} is damaged, so it is not compacted; restore it from a copy",
            directory.display()
        )));
    }
    let before = stats::files(directory);
    // The segments keep their size: the next program may have set it.
    let largest = stats::segments(directory).max().unwrap_or(0);
    let opened = FileJournal::options()
        .segment_bytes(largest)
        .background(false)
        .open(directory);
    let mut journal = opened.map_err(|error| match error {
        JournalError::Locked(_) => locked(directory),
        error => error.into(),
    })?;
    journal.recover(&mut Discard)?;
    output.expect_steps("compacting");
    while journal.tidy()? {
        output.advance();
    }
    output.end_progress();
    let entries = journal.stats().entries;
    drop(journal);
    let after = stats::files(directory);
    match output.is_json() {
        true => output.object(&json!({ "entries": entries, "before": before, "after": after }))?,
        false => output.line(&format!(
            "{entries} entries, {} before, {} now",
            size(before),
            size(after)
        ))?,
    }
    Ok(0)
}

fn locked(directory: &Path) -> Failure {
    let (path, holder) = (directory.display(), holder(directory));
    let holder = holder.unwrap_or_else(|| "another process".to_owned());
    Failure::new(format!(
        "{holder} has the journal {path} open; stop it first. A program compacts its journal by itself while it runs"
    ))
}

struct Discard;

impl Recover for Discard {
    fn entry(&mut self, _: EntryId, _: &[u8]) {}
    fn damaged(&mut self, _: EntryId, _: Damage) {}
}
