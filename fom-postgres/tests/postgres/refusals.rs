//! What the journal refuses, with a message that names the remedy.

use std::time::Duration;

use fom_durable::prelude::*;
use fom_journal::{Batch, EntryId, Journal};
use fom_postgres::{PostgresError, PostgresJournal};

use crate::{SAFE, journal_of, kit::limited, server::Server};

/// Commits entries of this length under these numbers.
fn commit(journal: &mut PostgresJournal, ids: impl IntoIterator<Item = u64>, length: usize) {
    let mut batch = Batch::new();
    for id in ids {
        batch.put(EntryId(70_000 + id), &vec![7; length]);
    }
    batch.end_group();
    journal.commit(&batch).unwrap();
}

#[test]
fn a_server_that_may_lose_commits_is_refused() {
    let Some(server) = Server::start(SAFE) else {
        return;
    };
    limited(move || async move {
        let builder = || PostgresJournal::builder(server.config(), "orders");
        let error = builder().allow_one_copy().open().await.unwrap_err();
        assert!(matches!(error, PostgresError::NoFsync));
        assert!(error.to_string().contains("set `fsync = on`"), "{error}");
        let error = builder().allow_no_fsync().open().await.unwrap_err();
        assert!(matches!(error, PostgresError::OneCopy));
        assert!(
            error.to_string().contains("`synchronous_standby_names`"),
            "{error}"
        );
        // Nothing was written.
        let tables = server
            .number("SELECT count(*) FROM pg_tables WHERE tablename LIKE 'fom%'")
            .await;
        assert_eq!(tables, 0);
    });
}

#[test]
fn a_server_that_is_not_there_is_an_error_at_once() {
    limited(|| async {
        let builder = PostgresJournal::builder("host=127.0.0.1 port=1 user=fom", "orders");
        let error = builder.open().await.unwrap_err().to_string();
        assert!(error.contains("error connecting to server"), "{error}");
        let error = PostgresJournal::builder("host", "orders")
            .open()
            .await
            .unwrap_err();
        assert!(
            error.to_string().contains("invalid connection string"),
            "{error}"
        );
    });
}

/// PR-09: a node refuses tables that are newer than it knows.
#[test]
fn newer_tables_are_refused() {
    let Some(server) = Server::start(SAFE) else {
        return;
    };
    limited(move || async move {
        drop(journal_of(&server, "orders").open().await.unwrap());
        server.sql("UPDATE fom_tables SET version = 4").await;
        let error = journal_of(&server, "orders").open().await.unwrap_err();
        assert!(
            matches!(error, PostgresError::NewerTables { found: 4, known: 3 }),
            "{error}"
        );
    });
}

/// A server that was restored from an old backup: the owner ends, and the standby refuses to go on.
#[test]
fn a_term_that_went_back_is_refused() {
    let Some(server) = Server::start(SAFE) else {
        return;
    };
    limited(move || async move {
        // The third term.
        drop(journal_of(&server, "orders").open().await.unwrap());
        drop(journal_of(&server, "orders").open().await.unwrap());
        let owner = journal_of(&server, "orders").open().await.unwrap();
        let runtime = Runtime::builder()
            .localities(1)
            .journal_with(owner)
            .build()
            .unwrap();
        let (waits, waiting) = tokio::sync::oneshot::channel();
        let mut waits = Some(waits);
        let standby = journal_of(&server, "orders").on_wait(move |owner| {
            if let Some(waits) = waits.take() {
                let _ = waits.send(owner.clone());
            }
        });
        let standby = tokio::spawn(standby.open());
        assert_eq!(waiting.await.unwrap().term, 3);
        server
            .sql("UPDATE fom_journal SET term = 1, owner = 'of the backup'")
            .await;
        runtime.moved().await;
        let error = standby.await.unwrap().unwrap_err();
        assert!(
            matches!(
                error,
                PostgresError::TermWentBack {
                    found: 1,
                    seen: 3,
                    ..
                }
            ),
            "{error}"
        );
    });
}

#[test]
fn a_damaged_row_is_named() {
    let Some(server) = Server::start(SAFE) else {
        return;
    };
    limited(move || async move {
        let mut journal = journal_of(&server, "orders").open().await.unwrap();
        commit(&mut journal, [1], 100);
        commit(&mut journal, [2], 100);
        drop(journal);
        server
            .sql("UPDATE fom_log SET body = set_byte(body, 50, 9) WHERE seq = 2")
            .await;
        let journal = journal_of(&server, "orders").open().await.unwrap();
        let error = Runtime::builder()
            .journal_with(journal)
            .build()
            .unwrap_err();
        assert!(
            error
                .to_string()
                .contains("row 2 of the journal orders is damaged: its checksum is wrong"),
            "{error}"
        );
    });
}

/// The log stays bounded although entries are written again and again, and nothing live is lost.
#[test]
fn the_log_stays_bounded() {
    let Some(server) = Server::start(SAFE) else {
        return;
    };
    limited(move || async move {
        let mut journal = journal_of(&server, "orders").open().await.unwrap();
        commit(&mut journal, 1_000..1_010, 1_000);
        for round in 0..200 {
            commit(&mut journal, 0..100, 1_000);
            if round % 3 == 0 {
                let mut batch = Batch::new();
                batch.delete(EntryId(70_000 + 50));
                batch.end_group();
                journal.commit(&batch).unwrap();
            }
            while journal.tidy().unwrap() {}
        }
        let stats = journal.stats();
        let live = 110 * 1_000;
        assert_eq!((stats.entries, stats.live_bytes), (110, live));
        let size = server
            .number("SELECT sum(length(body))::bigint FROM fom_log")
            .await;
        assert_eq!(size.cast_unsigned(), stats.size_bytes);
        assert!(stats.size_bytes <= 2 * live + (4 << 20), "{stats:?}");
        assert!(
            stats.written_bytes > 19_000_000 && stats.moved_bytes > 0,
            "{stats:?}"
        );
        drop(journal);

        #[derive(Default)]
        struct Entries(Vec<(u64, usize)>);
        impl fom_journal::Recover for Entries {
            fn entry(&mut self, id: EntryId, bytes: &[u8]) {
                self.0.push((id.0 - 70_000, bytes.len()));
            }
            fn damaged(&mut self, id: EntryId, damage: fom_journal::Damage) {
                panic!("{id}: {damage}");
            }
        }
        let mut journal = journal_of(&server, "orders").open().await.unwrap();
        let mut entries = Entries::default();
        journal.recover(&mut entries).unwrap();
        let expected: Vec<_> = (0..100).chain(1_000..1_010).map(|id| (id, 1_000)).collect();
        assert_eq!(entries.0, expected);
    });
}

/// The time of the journal is passed on from owner to owner, and goes on while no process has it.
#[test]
fn the_time_goes_on_and_never_back() {
    let Some(server) = Server::start(SAFE) else {
        return;
    };
    limited(move || async move {
        let journal = journal_of(&server, "orders").open().await.unwrap();
        let first = journal.time().unwrap();
        drop(journal);
        // As if the last owner had ended an hour ago.
        server
            .sql("UPDATE fom_journal SET at = at - interval '1 hour'")
            .await;
        let journal = journal_of(&server, "orders").open().await.unwrap();
        let second = journal.time().unwrap();
        assert!(
            second >= first + Duration::from_secs(3600),
            "{first:?} {second:?}"
        );
        drop(journal);
        // The clock of the server went back.
        server
            .sql("UPDATE fom_journal SET at = at + interval '1 hour'")
            .await;
        let journal = journal_of(&server, "orders").open().await.unwrap();
        assert!(journal.time().unwrap() >= second);
    });
}
