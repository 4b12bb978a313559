//! What a row of the application costs that is committed with each transition.
//!
//! ```sh
//! cargo bench -p fom-postgres --bench rows -- "host=127.0.0.1 user=postgres"
//! ```
//!
//! The question: operations of six phases, all steps committed. Each phase writes no row; a row with `commit_with`; or a row on a
//! connection of its own, which it awaits: the way without `commit_with`, where a crash can repeat the row. The three ways are
//! measured in each round, and the ratios are those of the round.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use fom_durable::prelude::*;
use fom_postgres::{PostgresJournal, Sql};
use serde::{Deserialize, Serialize};
use tokio_postgres::{Client, NoTls};

const ROUNDS: usize = 3;
const ROUND: Duration = Duration::from_secs(3);
const PHASES: i64 = 6;
const INSERT: &str = "INSERT INTO fom_bench_row (operation, step) VALUES ($1, $2)";
/// The connections of the phases that write their rows themselves.
const CONNECTIONS: usize = 8;

#[derive(Clone, Copy, Debug)]
enum Way {
    None,
    CommitWith,
    Own,
}

/// The connections of the phases.
#[derive(Default)]
struct Own {
    clients: Vec<(Client, tokio_postgres::Statement)>,
    next: AtomicUsize,
}

struct Bench {
    way: Way,
    steps: AtomicU64,
    own: Own,
}

#[derive(Serialize, Deserialize)]
struct Work {
    number: i64,
    step: i64,
}

#[fom(operation(Work))]
enum Working {
    #[phase(start, to(Step, Done))]
    Step,
    #[phase(end)]
    Done,
}

impl WorkingTransitions for Work {
    async fn step(&mut self, cx: &mut Cx<'_>) -> Result<WorkingAfterStep, BoxError> {
        let bench = Arc::clone(cx.resource::<Arc<Bench>>());
        match bench.way {
            Way::None => {}
            Way::CommitWith => {
                cx.commit_with(Sql::new(INSERT).bind(self.number).bind(self.step))?
            }
            Way::Own => {
                let next = bench.own.next.fetch_add(1, Ordering::Relaxed);
                let (client, insert) = &bench.own.clients[next % CONNECTIONS];
                client.execute(insert, &[&self.number, &self.step]).await?;
            }
        }
        bench.steps.fetch_add(1, Ordering::Relaxed);
        self.step += 1;
        Ok(match self.step {
            PHASES => WorkingAfterStep::Done,
            _ => WorkingAfterStep::Step,
        })
    }
}

async fn connect(config: &str) -> Result<Client, BoxError> {
    let (client, connection) = tokio_postgres::connect(config, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Returns the transitions per second.
async fn measure(config: &str, name: &str, way: Way, in_flight: usize) -> Result<f64, BoxError> {
    let mut own = Own::default();
    for _ in 0..CONNECTIONS {
        let client = connect(config).await?;
        let insert = client.prepare(INSERT).await?;
        own.clients.push((client, insert));
    }
    let bench = Arc::new(Bench {
        way,
        steps: AtomicU64::new(0),
        own,
    });
    let journal = PostgresJournal::builder(config, name);
    let journal = journal.allow_one_copy().allow_no_fsync().open().await?;
    let builder = Runtime::builder()
        .localities(1)
        .resource(Arc::clone(&bench));
    let runtime = builder.journal_with(journal).build()?;
    let begun = Instant::now();
    let workers = (0..in_flight).map(|worker| {
        let runtime = runtime.clone();
        async move {
            let mut number = worker as i64;
            while begun.elapsed() < ROUND {
                let Ok(work) = runtime.submit(Work { number, step: 0 }).start() else {
                    return Err("a submission was refused");
                };
                work.await.map_err(|_| "an operation has failed")?;
                number += in_flight as i64;
            }
            Ok(())
        }
    });
    let workers: Vec<_> = workers.map(tokio::spawn).collect();
    for worker in workers {
        worker.await??;
    }
    Ok(bench.steps.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let config = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
    let Some(config) = config else {
        println!(
            "which server? cargo bench -p fom-postgres --bench rows -- \"host=127.0.0.1 user=postgres\""
        );
        return Ok(());
    };
    let client = connect(&config).await?;
    println!(
        "| in flight | no row: transitions/s | `commit_with` | own connection | of no row | of own connection |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    for round in 0..ROUNDS {
        for in_flight in [512, 64, 1] {
            let table = "DROP TABLE IF EXISTS fom_bench_row; \
                CREATE TABLE fom_bench_row (operation bigint, step bigint)";
            client.batch_execute(table).await?;
            let mut rates = Vec::new();
            for way in [Way::None, Way::CommitWith, Way::Own] {
                let name = format!("rows {round} {in_flight} {way:?}");
                rates.push(measure(&config, &name, way, in_flight).await?);
            }
            println!(
                "| {in_flight} | {:.0} | {:.0} | {:.0} | {:.2} | {:.2} |",
                rates[0],
                rates[1],
                rates[2],
                rates[1] / rates[0],
                rates[1] / rates[2]
            );
        }
    }
    client.batch_execute("DROP TABLE fom_bench_row").await?;
    Ok(())
}
