//! Scans the frames of a segment, even if the segment is damaged.

use std::io;

use super::{
    format::{FIRST, HEAD, Head, Header, Kind, LINK, Link, ROW, Row, decode_rows, u64_at},
    window::Window,
};

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
    Frame { at: u64, head: Head },
    /// A frame with damaged rows.
    Rows { at: u64, head: Head },
    /// No frame from `at` to `end`, where frames continue. `expected` is the sequence number of the missing frame.
    Gap { at: u64, end: u64, expected: u64 },
    /// No frame from here on.
    End { at: u64 },
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

    pub(super) fn salt(&self) -> u32 {
        self.salt
    }

    /// Returns the bytes of an entry, or `None` if the file is too short.
    pub(super) fn bytes(&mut self, row: &Row) -> io::Result<Option<&[u8]>> {
        self.window.get(row.at, row.length as usize)
    }

    pub(super) fn step(&mut self) -> io::Result<Step> {
        self.rows.clear();
        let at = self.at;
        let head = match self.head(at)? {
            Some(head) if head.sequence == self.next => head,
            _ => return self.resume(at),
        };
        self.next = self.next.saturating_add(1);
        self.at = at + HEAD as u64 + u64::from(head.length);
        let rows_at = at + HEAD as u64;
        // No longer than the frame, which is no longer than the file.
        let length = head.changes as usize * ROW;
        if let Some(table) = self.window.get(rows_at, length)? {
            let bytes_at = rows_at + length as u64;
            if decode_rows(&head, table, self.salt, bytes_at, &mut self.rows) {
                return Ok(Step::Frame { at, head });
            }
        }
        self.rows.clear();
        Ok(Step::Rows { at, head })
    }

    /// Reads a head, if its whole frame is inside the file.
    fn head(&mut self, at: u64) -> io::Result<Option<Head>> {
        let (salt, end) = (self.salt, self.window.end());
        let bytes = self.window.get(at, HEAD)?;
        let head = bytes.and_then(|bytes| Head::decode(bytes, salt));
        Ok(head.filter(|head| at + HEAD as u64 + u64::from(head.length) <= end))
    }

    /// Looks for the next frame behind a place without a frame.
    fn resume(&mut self, at: u64) -> io::Result<Step> {
        const LEAST: u64 = (HEAD + ROW) as u64;
        let mut place = at + 1;
        // A head has a nonzero sequence number, so it begins less than a head's length before the next nonzero byte.
        while let Some(found) = self.window.skip_zeros(place)? {
            place = place.max(found.saturating_sub(HEAD as u64 - 1));
            let block = 4096.min(self.window.end().saturating_sub(place)) as usize;
            let Some(bytes) = self.window.get(place, block)? else {
                break;
            };
            let mut candidate = None;
            for (from, bytes) in bytes.windows(HEAD).enumerate() {
                // The most frames that can have been in between.
                let between = (place + from as u64 - at) / LEAST;
                let most = self.next.saturating_add(between);
                let sequence = u64_at(bytes, 16);
                if sequence > self.next
                    && sequence <= most
                    && Head::decode(bytes, self.salt).is_some()
                {
                    candidate = Some(place + from as u64);
                    break;
                }
            }
            match candidate {
                None if block < HEAD => break,
                None => place += (block - HEAD + 1) as u64,
                Some(candidate) => match self.head(candidate)? {
                    None => place = candidate + 1,
                    Some(head) => {
                        let expected = self.next;
                        self.at = candidate;
                        self.next = head.sequence;
                        return Ok(Step::Gap {
                            at,
                            end: candidate,
                            expected,
                        });
                    }
                },
            }
        }
        Ok(Step::End { at })
    }

    /// Whether the last write ended here: that write left zeros in the place of the next head.
    fn is_ended_at(&mut self, at: u64) -> io::Result<bool> {
        let left = self.window.end().saturating_sub(at).min(HEAD as u64);
        let bytes = self.window.get(at, left as usize)?;
        Ok(bytes.is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0)))
    }
}

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
pub(super) fn find_tail(scan: &mut Scan<'_>, number: u64, link: &Link) -> io::Result<Tail> {
    // The broken places since the start of the last known sync, with the sequence number expected there. One of them
    // may be the end.
    let mut bad: Vec<(u64, u64, &'static str)> = Vec::new();
    let mut floors = Vec::new();
    // The offsets of the last two syncs. The last sync may leave nothing valid.
    let mut begins = (FIRST as u64, FIRST as u64);
    let mut begun = link.first;
    loop {
        let step = scan.step()?;
        if let Step::Frame { at, head } | Step::Rows { at, head } = step {
            if head.begun() > begun || at == FIRST as u64 {
                begun = head.begun();
                begins = (begins.1, at);
            }
            bad.retain(|(sequence, ..)| *sequence >= begun);
        }
        let wrong = match step {
            Step::Frame { at, head } => match has_bad_entry(scan)? {
                true => Some((head.sequence, at, "an entry's checksum does not fit")),
                false => {
                    let floor = scan.rows.iter().filter(|row| row.kind == Kind::Floor);
                    floors.extend(floor.map(|row| (at, row.id)));
                    None
                }
            },
            Step::Rows { at, head } => {
                Some((head.sequence, at, "the checksum of a group does not fit"))
            }
            Step::Gap { at, expected, .. } => Some((expected, at, "there is no group here")),
            Step::End { at } => {
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
) -> io::Result<Unlinked> {
    let first = window.skip_zeros(LINK as u64)?;
    // Each write begins with a frame of index 0. Only the first write begins at `FIRST`.
    let mut place = FIRST as u64 + 1;
    while let Some(found) = window.skip_zeros(place)? {
        place = place.max(found.saturating_sub(HEAD as u64 - 1));
        let block = 4096.min(window.end().saturating_sub(place)) as usize;
        let Some(bytes) = window.get(place, block)? else {
            break;
        };
        let begins = |bytes: &[u8]| {
            let head = Head::decode(bytes, header.salt);
            head.is_some_and(|head| head.index == 0)
        };
        if bytes.windows(HEAD).any(begins) {
            return Ok(Unlinked::Acknowledged);
        }
        if block < HEAD {
            break;
        }
        place += (block - HEAD + 1) as u64;
    }
    match first {
        Some(first) if first < cleared => Ok(Unlinked::Torn),
        _ => Ok(Unlinked::Unused),
    }
}

fn has_bad_entry(scan: &mut Scan<'_>) -> io::Result<bool> {
    for at in 0..scan.rows.len() {
        let (row, salt) = (scan.rows[at], scan.salt);
        let whole = scan
            .bytes(&row)?
            .is_some_and(|bytes| row.matches(bytes, salt));
        if row.length > 0 && !whole {
            return Ok(true);
        }
    }
    Ok(false)
}
