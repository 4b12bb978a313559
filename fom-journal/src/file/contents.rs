//! Reads what a directory holds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{
    directory::{CLEARED, Directory, SegmentFile, Start},
    format::{FIRST, Header, Kind, LINK, Link, RECORD, Record, Row, SLOT},
    index::{Index, Segment},
    manifest,
    scan::{BAD_ROWS, NO_GROUP, Scan, Step, Tail, Unlinked, find_tail, look_unlinked},
};
use crate::{Damage, EntryId, JournalError};

/// The content of a directory.
#[derive(Debug, Default)]
pub(super) struct Contents {
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
    pub(super) generation: u64,
    /// The last segment, unless the manifest says where it ends.
    pub(super) tail: Option<(u64, Tail)>,
    pub(super) damage: FoundDamage,
    /// Files that are not needed, and their sizes.
    pub(super) free: Vec<(u64, u64)>,
    /// The places of the entries that come first.
    pub(super) heads: BTreeMap<u64, (u64, u32, Row)>,
}

/// The damage in a directory.
#[derive(Debug, Default)]
pub(super) struct FoundDamage {
    pub(super) torn: Option<Damage>,
    /// Places with unknown entries.
    pub(super) gaps: Vec<Damage>,
    /// Segments with such places.
    pub(super) segments: BTreeSet<u64>,
}

/// Reads a directory.
struct Reader<'a> {
    directory: &'a Directory,
    /// Whether to continue if it is not known which entries are lost.
    salvage: bool,
    contents: Contents,
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

    fn valid(self) -> Option<u64> {
        match self {
            Self::Segment(_, valid) => valid,
            _ => None,
        }
    }

    /// Returns the last segment that has frames, according to a manifest.
    fn last(record: &Record) -> Self {
        let valid = record.checkpoint.valid;
        match record.checkpoint.last {
            0 => Self::Nothing,
            last => Self::Segment(last, (valid > 0).then_some(valid)),
        }
    }
}

/// Reads the content of a directory. With `salvage`, continues even if it is not known which entries are lost.
pub(super) fn read(directory: &Directory, salvage: bool) -> Result<Contents, JournalError> {
    let files = directory.segments()?;
    let manifest = manifest::read(directory)?;
    let named = manifest.map_or(0, |(record, _)| record.checkpoint.next);
    let highest = files.keys().next_back().copied().unwrap_or(0);
    let mut reader = Reader {
        directory,
        salvage,
        contents: Contents {
            next: 1,
            floor: 1,
            highest: highest.max(named),
            manifest,
            ..Contents::default()
        },
    };
    let needed = reader.find_needed(&files)?;
    let segments = needed.iter().map(|needed| Segment {
        number: needed.header.number,
        salt: needed.header.salt,
        first: needed.link.first,
        valid: needed.valid,
        size: needed.size,
        live: 0,
    });
    reader.contents.index.segments = segments.collect();
    let mut last = None;
    for segment in &needed {
        if last.is_some_and(|last| last != segment.link.first) {
            let what = "groups before this segment are missing";
            reader.gap(segment.header.number, 0, FIRST as u64, what)?;
        }
        last = Some(reader.read_segment(segment)?);
    }
    let mut contents = reader.contents;
    contents.next = last.unwrap_or(contents.next);
    Ok(contents)
}

impl Contents {
    /// Whether the manifest says where the last segment ends.
    pub(super) fn is_closed(&self) -> bool {
        self.tail.is_none() && self.manifest.is_some() && !self.index.segments.is_empty()
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

impl Reader<'_> {
    /// Records a place in a segment with unknown entries. Fails unless `salvage` is set.
    fn gap(
        &mut self,
        number: u64,
        offset: u64,
        length: u64,
        what: &'static str,
    ) -> Result<(), JournalError> {
        let path = self.directory.segment(number);
        self.tolerate(Damage::new(path, offset, length, what))?;
        self.contents.damage.segments.insert(number);
        Ok(())
    }

    fn tolerate(&mut self, damage: Damage) -> Result<(), JournalError> {
        match self.salvage {
            true => self.contents.damage.gaps.push(damage),
            false => return Err(JournalError::Damaged(damage)),
        }
        Ok(())
    }

    /// Returns the segment to begin with: the one that the manifest names, if the manifest can be right.
    fn begin(&mut self, files: &BTreeMap<u64, SegmentFile>) -> Result<Wanted, JournalError> {
        let contents = &mut self.contents;
        let record = contents.manifest.map(|(record, _)| record);
        let journal = record.map(|record| record.checkpoint.journal);
        let links = files.values().filter_map(|file| match file.start {
            Start::Segment(header, link) if journal.is_none_or(|of| of == header.journal) => link,
            _ => None,
        });
        contents.generation = links.map(|link| link.generation).max().unwrap_or(0);
        let is_broken = |file: &SegmentFile| matches!(file.start, Start::Broken(_));
        let what = match record {
            Some(record) if contents.generation <= record.generation => {
                let checkpoint = record.checkpoint;
                contents.journal = checkpoint.journal;
                contents.floor = contents.floor.max(checkpoint.floor);
                return Ok(match checkpoint.next {
                    next if next != checkpoint.last => Wanted::Named(next),
                    _ => Wanted::last(&record),
                });
            }
            Some(_) => "the manifest is older than the segments, or damaged",
            // A file has its header before the first write of the manifest.
            None if contents.generation == 0 && !files.values().any(is_broken) => {
                return Ok(Wanted::Nothing);
            }
            None => "the manifest is missing or damaged, and there are segments",
        };
        let path = self.directory.manifest();
        self.tolerate(Damage::new(path, 0, (SLOT + RECORD) as u64, what))?;
        Ok(Wanted::Newest)
    }

    /// Finds the needed segments, oldest first. Each segment names the one before it and the number of its valid bytes.
    fn find_needed(
        &mut self,
        files: &BTreeMap<u64, SegmentFile>,
    ) -> Result<VecDeque<Needed>, JournalError> {
        const MISSING: &str = "the file is missing";
        let mut needed = VecDeque::<Needed>::new();
        let mut wanted = self.begin(files)?;
        for (&number, file) in files.iter().rev() {
            let is_above = wanted.number().is_some_and(|wanted| number > wanted);
            if number < self.contents.floor || is_above {
                self.contents.free.push((number, file.size));
                continue;
            }
            if let Some(missing) = wanted.number()
                && missing != number
            {
                self.gap(missing, 0, wanted.valid().unwrap_or(0), MISSING)?;
                wanted = Wanted::Newest;
            }
            let (header, link) = match self.check_whole(file) {
                Ok(whole) => whole,
                Err((from, what)) => {
                    let length = file.size.saturating_sub(from).max(1);
                    self.gap(number, from, length, what)?;
                    wanted = Wanted::Newest;
                    continue;
                }
            };
            let Some(link) = link else {
                wanted = self.pass_unlinked(&header, file.size, wanted)?;
                continue;
            };
            let valid = match wanted.valid() {
                Some(valid) => valid,
                None => self.find_valid(&header, &link, file.size, needed.is_empty())?,
            };
            // A segment below the floor may be gone.
            wanted = match link.previous >= self.contents.floor && link.previous < number {
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
            self.gap(missing, 0, wanted.valid().unwrap_or(0), MISSING)?;
        }
        Ok(needed)
    }

    /// Finds the valid bytes of a segment, if no later segment says their number. The newest segment gives the tail.
    fn find_valid(
        &mut self,
        header: &Header,
        link: &Link,
        size: u64,
        is_newest: bool,
    ) -> Result<u64, JournalError> {
        let number = header.number;
        let window = self.directory.window(number, u64::MAX)?;
        let tail = find_tail(&mut Scan::of(window, header, link), number, link)?;
        let valid = tail.valid;
        self.contents.floor = self.contents.floor.max(tail.floor);
        if is_newest {
            self.contents.journal = header.journal;
            if let Some(what) = tail.torn {
                self.torn(number, valid, size, what);
            }
            self.contents.tail = Some((number, tail));
        }
        Ok(valid)
    }

    /// Returns the header and link of a file, or the offset and kind of its damage.
    fn check_whole(
        &self,
        file: &SegmentFile,
    ) -> Result<(Header, Option<Link>), (u64, &'static str)> {
        let journal = self.contents.journal;
        match file.start {
            Start::Broken(what) => Err((0, what)),
            Start::Segment(header, _) if journal != 0 && header.journal != journal => {
                Err((0, "the segment belongs to another journal"))
            }
            // A file has its full size before the manifest names it.
            Start::Segment(header, _) if file.size < header.size => {
                Err((file.size, "the end of the file is missing"))
            }
            Start::Segment(header, link) => Ok((header, link)),
        }
    }

    /// Passes a segment without a link, and returns the segment that is wanted next.
    fn pass_unlinked(
        &mut self,
        header: &Header,
        size: u64,
        wanted: Wanted,
    ) -> Result<Wanted, JournalError> {
        let number = header.number;
        if wanted != Wanted::Newest {
            let mut window = self.directory.window(number, u64::MAX)?;
            let unlinked = look_unlinked(&mut window, header, CLEARED as u64)?;
            let record = self.contents.manifest.map(|(record, _)| record);
            let (Wanted::Named(_), Some(record), Unlinked::Unused | Unlinked::Torn) =
                (wanted, record, unlinked)
            else {
                let length = (FIRST - LINK) as u64;
                let what = "the beginning of the first groups is missing";
                self.gap(number, LINK as u64, length, what)?;
                return Ok(Wanted::Newest);
            };
            if unlinked == Unlinked::Torn {
                let what = "the write of the first groups is incomplete";
                self.torn(number, LINK as u64, size, what);
            }
            self.contents.free.push((number, size));
            return Ok(Wanted::last(&record));
        }
        self.contents.free.push((number, size));
        Ok(wanted)
    }

    /// Records the part of a segment that is cut off.
    fn torn(&mut self, number: u64, from: u64, size: u64, what: &'static str) {
        let path = self.directory.segment(number);
        let length = size.saturating_sub(from);
        self.contents.damage.torn = Some(Damage::new(path, from, length, what));
    }

    /// Reads a segment into the index. Returns the sequence number of the frame that must follow.
    fn read_segment(&mut self, needed: &Needed) -> Result<u64, JournalError> {
        let number = needed.header.number;
        let window = self.directory.window(number, needed.valid)?;
        let mut scan = Scan::of(window, &needed.header, &needed.link);
        loop {
            let (at, _) = scan.place();
            match scan.step()? {
                Step::Frame(_) => {
                    for row in &scan.rows {
                        self.contents.apply(number, needed.header.salt, row);
                    }
                }
                Step::Rows(_) => self.gap(number, at, scan.place().0 - at, BAD_ROWS)?,
                Step::Gap { end, .. } => self.gap(number, at, end - at, NO_GROUP)?,
                Step::End => {
                    if at != needed.valid {
                        let length = needed.valid.saturating_sub(at);
                        self.gap(number, at, length, "groups are missing here")?;
                    }
                    return Ok(scan.place().1);
                }
            }
        }
    }
}
