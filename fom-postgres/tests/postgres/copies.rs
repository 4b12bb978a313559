//! A server with a synchronous standby: what is acknowledged is on both.

use std::time::Duration;

use crate::{
    journal_of,
    kit::limited,
    server::Server,
    takeover::{Effects, Process},
};

const ONE_STANDBY: &[&str] = &["fsync = off", "synchronous_standby_names = 'ANY 1 (copy)'"];

/// The primary dies, and its standby is promoted. The process goes on there, and no step is lost or repeated.
#[test]
fn the_standby_of_the_server_has_all_that_was_acknowledged() {
    let Some(mut primary) = Server::start(ONE_STANDBY) else {
        return;
    };
    let copy = primary.standby("copy");
    let effects = Effects::new("promoted");
    let child = Process::start("only", &primary.config_with(&copy), &effects.0);
    child.says("owns");
    effects.wait(300);
    primary.kill();
    copy.promote();
    limited(move || async move {
        // It has no standby itself.
        copy.sql("ALTER SYSTEM SET synchronous_standby_names = ''")
            .await;
        copy.sql("SELECT pg_reload_conf()").await;
        child.says("done");
        effects.check_once();
        child.end();
        drop(primary);
    });
}

/// The standby of the server is away for longer than any limit. The owner waits for it with few connections.
#[test]
fn a_standby_that_is_away_for_long_is_waited_for() {
    let Some(primary) = Server::start(ONE_STANDBY) else {
        return;
    };
    limited(move || async move {
        let mut copy = primary.standby("copy");
        let effects = Effects::new("away");
        let child = Process::start("only", &primary.config(), &effects.0);
        child.says("owns");
        effects.wait(300);
        copy.kill();
        tokio::time::sleep(Duration::from_secs(16)).await;
        let clients = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'";
        let clients = primary.number(clients).await;
        assert!(clients <= 8, "{clients} connections");
        copy.run();
        child.says("done");
        effects.check_once();
        child.end();
    });
}

/// Cancels waits for the standby of the server. Returns when this many were cancelled.
async fn cancel_waits(primary: &Server, most: i64, mut each: impl FnMut()) {
    let client = primary.client().await;
    let mut cancelled = 0;
    while cancelled < most {
        let cancel = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        let one: i64 = client.query_one(cancel, &[]).await.unwrap().get(0);
        cancelled += one;
        if one > 0 {
            each();
        }
    }
}

/// A claim that only one server has is no claim.
#[test]
fn a_cancelled_wait_for_the_standby_is_no_claim() {
    let Some(primary) = Server::start(ONE_STANDBY) else {
        return;
    };
    limited(move || async move {
        let mut copy = primary.standby("copy");
        drop(journal_of(&primary, "orders").open().await.unwrap());
        copy.kill();
        let opening = tokio::spawn(journal_of(&primary, "orders").open());
        cancel_waits(&primary, 3, || {}).await;
        assert!(!opening.is_finished());
        copy.run();
        drop(opening.await.unwrap().unwrap());
    });
}

/// An administrator cancels the wait for the standby: the server then answers with success and a warning. The transition
/// is on one server only, so it is not acknowledged.
#[test]
fn a_cancelled_wait_for_the_standby_is_no_commit() {
    let Some(primary) = Server::start(ONE_STANDBY) else {
        return;
    };
    limited(move || async move {
        let mut copy = primary.standby("copy");
        let effects = Effects::new("cancelled");
        let child = Process::start("only", &primary.config(), &effects.0);
        child.says("owns");
        effects.wait(300);
        copy.kill();
        let mut seen = usize::MAX;
        cancel_waits(&primary, 5, || {
            let now = effects.read().len();
            assert!(now <= seen, "a step was acknowledged that one server has");
            seen = now;
        })
        .await;
        copy.run();
        child.says("done");
        effects.check_once();
        child.end();
    });
}
