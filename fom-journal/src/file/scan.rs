//! Scans the frames of a segment, even if the segment is damaged.

use super::{
    format::{FIRST, HEAD, Head, Header, Kind, LINK, Link, ROW, Row, decode_rows, u64_at},
    window::Window,
};
use crate::{Damage, JournalError};

type Result<T> = std::result::Result<T, JournalError>;

/// Moves from frame to frame.
pub(super) struct Scan<'a> {
    window: Window<'a>,
    salt: u32,
    at: u64,
    /// The sequence number of the next frame.
    next: u64,
    /// The rows of the last frame.
    pub(super) rows: Vec<Row>,
}

/// The find at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A frame with whole rows. Its entries are not checked yet.
    Frame(Head),
    /// A frame with damaged rows.
    Rows(Head),
    /// No frame up to `end`, where frames continue. `expected` is the sequence number of the missing frame.
    Gap { end: u64, expected: u64 },
    /// No frame from here on.
    End,
}

impl<'a> Scan<'a> {
    /// Begins at an offset, where the frame with the sequence number `next` is expected.
    pub(super) fn new(window: Window<'a>, salt: u32, at: u64, next: u64) -> Self {
        Self {
            window,
            salt,
            at,
            next,
            rows: Vec::new(),
        }
    }

    /// Begins at the first frame of a segment.
    pub(super) fn of(window: Window<'a>, header: &Header, link: &Link) -> Self {
        Self::new(window, header.salt, FIRST as u64, link.first)
    }

    /// Returns the current offset, and the sequence number expected there.
    pub(super) fn place(&self) -> (u64, u64) {
        (self.at, self.next)
    }

    /// Returns the bytes of an entry and whether they fit its checksum, or `None` if the file is too short.
    pub(super) fn bytes(&mut self, row: &Row) -> Result<Option<(&[u8], bool)>> {
        let salt = self.salt;
        let bytes = self.window.get(row.at, row.length as usize)?;
        Ok(bytes.map(|bytes| (bytes, row.matches(bytes, salt))))
    }

    /// Returns the bytes of an entry if they fit its checksum.
    pub(super) fn whole(&mut self, row: &Row) -> Result<Option<&[u8]>> {
        let bytes = self.bytes(row)?;
        Ok(bytes.and_then(|(bytes, is_whole)| is_whole.then_some(bytes)))
    }

    /// Moves to the next frame with whole rows, in a segment of `valid` bytes that was read before. Returns false at
    /// the end. Damage is an error, unless it is known from before.
    pub(super) fn next_frame(&mut self, valid: u64, is_known: bool) -> Result<bool> {
        loop {
            let at = self.at;
            match self.step()? {
                Step::Frame(_) => return Ok(true),
                Step::End if is_known || at == valid => return Ok(false),
                Step::Rows(_) | Step::Gap { .. } if is_known => {}
                _ => return Err(self.unreadable(at, valid)),
            }
        }
    }

    /// Returns the error for groups that can no longer be read.
    pub(super) fn unreadable(&self, at: u64, valid: u64) -> JournalError {
        let what = "groups became unreadable after they were read";
        let length = valid.saturating_sub(at);
        JournalError::Damaged(Damage::new(self.window.path(), at, length, what))
    }

    /// Reads what is at the current place, and moves behind it. At the end the place stays.
    pub(super) fn step(&mut self) -> Result<Step> {
        self.rows.clear();
        let at = self.at;
        let head = match self.head(at)? {
            Some(head) if head.sequence == self.next => head,
            _ => return self.resume(at),
        };
        self.next = self.next.saturating_add(1);
        self.at = head.end(at);
        let rows_at = at + HEAD as u64;
        // No longer than the frame, which is no longer than the file.
        let length = head.changes as usize * ROW;
        if let Some(table) = self.window.get(rows_at, length)? {
            let bytes_at = rows_at + length as u64;
            if decode_rows(&head, table, self.salt, bytes_at, &mut self.rows) {
                return Ok(Step::Frame(head));
            }
        }
        self.rows.clear();
        Ok(Step::Rows(head))
    }

    /// Reads a head, if its whole frame is inside the file.
    fn head(&mut self, at: u64) -> Result<Option<Head>> {
        let (salt, end) = (self.salt, self.window.end());
        let bytes = self.window.get(at, HEAD)?;
        let head = bytes.and_then(|bytes| Head::decode(bytes, salt));
        Ok(head.filter(|head| head.end(at) <= end))
    }

    /// Looks for the next frame behind a place without a frame.
    fn resume(&mut self, at: u64) -> Result<Step> {
        const LEAST: u64 = (HEAD + ROW) as u64;
        let (salt, expected, end) = (self.salt, self.next, self.window.end());
        let found = find_head(&mut self.window, at + 1, |place, bytes| {
            // The most frames that can have been in between.
            let most = expected.saturating_add((place - at) / LEAST);
            let sequence = u64_at(bytes, 16);
            let is_possible = sequence > expected && sequence <= most;
            let head = is_possible.then(|| Head::decode(bytes, salt)).flatten();
            head.filter(|head| head.end(place) <= end)
        })?;
        let Some((end, head)) = found else {
            return Ok(Step::End);
        };
        self.at = end;
        self.next = head.sequence;
        Ok(Step::Gap { end, expected })
    }

    /// Whether the last write ended here: that write left zeros in the place of the next head.
    fn is_ended_at(&mut self, at: u64) -> Result<bool> {
        let left = self.window.end().saturating_sub(at).min(HEAD as u64);
        let bytes = self.window.get(at, left as usize)?;
        Ok(bytes.is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0)))
    }
}

pub(super) const BAD_ROWS: &str = "the checksum of a group does not match";
pub(super) const NO_GROUP: &str = "there is no group here";

/// The end of the last segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    /// Bytes that are valid.
    pub(super) valid: u64,
    /// The offset of the last sync that left something valid.
    pub(super) last: u64,
    /// The reason for a torn end; `None` for a regular end.
    pub(super) torn: Option<&'static str>,
    /// No segment below this one is needed.
    pub(super) floor: u64,
}

/// Finds the end of the last segment: the first broken frame that no later sync follows. Frames that a later sync
/// follows were durable, so a broken one among them is damaged.
pub(super) fn find_tail(scan: &mut Scan<'_>, number: u64, link: &Link) -> Result<Tail> {
    // The broken places since the start of the last known sync, with the sequence number expected there. One of them
    // may be the end.
    let mut bad: Vec<(u64, u64, &'static str)> = Vec::new();
    let mut floors = Vec::new();
    // The offsets of the last two syncs. The last sync may leave nothing valid.
    let mut begins = (FIRST as u64, FIRST as u64);
    let mut begun = link.first;
    loop {
        let (at, _) = scan.place();
        let step = scan.step()?;
        if let Step::Frame(head) | Step::Rows(head) = step {
            if head.begun() > begun || at == FIRST as u64 {
                begun = head.begun();
                begins = (begins.1, at);
            }
            bad.retain(|(sequence, ..)| *sequence >= begun);
        }
        let wrong = match step {
            Step::Frame(head) => match has_bad_entry(scan)? {
                true => Some((head.sequence, at, "an entry's checksum does not match")),
                false => {
                    let floor = scan.rows.iter().filter(|row| row.kind == Kind::Floor);
                    floors.extend(floor.map(|row| (at, row.id)));
                    None
                }
            },
            Step::Rows(head) => Some((head.sequence, at, BAD_ROWS)),
            Step::Gap { expected, .. } => Some((expected, at, NO_GROUP)),
            Step::End => {
                let (valid, torn) = match bad.first() {
                    Some((_, bad, what)) => (*bad, Some(*what)),
                    None if scan.is_ended_at(at)? => (at, None),
                    None => (at, Some("a group breaks off here")),
                };
                let floor = floors.iter().filter(|(at, _)| *at < valid);
                let floor = floor.filter(|(_, floor)| *floor <= number);
                return Ok(Tail {
                    valid,
                    last: if begins.1 < valid {
                        begins.1
                    } else {
                        begins.0.min(valid)
                    },
                    torn,
                    floor: floor.fold(link.floor, |most, (_, floor)| most.max(*floor)),
                });
            }
        };
        bad.extend(wrong);
    }
}

/// What follows the header of a segment without a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unlinked {
    /// Nothing was written.
    Unused,
    /// The first write was broken off.
    Torn,
    /// There are groups of a later write, so the first write was acknowledged.
    Acknowledged,
}

/// Finds what a crash or damage left of the first write of a segment. Before that write, the file had zeros between the
/// header and `cleared`.
pub(super) fn look_unlinked(
    window: &mut Window<'_>,
    header: &Header,
    cleared: u64,
) -> Result<Unlinked> {
    let first = window.skip_zeros(LINK as u64)?;
    // Each write begins with a frame of index 0. Only the first write begins at `FIRST`.
    let later = find_head(window, FIRST as u64 + 1, |_, bytes| {
        Head::decode(bytes, header.salt).filter(|head| head.index == 0)
    })?;
    Ok(match first {
        _ if later.is_some() => Unlinked::Acknowledged,
        Some(first) if first < cleared => Unlinked::Torn,
        _ => Unlinked::Unused,
    })
}

/// Finds the first head at or behind `place` that `decode` returns, and its offset.
fn find_head(
    window: &mut Window<'_>,
    mut place: u64,
    decode: impl Fn(u64, &[u8]) -> Option<Head>,
) -> Result<Option<(u64, Head)>> {
    // A head has a nonzero sequence number, so it begins less than a head's length before the next nonzero byte.
    while let Some(found) = window.skip_zeros(place)? {
        place = place.max(found.saturating_sub(HEAD as u64 - 1));
        let block = 4096.min(window.end().saturating_sub(place)) as usize;
        let Some(bytes) = window.get(place, block)? else {
            break;
        };
        let mut heads = (place..).zip(bytes.windows(HEAD));
        let head = heads.find_map(|(at, bytes)| Some((at, decode(at, bytes)?)));
        if head.is_some() {
            return Ok(head);
        }
        if block < HEAD {
            break;
        }
        place += (block - HEAD + 1) as u64;
    }
    Ok(None)
}

fn has_bad_entry(scan: &mut Scan<'_>) -> Result<bool> {
    for at in 0..scan.rows.len() {
        let row = scan.rows[at];
        if row.length > 0 && scan.whole(&row)?.is_none() {
            return Ok(true);
        }
    }
    Ok(false)
}
