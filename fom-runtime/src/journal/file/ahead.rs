//! Makes segments ahead, so that the one who commits need not wait for it.

use std::{io, thread};

use super::directory::{CLEARED, Directory};
use crate::journal::{
    JournalError,
    disk::{DiskFile, write_all},
};

/// A file that has its place on the disk, durable under its name, and begins with zeros.
pub(super) struct Made {
    pub(super) number: u64,
    pub(super) file: Box<dyn DiskFile>,
    pub(super) size: u64,
    /// Bytes that were written for it.
    pub(super) prepared: u64,
    pub(super) syncs: u64,
}

/// The next segment.
pub(super) enum Ahead {
    None,
    Ready(Made),
    Making(thread::JoinHandle<Result<Made, JournalError>>),
}

impl Ahead {
    /// Begins to make a file of `size` bytes out of the free file `spare` or out of nothing.
    pub(super) fn begin(
        &mut self,
        directory: &Directory,
        spare: Option<u64>,
        number: u64,
        size: u64,
    ) {
        let directory = directory.clone();
        let thread = thread::Builder::new().name("fom-journal".into());
        let making = thread.spawn(move || make(&directory, spare, number, size));
        // Without a thread it is made when it is needed.
        *self = making.map_or(Self::None, Self::Making);
    }

    /// The file that was made, waiting for it if it is being made.
    pub(super) fn take(&mut self) -> Option<Result<Made, JournalError>> {
        match std::mem::replace(self, Self::None) {
            Self::None => None,
            Self::Ready(made) => Some(Ok(made)),
            Self::Making(thread) => thread.join().ok(),
        }
    }

    pub(super) fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

/// Makes a file. A free one is used again if there is one, which spares the writing.
pub(super) fn make(
    directory: &Directory,
    spare: Option<u64>,
    number: u64,
    size: u64,
) -> Result<Made, JournalError> {
    let (file, prepared) = match spare {
        Some(spare) => match again(directory, spare, number, size) {
            Ok(file) => file,
            Err(error) => {
                // Whatever name it has by now: it only takes room.
                let _ = directory.remove(spare);
                let _ = directory.remove(number);
                return Err(error);
            }
        },
        None => anew(directory, number, size)?,
    };
    let made = Made {
        number,
        file,
        size,
        prepared,
        syncs: 2,
    };
    match directory.sync() {
        Ok(()) => Ok(made),
        Err(error) => {
            drop(made);
            let _ = directory.remove(number);
            Err(error)
        }
    }
}

fn again(
    directory: &Directory,
    spare: u64,
    number: u64,
    size: u64,
) -> Result<(Box<dyn DiskFile>, u64), JournalError> {
    let mut file = directory.open(spare, true)?;
    let path = directory.segment(spare);
    // Its old header must not be there when it has its new name.
    let cleared = clear(&mut *file, size);
    let cleared = cleared.map_err(|error| JournalError::io("clear", path.clone(), error))?;
    let renamed = directory.disk.rename(&path, &directory.segment(number));
    renamed.map_err(|error| JournalError::io("rename", path, error))?;
    Ok((file, cleared))
}

/// Durably takes away the header of a file; how much was written.
pub(super) fn clear(file: &mut dyn DiskFile, size: u64) -> io::Result<u64> {
    let zeros = &[0; CLEARED][..size.min(CLEARED as u64) as usize];
    write_all(file, zeros, 0)?;
    file.sync()?;
    Ok(zeros.len() as u64)
}

fn anew(
    directory: &Directory,
    number: u64,
    size: u64,
) -> Result<(Box<dyn DiskFile>, u64), JournalError> {
    let path = directory.unfinished(number);
    let file = directory.disk.create(&path);
    let mut file = file.map_err(|error| JournalError::io("make", path.clone(), error))?;
    // Really written: an appending write to blocks that were only set aside costs a third of the speed. It has its name when it is
    // durable: before that a crash may leave anything in it, as what its blocks were before.
    let made = fill(&mut *file, size)
        .and_then(|()| directory.disk.rename(&path, &directory.segment(number)));
    match made {
        Ok(()) => Ok((file, size)),
        Err(error) => {
            drop(file);
            // What is half made only takes room that is lacking. If it stays, the next opening removes it.
            let _ = directory.disk.remove(&path);
            Err(JournalError::io("make", path, error))
        }
    }
}

fn fill(file: &mut dyn DiskFile, size: u64) -> io::Result<()> {
    const PIECE: usize = 256 << 10;
    let zeros = vec![0; PIECE.min(size as usize)];
    let mut at = 0;
    while at < size {
        let length = (size - at).min(PIECE as u64) as usize;
        write_all(file, &zeros[..length], at)?;
        at += length as u64;
    }
    file.sync()
}
