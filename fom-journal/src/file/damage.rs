//! Keeps damaged bytes under other names, so that a user can look at them.

use std::{io, path::Path};

use super::directory::Directory;
use crate::{
    Damage, JournalError,
    disk::{read_full, write_all},
};

impl Directory {
    /// Copies the torn end before it is cut off, so that a user can look at it.
    pub(super) fn copy_torn(&self, torn: &Option<Damage>) -> Result<(), JournalError> {
        let Some(damage) = torn else {
            return Ok(());
        };
        self.remove_old_torn();
        let number = damage.file.file_stem().unwrap_or_default();
        let name = format!("torn-{}-{}", number.display(), damage.offset);
        let path = self.path.join(name);
        let copied = self.copy_damage(damage, &path);
        match copied.map_err(|error| JournalError::io("copy the torn end to", path, error)) {
            // A full disk must not prevent a start. The bytes are still in the segment.
            Ok(()) | Err(JournalError::Full { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn copy_damage(&self, damage: &Damage, path: &Path) -> io::Result<()> {
        /// The torn end is hardly ever longer, and the segment itself stays for a while.
        const MOST: u64 = 1 << 20;
        let from = self.disk.open(&damage.file, false)?;
        let length = damage.length.min(MOST).min(from.length()?) as usize;
        let mut bytes = vec![0; length];
        let read = read_full(&*from, &mut bytes, damage.offset)?;
        let last = bytes[..read].iter().rposition(|byte| *byte != 0);
        let mut to = match self.disk.create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            made => made?,
        };
        write_all(&mut *to, &bytes[..last.map_or(0, |last| last + 1)], 0)?;
        to.sync()
    }

    /// Removes the oldest copies of torn ends, so that a process that is killed again and again does not fill the disk.
    fn remove_old_torn(&self) {
        const MOST: usize = 8;
        let mut torn = self.names().unwrap_or_default();
        torn.retain(|name| name.starts_with("torn-"));
        torn.sort_unstable();
        let old = torn.len().saturating_sub(MOST - 1);
        for name in &torn[..old] {
            let _ = self.disk.remove(&self.path.join(name));
        }
    }

    /// Renames a damaged segment, to keep it.
    pub(super) fn keep_damaged(&self, number: u64) {
        let from = self.segment(number);
        let to = self.path.join(format!("damaged-{number:016x}"));
        // If the rename fails, the next opening finds that the segment is not needed.
        let _ = self.disk.rename(&from, &to);
    }
}
