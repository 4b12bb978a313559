//! The manifest: a file that names the required segments. A process also locks this file.
//!
//! The manifest names a segment before the first frame of the segment is written. So a missing segment is damage and
//! never the end.

use super::{
    directory::Directory,
    format::{FORMAT, RECORD, Record, SLOT, Unreadable},
};
use crate::{
    Damage, JournalError,
    disk::{DiskFile, read_full, write_all},
};

/// The content of the next record, without its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) journal: u64,
    pub(super) last: u64,
    pub(super) valid: u64,
    pub(super) next: u64,
    pub(super) floor: u64,
}

impl Said {
    fn of(record: &Record) -> Self {
        Self {
            journal: record.journal,
            last: record.last,
            valid: record.valid,
            next: record.next,
            floor: record.floor,
        }
    }
}

/// The manifest of a journal that is open.
pub(super) struct Manifest {
    directory: Directory,
    file: Option<Box<dyn DiskFile>>,
    /// The current record and its slot.
    record: Option<(Record, usize)>,
    /// Whether the current record is durable. A record that was only read may still be only in the memory of the
    /// system.
    durable: bool,
    /// The highest generation ever written.
    generation: u64,
}

/// Reads the current record and its slot.
pub(super) fn read(directory: &Directory) -> Result<Option<(Record, usize)>, JournalError> {
    let path = directory.manifest();
    let mut bytes = vec![0; SLOT + RECORD];
    let read = match directory.disk.open(&path, false) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.and_then(|file| read_full(&*file, &mut bytes, 0)),
    };
    bytes.truncate(read.map_err(|error| JournalError::io("read", &path, error))?);
    let mut newest: Option<(Record, usize)> = None;
    for slot in [0, 1] {
        let from = bytes.get(slot * SLOT..).unwrap_or_default();
        match Record::decode(&from[..from.len().min(RECORD)]) {
            Ok(record)
                if newest.is_none_or(|(newest, _)| newest.generation < record.generation) =>
            {
                newest = Some((record, slot));
            }
            // A crash may have torn the write of one record. The segments show whether it did.
            Ok(_) | Err(Unreadable::Blank | Unreadable::Broken) => {}
            Err(Unreadable::Newer(found)) => {
                return Err(JournalError::NewerFormat {
                    path,
                    found,
                    known: FORMAT,
                });
            }
        }
    }
    Ok(newest)
}

impl Manifest {
    pub(super) fn new(directory: Directory) -> Self {
        Self {
            directory,
            file: None,
            record: None,
            durable: false,
            generation: 0,
        }
    }

    /// Continues from the record that was read. `beyond` is the highest generation in the links of the segments.
    pub(super) fn begin(&mut self, read: Option<(Record, usize)>, beyond: u64) {
        self.record = read;
        self.durable = false;
        let known = read.map_or(0, |(record, _)| record.generation);
        self.generation = known.max(beyond).max(self.generation);
    }

    /// Writes a record durably, and returns its generation.
    pub(super) fn say(&mut self, said: Said) -> Result<u64, JournalError> {
        if let Some((record, slot)) = self.record
            && !self.durable
        {
            // After a kill, the record and the name of the file may be only in the memory of the system. The next
            // record overwrites the other slot.
            self.write(&record.encode(), slot)?;
            self.directory.sync()?;
            self.durable = true;
        }
        if let Some((record, _)) = self.record
            && Said::of(&record) == said
            && record.generation == self.generation
        {
            return Ok(record.generation);
        }
        self.generation += 1;
        let record = Record {
            generation: self.generation,
            journal: said.journal,
            last: said.last,
            valid: said.valid,
            next: said.next,
            floor: said.floor,
        };
        if !record.is_possible() {
            let (path, what) = (self.directory.manifest(), "its numbers are used up");
            let damage = Damage::new(path, 0, RECORD as u64, what);
            return Err(JournalError::Damaged(damage));
        }
        let slot = match self.record {
            Some((_, slot)) => {
                // A write after a failure goes to the same slot, because the other slot is durable.
                self.write(&record.encode(), 1 - slot)?;
                1 - slot
            }
            None => {
                // Both slots have their space on the disk from the beginning, so a full disk does no harm later.
                let mut bytes = record.encode().to_vec();
                bytes.resize(SLOT + RECORD, 0);
                self.write(&bytes, 0)?;
                self.directory.sync()?;
                0
            }
        };
        self.record = Some((record, slot));
        self.durable = true;
        Ok(self.generation)
    }

    fn write(&mut self, bytes: &[u8], slot: usize) -> Result<(), JournalError> {
        let path = self.directory.manifest();
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let disk = &self.directory.disk;
                let file = match disk.open(&path, true) {
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                        disk.create(&path)
                    }
                    opened => opened,
                };
                none.insert(file.map_err(|error| JournalError::io("open", &path, error))?)
            }
        };
        let written = write_all(&mut **file, bytes, (slot * SLOT) as u64);
        written.map_err(|error| JournalError::io("write", &path, error))?;
        file.sync()
            .map_err(|error| JournalError::io("sync", path, error))
    }
}
