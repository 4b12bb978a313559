//! The store keeps the promises of a journal.

use fom_journal::conformance;

use crate::{SAFE, journal_of, server::Server};

/// Opens the journal although another process has it.
fn take(server: &Server, name: &str) -> fom_postgres::PostgresJournal {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        server
            .sql(&format!(
                "CREATE TABLE IF NOT EXISTS taken (name text); DO $$ BEGIN \
                 IF to_regclass('fom_journal') IS NOT NULL THEN \
                 UPDATE fom_journal SET owner = '' WHERE name = '{name}'; END IF; END $$"
            ))
            .await;
        journal_of(server, name).open().await.unwrap()
    })
}

#[test]
fn it_keeps_what_it_acknowledges() {
    let Some(server) = Server::start(SAFE) else {
        return;
    };
    let mut stores = 0;
    conformance::check(|| {
        stores += 1;
        let (server, name) = (&server, format!("store {stores}"));
        move || take(server, &name)
    });
}

/// A process that dies leaves what was acknowledged, and of the rest whole groups.
#[test]
fn a_killed_process_loses_nothing() {
    let Some(server) = Server::start(SAFE) else {
        return;
    };
    let mut stores = 0;
    conformance::check_killed(|| {
        stores += 1;
        let (server, name) = (&server, format!("store {stores}"));
        move || take(server, &name)
    });
}

/// While the server refuses rows, commits fail; afterwards they work, and nothing of the failed ones is there.
#[test]
fn a_server_that_refuses_rows_loses_nothing() {
    let Some(server) = Server::start(SAFE) else {
        return;
    };
    let mut stores = 0;
    conformance::check_failing(|| {
        stores += 1;
        let (server, name) = (&server, format!("store {stores}"));
        let fail = |fails| {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(server.sql(match fails {
                true => "ALTER TABLE fom_log ADD CONSTRAINT refused CHECK (false) NOT VALID",
                false => "ALTER TABLE fom_log DROP CONSTRAINT IF EXISTS refused",
            }));
        };
        (move || take(server, &name), fail)
    });
}
