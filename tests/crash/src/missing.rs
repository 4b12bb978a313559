//! Removes a file from a copy of a killed journal. Either the open reports that, or all entries are there.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use fom_durable::journal::{
    Damage, EntryId, FileJournal, Journal, JournalError, Recover, Recovery,
};

use crate::random::Random;

/// The length of the header of a segment.
const HEADER: usize = 48;

/// The content of a journal.
#[derive(Default)]
struct Given {
    entries: BTreeMap<EntryId, Vec<u8>>,
    damaged: usize,
}

impl Recover for Given {
    fn entry(&mut self, id: EntryId, bytes: &[u8]) {
        self.entries.insert(id, bytes.to_vec());
    }

    fn damaged(&mut self, _: EntryId, _: Damage) {
        self.damaged += 1;
    }
}

/// The results of the copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// The journal reported a loss.
    pub told: u64,
    /// The journal had all entries without that file.
    pub whole: u64,
}

/// Removes the newest segment from a copy, and any file or a part of it from another. Returns a description of the
/// fault, if the journal has one.
///
/// # Errors
///
/// Fails with an error of the file system.
pub(crate) fn look(
    journal: &Path,
    scratch: &Path,
    random: &mut Random,
    missing: &mut Missing,
) -> io::Result<Option<String>> {
    let files = files(journal)?;
    let Some(newest) = files.iter().rfind(|file| is_used(file)) else {
        return Ok(None);
    };
    copy(&files, scratch)?;
    let Ok((all, _)) = open(scratch) else {
        // The next life reports the reason.
        return Ok(None);
    };
    let any = &files[random.below(files.len() as u64) as usize];
    let mut said = None;
    for (lost, way) in [(newest, Some(0)), (any, None)] {
        copy(&files, scratch)?;
        let name = lost.file_name().unwrap_or_default();
        let way = lose(&scratch.join(name), way, random)?;
        let what = format!("{} was {way}", name.display());
        said = said.or(without(&all, scratch, &what, missing));
    }
    fs::remove_dir_all(scratch)?;
    Ok(said)
}

/// Opens a copy that lost something.
fn without(all: &Given, copy: &Path, what: &str, missing: &mut Missing) -> Option<String> {
    match open(copy) {
        Ok((left, found)) if found.gaps.is_empty() && left.damaged == 0 => {
            missing.whole += 1;
            let (left, all) = (&left.entries, &all.entries);
            let (is, was) = (left.len(), all.len());
            (left != all).then(|| {
                format!(
                    "{what}, and of {was} entries {is} are there, or older ones, without a word"
                )
            })
        }
        Ok(_) | Err(JournalError::Damaged(_)) => {
            missing.told += 1;
            None
        }
        Err(error) => Some(format!("{what}: {error}")),
    }
}

fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    if directory.is_dir() {
        for entry in fs::read_dir(directory)? {
            files.push(entry?.path());
        }
    }
    files.sort();
    Ok(files)
}

/// Returns whether the file is a segment with data.
pub(crate) fn is_used(file: &Path) -> bool {
    let is_segment = file.extension().is_some_and(|ending| ending == "log");
    let bytes = fs::read(file).unwrap_or_default();
    is_segment
        && bytes
            .iter()
            .skip(HEADER)
            .take(HEADER)
            .any(|byte| *byte != 0)
}

fn copy(files: &[PathBuf], to: &Path) -> io::Result<()> {
    if to.is_dir() {
        fs::remove_dir_all(to)?;
    }
    fs::create_dir_all(to)?;
    for file in files {
        fs::copy(file, to.join(file.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

/// Removes the file or a part of it, in the given way or in a random one. Returns the name of the way.
pub(crate) fn lose(file: &Path, way: Option<u64>, random: &mut Random) -> io::Result<&'static str> {
    let is_segment = file.extension().is_some_and(|ending| ending == "log");
    match way.unwrap_or_else(|| random.below(if is_segment { 4 } else { 2 })) {
        0 => fs::remove_file(file).map(|()| "removed"),
        1 => File::create(file).map(|_| "emptied"),
        2 => {
            let file = File::options().write(true).open(file)?;
            let length = file.metadata()?.len();
            file.set_len(random.below(length)).map(|()| "cut")
        }
        _ => {
            let mut bytes = fs::read(file)?;
            let header = bytes.len().min(HEADER);
            bytes[..header].fill(0);
            fs::write(file, bytes).map(|()| "left without its header")
        }
    }
}

fn open(directory: &Path) -> Result<(Given, Recovery), JournalError> {
    let options = FileJournal::options().segment_bytes(32 << 10);
    let mut journal = options.background(false).open(directory)?;
    let mut given = Given::default();
    let found = journal.recover(&mut given)?;
    Ok((given, found))
}
