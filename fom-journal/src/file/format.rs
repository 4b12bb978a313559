//! The bytes of a segment. All numbers are little-endian.
//!
//! A segment is a header, a link and then frames, one for each group. Every checksum of a frame begins with the
//! segment's salt. Each use of a file draws a new salt, so no frame of an older use fits.
//!
//! The header is durable before the manifest names the segment. The manifest is durable before the first write to the
//! segment, which is the link and the first frames. So a segment without a link has no data, and one without a header
//! is damaged.
//!
//! ```text
//! header  magic 4  format 4  crc 4 | salt 4  number 8  journal 8  size 8  crc 4  zero 4
//! link    generation 8  first 8  previous 8  valid 8  floor 8  crc 4  zero 4
//! frame   crc 4  length 4  changes 4  index 4  sequence 8  table crc 4 | rows | bytes of the entries
//! row     entry 8  kind and length 4  crc 4
//! ```
//!
//! The manifest has two records, the second at [`SLOT`]. The record with the higher generation counts. The next write
//! goes to the other one.
//!
//! ```text
//! record  magic 4  format 4  crc 4 | zero 4  generation 8  journal 8  last 8  valid 8  next 8  floor 8  crc 4  zero 4
//! ```

use std::array;

use crc32fast::Hasher;

/// The offset of a segment's link, behind its header.
pub(super) const LINK: usize = 48;
/// The offset of a segment's first frame, behind its header and its link.
pub(super) const FIRST: usize = LINK + 48;
/// The offset of the second record of a manifest.
pub(super) const SLOT: usize = 4096;
/// The size of a manifest's record, in bytes.
pub(super) const RECORD: usize = 72;
/// Bytes of a frame before its rows.
pub(super) const HEAD: usize = 28;
/// Bytes of a row.
pub(super) const ROW: usize = 16;
/// The format that this release writes, the latest that it reads.
pub(super) const FORMAT: u32 = 1;
/// The longest entry.
pub(super) const LONGEST: usize = 64 << 20;
/// The longest group.
pub(super) const LONGEST_GROUP: usize = 512 << 20;
/// The longest batch. It goes into one segment together with the moves, and its offsets must fit 32 bits.
pub(super) const LONGEST_BATCH: usize = 3 << 30;
/// The longest frame, so that an offset in a segment fits 32 bits. Longer than a group, because all moves of a sync
/// share one frame.
pub(super) const LONGEST_FRAME: usize = 1 << 30;

const SEGMENT: [u8; 4] = *b"FOMJ";
const MANIFEST: [u8; 4] = *b"FOMM";
const LENGTH_BITS: u32 = 28;

/// The header of a segment, written before the segment is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) salt: u32,
    /// The number of the segment, as in its file name; from 1.
    pub(super) number: u64,
    /// The journal of the segment.
    pub(super) journal: u64,
    /// The least size of the file, in bytes.
    pub(super) size: u64,
}

/// The link of a segment, part of its first write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// The generation of the manifest's record that first named the segment.
    pub(super) generation: u64,
    /// The sequence number of its first frame.
    pub(super) first: u64,
    /// The number of the previous segment; 0 for none.
    pub(super) previous: u64,
    /// Valid bytes of the previous segment. Anything behind them was never acknowledged.
    pub(super) valid: u64,
    /// No segment below this number is needed.
    pub(super) floor: u64,
}

/// A record of the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The number of the record, counted from 1.
    pub(super) generation: u64,
    pub(super) checkpoint: Checkpoint,
}

/// The segments that a recovery needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Checkpoint {
    /// The journal of the segments.
    pub(super) journal: u64,
    /// The newest segment that has frames; 0 for none.
    pub(super) last: u64,
    /// Valid bytes of `last`; 0 while the segment is written.
    pub(super) valid: u64,
    /// The segment that gets the next frames: `last`, or the segment that was made to follow it.
    pub(super) next: u64,
    /// No segment below this number is needed.
    pub(super) floor: u64,
}

/// The reason why there is no header or record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// Only zeros.
    Blank,
    /// A later release wrote it.
    Newer(u32),
    /// Something else.
    Broken,
}

fn encode_format(magic: [u8; 4], bytes: &mut [u8]) {
    bytes[..4].copy_from_slice(&magic);
    bytes[4..8].copy_from_slice(&FORMAT.to_le_bytes());
    let crc = checksum(0, &bytes[..8]);
    bytes[8..12].copy_from_slice(&crc.to_le_bytes());
}

fn decode_format(magic: [u8; 4], bytes: &[u8]) -> Result<(), Unreadable> {
    if bytes.iter().all(|byte| *byte == 0) {
        return Err(Unreadable::Blank);
    }
    if bytes.len() < 12 || bytes[..4] != magic || u32_at(bytes, 8) != checksum(0, &bytes[..8]) {
        return Err(Unreadable::Broken);
    }
    match u32_at(bytes, 4) {
        FORMAT => Ok(()),
        newer if newer > FORMAT => Err(Unreadable::Newer(newer)),
        _ => Err(Unreadable::Broken),
    }
}

fn encode_numbers(numbers: &[u64], bytes: &mut [u8]) {
    for (bytes, number) in bytes.chunks_exact_mut(8).zip(numbers) {
        bytes.copy_from_slice(&number.to_le_bytes());
    }
}

fn decode_numbers<const N: usize>(bytes: &[u8]) -> [u64; N] {
    array::from_fn(|index| u64_at(bytes, 8 * index))
}

/// Whether the checksum at `at` is `crc`, and zeros follow it.
fn is_sealed(bytes: &[u8], at: usize, crc: u32) -> bool {
    u32_at(bytes, at) == crc && u32_at(bytes, at + 4) == 0
}

impl Header {
    pub(super) fn encode(&self) -> [u8; LINK] {
        let mut bytes = [0; LINK];
        encode_format(SEGMENT, &mut bytes);
        bytes[12..16].copy_from_slice(&self.salt.to_le_bytes());
        encode_numbers(&[self.number, self.journal, self.size], &mut bytes[16..40]);
        let crc = checksum(0, &bytes[12..40]);
        bytes[40..44].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads the beginning of a file, which may be shorter than a header.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        decode_format(SEGMENT, bytes)?;
        if bytes.len() < LINK || !is_sealed(bytes, 40, checksum(0, &bytes[12..40])) {
            return Err(Unreadable::Broken);
        }
        let [number, journal, size] = decode_numbers(&bytes[16..]);
        let header = Self {
            salt: u32_at(bytes, 12),
            number,
            journal,
            size,
        };
        // Numbers count from 1, so a header with a zero was never written.
        let is_possible = number > 0 && journal > 0;
        is_possible.then_some(header).ok_or(Unreadable::Broken)
    }

    /// The checksum of a link covers the header too, so a link fits one segment of one journal in one use of its file.
    fn seal(&self, link: &[u8]) -> u32 {
        let mut hasher = Hasher::new_with_initial(self.salt);
        hasher.update(&self.number.to_le_bytes());
        hasher.update(&self.journal.to_le_bytes());
        hasher.update(link);
        hasher.finalize()
    }
}

impl Link {
    pub(super) fn encode(&self, of: &Header) -> [u8; FIRST - LINK] {
        let mut bytes = [0; FIRST - LINK];
        let numbers = [
            self.generation,
            self.first,
            self.previous,
            self.valid,
            self.floor,
        ];
        encode_numbers(&numbers, &mut bytes[..40]);
        let crc = of.seal(&bytes[..40]);
        bytes[40..44].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads the bytes behind a header, which may be shorter than a link.
    pub(super) fn decode(bytes: &[u8], of: &Header) -> Option<Self> {
        if bytes.len() < FIRST - LINK || !is_sealed(bytes, 40, of.seal(&bytes[..40])) {
            return None;
        }
        let [generation, first, previous, valid, floor] = decode_numbers(bytes);
        let link = Self {
            generation,
            first,
            previous,
            valid,
            floor,
        };
        // A link refers only to lower segments, and numbers count from 1.
        let is_possible = link.previous < of.number
            && link.floor <= of.number
            && (1..1 << 62).contains(&link.generation)
            && (1..1 << 62).contains(&link.first);
        is_possible.then_some(link)
    }
}

impl Record {
    pub(super) fn encode(&self) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        encode_format(MANIFEST, &mut bytes);
        let Checkpoint {
            journal,
            last,
            valid,
            next,
            floor,
        } = self.checkpoint;
        let numbers = [self.generation, journal, last, valid, next, floor];
        encode_numbers(&numbers, &mut bytes[16..64]);
        let crc = checksum(0, &bytes[12..64]);
        bytes[64..68].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a record, which may be cut short.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        decode_format(MANIFEST, bytes)?;
        let is_whole = bytes.len() >= RECORD
            && u32_at(bytes, 12) == 0
            && is_sealed(bytes, 64, checksum(0, &bytes[12..64]));
        if !is_whole {
            return Err(Unreadable::Broken);
        }
        let [generation, journal, last, valid, next, floor] = decode_numbers(&bytes[16..]);
        let checkpoint = Checkpoint {
            journal,
            last,
            valid,
            next,
            floor,
        };
        let record = Self {
            generation,
            checkpoint,
        };
        let is_possible = record.is_possible();
        is_possible.then_some(record).ok_or(Unreadable::Broken)
    }

    pub(super) fn is_possible(&self) -> bool {
        let of = &self.checkpoint;
        (1..1 << 62).contains(&self.generation)
            && of.journal > 0
            && of.last <= of.next
            && of.next < 1 << 62
            && of.floor <= of.next.max(1)
    }
}

/// The beginning of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Bytes behind the head: the rows and the bytes of the entries.
    pub(super) length: u32,
    /// The number of rows.
    pub(super) changes: u32,
    /// The number of frames before this one in the same sync. All frames of earlier syncs were durable before this
    /// frame was written.
    pub(super) index: u32,
    /// The number of the frame, counted over all segments, from 1, without a gap.
    pub(super) sequence: u64,
    pub(super) table: u32,
}

impl Head {
    /// Reads a head, if it is valid. `bytes` has at least [`HEAD`] bytes.
    pub(super) fn decode(bytes: &[u8], salt: u32) -> Option<Self> {
        let head = Self {
            length: u32_at(bytes, 4),
            changes: u32_at(bytes, 8),
            index: u32_at(bytes, 12),
            sequence: u64_at(bytes, 16),
            table: u32_at(bytes, 24),
        };
        let rows = u64::from(head.changes) * ROW as u64;
        let possible = head.changes > 0
            && rows <= u64::from(head.length)
            && head.length as usize <= LONGEST_FRAME
            && u64::from(head.index) < head.sequence;
        (possible && u32_at(bytes, 0) == checksum(salt, &bytes[4..HEAD])).then_some(head)
    }

    /// Returns the end of the frame, which begins at `at`.
    pub(super) fn end(&self, at: u64) -> u64 {
        at + HEAD as u64 + u64::from(self.length)
    }

    /// Returns the sequence number of the first frame of the same sync.
    pub(super) fn begun(&self) -> u64 {
        self.sequence - u64::from(self.index)
    }
}

/// The kind of a row. Files number the kinds from 1, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Put,
    Delete,
    /// A put of bytes that were already damaged when they were moved.
    PutDamaged,
    /// Not an entry: from here on, no segment below this number is needed.
    Floor,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Put, Self::Delete, Self::PutDamaged, Self::Floor];
}

/// A change to write: its kind, the number of its entry, and the bytes of a put.
pub(super) type RawChange<'a> = (Kind, u64, &'a [u8]);

/// One change, as it is in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) kind: Kind,
    pub(super) id: u64,
    pub(super) length: u32,
    pub(super) crc: u32,
    /// The offset of the entry's bytes in the file.
    pub(super) at: u64,
    /// The offset of the row itself. It identifies the row: several rows without bytes may have the same `at`.
    pub(super) place: u64,
}

impl Row {
    pub(super) fn matches(&self, bytes: &[u8], salt: u32) -> bool {
        checksum(salt, bytes) == self.crc
    }
}

/// Reads the rows of a frame. `at` is the offset behind the rows, where the entries' bytes begin. Returns false if the
/// table is damaged.
pub(super) fn decode_rows(
    head: &Head,
    bytes: &[u8],
    salt: u32,
    mut at: u64,
    rows: &mut Vec<Row>,
) -> bool {
    rows.clear();
    if checksum(salt, bytes) != head.table {
        return false;
    }
    let end = at + u64::from(head.length) - bytes.len() as u64;
    let first = at - bytes.len() as u64;
    for (place, row) in (first..).step_by(ROW).zip(bytes.chunks_exact(ROW)) {
        let kind_and_length = u32_at(row, 8);
        let kind = (kind_and_length >> LENGTH_BITS) as usize;
        let length = kind_and_length & ((1 << LENGTH_BITS) - 1);
        let Some(kind) = Kind::ALL.get(kind.wrapping_sub(1)) else {
            return false;
        };
        let has_bytes = matches!(kind, Kind::Put | Kind::PutDamaged);
        if length as usize > LONGEST || (length > 0 && !has_bytes) {
            return false;
        }
        rows.push(Row {
            kind: *kind,
            id: u64_at(row, 0),
            length,
            crc: u32_at(row, 12),
            at,
            place,
        });
        at += u64::from(length);
    }
    at == end
}

/// Returns the length of a frame, in bytes.
pub(super) fn frame_length<'a>(changes: impl Iterator<Item = RawChange<'a>>) -> usize {
    changes.fold(HEAD, |length, (_, _, bytes)| length + ROW + bytes.len())
}

/// Appends a frame. Each entry has at most [`LONGEST`] bytes, and the frame at most [`LONGEST_FRAME`].
pub(super) fn encode_frame<'a>(
    out: &mut Vec<u8>,
    salted: &SaltedCrc,
    sequence: u64,
    index: u32,
    changes: impl Iterator<Item = RawChange<'a>> + Clone,
) {
    let start = out.len();
    out.resize(start + HEAD, 0);
    let mut count = 0u32;
    let checksum = |bytes: &[u8]| salted.checksum(bytes);
    for (kind, id, bytes) in changes.clone() {
        let number = kind as u32 + 1;
        let mut row = [0; ROW];
        row[..8].copy_from_slice(&id.to_le_bytes());
        let kind_and_length = number << LENGTH_BITS | bytes.len() as u32;
        row[8..12].copy_from_slice(&kind_and_length.to_le_bytes());
        row[12..].copy_from_slice(&checksum(bytes).to_le_bytes());
        out.extend_from_slice(&row);
        count += 1;
    }
    let table = checksum(&out[start + HEAD..]);
    for (_, _, bytes) in changes {
        out.extend_from_slice(bytes);
    }
    let length = (out.len() - start - HEAD) as u32;
    let head = &mut out[start..start + HEAD];
    head[4..8].copy_from_slice(&length.to_le_bytes());
    head[8..12].copy_from_slice(&count.to_le_bytes());
    head[12..16].copy_from_slice(&index.to_le_bytes());
    head[16..24].copy_from_slice(&sequence.to_le_bytes());
    head[24..28].copy_from_slice(&table.to_le_bytes());
    let crc = checksum(&head[4..]);
    head[..4].copy_from_slice(&crc.to_le_bytes());
}

fn checksum(salt: u32, bytes: &[u8]) -> u32 {
    SaltedCrc::new(salt).checksum(bytes)
}

/// Computes checksums for one segment. A new hasher detects the processor's features, so many checksums share one.
pub(super) struct SaltedCrc(Hasher);

impl SaltedCrc {
    pub(super) fn new(salt: u32) -> Self {
        Self(Hasher::new_with_initial(salt))
    }

    fn checksum(&self, bytes: &[u8]) -> u32 {
        let mut hasher = self.0.clone();
        hasher.update(bytes);
        hasher.finalize()
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}
