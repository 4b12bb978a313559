//! Ids are never used again: not over restarts, and not after a crash in the middle of a write.

use std::collections::BTreeSet;

use fom_durable::{
    journal::{
        Batch, Change, Journal, JournalError, JournalStats, MemoryJournal, Recover, Recovery,
    },
    prelude::*,
};
use fom_runtime::time::TestClock;
use serde::{Deserialize, Serialize};

use crate::kit::{limited, one, secs};

/// Waits for an hour.
#[derive(Serialize, Deserialize)]
struct Wait;

#[fom(operation(Wait))]
enum Waiting {
    #[phase(start, to(Gone))]
    Here,
    #[phase(end)]
    Gone,
}

impl WaitingTransitions for Wait {
    async fn here(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.sleep(secs(3600)).await;
        Ok(())
    }
}

/// Commits the first `whole` batches. Of each later batch it keeps all groups but the last and returns an error, as
/// when a crash breaks off a write.
struct Torn {
    journal: MemoryJournal,
    whole: u32,
}

impl Journal for Torn {
    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError> {
        self.journal.recover(to)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        if self.whole > 0 {
            self.whole -= 1;
            return self.journal.commit(batch);
        }
        let mut kept = Batch::new();
        for group in batch.groups().take(batch.len() - 1) {
            for change in group.changes() {
                match change {
                    Change::Put { id, bytes } => kept.put(id, bytes),
                    Change::Delete { id } => kept.delete(id),
                }
            }
            kept.end_group();
        }
        self.journal.commit(&kept)?;
        Err(JournalError::Closed)
    }

    fn stats(&self) -> JournalStats {
        self.journal.stats()
    }
}

/// If a crash comes when only the record of a fom was written, and not the rest of its batch, the fom comes back. Its
/// id is not given to another fom.
#[test]
fn the_id_of_a_torn_batch_is_not_used_again() {
    limited(|| async {
        let journal = MemoryJournal::new();
        let mut used = BTreeSet::new();
        {
            let torn = Torn {
                journal: journal.clone(),
                whole: 1,
            };
            let runtime = one(&TestClock::new()).journal_with(torn).build().unwrap();
            let first = runtime.submit(Wait).start().unwrap();
            used.insert(first.id());
            runtime.quiet().await;
            let second = runtime.submit(Wait).start().unwrap();
            used.insert(second.id());
            assert!(second.await.is_err(), "its start was not committed");
        }
        let runtime = one(&TestClock::new())
            .journal_with(journal.fork())
            .build()
            .unwrap();
        runtime.quiet().await;
        let back: BTreeSet<_> = runtime.operations().foms.iter().map(|fom| fom.id).collect();
        assert_eq!(back, used, "both are there");
        for _ in 0..10 {
            let new = runtime.submit(Wait).detach().unwrap();
            assert!(used.insert(new), "{new} is used again");
        }
    });
}
