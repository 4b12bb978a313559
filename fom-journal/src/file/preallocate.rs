//! Makes the next segment early, so that a commit need not wait for it.

use std::{io, sync::Arc, thread};

use parking_lot::Mutex;

use super::{
    directory::{CLEARED, Directory},
    format::{Checkpoint, Header},
    manifest::Manifest,
};
use crate::{
    JournalError,
    disk::{DiskFile, write_all},
};

/// The syncs to make a segment: its file, the directory, and the manifest.
pub(super) const SYNCS: u64 = 3;

/// A file with its space on the disk and its header, durable under its name.
pub(super) struct NewSegment {
    pub(super) header: Header,
    pub(super) file: Box<dyn DiskFile>,
    /// The generation of the manifest that names the file. With `None`, nothing may be written to the file yet.
    pub(super) named: Option<u64>,
    /// Bytes written to make the file.
    pub(super) prepared: u64,
}

/// The next segment.
pub(super) enum Preallocated {
    None,
    Ready(NewSegment),
    Pending(thread::JoinHandle<Result<NewSegment, JournalError>>),
}

impl Preallocated {
    /// Starts a thread that makes a file, from the file `spare` if there is one, and names the file in the manifest.
    pub(super) fn begin(
        directory: &Directory,
        manifest: &Arc<Mutex<Manifest>>,
        spare: Option<u64>,
        header: Header,
        checkpoint: Checkpoint,
    ) -> Self {
        let (directory, manifest) = (directory.clone(), Arc::clone(manifest));
        let thread = thread::Builder::new().name("fom-journal".into());
        let pending = thread.spawn(move || {
            let mut made = make(&directory, spare, header)?;
            // If this fails, the commit that needs the file names it.
            made.named = manifest.lock().record(checkpoint).ok();
            Ok(made)
        });
        // If no thread can start, the file is made when it is needed.
        pending.map_or(Self::None, Self::Pending)
    }

    /// Takes the file. Waits for a thread that still makes it.
    pub(super) fn take(&mut self) -> Option<Result<NewSegment, JournalError>> {
        match std::mem::replace(self, Self::None) {
            Self::None => None,
            Self::Ready(made) => Some(Ok(made)),
            Self::Pending(thread) => thread.join().ok(),
        }
    }

    pub(super) fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

/// Makes a file. A spare file is used again, which saves most of the writes.
pub(super) fn make(
    directory: &Directory,
    spare: Option<u64>,
    header: Header,
) -> Result<NewSegment, JournalError> {
    let (file, prepared) = match spare {
        Some(spare) => reuse(directory, spare, header).inspect_err(|_| {
            // The file has either name by now, and only takes up room.
            let _ = directory.remove(spare);
            let _ = directory.remove(header.number);
        })?,
        None => create(directory, header)?,
    };
    if let Err(error) = directory.sync() {
        drop(file);
        let _ = directory.remove(header.number);
        return Err(error);
    }
    Ok(NewSegment {
        header,
        file,
        named: None,
        prepared,
    })
}

fn reuse(
    directory: &Directory,
    spare: u64,
    header: Header,
) -> Result<(Box<dyn DiskFile>, u64), JournalError> {
    let mut file = directory.open(spare, true)?;
    let path = directory.segment(spare);
    // The file must lose its old header and link before it gets its new name.
    let mut first = first_piece(header);
    first.truncate(CLEARED);
    let cleared = write_all(&mut *file, &first, 0).and_then(|()| file.sync());
    cleared.map_err(|error| JournalError::io("clear", &path, error))?;
    let named = directory.segment(header.number);
    let renamed = directory.disk.rename(&path, &named);
    renamed.map_err(|error| JournalError::io("rename", path, error))?;
    Ok((file, first.len() as u64))
}

fn create(directory: &Directory, header: Header) -> Result<(Box<dyn DiskFile>, u64), JournalError> {
    let path = directory.unfinished(header.number);
    let file = directory.disk.create(&path);
    let mut file = file.map_err(|error| JournalError::io("make", &path, error))?;
    // The file is filled with real writes: later writes to blocks that are only allocated cost a third of the speed.
    // The file gets its name once it is durable. Before that, a crash may leave anything in the file, such as the
    // previous content of its blocks.
    let made = fill(&mut *file, header).and_then(|()| {
        let named = directory.segment(header.number);
        directory.disk.rename(&path, &named)
    });
    match made {
        Ok(()) => Ok((file, header.size)),
        Err(error) => {
            drop(file);
            // A half-made file only takes up room. If it cannot be removed, the next opening removes it.
            let _ = directory.disk.remove(&path);
            Err(JournalError::io("make", path, error))
        }
    }
}

/// The number of bytes in one write.
const PIECE: usize = 256 << 10;

/// The first piece of a file.
fn first_piece(header: Header) -> Vec<u8> {
    let mut piece = header.encode().to_vec();
    piece.resize(PIECE.min(header.size as usize), 0);
    piece
}

fn fill(file: &mut dyn DiskFile, header: Header) -> io::Result<()> {
    let mut piece = first_piece(header);
    let mut at = 0;
    while at < header.size {
        let length = (header.size - at).min(piece.len() as u64) as usize;
        write_all(file, &piece[..length], at)?;
        if at == 0 {
            piece.fill(0);
        }
        at += length as u64;
    }
    file.sync()
}
