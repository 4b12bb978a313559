//! Reads a journal once, and reports damage.

use std::{io, path::Path};

use fom_durable::journal::{Damage, EntryId, Inspection};
use fom_durable::reading::{self, Content, Reader, Record};

use crate::failure::{FAILED, Failure};
use crate::output::Output;

/// What a pass over a journal has found, beside the records.
pub(super) struct Pass {
    pub(super) files: Inspection,
    /// The number of records that could be read.
    pub(super) records: u64,
    /// What is lost or cannot be read, in sentences.
    pub(super) damage: Vec<String>,
    /// The number of damaged places, of which `damage` has the first ones.
    pub(super) damaged: u64,
}

/// The most sentences that are kept. A journal that is damaged everywhere must not fill the memory.
const MOST: usize = 1000;

impl Pass {
    /// Returns the exit status: whether everything could be read.
    pub(super) fn status(&self) -> u8 {
        match self.damaged {
            0 => 0,
            _ => FAILED,
        }
    }

    /// Prints the damage as messages. Returns the exit status.
    pub(super) fn report(&self, output: &mut Output<'_>) -> u8 {
        for sentence in &self.damage {
            output.note(sentence);
        }
        let more = self.damaged - self.damage.len() as u64;
        if more > 0 {
            output.note(&format!("{more} more damaged places"));
        }
        if self.damaged > 0 && self.files.in_use {
            output.note(
                "a program has the journal open and may have changed it meanwhile; run the command again to see whether \
                 the damage is real",
            );
        }
        self.status()
    }

    fn lost(&mut self, sentence: String) {
        self.damaged += 1;
        if self.damage.len() < MOST {
            self.damage.push(sentence);
        }
    }
}

/// Passes each record to `each`. Records that cannot be read are damage, and go to `each`, too.
pub(super) fn over(
    directory: &Path,
    output: &mut Output<'_>,
    each: &mut dyn FnMut(&mut Output<'_>, &Record<'_>) -> io::Result<()>,
) -> Result<Pass, Failure> {
    let mut passing = Passing {
        output,
        each,
        failed: None,
        pass: Pass {
            files: Inspection::default(),
            records: 0,
            damage: Vec::new(),
            damaged: 0,
        },
    };
    let files = reading::read(directory, &mut passing);
    passing.output.end_progress();
    let Passing {
        failed, mut pass, ..
    } = passing;
    if let Some(error) = failed {
        return Err(Failure::Output(error));
    }
    pass.files = files?;
    let found = &pass.files.recovery;
    let is_empty = found.gaps.is_empty() && found.torn.is_none() && pass.damaged == 0;
    if is_empty && pass.files.segments == 0 && pass.records == 0 {
        let directory = directory.display();
        return Err(Failure::new(format!("there is no journal in {directory}")));
    }
    for gap in std::mem::take(&mut pass.files.recovery.gaps) {
        pass.lost(format!("{gap}; the entries that were there are lost"));
    }
    Ok(pass)
}

struct Passing<'a, 'b> {
    output: &'a mut Output<'b>,
    each: &'a mut dyn FnMut(&mut Output<'_>, &Record<'_>) -> io::Result<()>,
    /// The first error of `each`. After it, records are only counted.
    failed: Option<io::Error>,
    pass: Pass,
}

impl Reader for Passing<'_, '_> {
    fn expect(&mut self, records: u64) {
        self.output.expect(records);
    }

    fn record(&mut self, record: Record<'_>) {
        self.output.advance();
        if let Content::Unreadable(reason) = &record.content {
            let what = what(record.entry);
            let bytes = record.bytes;
            let at = record.place.map_or_else(String::new, |(file, offset)| {
                format!(" at offset {offset} of {}", file.display())
            });
            self.pass.lost(format!(
                "{bytes} bytes{at}: {reason}; {what} cannot be read"
            ));
        } else {
            self.pass.records += 1;
        }
        if self.failed.is_none() {
            self.failed = (self.each)(self.output, &record).err();
        }
    }

    fn damaged(&mut self, entry: EntryId, damage: Damage) {
        self.pass.lost(format!("{damage}; {} is lost", what(entry)));
    }
}

/// Describes what is in an entry.
fn what(entry: EntryId) -> String {
    match entry < EntryId::HEAD {
        true => format!("entry {} of the journal itself", entry.0),
        false => format!("the fom or event {}", entry.0 - EntryId::HEAD.0),
    }
}
