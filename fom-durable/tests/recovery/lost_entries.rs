//! Entries that the journal needs for reading the others. It never takes a missing one for one that it never had.

#[path = "../../../fom-journal/tests/store/kit/mod.rs"]
mod journal_kit;

use std::sync::{Arc, Mutex};

use fom_durable::{
    journal::{
        Batch, Change, EntryId, FileJournal, Journal, JournalError, JournalStats, MemoryJournal,
        Recover, Recovery,
    },
    prelude::*,
};
use fom_runtime::{error::BuildError, time::TestClock};
use journal_kit::{Place, delete};
use serde::{Deserialize, Serialize};

use crate::kit::{limited, one};

#[derive(Serialize, Deserialize)]
struct Call(u64);

#[derive(Serialize, Deserialize)]
enum CallEvent {
    HangUp,
}

#[fom(operation(Call), event(CallEvent))]
enum Route {
    #[phase(start, sync, on(HangUp), to(Over))]
    Ring,
    #[phase(end)]
    Over,
}

impl RouteTransitions for Call {
    fn ring(
        &mut self,
        _: &mut Cx<'_, CallEvent>,
        _: CallEvent,
    ) -> Result<RouteAfterRing, BoxError> {
        Ok(RouteAfterRing::Over)
    }
}

/// Another type. The journal does not have its schema yet.
#[derive(Serialize, Deserialize)]
struct Letter;

#[fom(operation(Letter))]
enum Post {
    #[phase(start, to(There))]
    Carry,
    #[phase(end)]
    There,
}

impl PostTransitions for Letter {
    async fn carry(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

const HEAD: EntryId = EntryId(1);

fn build(journal: impl Journal) -> Result<Runtime, BuildError> {
    one(&TestClock::new()).journal_with(journal).build()
}

/// A journal with three ringing calls.
async fn ringing() -> MemoryJournal {
    let journal = MemoryJournal::new();
    let runtime = build(journal.clone()).unwrap();
    for call in 0..3 {
        let call = runtime.submit(Call(call)).start().unwrap();
        call.reached([RouteKind::Ring]).await;
    }
    journal.fork()
}

fn without(journal: &MemoryJournal, id: EntryId) -> MemoryJournal {
    let mut left = journal.fork();
    delete(&mut left, id.0).unwrap();
    left
}

/// `build()` refuses a journal without its head, which identifies the journal and has its time. Without a schema the
/// runtime uses that of the release, which is the same. No fom is lost without an error.
#[test]
fn each_entry_that_is_missing_is_named_or_not_needed() {
    limited(async || {
        let journal = ringing().await;
        let firsts = journal.ids().into_iter().filter(|id| *id < EntryId::HEAD);
        let firsts: Vec<_> = firsts.collect();
        assert!(firsts.len() >= 2, "{firsts:?}");
        for id in firsts {
            match build(without(&journal, id)) {
                Ok(runtime) => {
                    assert_ne!(id, HEAD);
                    assert_eq!(runtime.in_flight(), 3, "without {id}");
                }
                Err(BuildError::Journal(ref error))
                    if let Some(JournalError::Missing { entry, .. }) = error.downcast_ref() =>
                {
                    assert_eq!((*entry, id), (HEAD, HEAD));
                }
                Err(error) => panic!("without {id}: {error}"),
            }
        }
    });
}

/// An unreadable schema, of a newer release or a damaged one, keeps its entry. The newer release may come back.
#[test]
fn a_schema_that_cannot_be_read_is_not_written_over() {
    limited(async || {
        let mut journal = ringing().await;
        let schema = *journal
            .ids()
            .iter()
            .rfind(|id| **id < EntryId::HEAD)
            .unwrap();
        let kind = journal.entry(schema).unwrap()[0];
        let newer = EntryId(schema.0 + 1);
        let bytes = [&[kind][..], b"in a way of tomorrow"].concat();
        let mut batch = Batch::new();
        batch.put(newer, &bytes);
        batch.end_group();
        journal.commit(&batch).unwrap();
        let runtime = build(journal.clone()).unwrap();
        runtime.submit(Letter).start().unwrap().await.unwrap();
        assert_eq!(journal.entry(newer).unwrap(), bytes);
        assert!(
            journal.ids().contains(&EntryId(newer.0 + 1)),
            "the new one is behind it"
        );
    });
}

/// Keeps the commits, and the groups of the first batch.
#[derive(Clone, Default)]
struct First {
    journal: MemoryJournal,
    groups: Arc<Mutex<Vec<Batch>>>,
}

impl Journal for First {
    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError> {
        self.journal.recover(to)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        let mut groups = self.groups.lock().unwrap();
        if groups.is_empty() {
            for group in batch.groups() {
                let mut one = Batch::new();
                for change in group.changes() {
                    match change {
                        Change::Put { id, bytes } => one.put(id, bytes),
                        Change::Delete { id } => one.delete(id),
                    }
                }
                one.end_group();
                groups.push(one);
            }
        }
        self.journal.commit(batch)
    }

    fn stats(&self) -> JournalStats {
        self.journal.stats()
    }
}

/// A crash may cut the very first batch behind any of its groups. The rest is a journal.
#[test]
fn wherever_the_first_batch_breaks_off_there_is_a_head() {
    limited(async || {
        let first = First::default();
        let runtime = build(first.clone()).unwrap();
        let call = runtime.submit(Call(1)).start().unwrap();
        call.reached([RouteKind::Ring]).await;
        let groups = first.groups.lock().unwrap().clone();
        assert!(groups.len() >= 3, "{}", groups.len());
        for there in 0..=groups.len() {
            let mut left = MemoryJournal::new();
            for group in &groups[..there] {
                left.commit(group).unwrap();
            }
            let runtime = build(left).unwrap_or_else(|error| panic!("{there} groups: {error}"));
            assert!(runtime.quarantine().list().is_empty(), "{there} groups");
        }
    });
}

/// A check of the files reports in advance why a runtime would not start.
#[test]
fn a_check_tells_of_a_head_that_is_missing() {
    limited(async || {
        let place = Place::new();
        let runtime = build(FileJournal::open(place.path()).unwrap()).unwrap();
        let call = runtime.submit(Call(1)).start().unwrap();
        call.reached([RouteKind::Ring]).await;
        runtime
            .shutdown(Shutdown::Now, std::time::Duration::from_secs(5))
            .await;
        drop(runtime);
        let check = || Runtime::builder().check_journal(place.path()).unwrap();
        assert!(check().is_clean(), "{}", check());
        let mut journal = FileJournal::open(place.path()).unwrap();
        delete(&mut journal, HEAD.0).unwrap();
        drop(journal);
        assert!(!check().is_clean());
        assert!(
            check().to_string().contains("identifies the journal"),
            "{}",
            check()
        );
        let refused = build(FileJournal::open(place.path()).unwrap()).map(drop);
        let is_missing = matches!(
            refused,
            Err(BuildError::Journal(ref error))
                if matches!(error.downcast_ref(), Some(JournalError::Missing { entry: HEAD, .. }))
        );
        assert!(is_missing, "{refused:?}");
    });
}
