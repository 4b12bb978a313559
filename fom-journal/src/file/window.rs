//! Reads a file piece by piece.

use std::path::{Path, PathBuf};

use crate::{
    JournalError,
    disk::{DiskFile, read_full},
};

/// Bytes in one read.
const PIECE: usize = 1 << 20;

/// A window into a file that moves to each request. It holds a piece of the file, or a whole request if that is longer,
/// but never more than the file has.
pub(super) struct Window<'a> {
    file: Box<dyn DiskFile + 'a>,
    /// The name of the file, for errors.
    path: PathBuf,
    end: u64,
    start: u64,
    buffer: Vec<u8>,
    filled: usize,
}

impl<'a> Window<'a> {
    /// Returns a window over the first `end` bytes, or over all bytes if the file has fewer.
    pub(super) fn new(
        file: Box<dyn DiskFile + 'a>,
        path: PathBuf,
        end: u64,
    ) -> Result<Self, JournalError> {
        let length = file.length();
        let length = length.map_err(|error| JournalError::io("read", &path, error))?;
        Ok(Self {
            file,
            path,
            end: length.min(end),
            start: 0,
            buffer: Vec::new(),
            filled: 0,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Returns `length` bytes at an offset, or `None` if they go beyond the end.
    pub(super) fn get(&mut self, at: u64, length: usize) -> Result<Option<&[u8]>, JournalError> {
        let left = self.end.saturating_sub(at);
        if length as u64 > left {
            return Ok(None);
        }
        let behind = at.checked_sub(self.start).unwrap_or(u64::MAX);
        if behind.saturating_add(length as u64) > self.filled as u64 {
            let wanted = (length.max(PIECE) as u64).min(left) as usize;
            if self.buffer.len() < wanted {
                self.buffer.resize(wanted, 0);
            }
            self.filled = 0;
            let read = read_full(&*self.file, &mut self.buffer[..wanted], at);
            self.filled = read.map_err(|error| JournalError::io("read", &self.path, error))?;
            self.start = at;
            if self.filled < length {
                // The file was cut during the read.
                return Ok(None);
            }
        }
        let from = (at - self.start) as usize;
        Ok(Some(&self.buffer[from..from + length]))
    }

    /// Returns the offset of the next nonzero byte at or behind `at`.
    pub(super) fn skip_zeros(&mut self, mut at: u64) -> Result<Option<u64>, JournalError> {
        const BLOCK: u64 = 4096;
        while at < self.end {
            let length = BLOCK.min(self.end - at);
            let Some(bytes) = self.get(at, length as usize)? else {
                return Ok(None);
            };
            if let Some(found) = bytes.iter().position(|byte| *byte != 0) {
                return Ok(Some(at + found as u64));
            }
            at += length;
        }
        Ok(None)
    }
}
