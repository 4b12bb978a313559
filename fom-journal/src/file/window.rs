//! Reads a file piece by piece.

use std::io;

use crate::disk::{DiskFile, read_full};

/// Bytes in one read.
const PIECE: usize = 1 << 20;

/// A window into a file that moves to each request. It holds a piece of the file, or a whole request if that is longer,
/// but never more than the file has.
pub(super) struct Window<'a> {
    file: &'a dyn DiskFile,
    end: u64,
    start: u64,
    buffer: Vec<u8>,
    filled: usize,
}

impl<'a> Window<'a> {
    /// Returns a window over the first `end` bytes, or over all bytes if the file has fewer.
    pub(super) fn new(file: &'a dyn DiskFile, end: u64) -> io::Result<Self> {
        Ok(Self {
            file,
            end: file.length()?.min(end),
            start: 0,
            buffer: Vec::new(),
            filled: 0,
        })
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Returns `length` bytes at an offset, or `None` if they go beyond the end.
    pub(super) fn get(&mut self, at: u64, length: usize) -> io::Result<Option<&[u8]>> {
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
            self.filled = read_full(self.file, &mut self.buffer[..wanted], at)?;
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
    pub(super) fn skip_zeros(&mut self, mut at: u64) -> io::Result<Option<u64>> {
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
