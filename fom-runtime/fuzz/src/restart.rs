//! A whole runtime that is started on a journal with these entries.

use std::time::Duration;

use fom_durable::{
    journal::{Batch, Journal, MemoryJournal},
    prelude::*,
};
use fom_runtime::{snapshot::RestoreError, time::TestClock};

use super::{archive::unpack, record::entry_of};

/// Does the same as [`record`](super::record()) with a runtime that reads the entries and runs the restored foms.
///
/// Either the build fails with an error, or the runtime runs until it is shut down.
pub fn restart(bytes: &[u8]) {
    let mut journal = MemoryJournal::new();
    let mut batch = Batch::new();
    for (piece, bytes) in unpack(bytes) {
        batch.put(entry_of(piece), bytes);
        batch.end_group();
    }
    // A journal in memory accepts all.
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
    for aside in runtime.quarantine().list() {
        let panicked = matches!(aside.reason, RestoreError::Panicked(_));
        assert!(!panicked, "{aside}");
    }
    // Overdue deadlines pass, and paused foms continue.
    clock.advance(Duration::from_secs(3_600));
    runtime.shutdown_blocking(Shutdown::Now, Duration::from_secs(5));
}
