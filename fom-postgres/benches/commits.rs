//! How much of the rate of one PostgreSQL connection a runtime reaches.
//!
//! ```sh
//! cargo bench -p fom-postgres --features cluster --bench commits -- "host=127.0.0.1 user=postgres"
//! ```
//!
//! The question: operations of six phases, with a record of about 160 bytes each, all steps committed. Beside it, in the
//! same round, the statement of a commit alone, with a batch of the same size. Also the runtime with
//! a key and an operation id for each operation, as a cluster has them, and one node with 64 slots and with one: each operation is
//! submitted, and its end awaited, through the cluster. Prints ratios of each round.

#[path = "../../fom-cluster/benches/load/mod.rs"]
mod load;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use fom_durable::prelude::*;
use fom_postgres::PostgresJournal;
use load::{PHASES, ROUND, work};
use tokio_postgres::{Client, NoTls};

const ROUNDS: usize = 5;

/// Transitions per second, transitions per commit, bytes per commit, and the median of a commit in one operation.
struct Seen {
    rate: f64,
    each: f64,
    bytes: f64,
    median: Duration,
}

/// `named`: each operation has a key and an operation id.
async fn with_fom(
    config: &str,
    name: &str,
    in_flight: usize,
    named: bool,
) -> Result<Seen, BoxError> {
    let journal = PostgresJournal::builder(config, name);
    let journal = journal.allow_one_copy().allow_no_fsync().open().await?;
    let steps = Arc::new(AtomicU64::new(0));
    let builder = Runtime::builder()
        .localities(1)
        .resource(Arc::clone(&steps));
    let runtime = builder.journal_with(journal).build()?;
    let before = runtime.inspect().journal_stats().unwrap_or_default();
    let begun = Instant::now();
    let mut waits = Vec::new();
    let workers = (0..in_flight).map(|worker| {
        let runtime = runtime.clone();
        async move {
            let (mut waits, mut number) = (Vec::new(), 0_u64);
            while begun.elapsed() < ROUND {
                number += 1;
                let since = Instant::now();
                let mut submission = runtime.submit(work());
                if named {
                    let key = (worker as u64, number);
                    submission = submission.key(key).once(key);
                }
                let Ok(work) = submission.start() else {
                    break;
                };
                if work.await.is_err() {
                    break;
                }
                // The begin, and each step, is a commit.
                waits.push(since.elapsed() / (PHASES + 1));
            }
            waits
        }
    });
    let workers: Vec<_> = workers.map(tokio::spawn).collect();
    for worker in workers {
        waits.extend(worker.await?);
    }
    let took = begun.elapsed().as_secs_f64();
    let after = runtime.inspect().journal_stats().unwrap_or_default();
    let commits = (after.syncs - before.syncs) as f64;
    let steps = steps.load(Ordering::Relaxed) as f64;
    waits.sort();
    drop(runtime);
    Ok(Seen {
        rate: steps / took,
        each: steps / commits,
        bytes: (after.written_bytes - before.written_bytes) as f64 / commits,
        median: waits[waits.len() / 2],
    })
}

/// Returns the commits per second of the statement alone, and the median of one, with a body of this size.
async fn raw(client: &Client, name: &str, bytes: usize) -> Result<(f64, Duration), BoxError> {
    let statement = client
        .prepare(
            "WITH own AS (UPDATE fom_journal SET batch = batch + 1, at = clock_timestamp() \
             WHERE name = $1 AND term >= 0 RETURNING name, batch) \
             INSERT INTO fom_log (journal, seq, body) SELECT name, batch, $2 FROM own RETURNING seq",
        )
        .await?;
    client
        .execute(
            "INSERT INTO fom_journal VALUES ($1, 0, '', '', 0, 0, 0, now()) ON CONFLICT DO NOTHING",
            &[&name],
        )
        .await?;
    let body = vec![7_u8; bytes];
    let (begun, mut waits) = (Instant::now(), Vec::new());
    while begun.elapsed() < ROUND {
        let since = Instant::now();
        client.query(&statement, &[&name, &body]).await?;
        waits.push(since.elapsed());
    }
    waits.sort();
    let rate = waits.len() as f64 / begun.elapsed().as_secs_f64();
    client
        .execute("DELETE FROM fom_log WHERE journal = $1", &[&name])
        .await?;
    Ok((rate, waits[waits.len() / 2]))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let config = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
    let Some(config) = config else {
        println!(
            "which server? cargo bench -p fom-postgres --features cluster --bench commits -- \"host=127.0.0.1 user=postgres\""
        );
        return Ok(());
    };
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await?;
    tokio::spawn(connection);
    println!(
        "| in flight | fom: transitions/s | each commit | raw: transitions/s | rate of raw | p50 of a commit, of raw |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    for round in 0..ROUNDS {
        for in_flight in [512, 64, 1] {
            let name = format!("bench {round} {in_flight}");
            let fom = with_fom(&config, &name, in_flight, false).await?;
            let (commits, median) = raw(&client, &name, fom.bytes as usize).await?;
            let raw = commits * fom.each;
            println!(
                "| {in_flight} | {:.0} | {:.0} of {:.0} B | {raw:.0} | {:.2} | {:.2?}, {:.2} |",
                fom.rate,
                fom.each,
                fom.bytes,
                fom.rate / raw,
                fom.median,
                fom.median.as_secs_f64() / median.as_secs_f64()
            );
            let named = with_fom(&config, &format!("{name} named"), in_flight, true).await?;
            println!(
                "with keys and ids: {:.0} transitions/s, {:.2} of raw, {:.2} of the journal",
                named.rate,
                named.rate / raw,
                named.rate / fom.rate
            );
            for slots in [64, 1] {
                let name = format!("{name} {slots}");
                let engine = fom_postgres::PostgresEngine::builder(&*config, name);
                let engine = engine.allow_one_copy().allow_no_fsync().build()?;
                let (rate, commit) = load::with_cluster(engine, in_flight, slots).await?;
                println!(
                    "one node, {slots} slots: {rate:.0} transitions/s, {:.2} of raw, {:.2} of the journal; {commit:.2?} for a \
                         commit, {:.2} of raw",
                    rate / raw,
                    rate / fom.rate,
                    commit.as_secs_f64() / median.as_secs_f64()
                );
            }
        }
    }
    Ok(())
}
