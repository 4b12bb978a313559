//! The least: records with a checksum, one after another in a file with its place on the disk reserved.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::FileExt,
    path::Path,
};

use crate::stored::{Change, RECORD, Store};

/// Checksum, generation, the record, and the id that ended (0: none).
const FRAME: usize = 4 + 4 + RECORD + 8;

pub(crate) struct Raw {
    file: File,
    /// The size of the file. Writing starts over at its end, as in a store that reuses its old files.
    room: u64,
    at: u64,
    group: Vec<u8>,
}

impl Raw {
    pub(crate) fn open(folder: &Path, room: u64) -> Self {
        let path = folder.join("raw");
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false);
        let file = file.open(path).expect("a file");
        // Real zeros are written. A block that was only reserved would cost a change of the file system's metadata at
        // its first write.
        let zeros = vec![0; 1 << 20];
        let mut at = file.metadata().expect("a length").len();
        while at < room {
            file.write_all_at(&zeros, at).expect("room on the disk");
            at += zeros.len() as u64;
        }
        file.sync_all().expect("a sync");
        Self {
            file,
            room,
            at: 0,
            group: Vec::new(),
        }
    }
}

impl Store for Raw {
    fn commit(&mut self, changes: &mut dyn Iterator<Item = Change<'_>>) {
        self.group.clear();
        for change in changes {
            let start = self.group.len();
            self.group.extend_from_slice(&[0; 4]);
            self.group.extend_from_slice(&1_u32.to_le_bytes());
            self.group.extend_from_slice(&change.record());
            self.group
                .extend_from_slice(&change.ended.unwrap_or(0).to_be_bytes());
            let sum = crc32fast::hash(&self.group[start + 4..]);
            self.group[start..start + 4].copy_from_slice(&sum.to_le_bytes());
        }
        if self.at + self.group.len() as u64 > self.room {
            self.at = 0;
        }
        self.file
            .write_all_at(&self.group, self.at)
            .expect("a write");
        self.file.sync_data().expect("a sync");
        self.at += self.group.len() as u64;
    }

    fn read(&mut self, each: &mut dyn FnMut(u64, Option<&[u8]>)) {
        let id = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().expect("8 bytes"));
        let mut part = vec![0; FRAME << 12];
        for at in (0..).step_by(part.len()) {
            let length = self.file.read_at(&mut part, at).expect("a read");
            for frame in part[..length].chunks_exact(FRAME) {
                let (sum, rest) = frame.split_at(4);
                if crc32fast::hash(rest).to_le_bytes() != *sum {
                    return;
                }
                let (record, ended) = rest[4..].split_at(RECORD);
                match id(ended) {
                    0 => {}
                    ended => each(ended, None),
                }
                each(id(&record[8..16]), Some(&record[16..]));
            }
        }
    }
}
