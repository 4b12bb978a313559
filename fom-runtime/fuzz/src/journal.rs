//! The files of a journal.

use std::{collections::BTreeMap, path::Path};

use fom_durable::journal::{
    Batch, Damage, EntryId, FileJournal, Journal, JournalError, Recover, Recovery,
    read_hostile_segment,
};

use super::{archive::unpack, disk::Memory, memory::bounded};

/// The offsets of a segment's link, of its first frame, and of the second record of a manifest; the length of a record.
const LINK: usize = 48;
const FIRST: usize = 96;
const SLOT: usize = 4096;
const RECORD: usize = 72;
/// The lengths of a frame before its rows, and of a row.
const HEAD: usize = 28;
const ROW: usize = 16;

/// The results of a recovery.
#[derive(Default)]
struct Given {
    entries: BTreeMap<u64, Vec<u8>>,
    damaged: BTreeMap<u64, Damage>,
    is_body: bool,
}

impl Given {
    fn met(&mut self, id: EntryId) {
        let known = self.entries.contains_key(&id.0) || self.damaged.contains_key(&id.0);
        assert!(!known, "{id} comes twice");
        assert!(!self.is_body || id >= EntryId::HEAD, "{id} comes late");
        self.is_body = id >= EntryId::HEAD;
    }
}

impl Recover for Given {
    fn entry(&mut self, id: EntryId, bytes: &[u8]) {
        self.met(id);
        self.entries.insert(id.0, bytes.to_vec());
    }

    fn damaged(&mut self, id: EntryId, damage: Damage) {
        assert!(!damage.to_string().is_empty());
        self.met(id);
        self.damaged.insert(id.0, damage);
    }
}

/// Fuzzes a directory. The input is one byte and an [archive](super::archive). The lowest bit of the byte says whether
/// checksums are corrected, the next bit whether the journal is salvaged. Each piece of the archive is a segment,
/// numbered as in its file name; piece 0 is the manifest.
///
/// Either the open fails with an error, or the journal takes a commit. The next open then finds the old content and the
/// commit, and nothing wrong.
pub fn journal(bytes: &[u8]) {
    is_opened(bytes);
}

/// Does the same, and returns whether the journal was opened.
pub fn is_opened(bytes: &[u8]) -> bool {
    let Some((mode, rest)) = bytes.split_first() else {
        return false;
    };
    let disk = Memory::default();
    for (number, piece) in unpack(rest) {
        let mut segment = piece.to_vec();
        if number == 0 {
            if mode & 1 == 1 {
                put_manifest_right(&mut segment);
            }
            disk.put("journal/MANIFEST".into(), segment);
            continue;
        }
        if mode & 1 == 1 {
            put_right(&mut segment, number);
        }
        bounded(&segment, || read_hostile_segment(&segment));
        disk.put(format!("journal/{number:016x}.log").into(), segment);
    }
    let salvage = mode & 2 == 2;
    bounded(bytes, || match open(&disk, salvage) {
        Ok((journal, given, _)) => {
            go_on(&disk, journal, given);
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    })
}

fn open(disk: &Memory, salvage: bool) -> Result<(FileJournal, Given, Recovery), JournalError> {
    let options = FileJournal::options()
        .segment_bytes(1024)
        .background(false)
        .salvage(salvage)
        .disk(disk.clone());
    let mut journal = options.open(Path::new("journal"))?;
    let mut given = Given::default();
    let found = journal.recover(&mut given)?;
    let count = given.entries.len() as u64;
    assert_eq!(found.entries, count);
    Ok((journal, given, found))
}

fn go_on(disk: &Memory, mut journal: FileJournal, mut given: Given) {
    let mut batch = Batch::new();
    batch.put(EntryId(70_000), b"later");
    batch.delete(EntryId(70_001));
    batch.end_group();
    if let Err(error) = journal.commit(&batch) {
        // Only if a number is used up.
        assert!(!error.to_string().is_empty());
        return;
    }
    for _ in 0..40 {
        if !matches!(journal.tidy(), Ok(true)) {
            break;
        }
    }
    drop(journal);
    given.entries.insert(70_000, b"later".to_vec());
    given.entries.remove(&70_001);
    given.damaged.remove(&70_000);
    given.damaged.remove(&70_001);
    let (_, again, found) = match open(disk, false) {
        Ok(opened) => opened,
        Err(error) => panic!("it was opened before: {error}"),
    };
    assert_eq!(found.torn, None);
    assert_eq!(again.entries, given.entries);
    assert!(again.damaged.keys().eq(given.damaged.keys()));
}

fn crc(salt: u32, bytes: &[u8]) -> [u8; 4] {
    let mut hasher = crc32fast::Hasher::new_with_initial(salt);
    hasher.update(bytes);
    hasher.finalize().to_le_bytes()
}

/// Corrects the magic number and the checksum of both records.
fn put_manifest_right(bytes: &mut [u8]) {
    for at in [0, SLOT] {
        let Some(record) = bytes.get_mut(at..).and_then(|from| from.get_mut(..RECORD)) else {
            return;
        };
        record[..8].copy_from_slice(b"FOMM\x01\0\0\0");
        let whole = crc(0, &record[..8]);
        record[8..12].copy_from_slice(&whole);
        record[12..16].fill(0);
        let whole = crc(0, &record[12..64]);
        record[64..68].copy_from_slice(&whole);
        record[68..].fill(0);
    }
}

/// Corrects the magic number, the segment's number in its header, and every checksum, as far as the lengths are right.
fn put_right(bytes: &mut [u8], number: u8) {
    let number_at = |bytes: &[u8], at: usize| {
        let four = bytes[at..].first_chunk::<4>();
        four.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    };
    if bytes.len() < FIRST {
        return;
    }
    bytes[..8].copy_from_slice(b"FOMJ\x01\0\0\0");
    let whole = crc(0, &bytes[..8]);
    bytes[8..12].copy_from_slice(&whole);
    bytes[16..24].copy_from_slice(&u64::from(number).to_le_bytes());
    let whole = crc(0, &bytes[12..40]);
    bytes[40..44].copy_from_slice(&whole);
    bytes[44..LINK].fill(0);
    let salt = number_at(bytes, 12);
    let whole = crc(salt, &[&bytes[16..32], &bytes[LINK..LINK + 40]].concat());
    bytes[LINK + 40..LINK + 44].copy_from_slice(&whole);
    bytes[LINK + 44..FIRST].fill(0);
    let mut at = FIRST;
    while at + HEAD <= bytes.len() {
        let length = number_at(bytes, at + 4) as usize;
        let rows = number_at(bytes, at + 8) as usize;
        let end = (at + HEAD).saturating_add(length);
        let rows_end = (at + HEAD).saturating_add(rows.saturating_mul(ROW));
        if rows == 0 || end > bytes.len() || rows_end > end {
            return;
        }
        let mut entry = rows_end;
        for row in (at + HEAD..rows_end).step_by(ROW) {
            let length = (number_at(bytes, row + 8) & 0x0fff_ffff) as usize;
            let Some(whole) = bytes.get(entry..entry.saturating_add(length).min(end)) else {
                break;
            };
            let whole = crc(salt, whole);
            bytes[row + 12..row + 16].copy_from_slice(&whole);
            entry = entry.saturating_add(length).min(end);
        }
        let table = crc(salt, &bytes[at + HEAD..rows_end]);
        bytes[at + 24..at + 28].copy_from_slice(&table);
        let whole = crc(salt, &bytes[at + 4..at + HEAD]);
        bytes[at..at + 4].copy_from_slice(&whole);
        at = end;
    }
}
