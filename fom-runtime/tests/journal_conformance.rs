//! The journals of this crate keep the promises of the trait.

mod journal_kit;

use std::sync::Arc;

use fom_runtime::journal::{FileJournal, FileJournalOptions, MemoryJournal, conformance};
use journal_kit::{Place, small};

fn check_file(options: impl Fn() -> FileJournalOptions) {
    conformance::check(|| {
        let place = Arc::new(Place::new());
        let options = options();
        move || options.clone().open(place.path()).unwrap()
    });
}

/// The one in memory.
#[test]
fn memory_conforms() {
    conformance::check(|| {
        let kept = MemoryJournal::new();
        move || kept.clone()
    });
}

/// The one in files, with segments so small that each group of promises needs many.
#[test]
fn files_conform() {
    check_file(small);
}

/// The same with a thread that makes segments ahead.
#[test]
fn files_made_ahead_conform() {
    check_file(|| small().background(true));
}

/// The same as users have it.
#[test]
fn files_of_the_usual_size_conform() {
    check_file(FileJournal::options);
}
