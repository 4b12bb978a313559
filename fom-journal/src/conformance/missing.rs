//! Checks what a journal reports when a part of its data is missing.

use super::{Entries, Given, Random, reopen};
use crate::Journal;

/// Checks that a journal reports missing data, and never takes the gap for its end.
///
/// `fresh` makes an empty place, and returns two closures. The first opens a journal there, as for
/// [`check`](super::check). The second takes the number of a piece. It copies what the open journal has on its disk at
/// that moment, without this piece. It then opens a journal on the copy. It returns `None` if there are fewer pieces.
/// For a journal of files a piece is a file:
///
/// ```
/// use std::{fs, path::Path};
/// use fom_journal::{conformance, FileJournal};
/// # let above = std::env::temp_dir().join(format!("fom-conformance-missing-{}", std::process::id()));
///
/// conformance::check_missing(|| {
///     let (journal, copy) = (above.join("journal"), above.join("copy"));
///     let options = FileJournal::options().segment_bytes(4096).background(false);
///     let (opens, of) = (options.clone(), journal.clone());
///     let open = move || opens.clone().open(&of).unwrap();
///     let without = move |piece| {
///         let _ = fs::remove_dir_all(&copy);
///         fs::create_dir_all(&copy).unwrap();
///         let mut files: Vec<_> = fs::read_dir(&journal).unwrap().map(|file| file.unwrap().path()).collect();
///         files.sort();
///         files.get(piece)?;
///         files.remove(piece);
///         for file in files {
///             fs::copy(&file, copy.join(file.file_name()?)).unwrap();
///         }
///         Some(options.clone().open(&copy).unwrap())
///     };
///     (open, without)
/// });
/// # std::fs::remove_dir_all(&above).unwrap();
/// ```
///
/// # Panics
///
/// If data is missing and the journal does not report it. The message names the piece.
pub fn check_missing<J, O, W>(mut fresh: impl FnMut() -> (O, W))
where
    J: Journal,
    O: FnMut() -> J,
    W: FnMut(usize) -> Option<J>,
{
    let (mut open, mut without) = fresh();
    let mut random = Random(17);
    let mut model = Entries::new();
    let (mut journal, _) = reopen(&mut open);
    for _ in 0..40 {
        random.commit(&mut journal, &mut model);
        let mut piece = 0;
        while let Some(mut left) = without(piece) {
            let mut given = Given::default();
            let is_whole = left
                .recover(&mut given)
                .is_ok_and(|found| found.gaps.is_empty());
            if is_whole && given.damaged.is_empty() {
                assert!(
                    given.entries == model,
                    "without piece {piece}, the journal has all acknowledged entries, or reports that some are missing"
                );
            }
            piece += 1;
        }
    }
}
