//! Checks what a journal reports when a part of its data is missing.

use std::collections::BTreeMap;

use super::{Random, commit, reopen};
use crate::{Damage, EntryId, Journal, Recover};

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
    let mut model = BTreeMap::new();
    let (mut journal, _) = reopen(&mut open);
    for _ in 0..40 {
        let batch = random.batch(&mut model);
        commit(&mut journal, &batch);
        if random.below(3) == 0 {
            let _ = journal.tidy();
        }
        let mut piece = 0;
        while let Some(mut left) = without(piece) {
            let mut there = There::default();
            if let Ok(found) = left.recover(&mut there)
                && found.gaps.is_empty()
                && !there.damaged
            {
                assert!(
                    there.entries == model,
                    "without piece {piece}, what was acknowledged is there, or it is told that something is missing"
                );
            }
            piece += 1;
        }
    }
}

/// What a journal has, and whether it reports that something is missing.
#[derive(Default)]
struct There {
    entries: BTreeMap<u64, Vec<u8>>,
    damaged: bool,
}

impl Recover for There {
    fn entry(&mut self, id: EntryId, bytes: &[u8]) {
        self.entries.insert(id.0, bytes.to_vec());
    }

    fn damaged(&mut self, _: EntryId, _: Damage) {
        self.damaged = true;
    }
}
