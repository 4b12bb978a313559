//! A whole runtime that is started on a journal with these entries.

use std::time::Duration;

use fom_runtime::{
    RestoreError, TestClock,
    journal::{Batch, Journal, MemoryJournal},
    prelude::*,
};

use super::{archive::unpack, record::entry_of};

/// As [`record`](super::record()), with a runtime that takes the entries in and runs what comes back.
///
/// It is not built, with an error, or it runs until it is told to end.
pub fn restart(bytes: &[u8]) {
    let mut journal = MemoryJournal::new();
    let mut batch = Batch::new();
    for (piece, bytes) in unpack(bytes) {
        batch.put(entry_of(piece), bytes);
        batch.end_group();
    }
    // One in memory takes all.
    let _ = journal.commit(&batch);
    let clock = TestClock::new();
    let runtime = Runtime::builder()
        .localities(1)
        .pin(false)
        .clock(&clock)
        .journal_with(journal)
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    for aside in runtime.set_aside() {
        let panicked = matches!(aside.reason, RestoreError::Panicked(_));
        assert!(!panicked, "{aside}");
    }
    // What is overdue passes, and what pauses goes on.
    clock.advance(Duration::from_secs(3_600));
    runtime.shutdown_blocking(Shutdown::Now, Duration::from_secs(5));
}
