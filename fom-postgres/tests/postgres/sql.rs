//! SQL of phases in the transaction that commits their transitions: with a journal, and with the engine of a cluster.

use std::{
    error::Error,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use fom_durable::{journal::JournalError, prelude::*};
use fom_postgres::{PostgresError, Sql};
use fom_runtime::{Cause, Failure};
use serde::{Deserialize, Serialize};
use tokio_postgres::{
    error::SqlState,
    types::{IsNull, ToSql, Type, private::BytesMut},
};

use crate::{SAFE, journal_of, kit::limited, server::Server};

/// The tables of the tests.
const TABLES: &str = "CREATE TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= 0)); \
    INSERT INTO account SELECT id, 100 FROM generate_series(1, 100) id; \
    CREATE TABLE parent (id bigint PRIMARY KEY); \
    CREATE TABLE child (of bigint NOT NULL REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED)";

const TAKE: &str = "UPDATE account SET balance = balance - $2 WHERE id = $1";

/// Executes statements with its only transition.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Work {
    statements: Vec<(String, Vec<i64>, Option<u64>)>,
    /// Whether the last statement has a value that panics when it is converted, and when it is dropped.
    panics: bool,
}

impl Work {
    fn new(text: &str, values: &[i64]) -> Self {
        Self::default().and(text, values)
    }

    fn and(mut self, text: &str, values: &[i64]) -> Self {
        self.statements
            .push((text.to_owned(), values.to_vec(), None));
        self
    }

    fn expect_rows(mut self, rows: u64) -> Self {
        self.statements.last_mut().unwrap().2 = Some(rows);
        self
    }
}

#[fom(operation(Work))]
enum Working {
    #[phase(start, sync, to(Done))]
    Execute,
    #[phase(end)]
    Done,
}

impl WorkingTransitions for Work {
    fn execute(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        for (text, values, rows) in &self.statements {
            let mut sql = Sql::new(text.clone());
            for value in values {
                sql = sql.bind(*value);
            }
            if self.panics {
                sql = sql.bind(Panics);
            }
            if let Some(rows) = rows {
                sql = sql.expect_rows(*rows);
            }
            cx.commit_with(sql)?;
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Panics;

impl ToSql for Panics {
    fn to_sql(&self, _: &Type, _: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        panic!("it is too large");
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    tokio_postgres::types::to_sql_checked!();
}

impl Drop for Panics {
    fn drop(&mut self) {
        panic!("it is dropped");
    }
}

/// Where the operations run.
enum Store {
    Journal(Runtime),
    #[cfg(feature = "cluster")]
    Cluster(fom_cluster::Cluster),
}

impl Store {
    async fn journal(server: &Server) -> Self {
        let journal = journal_of(server, "sql").open().await.unwrap();
        let builder = Runtime::builder().localities(1).pin(false);
        Self::Journal(builder.journal_with(journal).build().unwrap())
    }

    #[cfg(feature = "cluster")]
    async fn cluster(server: &Server) -> Self {
        let engine = fom_postgres::PostgresEngine::builder(server.config(), "sql");
        let engine = engine.allow_no_fsync().allow_one_copy().build().unwrap();
        let node = fom_cluster::Cluster::builder(engine, "node").slots(4);
        let cluster = node.operation::<Work>().join().await.unwrap();
        // An operation that this node runs from its start has the error itself.
        while cluster.served().len() < 4 {
            tokio::task::yield_now().await;
        }
        Self::Cluster(cluster)
    }

    async fn run(&self, work: Work) -> Result<(), Failure<Work>> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let key = NUMBER.fetch_add(1, Ordering::Relaxed);
        match self {
            Self::Journal(runtime) => runtime.submit(work).key(key).await.map(drop),
            #[cfg(feature = "cluster")]
            Self::Cluster(cluster) => {
                let started = cluster.submit(work).key(key).start().await.unwrap();
                started.await.unwrap().map(drop)
            }
        }
    }

    /// Runs all at once.
    async fn run_all(&self, all: Vec<Work>) -> Vec<Result<(), Failure<Work>>> {
        futures::future::join_all(all.into_iter().map(|work| self.run(work))).await
    }
}

/// Runs a test with each store.
fn with_each<F: Future<Output = ()>>(
    test: impl FnOnce(Server, Store) -> F + Send + Copy + 'static,
) {
    limited(move || async move {
        let Some(server) = Server::start(SAFE) else {
            return;
        };
        server.sql(TABLES).await;
        let store = Store::journal(&server).await;
        test(server, store).await;
        #[cfg(feature = "cluster")]
        {
            let server = Server::start(SAFE).unwrap();
            server.sql(TABLES).await;
            let store = Store::cluster(&server).await;
            test(server, store).await;
        }
    });
}

/// Returns the number of the statement that failed, and its error.
fn failed(done: &Result<(), Failure<Work>>) -> (usize, &PostgresError) {
    let Err(Failure {
        cause: Cause::Statement(error),
        ..
    }) = done
    else {
        panic!("it did not fail by a statement: {done:?}");
    };
    match error.downcast_ref() {
        Some(JournalError::Statement { statement, source }) => {
            (*statement, source.downcast_ref().unwrap())
        }
        _ => panic!("{error}"),
    }
}

fn code(done: &Result<(), Failure<Work>>) -> (usize, SqlState) {
    let (statement, error) = failed(done);
    let PostgresError::Server(error) = error else {
        panic!("{error}");
    };
    (
        statement,
        error.code().unwrap_or_else(|| panic!("{error}")).clone(),
    )
}

/// Of many operations in the same commits, each third one takes too much: it fails alone, with the error of the server.
#[test]
fn a_statement_that_is_refused_fails_alone() {
    with_each(|server, store| async move {
        let work = |account: i64| {
            let takes = if account % 3 == 0 { 101 } else { 7 };
            Work::new(TAKE, &[account, 1]).and(TAKE, &[account, takes])
        };
        let done = store.run_all((1..=60).map(work).collect()).await;
        for (account, done) in (1..=60).zip(&done) {
            match account % 3 {
                0 => assert_eq!(code(done), (1, SqlState::CHECK_VIOLATION), "{account}"),
                _ => assert!(done.is_ok(), "{account}: {done:?}"),
            }
        }
        let left = server
            .number("SELECT sum(balance)::bigint FROM account")
            .await;
        assert_eq!(left, 100 * 100 - 40 * 8);
    });
}

/// What cannot be executed at all: other numbers of rows, wrong texts and values, and statements about the transaction.
#[test]
fn a_statement_that_cannot_be_executed_fails() {
    with_each(|server, store| async move {
        let nothing = store.run(Work::new(TAKE, &[1000, 1]).expect_rows(1)).await;
        let (
            0,
            PostgresError::Rows {
                expected: 1,
                changed: 0,
                text,
            },
        ) = failed(&nothing)
        else {
            panic!("{nothing:?}");
        };
        assert_eq!(&**text, TAKE);
        let cases = [
            (
                "UPDATE acount SET balance = 1",
                &[][..],
                SqlState::UNDEFINED_TABLE,
            ),
            ("UPDATE account SET", &[], SqlState::SYNTAX_ERROR),
            (
                "DELETE FROM account; DELETE FROM account",
                &[],
                SqlState::SYNTAX_ERROR,
            ),
        ];
        for (text, values, expected) in cases {
            let done = store.run(Work::new(TAKE, &[1, 1]).and(text, values)).await;
            assert_eq!(code(&done), (1, expected), "{text}");
        }
        let unbound = store.run(Work::new(TAKE, &[1])).await;
        assert!(
            matches!(failed(&unbound), (0, PostgresError::Server(_))),
            "{unbound:?}"
        );
        let typed = "INSERT INTO account VALUES ($1::text::bigint, 0)";
        let typed = store.run(Work::new(typed, &[1])).await;
        assert!(
            matches!(failed(&typed), (0, PostgresError::Server(_))),
            "{typed:?}"
        );
        for text in ["COMMIT", "/* */ Rollback", "SET lock_timeout = 0", ""] {
            let done = store.run(Work::new(TAKE, &[1, 1]).and(text, &[])).await;
            assert!(
                matches!(failed(&done), (1, PostgresError::NotInTransaction { .. })),
                "{done:?}"
            );
        }
        assert_eq!(
            server
                .number("SELECT sum(balance)::bigint FROM account")
                .await,
            10_000
        );
        store
            .run(Work::new(TAKE, &[1, 1]).expect_rows(1))
            .await
            .unwrap();
        assert_eq!(
            server
                .number("SELECT balance FROM account WHERE id = 1")
                .await,
            99
        );
    });
}

/// A value that panics makes its own operation fail. The threads of the store go on.
#[test]
fn a_value_that_panics_fails_alone() {
    with_each(|server, store| async move {
        let mut panics = Work::new(TAKE, &[1, 1]).and(TAKE, &[2]);
        panics.statements.remove(0);
        panics.panics = true;
        let all = vec![Work::new(TAKE, &[3, 1]), panics, Work::new(TAKE, &[4, 1])];
        for round in 1..=3 {
            let done = store.run_all(all.clone()).await;
            assert!(done[0].is_ok() && done[2].is_ok(), "{done:?}");
            let (0, PostgresError::Panicked { message, .. }) = failed(&done[1]) else {
                panic!("{:?}", done[1]);
            };
            assert_eq!(message, "it is too large");
            let left = server
                .number("SELECT sum(balance)::bigint FROM account")
                .await;
            assert_eq!(left, 10_000 - 2 * round);
        }
    });
}

/// A constraint that is checked at the end of the transaction holds for the statements of one phase together. Of several phases
/// in one commit, only the wrong one fails.
#[test]
fn a_deferred_constraint_is_checked_for_each_phase() {
    with_each(|server, store| async move {
        let (child, parent) = (
            "INSERT INTO child VALUES ($1)",
            "INSERT INTO parent VALUES ($1)",
        );
        let work = |number: i64| match number % 5 {
            0 => Work::new(TAKE, &[1, 1]).and(child, &[number]),
            _ => Work::new(child, &[number]).and(parent, &[number]),
        };
        let done = store.run_all((1..=20).map(work).collect()).await;
        for (number, done) in (1..=20).zip(&done) {
            match number % 5 {
                0 => assert_eq!(code(done), (1, SqlState::FOREIGN_KEY_VIOLATION), "{number}"),
                _ => assert!(done.is_ok(), "{number}: {done:?}"),
            }
        }
        assert_eq!(server.number("SELECT count(*) FROM child").await, 16);
        assert_eq!(
            server
                .number("SELECT balance FROM account WHERE id = 1")
                .await,
            100
        );
    });
}

/// Another client holds a row for long. Only the operation that needs it fails. A warning of a statement is no warning about
/// the commit.
#[test]
fn locks_and_warnings() {
    with_each(|server, store| async move {
        let warns = "CREATE FUNCTION warns() RETURNS int LANGUAGE plpgsql AS \
            $$ BEGIN RAISE WARNING 'a warning'; RETURN 1; END $$";
        server.sql(warns).await;
        let client = server.client().await;
        let locks = "BEGIN; UPDATE account SET balance = 1 WHERE id = 1";
        client.batch_execute(locks).await.unwrap();
        let warned = Work::new(TAKE, &[2, 1]).and("SELECT warns()", &[]);
        let all = vec![Work::new(TAKE, &[1, 1]), Work::new(TAKE, &[3, 1]), warned];
        let done = store.run_all(all).await;
        assert_eq!(code(&done[0]), (0, SqlState::LOCK_NOT_AVAILABLE));
        assert!(done[1].is_ok() && done[2].is_ok(), "{done:?}");
        client.batch_execute("ROLLBACK").await.unwrap();
        store.run(Work::new(TAKE, &[1, 1])).await.unwrap();
        let slow = store.run(Work::new("SELECT pg_sleep(10)", &[])).await;
        assert_eq!(code(&slow), (0, SqlState::QUERY_CANCELED));
        assert_eq!(
            server
                .number("SELECT sum(balance)::bigint FROM account")
                .await,
            9_997
        );
    });
}

/// Another client and an operation lock two rows in different orders. The runtime repeats the transaction that the server ends.
#[test]
fn a_deadlock_is_repeated() {
    with_each(|server, store| async move {
        server
            .sql("ALTER SYSTEM SET deadlock_timeout = '100ms'")
            .await;
        server.sql("SELECT pg_reload_conf()").await;
        let client = server.client().await;
        client
            .batch_execute("SET deadlock_timeout = '10s'")
            .await
            .unwrap();
        client
            .batch_execute("BEGIN; UPDATE account SET balance = 1 WHERE id = 2")
            .await
            .unwrap();
        let work = Work::new(TAKE, &[1, 1]).and(TAKE, &[2, 1]);
        let other = async {
            // The operation has the first row, and waits for the second.
            let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted";
            while server.number(waits).await == 0 {}
            let update = "UPDATE account SET balance = 1 WHERE id = 1; COMMIT";
            client.batch_execute(update).await
        };
        let (done, other) = tokio::join!(store.run(work), other);
        other.unwrap();
        done.unwrap();
        let left = "SELECT sum(balance)::bigint FROM account WHERE id < 3";
        assert_eq!(server.number(left).await, 0);
    });
}

/// The server plans the statement of a commit for its first executions only.
#[test]
fn the_statement_of_a_commit_keeps_its_plan() {
    const SEEN: &str = "INSERT INTO seen SELECT generic_plans, custom_plans FROM pg_prepared_statements \
        WHERE statement ~ 'INSERT INTO fom_(slot_)?log' AND statement !~ 'seen'";
    with_each(|server, store| async move {
        // With other clusters in its statistics, the server finds a plan for given values better.
        let others = "CREATE TABLE seen (kept bigint, planned bigint); \
            INSERT INTO fom_slot (cluster, slot, term, last, passed, notes) \
            SELECT cluster, slot, 0, 0, 0, '' FROM generate_series(1, 20) cluster, generate_series(0, 63) slot; \
            ANALYZE";
        server.sql(others).await;
        for _ in 0..40 {
            store.run(Work::new(SEEN, &[])).await.unwrap();
        }
        let kept = server.number("SELECT max(kept) FROM seen").await;
        let planned = server.number("SELECT max(planned) FROM seen").await;
        assert!((1..=5).contains(&planned) && kept > 0, "{kept} {planned}");
    });
}

/// The connection breaks during transactions with statements, again and again. Each effect is there once.
#[test]
fn lost_answers_repeat_nothing() {
    with_each(|server, store| async move {
        let breaks = async {
            let client = server.client().await;
            let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'";
            let mut killed = 0;
            while killed < 30 {
                killed += client.query_one(kill, &[]).await.unwrap().get::<_, i64>(0);
                tokio::time::sleep(Duration::from_millis(15)).await;
            }
        };
        let works = async {
            let mut done = 0;
            for _ in 0..30 {
                let all = (1..=20)
                    .map(|account| Work::new(TAKE, &[account, 1]))
                    .collect();
                for ended in store.run_all(all).await {
                    ended.unwrap();
                    done += 1;
                }
            }
            done
        };
        let ((), done) = tokio::join!(breaks, works);
        let left = server
            .number("SELECT sum(balance)::bigint FROM account")
            .await;
        assert_eq!(left, 10_000 - done);
    });
}
