//! What happens to failed operations when the disk is full, a cause is long, or an entry cannot be read.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use fom_durable::{
    journal::{Batch, Journal, JournalError, JournalStats, MemoryJournal, Recover, Recovery},
    prelude::*,
};
use fom_runtime::{
    snapshot::{QuarantineKind, RestoreError},
    time::TestClock,
};
use serde::{Deserialize, Serialize};

use crate::{
    kit::{held::Held, limited, one},
    order::{Answer, Shop, failed, one_failed, order},
};

/// The disk is full when a retry returns. The retry enters the journal when there is room again, without any more of the
/// operation.
#[test]
fn a_retry_outlasts_a_full_disk() {
    limited(|| async {
        let mut shop = Shop::that(Answer::Declined);
        let disk = Held::default();
        shop.journal = disk.journal.clone();
        let builder = one(&shop.clock).resource(shop.provider.clone());
        let runtime = builder.journal_with(disk.clone()).build().unwrap();
        let id = runtime.submit(order(7)).start().unwrap().id();
        shop.wait(&runtime).await;
        one_failed(&runtime);
        shop.provider.answers(Answer::Never);
        disk.fail(true);
        runtime.quarantine().retry(id).unwrap();
        runtime.quiet().await;
        disk.wait_for_failed(1);
        let before = disk.done();
        disk.fail(false);
        disk.wait_for_done(before + 1);
        let asked = shop.provider.asked().len();
        let runtime = shop.reopen(runtime);
        runtime.quiet().await;
        assert!(runtime.quarantine().list().is_empty());
        assert_eq!(runtime.operations().foms.len(), 1);
        assert_eq!(shop.provider.asked().len(), asked + 1);
    });
}

/// A journal with short entries.
struct Short(MemoryJournal);

impl Journal for Short {
    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError> {
        self.0.recover(to)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        self.0.commit(batch)
    }

    fn tidy(&mut self) -> Result<bool, JournalError> {
        self.0.tidy()
    }

    fn longest(&self) -> usize {
        4096
    }

    fn stats(&self) -> JournalStats {
        self.0.stats()
    }
}

/// How often it was said.
#[derive(Clone, Default)]
struct Said(Arc<AtomicU32>);

/// Fails with a long story.
#[derive(Serialize, Deserialize)]
struct Talk;

#[fom(operation(Talk))]
enum Talking {
    #[phase(start, sync, to(Done))]
    Say,
    #[phase(end)]
    Done,
}

impl TalkingTransitions for Talk {
    fn say(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.resource::<Said>().0.fetch_add(1, Ordering::SeqCst);
        Err("blä ".repeat(2000).into())
    }
}

/// A cause that does not fit into an entry is cut: the failure is in the journal, and the operation does not run again.
#[test]
fn a_long_cause_is_cut() {
    limited(|| async {
        let journal = MemoryJournal::new();
        let said = Said::default();
        let build = |journal: &MemoryJournal| {
            let builder = one(&TestClock::new()).resource(said.clone());
            let builder = builder.journal_with(Short(journal.clone()));
            builder.build().unwrap()
        };
        let runtime = build(&journal);
        let handle = runtime.submit(Talk).start().unwrap();
        let id = handle.id();
        let failure = handle.await.err().unwrap();
        assert!(failure.to_string().len() > 4096);
        let journal = journal.fork();
        drop(runtime);
        let runtime = build(&journal);
        runtime.quiet().await;
        assert_eq!(said.0.load(Ordering::SeqCst), 1);
        let entry = one_failed(&runtime);
        assert_eq!(entry.id, id);
        assert!(entry.failure.unwrap().cause.starts_with("blä blä"));
    });
}

/// An entry that this release cannot read, such as that of a later release, is damaged. It stays, and can be discarded.
#[test]
fn a_failed_operation_that_cannot_be_read_stays() {
    limited(|| async {
        let mut shop = Shop::that(Answer::Declined);
        let runtime = shop.open();
        let id = runtime.submit(order(7)).start().unwrap().id();
        shop.wait(&runtime).await;
        let mut journal = shop.journal.fork();
        drop(runtime);
        let is_failed = |entry: &Vec<u8>| entry.first() == Some(&7);
        let mut batch = Batch::new();
        for at in journal.ids() {
            if let Some(entry) = journal.entry(at).filter(is_failed) {
                batch.put(at, &entry[..3]);
                batch.end_group();
            }
        }
        journal.commit(&batch).unwrap();
        shop.journal = journal;
        let runtime = shop.open();
        assert!(failed(&runtime).is_empty());
        let damaged = runtime.quarantine().list_of(QuarantineKind::Damaged);
        assert_eq!(damaged.len(), 1, "{damaged:?}");
        assert_eq!(damaged[0].id, id);
        let retried = runtime.quarantine().retry(id);
        let reason = RestoreError::Damaged;
        assert_eq!(retried, Err(fom_durable::RetryError::Still(reason)));
        assert_eq!(runtime.quarantine().count(QuarantineKind::Damaged), 1);
        runtime.quarantine().discard(id).await.unwrap();
    });
}

/// Fails at once. A program that does not name it cannot try it again.
#[derive(Serialize, Deserialize)]
struct Fold<T> {
    what: T,
}

#[fom(operation(Fold<T>), generics(T: Serialize + for<'a> Deserialize<'a> + Send + 'static))]
enum Folding {
    #[phase(start, sync, to(Folded))]
    Bend,
    #[phase(end)]
    Folded,
}

impl<T: Serialize + for<'a> Deserialize<'a> + Send + 'static> FoldingTransitions for Fold<T> {
    fn bend(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Err("it tore".into())
    }
}

/// The check of a journal names the failed operations that the program could not try again.
#[test]
fn a_check_names_what_could_not_be_tried_again() {
    limited(|| async {
        let name = format!("fom-quarantine-check-{}", std::process::id());
        let place = std::env::temp_dir().join(name);
        let builder = one(&TestClock::new()).journal(&place);
        let runtime = builder.operation::<Fold<u32>>().build().unwrap();
        let handle = runtime.submit(Fold { what: 1u32 }).start().unwrap();
        let id = handle.id();
        handle.await.err().unwrap();
        drop(runtime);
        let knows = Runtime::builder().operation::<Fold<u32>>();
        let check = knows.check_journal(&place).unwrap();
        assert!(check.is_clean(), "{check}");
        assert_eq!(check.failed, 1);
        let check = Runtime::builder().check_journal(&place).unwrap();
        assert!(!check.is_clean(), "{check}");
        assert_eq!(check.failed, 1);
        assert_eq!(check.quarantine[0].id, id);
        std::fs::remove_dir_all(&place).unwrap();
    });
}
