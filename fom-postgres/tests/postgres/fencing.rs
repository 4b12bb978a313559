//! A former owner changes nothing.

use fom_journal::{Batch, EntryId, Journal, JournalError};

use crate::{SAFE, journal_of, kit::limited, server::Server};

fn batch(id: u64, length: usize) -> Batch {
    let mut batch = Batch::new();
    batch.put(EntryId(70_000 + id), &vec![7; length]);
    batch.end_group();
    batch
}

const ROWS: &str = "SELECT coalesce(sum(seq), 0)::bigint FROM fom_log";
const FREE: &str = "UPDATE fom_journal SET owner = ''";

/// KY-11: the term of the owner changes with the owner. A commit with an earlier term is refused.
#[test]
fn a_former_owner_commits_nothing() {
    let Some(server) = Server::start(SAFE) else {
        return;
    };
    limited(move || async move {
        let mut first = journal_of(&server, "orders").open().await.unwrap();
        first.commit(&batch(1, 10)).unwrap();
        server.sql(FREE).await;
        let mut second = journal_of(&server, "orders").open().await.unwrap();
        let terms = [&first, &second].map(|journal| journal.lease().unwrap().term());
        assert_eq!(terms, [1, 2]);
        second.commit(&batch(2, 10)).unwrap();
        let rows = server.number(ROWS).await;
        let refused = first.commit(&batch(1, 20));
        assert!(matches!(refused, Err(JournalError::Fenced)), "{refused:?}");
        assert!(first.lease().unwrap().is_lost());
        assert_eq!(server.number(ROWS).await, rows);
        // Its end does not free the journal of the other.
        drop(first);
        second.commit(&batch(3, 10)).unwrap();
        assert_eq!(
            server
                .number("SELECT count(*) FROM fom_journal WHERE owner = ''")
                .await,
            0
        );
    });
}

/// A claim is under way: the commit waits for it, and is refused.
#[test]
fn a_commit_waits_for_a_claim() {
    let Some(server) = Server::start(SAFE) else {
        return;
    };
    limited(move || async move {
        let mut owner = journal_of(&server, "orders").open().await.unwrap();
        let client = server.client().await;
        client
            .batch_execute("BEGIN; UPDATE fom_journal SET term = term + 1, owner = 'other'")
            .await
            .unwrap();
        let committing = std::thread::spawn(move || owner.commit(&batch(1, 10)));
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%fom_log%'";
        while client.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            // Statistics do not change within a transaction unless they are read anew.
            client
                .batch_execute("SELECT pg_stat_clear_snapshot()")
                .await
                .unwrap();
        }
        client.batch_execute("COMMIT").await.unwrap();
        let refused = committing.join().unwrap();
        assert!(matches!(refused, Err(JournalError::Fenced)), "{refused:?}");
        assert_eq!(server.number("SELECT count(*) FROM fom_log").await, 0);
    });
}

/// A former owner that makes room deletes no row.
#[test]
fn a_former_owner_deletes_nothing() {
    let Some(server) = Server::start(SAFE) else {
        return;
    };
    limited(move || async move {
        let mut first = journal_of(&server, "orders").open().await.unwrap();
        for _ in 0..8 {
            // Nothing of the first rows is live.
            first.commit(&batch(1, 1 << 20)).unwrap();
        }
        server.sql(FREE).await;
        let second = journal_of(&server, "orders").open().await.unwrap();
        let rows = server.number(ROWS).await;
        let _ = first.tidy();
        assert_eq!(server.number(ROWS).await, rows);
        drop(first);
        assert_eq!(
            server
                .number("SELECT count(*) FROM fom_journal WHERE owner = ''")
                .await,
            0
        );
        drop(second);
    });
}
