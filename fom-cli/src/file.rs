//! Files that a command writes.

use std::{
    fs::{File, OpenOptions},
    io,
    path::Path,
};

/// Creates a file for the user alone, since it has what the program knows. Never writes over another file.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
