//! Passes the entries of a journal to the caller of the recovery.
//!
//! Reading takes about as long as what the caller does with the entries. So a large journal is read by another thread,
//! a few batches ahead of the caller.

use std::{
    ops::ControlFlow,
    path::Path,
    sync::{Arc, mpsc},
    thread,
};

use super::{
    contents::Contents,
    directory::Directory,
    format::{FIRST, Kind},
    index::Index,
    scan::Scan,
};
use crate::{
    Damage, EntryId, JournalError, Recover, Recovery,
    disk::{DiskFile, read_full},
};

/// A journal with fewer bytes is read in the thread of the caller.
const SMALL: u64 = 1 << 20;
/// The bytes of a batch, and the number of batches that wait for the caller.
const BATCH: usize = 256 << 10;
const AHEAD: usize = 4;

/// What was read. `B`: the bytes of an entry.
enum Found<B> {
    /// An entry, with its offset in the file.
    Entry(EntryId, u64, B),
    /// An entry with damaged bytes.
    Damaged(EntryId, Damage),
    /// Damaged bytes that are not needed.
    Unneeded(Damage),
}

/// Passes every entry to `to`, the entries below [`EntryId::HEAD`] first. With `background`, may start a thread that reads.
pub(super) fn pass_entries(
    directory: &Directory,
    index: &Index,
    contents: &mut Contents,
    background: bool,
    to: &mut dyn Recover,
) -> Result<Recovery, JournalError> {
    to.expect(index.entries());
    let mut given = pass_heads(directory, contents, to)?;
    let mut gaps = Vec::new();
    let mut pass = |path: &Path, found: Found<&[u8]>| match found {
        Found::Entry(id, at, bytes) => {
            given += 1;
            to.place(path, at);
            to.entry(id, bytes);
        }
        Found::Damaged(id, damage) => to.damaged(id, damage),
        Found::Unneeded(damage) => gaps.push(damage),
    };
    let reader = Reader {
        directory,
        index,
        contents,
    };
    let size: u64 = index.segments.iter().map(|segment| segment.valid).sum();
    if background && size >= SMALL {
        reader.read_ahead(&mut pass)?;
    } else {
        reader.read(|path, found| {
            pass(path, found);
            ControlFlow::Continue(())
        })?;
    }
    contents.damage.gaps.append(&mut gaps);
    Ok(Recovery {
        entries: given,
        torn: contents.damage.torn.clone(),
        gaps: contents.damage.gaps.clone(),
    })
}

/// Reads the entries that no head is.
#[derive(Clone, Copy)]
struct Reader<'a> {
    directory: &'a Directory,
    index: &'a Index,
    contents: &'a Contents,
}

impl Reader<'_> {
    /// Tells what the files hold, until `tell` breaks.
    fn read(
        self,
        mut tell: impl FnMut(&Arc<Path>, Found<&[u8]>) -> ControlFlow<()>,
    ) -> Result<(), JournalError> {
        for segment in self.index.segments.iter().copied() {
            let window = self.directory.window(segment.number, segment.valid)?;
            let path = Arc::<Path>::from(window.path());
            let mut scan = Scan::new(window, segment.salt, FIRST as u64, segment.first);
            let is_known = self.contents.damage.segments.contains(&segment.number);
            while scan.next_frame(segment.valid, is_known)? {
                for at in 0..scan.rows.len() {
                    let row = scan.rows[at];
                    if !matches!(row.kind, Kind::Put | Kind::PutDamaged) {
                        continue;
                    }
                    let is_live = self.index.is_newest(segment.number, &row);
                    let whole = scan.whole(&row)?;
                    let id = EntryId(row.id);
                    let damage = |what| Damage::new(&*path, row.at, u64::from(row.length), what);
                    let found = match (is_live, whole) {
                        // `pass_heads` has passed it already.
                        (true, _) if id < EntryId::HEAD => continue,
                        (true, Some(_)) if row.kind == Kind::PutDamaged => {
                            Found::Damaged(id, damage(WAS_DAMAGED))
                        }
                        (true, Some(bytes)) => Found::Entry(id, row.at, bytes),
                        (true, None) => Found::Damaged(id, damage(DAMAGED)),
                        (false, Some(_)) => continue,
                        // The entry is not needed. The damage is reported all the same, because a disk that begins to
                        // lose data loses more.
                        (false, None) => Found::Unneeded(damage(UNNEEDED)),
                    };
                    if tell(&path, found).is_break() {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads in another thread, and passes on what it has found.
    fn read_ahead(self, pass: &mut dyn FnMut(&Path, Found<&[u8]>)) -> Result<(), JournalError> {
        thread::scope(|scope| {
            let (send, batches) = mpsc::sync_channel::<Batch>(AHEAD);
            let reading = thread::Builder::new().name("fom-journal".into());
            let reading = reading.spawn_scoped(scope, move || {
                let mut batch = Batch::default();
                let read = self.read(|path, found| {
                    batch.put(path, found);
                    match batch.size() < BATCH {
                        true => ControlFlow::Continue(()),
                        // The caller has panicked if it takes no more.
                        false => match send.send(std::mem::take(&mut batch)) {
                            Ok(()) => ControlFlow::Continue(()),
                            Err(_) => ControlFlow::Break(()),
                        },
                    }
                });
                let _ = send.send(batch);
                read
            });
            let Ok(reading) = reading else {
                return self.read(|path, found| {
                    pass(path, found);
                    ControlFlow::Continue(())
                });
            };
            for batch in batches {
                batch.pass(pass);
            }
            reading
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// A part of what was read.
#[derive(Default)]
struct Batch {
    /// The bytes of all entries, one after the other.
    bytes: Vec<u8>,
    /// What was found, with its file. Of an entry, the length.
    found: Vec<(Arc<Path>, Found<usize>)>,
}

impl Batch {
    /// Returns the bytes that it takes.
    fn size(&self) -> usize {
        self.bytes.len() + size_of_val(&*self.found)
    }

    fn put(&mut self, path: &Arc<Path>, found: Found<&[u8]>) {
        let found = match found {
            Found::Entry(id, at, bytes) => {
                self.bytes.extend_from_slice(bytes);
                Found::Entry(id, at, bytes.len())
            }
            Found::Damaged(id, damage) => Found::Damaged(id, damage),
            Found::Unneeded(damage) => Found::Unneeded(damage),
        };
        self.found.push((Arc::clone(path), found));
    }

    fn pass(self, pass: &mut dyn FnMut(&Path, Found<&[u8]>)) {
        let mut rest = &self.bytes[..];
        for (path, found) in self.found {
            let found = match found {
                Found::Entry(id, at, length) => {
                    let bytes;
                    (bytes, rest) = rest.split_at(length);
                    Found::Entry(id, at, bytes)
                }
                Found::Damaged(id, damage) => Found::Damaged(id, damage),
                Found::Unneeded(damage) => Found::Unneeded(damage),
            };
            pass(&path, found);
        }
    }
}

fn pass_heads(
    directory: &Directory,
    contents: &Contents,
    to: &mut dyn Recover,
) -> Result<u64, JournalError> {
    let mut given = 0;
    let mut open: Option<(u64, Box<dyn DiskFile>)> = None;
    let mut bytes = Vec::new();
    for (id, (number, salt, row)) in &contents.heads {
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
            to.place(&path, row.at);
            to.entry(EntryId(*id), &bytes);
        } else {
            let what = if whole { WAS_DAMAGED } else { DAMAGED };
            let damage = Damage::new(path, row.at, u64::from(row.length), what);
            to.damaged(EntryId(*id), damage);
        }
        open = Some((*number, file));
    }
    Ok(given)
}

const DAMAGED: &str = "the entry's checksum does not match";
const WAS_DAMAGED: &str = "the entry was damaged before it was moved here";
const UNNEEDED: &str = "the checksum of an older entry does not match";
