//! Finds out what a directory holds, and reports it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{
    directory::{CLEARED, Directory, Found, Start},
    format::{FIRST, Header, Kind, LINK, Link, RECORD, Record, Row, SLOT},
    index::{Index, Place, Segment},
    manifest,
    scan::{Scan, Step, Tail, Unlinked, find_tail, look_unlinked},
    window::Window,
};
use crate::{
    Damage, EntryId, JournalError, Recover, Recovery,
    disk::{DiskFile, read_full},
};

/// The content of a directory.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) index: Index,
    /// The number of the journal; 0 for a new one.
    pub(super) journal: u64,
    /// The sequence number of the next frame.
    pub(super) next: u64,
    /// No segment below this one is needed.
    pub(super) floor: u64,
    /// The highest number of any file.
    pub(super) highest: u64,
    /// The current record of the manifest, and its slot.
    pub(super) manifest: Option<(Record, usize)>,
    /// The highest generation that the link of a segment has.
    pub(super) beyond: u64,
    /// The last segment, unless the manifest says where it ends.
    pub(super) tail: Option<(u64, Tail)>,
    pub(super) torn: Option<Damage>,
    /// Places with unknown entries.
    pub(super) gaps: Vec<Damage>,
    /// Segments with such places.
    pub(super) aside: BTreeSet<u64>,
    /// Files that are not needed, and their sizes.
    pub(super) free: Vec<(u64, u64)>,
    /// The places of the entries that come first.
    heads: BTreeMap<u64, (u64, u32, Row)>,
}

/// Options for a look at a directory.
struct Look<'a> {
    directory: &'a Directory,
    salvage: bool,
}

/// A segment that is needed.
struct Needed {
    header: Header,
    link: Link,
    size: u64,
    valid: u64,
}

/// The required previous segment, from the newest one back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// This segment, if anything was written to it. The manifest names it.
    Named(u64),
    /// This segment, and its valid bytes if their number is known.
    Segment(u64, Option<u64>),
    /// Unknown: the newest segment that can be read.
    Newest,
    /// No older segment.
    Nothing,
}

impl Wanted {
    fn number(self) -> Option<u64> {
        match self {
            Self::Named(number) | Self::Segment(number, _) => Some(number),
            Self::Newest => None,
            Self::Nothing => Some(0),
        }
    }

    /// Returns the last segment that has frames, according to a manifest.
    fn last(record: &Record) -> Self {
        match record.last {
            0 => Self::Nothing,
            last => Self::Segment(last, record.ends().then_some(record.valid)),
        }
    }
}

/// Reads the content of a directory. With `salvage`, goes on even if it is not known which entries are lost.
pub(super) fn read(directory: &Directory, salvage: bool) -> Result<Kept, JournalError> {
    let found = directory.segments()?;
    let manifest = manifest::read(directory)?;
    let named = manifest.map_or(0, |(record, _)| record.next);
    let highest = found.keys().next_back().copied().unwrap_or(0);
    let mut kept = Kept {
        next: 1,
        floor: 1,
        highest: highest.max(named),
        manifest,
        ..Kept::default()
    };
    let look = Look { directory, salvage };
    let needed = find_needed(&look, &found, &mut kept)?;
    kept.index.segments = needed.iter().map(segment_of).collect();
    let mut last = None;
    for segment in &needed {
        if let Some(last) = last
            && last != segment.link.first
        {
            let what = "groups before this segment are missing";
            kept.gap(&look, segment.header.number, (0, FIRST as u64, what))?;
        }
        last = Some(read_segment(&look, segment, &mut kept)?);
    }
    kept.next = last.unwrap_or(kept.next);
    Ok(kept)
}

fn segment_of(needed: &Needed) -> Segment {
    Segment {
        number: needed.header.number,
        salt: needed.header.salt,
        first: needed.link.first,
        valid: needed.valid,
        size: needed.size,
        live: 0,
    }
}

impl Kept {
    /// Whether the manifest says where the last segment ends.
    pub(super) fn is_closed(&self) -> bool {
        self.tail.is_none() && self.manifest.is_some() && !self.index.segments.is_empty()
    }

    /// Records a place in a segment with unknown entries. Fails unless `salvage` is set.
    fn gap(
        &mut self,
        look: &Look<'_>,
        number: u64,
        damage: (u64, u64, &'static str),
    ) -> Result<(), JournalError> {
        let (offset, length, what) = damage;
        let damage = Damage::new(look.directory.segment(number), offset, length, what);
        self.survive(look, damage)?;
        self.aside.insert(number);
        Ok(())
    }

    fn survive(&mut self, look: &Look<'_>, damage: Damage) -> Result<(), JournalError> {
        match look.salvage {
            true => self.gaps.push(damage),
            false => return Err(JournalError::Damaged(damage)),
        }
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

/// Returns the segment to begin with: the one that the manifest names, if the manifest can be right.
fn begin(
    look: &Look<'_>,
    found: &BTreeMap<u64, Found>,
    kept: &mut Kept,
) -> Result<Wanted, JournalError> {
    let record = kept.manifest.map(|(record, _)| record);
    let journal = record.map(|record| record.journal);
    let links = found.values().filter_map(|file| match file.start {
        Start::Segment(header, link) if journal.is_none_or(|of| of == header.journal) => link,
        _ => None,
    });
    kept.beyond = links.map(|link| link.generation).max().unwrap_or(0);
    let is_broken = |file: &Found| matches!(file.start, Start::Broken(_));
    let what = match record {
        Some(record) if kept.beyond <= record.generation => {
            kept.journal = record.journal;
            kept.floor = kept.floor.max(record.floor);
            return Ok(match record.next {
                next if next != record.last => Wanted::Named(next),
                _ => Wanted::last(&record),
            });
        }
        Some(_) => "it is older than the segments, or damaged",
        // A file has its header before the first write of the manifest.
        None if kept.beyond == 0 && !found.values().any(is_broken) => return Ok(Wanted::Nothing),
        None => "it is missing or damaged, and there are segments",
    };
    let path = look.directory.manifest();
    kept.survive(look, Damage::new(path, 0, (SLOT + RECORD) as u64, what))?;
    Ok(Wanted::Newest)
}

/// Finds the needed segments, oldest first. Each segment names the one before it and the number of its valid bytes.
fn find_needed(
    look: &Look<'_>,
    found: &BTreeMap<u64, Found>,
    kept: &mut Kept,
) -> Result<VecDeque<Needed>, JournalError> {
    const MISSING: &str = "the file is missing";
    let mut needed = VecDeque::<Needed>::new();
    let mut wanted = begin(look, found, kept)?;
    for (&number, file) in found.iter().rev() {
        if number < kept.floor || wanted.number().is_some_and(|wanted| number > wanted) {
            kept.free.push((number, file.size));
            continue;
        }
        if let Some(missing) = wanted.number()
            && missing != number
        {
            kept.gap(look, missing, (0, valid_of(wanted), MISSING))?;
            wanted = Wanted::Newest;
        }
        let (header, link) = match whole(kept, file) {
            Ok(whole) => whole,
            Err((from, what)) => {
                let length = file.size.saturating_sub(from).max(1);
                kept.gap(look, number, (from, length, what))?;
                wanted = Wanted::Newest;
                continue;
            }
        };
        let Some(link) = link else {
            if wanted == Wanted::Newest {
                kept.free.push((number, file.size));
                continue;
            }
            let unlinked = unlinked(look, &header)?;
            let record = kept.manifest.map(|(record, _)| record);
            wanted = match (wanted, record) {
                (Wanted::Named(_), Some(record)) if unlinked != Unlinked::Acknowledged => {
                    if unlinked == Unlinked::Torn {
                        let length = file.size.saturating_sub(LINK as u64);
                        let what = "the writing of its first groups broke off";
                        let path = look.directory.segment(number);
                        kept.torn = Some(Damage::new(path, LINK as u64, length, what));
                    }
                    kept.free.push((number, file.size));
                    Wanted::last(&record)
                }
                _ => {
                    let length = (FIRST - LINK) as u64;
                    let what = "what the first groups begin with is missing";
                    kept.gap(look, number, (LINK as u64, length, what))?;
                    Wanted::Newest
                }
            };
            continue;
        };
        let valid = match wanted {
            Wanted::Segment(_, Some(valid)) => valid,
            _ => {
                let tail = tail_of(look.directory, &header, &link)?;
                let valid = tail.valid;
                kept.floor = kept.floor.max(tail.floor);
                if needed.is_empty() {
                    kept.journal = header.journal;
                    kept.torn =
                        torn(look.directory, &header, file.size, &tail)?.or(kept.torn.take());
                    kept.tail = Some((number, tail));
                }
                valid
            }
        };
        // A segment below the floor may be gone.
        wanted = match link.previous >= kept.floor && link.previous < number {
            true => Wanted::Segment(link.previous, Some(link.valid)),
            false => Wanted::Nothing,
        };
        needed.push_front(Needed {
            header,
            link,
            size: file.size,
            valid,
        });
    }
    if let Some(missing) = wanted.number()
        && missing != 0
    {
        kept.gap(look, missing, (0, valid_of(wanted), MISSING))?;
    }
    Ok(needed)
}

fn valid_of(wanted: Wanted) -> u64 {
    match wanted {
        Wanted::Segment(_, Some(valid)) => valid,
        _ => 0,
    }
}

/// Returns the header and link of a file, or the offset and kind of its damage.
fn whole(kept: &Kept, file: &Found) -> Result<(Header, Option<Link>), (u64, &'static str)> {
    match file.start {
        Start::Broken(what) => Err((0, what)),
        Start::Segment(header, _) if kept.journal != 0 && header.journal != kept.journal => {
            Err((0, "the segment is another journal's"))
        }
        // A file has its full size before the manifest names it.
        Start::Segment(header, _) if file.size < header.size => {
            Err((file.size, "the end of the file is missing"))
        }
        Start::Segment(header, link) => Ok((header, link)),
    }
}

/// Finds what is left of a segment without a link.
fn unlinked(look: &Look<'_>, header: &Header) -> Result<Unlinked, JournalError> {
    let file = look.directory.open(header.number, false)?;
    let looked = Window::new(&*file, MOST)
        .and_then(|mut window| look_unlinked(&mut window, header, CLEARED as u64));
    looked.map_err(|error| JournalError::io("read", look.directory.segment(header.number), error))
}

fn tail_of(directory: &Directory, header: &Header, link: &Link) -> Result<Tail, JournalError> {
    let file = directory.open(header.number, false)?;
    let tail = Window::new(&*file, MOST).and_then(|window| {
        let mut scan = Scan::of(window, header, link);
        find_tail(&mut scan, header.number, link)
    });
    tail.map_err(|error| JournalError::io("read", directory.segment(header.number), error))
}

/// Offsets in a segment have 32 bits.
const MOST: u64 = u32::MAX as u64;

/// Returns the part of the last segment that is cut off.
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

/// Reads a segment into the index. Returns the sequence number of the frame that must follow.
fn read_segment(look: &Look<'_>, needed: &Needed, kept: &mut Kept) -> Result<u64, JournalError> {
    let directory = look.directory;
    let number = needed.header.number;
    let path = directory.segment(number);
    let file = directory.open(number, false)?;
    let failed = |error| JournalError::io("read", path.clone(), error);
    let window = Window::new(&*file, needed.valid.min(MOST)).map_err(failed)?;
    let mut scan = Scan::of(window, &needed.header, &needed.link);
    loop {
        match scan.step().map_err(failed)? {
            Step::Frame { .. } => {
                for row in &scan.rows {
                    kept.apply(number, needed.header.salt, row);
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
                if at != needed.valid {
                    let length = needed.valid.saturating_sub(at);
                    kept.gap(look, number, (at, length, "groups are missing here"))?;
                }
                return Ok(scan.place().1);
            }
        }
    }
}

/// Passes every entry to `to`, the entries below [`EntryId::HEAD`] first.
pub(super) fn give(
    directory: &Directory,
    index: &Index,
    kept: &mut Kept,
    to: &mut dyn Recover,
) -> Result<Recovery, JournalError> {
    to.expect(index.entries());
    let mut given = give_heads(directory, kept, to)?;
    let is_known = |kept: &Kept, number| kept.aside.contains(&number);
    for segment in index.segments.iter().copied() {
        let path = directory.segment(segment.number);
        let file = directory.open(segment.number, false)?;
        let failed = |error| JournalError::io("read", path.clone(), error);
        let window = Window::new(&*file, segment.valid.min(MOST)).map_err(failed)?;
        let mut scan = Scan::new(window, segment.salt, FIRST as u64, segment.first);
        loop {
            match scan.step().map_err(failed)? {
                Step::Frame { .. } => {}
                Step::Rows { .. } | Step::Gap { .. } if is_known(kept, segment.number) => continue,
                Step::End { at } if at == segment.valid || is_known(kept, segment.number) => break,
                Step::Rows { at, .. } | Step::Gap { at, .. } | Step::End { at } => {
                    let length = segment.valid.saturating_sub(at);
                    let what = "groups cannot be read that could a moment before";
                    return Err(JournalError::Damaged(Damage::new(path, at, length, what)));
                }
            }
            for at in 0..scan.rows.len() {
                let (row, salt) = (scan.rows[at], scan.salt());
                if !matches!(row.kind, Kind::Put | Kind::PutDamaged) {
                    continue;
                }
                let is_live = index.place(row.id) == Some(place_of(segment.number, &row));
                let bytes = scan.bytes(&row).map_err(failed)?;
                let whole = bytes.filter(|bytes| row.matches(bytes, salt));
                let id = EntryId(row.id);
                let damage = |what| Damage::new(&path, row.at, u64::from(row.length), what);
                match (is_live, whole) {
                    // `give_heads` has passed it already.
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
                    // The entry is not needed. The damage is reported all the same, because a disk that begins to lose
                    // data goes on.
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
        // No longer than the file, because the row is inside it.
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
