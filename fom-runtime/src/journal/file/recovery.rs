//! Finds out what a directory holds, and gives it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{
    directory::{Directory, Found, Start},
    format::{HEADER, Header, Kind, Row},
    index::{Index, Place, Segment},
    scan::{Scan, Step, Tail, find_tail},
    window::Window,
};
use crate::journal::{
    Damage, EntryId, JournalError, Recover, Recovery,
    disk::{DiskFile, read_full},
};

/// What a directory holds.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) index: Index,
    /// Which journal it is; 0 for a new one.
    pub(super) journal: u64,
    /// The sequence number of the next frame.
    pub(super) next: u64,
    /// No segment below this one is needed.
    pub(super) floor: u64,
    /// The highest number of a file.
    pub(super) highest: u64,
    /// The last segment.
    pub(super) tail: Option<(u64, Tail)>,
    /// The last segment, with its size, if all that it says is where the one before it ends.
    pub(super) end: Option<(u64, u64)>,
    pub(super) torn: Option<Damage>,
    /// Places whose entries are not known.
    pub(super) gaps: Vec<Damage>,
    /// Segments with such places.
    pub(super) aside: BTreeSet<u64>,
    /// Files that are not needed, with their sizes.
    pub(super) free: Vec<(u64, u64)>,
    /// Of these, those behind the last segment, with their sizes.
    pub(super) unused: Vec<(u64, u64)>,
    /// Where the entries are that come first.
    heads: BTreeMap<u64, (u64, u32, Row)>,
}

/// How a directory is looked at.
struct Look<'a> {
    directory: &'a Directory,
    salvage: bool,
}

/// A segment that is needed, from the newest back.
struct Link {
    header: Header,
    size: u64,
    valid: u64,
}

/// Reads what a directory holds. With `salvage` it goes on where it is not known what is lost.
pub(super) fn read(directory: &Directory, salvage: bool) -> Result<Kept, JournalError> {
    let found = directory.segments()?;
    let mut kept = Kept {
        next: 1,
        floor: 1,
        highest: found.keys().next_back().copied().unwrap_or(0),
        ..Kept::default()
    };
    let look = Look { directory, salvage };
    let links = find_links(&look, &found, &mut kept)?;
    kept.index.segments = links.iter().map(segment_of).collect();
    let mut last = None;
    for link in &links {
        if let Some(last) = last
            && last != link.header.first
        {
            let what = "groups before this segment are missing";
            kept.gap(&look, link.header.number, (0, HEADER as u64, what))?;
        }
        last = Some(read_segment(&look, link, &mut kept)?);
    }
    kept.next = last.unwrap_or(kept.next);
    kept.take_end();
    Ok(kept)
}

fn segment_of(link: &Link) -> Segment {
    Segment {
        number: link.header.number,
        salt: link.header.salt,
        first: link.header.first,
        valid: link.valid,
        size: link.size,
        live: 0,
    }
}

impl Kept {
    /// A last segment without a frame proves how much of the one before it counts, and holds nothing itself.
    fn take_end(&mut self) {
        let is_empty = |tail: &Tail| tail.torn.is_none() && tail.valid == HEADER as u64;
        let is_empty = self.tail.as_ref().is_some_and(|(_, tail)| is_empty(tail));
        if is_empty && self.index.segments.len() > 1 {
            let end = self.index.segments.pop_back();
            self.end = end.map(|segment| (segment.number, segment.size));
        }
    }

    /// A place in a segment whose entries are not known: the end, unless that is to be survived.
    fn gap(
        &mut self,
        look: &Look<'_>,
        number: u64,
        damage: (u64, u64, &'static str),
    ) -> Result<(), JournalError> {
        let (offset, length, what) = damage;
        let damage = Damage::new(look.directory.segment(number), offset, length, what);
        if !look.salvage {
            return Err(JournalError::Damaged(damage));
        }
        self.aside.insert(number);
        self.gaps.push(damage);
        Ok(())
    }

    fn apply(&mut self, segment: u64, salt: u32, row: &Row) {
        let (kind, id) = (row.kind, row.id);
        self.index.apply(segment, kind, id, row.place, row.length);
        if EntryId(id) < EntryId::HEAD {
            match kind {
                Kind::Put | Kind::PutDamaged => {
                    self.heads.insert(id, (segment, salt, *row));
                }
                Kind::Delete => {
                    self.heads.remove(&id);
                }
                Kind::Floor => {}
            }
        }
    }
}

/// Finds the segments that are needed, oldest first: each names the one before it, and how much of that is valid.
fn find_links(
    look: &Look<'_>,
    found: &BTreeMap<u64, Found>,
    kept: &mut Kept,
) -> Result<VecDeque<Link>, JournalError> {
    let mut links = VecDeque::<Link>::new();
    // The number that must come, and how much of it is valid; when that is not known, the newest that can be read.
    let mut wanted: Option<(u64, u64)> = None;
    for (&number, file) in found.iter().rev() {
        if number < kept.floor || wanted.is_some_and(|(wanted, _)| number > wanted || wanted == 0) {
            kept.free.push((number, file.size));
            continue;
        }
        if let Some((missing, valid)) = wanted
            && missing != number
        {
            kept.gap(look, missing, (0, valid, "the file is missing"))?;
            wanted = None;
        }
        let header = match file.start {
            Start::Header(header) if kept.journal != 0 && header.journal != kept.journal => {
                let what = "the segment is another journal's";
                kept.gap(look, number, (0, file.size, what))?;
                wanted = None;
                continue;
            }
            Start::Header(header) => header,
            Start::Unused { torn } if wanted.is_none() => {
                if torn {
                    let what = "the writing of its header broke off";
                    kept.torn = Some(Damage::new(
                        look.directory.segment(number),
                        0,
                        HEADER as u64,
                        what,
                    ));
                }
                kept.unused.push((number, file.size));
                kept.free.push((number, file.size));
                continue;
            }
            Start::Unused { .. } => {
                kept.gap(look, number, (0, file.size, "the header is missing"))?;
                wanted = None;
                continue;
            }
            Start::Broken(what) => {
                kept.gap(look, number, (0, file.size, what))?;
                wanted = None;
                continue;
            }
        };
        let valid = match wanted {
            Some((_, valid)) => valid,
            None => {
                let tail = tail_of(look.directory, &header)?;
                let valid = tail.valid;
                kept.floor = kept.floor.max(tail.floor);
                if links.is_empty() {
                    kept.journal = header.journal;
                    kept.torn =
                        torn(look.directory, &header, file.size, &tail)?.or(kept.torn.take());
                    kept.tail = Some((number, tail));
                }
                valid
            }
        };
        // A segment that came before the floor may be gone.
        let needed = header.previous >= kept.floor && header.previous < number;
        wanted = Some((if needed { header.previous } else { 0 }, header.valid));
        links.push_front(Link {
            header,
            size: file.size,
            valid,
        });
    }
    if let Some((missing, valid)) = wanted
        && missing != 0
    {
        kept.gap(look, missing, (0, valid, "the file is missing"))?;
    }
    Ok(links)
}

fn tail_of(directory: &Directory, header: &Header) -> Result<Tail, JournalError> {
    let file = directory.open(header.number, false)?;
    let tail = Window::new(&*file, MOST).and_then(|window| {
        let mut scan = Scan::of(window, header);
        find_tail(&mut scan, header)
    });
    tail.map_err(|error| JournalError::io("read", directory.segment(header.number), error))
}

/// Offsets have 32 bits.
const MOST: u64 = u32::MAX as u64;

/// What of the last segment is cut off.
fn torn(
    directory: &Directory,
    header: &Header,
    size: u64,
    tail: &Tail,
) -> Result<Option<Damage>, JournalError> {
    let Some(what) = tail.torn else {
        return Ok(None);
    };
    let path = directory.segment(header.number);
    let length = size.saturating_sub(tail.valid);
    Ok(Some(Damage::new(path, tail.valid, length, what)))
}

/// Takes in a segment; the sequence number of the frame that must follow.
fn read_segment(look: &Look<'_>, link: &Link, kept: &mut Kept) -> Result<u64, JournalError> {
    let directory = look.directory;
    let number = link.header.number;
    let path = directory.segment(number);
    let file = directory.open(number, false)?;
    let failed = |error| JournalError::io("read", path.clone(), error);
    let window = Window::new(&*file, link.valid.min(MOST)).map_err(failed)?;
    let mut scan = Scan::of(window, &link.header);
    loop {
        match scan.step().map_err(failed)? {
            Step::Frame { .. } => {
                for row in &scan.rows {
                    kept.apply(number, link.header.salt, row);
                }
            }
            Step::Rows { at, .. } => {
                let what = "the checksum of a group does not fit";
                kept.gap(look, number, (at, scan.place().0 - at, what))?;
            }
            Step::Gap { at, end, .. } => {
                kept.gap(look, number, (at, end - at, "there is no group here"))?;
            }
            Step::End { at } => {
                if at != link.valid {
                    let length = link.valid.saturating_sub(at);
                    kept.gap(look, number, (at, length, "groups are missing here"))?;
                }
                return Ok(scan.place().1);
            }
        }
    }
}

/// Gives every entry, those below [`EntryId::HEAD`] first.
pub(super) fn give(
    directory: &Directory,
    kept: &mut Kept,
    to: &mut dyn Recover,
) -> Result<Recovery, JournalError> {
    to.expect(kept.index.entries());
    let mut given = give_heads(directory, kept, to)?;
    for segment in kept.index.segments.iter().copied() {
        let path = directory.segment(segment.number);
        let file = directory.open(segment.number, false)?;
        let failed = |error| JournalError::io("read", path.clone(), error);
        let window = Window::new(&*file, segment.valid.min(MOST)).map_err(failed)?;
        let mut scan = Scan::new(window, segment.salt, HEADER as u64, segment.first);
        loop {
            match scan.step().map_err(failed)? {
                Step::End { .. } => break,
                Step::Rows { .. } | Step::Gap { .. } => continue,
                Step::Frame { .. } => {}
            }
            for at in 0..scan.rows.len() {
                let (row, salt) = (scan.rows[at], scan.salt());
                if !matches!(row.kind, Kind::Put | Kind::PutDamaged) {
                    continue;
                }
                let is_live = kept.index.place(row.id) == Some(place_of(segment.number, &row));
                let bytes = scan.bytes(&row).map_err(failed)?;
                let whole = bytes.filter(|bytes| row.matches(bytes, salt));
                let id = EntryId(row.id);
                let damage = |what| Damage::new(&path, row.at, u64::from(row.length), what);
                match (is_live, whole) {
                    // Given already.
                    (true, _) if id < EntryId::HEAD => {}
                    (true, Some(_)) if row.kind == Kind::PutDamaged => {
                        to.damaged(id, damage(WAS_DAMAGED));
                    }
                    (true, Some(bytes)) => {
                        given += 1;
                        to.entry(id, bytes);
                    }
                    (true, None) => to.damaged(id, damage(DAMAGED)),
                    (false, Some(_)) => {}
                    // Nobody needs it any more; told all the same, since a disk that begins to forget goes on to.
                    (false, None) => kept
                        .gaps
                        .push(damage("an older entry's checksum does not fit")),
                }
            }
        }
    }
    Ok(Recovery {
        entries: given,
        torn: kept.torn.clone(),
        gaps: kept.gaps.clone(),
    })
}

fn give_heads(
    directory: &Directory,
    kept: &Kept,
    to: &mut dyn Recover,
) -> Result<u64, JournalError> {
    let mut given = 0;
    let mut open: Option<(u64, Box<dyn DiskFile>)> = None;
    let mut bytes = Vec::new();
    for (id, (number, salt, row)) in &kept.heads {
        let file = match open.take() {
            Some((at, file)) if at == *number => file,
            _ => directory.open(*number, false)?,
        };
        // Not more than the file has: the row is inside it.
        bytes.resize(row.length as usize, 0);
        let path = directory.segment(*number);
        let read = read_full(&*file, &mut bytes, row.at);
        let read = read.map_err(|error| JournalError::io("read", &path, error))?;
        let whole = read == bytes.len() && row.matches(&bytes, *salt);
        if whole && row.kind == Kind::Put {
            given += 1;
            to.entry(EntryId(*id), &bytes);
        } else {
            let what = if whole { WAS_DAMAGED } else { DAMAGED };
            to.damaged(
                EntryId(*id),
                Damage::new(path, row.at, u64::from(row.length), what),
            );
        }
        open = Some((*number, file));
    }
    Ok(given)
}

const DAMAGED: &str = "the entry's checksum does not fit";
const WAS_DAMAGED: &str = "the entry was damaged before it was moved here";

pub(super) fn place_of(segment: u64, row: &Row) -> Place {
    Place {
        segment,
        offset: row.place as u32,
        length: row.length,
    }
}
