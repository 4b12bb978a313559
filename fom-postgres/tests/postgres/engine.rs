//! The engine of a cluster.

use std::time::Duration;

use fom_cluster::{
    Slot, conformance,
    engine::{Append, Assignment, Beat, Claim, Engine as _, EngineError, NodeInfo, Settings},
};
use fom_postgres::PostgresEngine;

use crate::{SAFE, journal_of, kit::limited, server::Server};

fn engine_of(server: &Server, cluster: &str) -> PostgresEngine {
    let builder = PostgresEngine::builder(server.config(), cluster);
    builder.allow_no_fsync().allow_one_copy().build().unwrap()
}

/// Joins a cluster with one slot, and claims the slot.
fn joined(server: &Server) -> PostgresEngine {
    let engine = engine_of(server, "orders");
    engine.open(&Settings::new(1)).unwrap();
    let node = NodeInfo::new("a", "");
    let beat = Beat::new("a 1", true, Duration::ZERO, &node);
    assert!(engine.beat(&beat).unwrap().is_member);
    assert_eq!(claim(&engine, 0), 1);
    engine
}

fn claim(engine: &PostgresEngine, seen: u64) -> u64 {
    let claim = Claim::new(Slot(0), seen, "a 1", Duration::ZERO);
    engine.claim(&claim).unwrap().unwrap().term
}

/// Appends bodies with these numbers and lengths.
fn append(
    engine: &PostgresEngine,
    term: u64,
    bodies: &[(u64, usize)],
) -> Result<Vec<bool>, EngineError> {
    let bodies = bodies.iter().map(|(number, length)| {
        let body = vec![*number as u8; *length];
        (*number, body)
    });
    let append = Append::new(Slot(0), term, Duration::ZERO, bodies.collect());
    engine.commit(&[append])
}

fn log(engine: &PostgresEngine) -> Vec<(u64, usize)> {
    let (mut all, mut from) = (Vec::new(), 0);
    loop {
        let page = engine.load(Slot(0), from, u64::MAX).unwrap();
        let Some((last, _)) = page.last() else {
            return all;
        };
        from = last + 1;
        all.extend(page.iter().map(|(number, body)| (*number, body.len())));
    }
}

#[test]
fn the_engine_keeps_the_promises() {
    let Some(server) = Server::start(SAFE) else {
        return;
    };
    let mut clusters = 0;
    conformance::check(|| {
        clusters += 1;
        engine_of(&server, &format!("cluster {clusters}"))
    });
}

/// Bodies that need several statements are one commit all the same.
#[test]
fn the_bodies_of_a_slot_are_kept_all_or_none_however_long() {
    let Some(server) = Server::start(SAFE) else {
        return;
    };
    let engine = joined(&server);
    const LONG: usize = 40 << 20;
    assert_eq!(append(&engine, 1, &[(1, 10)]).unwrap(), [true]);
    let again = append(&engine, 1, &[(2, LONG), (3, LONG), (1, 10)]);
    assert!(
        matches!(again, Err(EngineError::Refused(_))),
        "a number is taken: {again:?}"
    );
    assert_eq!(log(&engine), [(1, 10)]);
    let kept = append(&engine, 1, &[(2, LONG), (3, LONG), (4, 10)]);
    assert_eq!(kept.unwrap(), [true, true, true][..1]);
    assert_eq!(log(&engine), [(1, 10), (2, LONG), (3, LONG), (4, 10)]);
    let late = append(&engine, 0, &[(5, LONG), (6, LONG)]);
    assert_eq!(late.unwrap(), [false], "an earlier term keeps nothing");
    assert_eq!(log(&engine).len(), 4);
}

/// A server that ends leaves a commit open. A claim afterwards says what is in the log.
#[test]
fn after_an_outage_the_engine_goes_on() {
    let Some(mut server) = Server::start(SAFE) else {
        return;
    };
    let engine = joined(&server);
    assert_eq!(append(&engine, 1, &[(1, 10)]).unwrap(), [true]);
    server.kill();
    let failed = append(&engine, 1, &[(2, 10)]);
    assert!(matches!(failed, Err(EngineError::Unknown(_))), "{failed:?}");
    server.run();
    assert_eq!(claim(&engine, 1), 2);
    assert_eq!(append(&engine, 2, &[(2, 10)]).unwrap(), [true]);
    assert_eq!(log(&engine), [(1, 10), (2, 10)]);
}

/// While the server refuses rows, a commit is refused, and keeps nothing.
#[test]
fn a_refused_commit_keeps_nothing() {
    let Some(server) = Server::start(SAFE) else {
        return;
    };
    let engine = joined(&server);
    let sql = |text: &str| {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(server.sql(text));
    };
    sql("ALTER TABLE fom_slot_log ADD CONSTRAINT refused CHECK (false) NOT VALID");
    let refused = append(&engine, 1, &[(1, 10)]);
    assert!(
        matches!(&refused, Err(EngineError::Refused(why)) if why.to_string().contains("refused")),
        "{refused:?}"
    );
    sql("ALTER TABLE fom_slot_log DROP CONSTRAINT refused");
    assert_eq!(append(&engine, 1, &[(1, 10)]).unwrap(), [true]);
    assert_eq!(log(&engine), [(1, 10)]);
}

/// Nodes that start together in an empty database create the tables once.
#[test]
fn nodes_that_start_together_create_the_tables_once() {
    let Some(server) = Server::start(SAFE) else {
        return;
    };
    let engines: Vec<_> = (0..8).map(|_| engine_of(&server, "orders")).collect();
    std::thread::scope(|scope| {
        let opens: Vec<_> = engines
            .iter()
            .map(|engine| scope.spawn(|| engine.open(&Settings::new(3))))
            .collect();
        for open in opens {
            assert_eq!(open.join().unwrap().unwrap(), Settings::new(3));
        }
    });
}

/// PR-09: the tables of an earlier release get what this one needs, and keep what they have.
#[test]
fn tables_of_an_earlier_release_are_changed() {
    let Some(server) = Server::start(SAFE) else {
        return;
    };
    limited(move || async move {
        drop(journal_of(&server, "orders").open().await.unwrap());
        server
            .sql(
                "DROP TABLE fom_cluster, fom_node, fom_slot, fom_slot_log; \
                 UPDATE fom_tables SET version = 1",
            )
            .await;
        let engine = engine_of(&server, "orders");
        assert_eq!(engine.open(&Settings::new(2)).unwrap(), Settings::new(2));
        let number = async |text: &str| server.number(text).await;
        assert_eq!(number("SELECT version::bigint FROM fom_tables").await, 3);
        assert_eq!(number("SELECT count(*) FROM fom_slot").await, 2);
        assert_eq!(number("SELECT count(*) FROM fom_journal").await, 1);
    });
}

/// PR-09: the clusters of the release before this one stay, also while a node of it runs.
#[test]
fn tables_with_a_cluster_of_an_earlier_release_keep_it() {
    let Some(server) = Server::start(SAFE) else {
        return;
    };
    limited(move || async move {
        let before = joined(&server);
        assert_eq!(append(&before, 1, &[(1, 10)]).unwrap(), [true]);
        server
            .sql(
                "ALTER TABLE fom_cluster DROP COLUMN assignment, DROP COLUMN drained, DROP COLUMN pinned, \
                     DROP COLUMN pinned_to; \
                 ALTER TABLE fom_slot DROP COLUMN since, DROP COLUMN holds; \
                 ALTER TABLE fom_node DROP COLUMN reads; \
                 UPDATE fom_tables SET version = 2",
            )
            .await;
        let engine = engine_of(&server, "orders");
        assert_eq!(engine.open(&Settings::new(1)).unwrap(), Settings::new(1));
        let node = NodeInfo::new("b", "");
        let view = engine.beat(&Beat::new("b 1", true, Duration::ZERO, &node));
        let view = view.unwrap();
        assert!(view.is_member);
        let slot = &view.slots[0];
        assert_eq!((slot.term, slot.owner.as_deref()), (1, Some("a 1")));
        assert_eq!(view.assignment, Assignment::default());
        // The node of the earlier release goes on.
        assert_eq!(append(&before, 1, &[(2, 10)]).unwrap(), [true]);
        assert_eq!(log(&engine), [(1, 10), (2, 10)]);
    });
}

/// PR-09: a node refuses tables that are newer than it knows, and writes nothing.
#[test]
fn tables_of_a_later_release_are_refused() {
    let Some(server) = Server::start(SAFE) else {
        return;
    };
    limited(move || async move {
        drop(journal_of(&server, "orders").open().await.unwrap());
        server.sql("UPDATE fom_tables SET version = 4").await;
        let engine = engine_of(&server, "orders");
        let refused = engine.open(&Settings::new(2)).unwrap_err();
        assert!(matches!(refused, EngineError::Refused(_)), "{refused:?}");
        let told = "the tables of fom have version 4, but this release knows versions up to 3";
        assert!(refused.to_string().contains(told), "{refused}");
        assert_eq!(server.number("SELECT count(*) FROM fom_cluster").await, 0);
    });
}

/// A server that may lose what it acknowledges is refused.
#[test]
fn an_unsafe_server_is_refused() {
    let Some(server) = Server::start(SAFE) else {
        return;
    };
    let builder = PostgresEngine::builder(server.config(), "orders");
    let engine = builder.allow_one_copy().build().unwrap();
    let refused = engine.open(&Settings::new(2)).unwrap_err();
    assert!(
        matches!(&refused, EngineError::Refused(why) if why.to_string().contains("set `fsync = on`")),
        "{refused:?}"
    );
}
