//! The manifest: a file that names the required segments. A process also locks this file.
//!
//! The manifest names a segment before the first frame of the segment is written. So a missing segment is damage and
//! never the end.

use super::{
    directory::Directory,
    format::{Checkpoint, FORMAT, RECORD, Record, SLOT, Unreadable},
};
use crate::{
    Damage, JournalError,
    disk::{DiskFile, read_full, write_all},
};

/// The manifest of a journal that is open.
pub(super) struct Manifest {
    directory: Directory,
    file: Option<Box<dyn DiskFile>>,
    /// The current record and its slot.
    current: Option<(Record, usize)>,
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
            current: None,
            durable: false,
            generation: 0,
        }
    }

    /// Continues from the record that was read. `generation` is the highest one in the links of the segments.
    pub(super) fn resume(&mut self, read: Option<(Record, usize)>, generation: u64) {
        self.current = read;
        self.durable = false;
        let known = read.map_or(0, |(record, _)| record.generation);
        self.generation = known.max(generation).max(self.generation);
    }

    /// Makes a record with this checkpoint durable, and returns its generation.
    pub(super) fn record(&mut self, checkpoint: Checkpoint) -> Result<u64, JournalError> {
        if let Some((record, slot)) = self.current
            && !self.durable
        {
            // After a kill, the record and the name of the file may be only in the memory of the system. The next
            // record overwrites the other slot.
            self.write(&record.encode(), slot)?;
            self.directory.sync()?;
            self.durable = true;
        }
        if let Some((record, _)) = self.current
            && record.checkpoint == checkpoint
            && record.generation == self.generation
        {
            return Ok(record.generation);
        }
        self.generation += 1;
        let record = Record {
            generation: self.generation,
            checkpoint,
        };
        if !record.is_possible() {
            let (path, what) = (
                self.directory.manifest(),
                "the number of its next record is out of range",
            );
            let damage = Damage::new(path, 0, RECORD as u64, what);
            return Err(JournalError::Damaged(damage));
        }
        let mut bytes = record.encode().to_vec();
        // A write after a failure goes to the same slot, because the other slot is durable.
        let slot = self.current.map_or(0, |(_, slot)| 1 - slot);
        let is_first = self.current.is_none();
        if is_first {
            // Both slots have their space on the disk from the beginning, so a full disk does no harm later.
            bytes.resize(SLOT + RECORD, 0);
        }
        self.write(&bytes, slot)?;
        if is_first {
            self.directory.sync()?;
        }
        self.current = Some((record, slot));
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
