//! Which process has a journal open.

use std::{fs, path::Path};

/// Returns the process that holds the lock of the journal, such as `process 1234 (orders)`. Returns `None` if the system
/// does not say so.
#[cfg(target_os = "linux")]
pub(crate) fn holder(directory: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;

    let inode = fs::metadata(directory.join("MANIFEST")).ok()?.ino();
    let locks = fs::read_to_string("/proc/locks").ok()?;
    // 1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF
    let process = locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip_while(|word| *word != "WRITE");
        let (_, process, file) = (words.next()?, words.next()?, words.next()?);
        let found = file.rsplit(':').next()?.parse::<u64>().ok()?;
        (found == inode).then_some(process)
    })?;
    let name = fs::read_to_string(format!("/proc/{process}/comm"));
    Some(match name {
        Ok(name) => format!("process {process} ({})", name.trim()),
        Err(_) => format!("process {process}"),
    })
}

/// Returns the process that holds the lock of the journal, if the system says so.
#[cfg(not(target_os = "linux"))]
pub(crate) fn holder(_: &Path) -> Option<String> {
    None
}
