//! Three processes that are nodes of one cluster. Nodes and the server are killed.

use std::{
    collections::{BTreeMap, HashMap},
    env, fs,
    io::Write,
    path::Path,
    time::Duration,
};

use fom_cluster::{Cluster, Tcp};
use fom_durable::prelude::*;
use fom_postgres::{PostgresEngine, Sql};
use serde::{Deserialize, Serialize};

use crate::{
    SAFE,
    server::Server,
    takeover::{Effects, NOTE, Process, check_ledger, create_ledger, run},
};

/// Set in a process that is a node.
const CHILD: &str = "FOM_POSTGRES_CLUSTER_CHILD";
const OPERATIONS: u32 = 60;
const STEPS: u32 = 40;
const SLOTS: u16 = 16;

/// Writes a line for each step: an effect outside of the journal.
#[derive(Serialize, Deserialize)]
struct Trip {
    number: u32,
    step: u32,
}

#[fom(operation(Trip))]
enum Travelling {
    #[phase(start, to(Step, Done))]
    Step,
    #[phase(end)]
    Done,
}

impl TravellingTransitions for Trip {
    async fn step(&mut self, cx: &mut Cx<'_>) -> Result<TravellingAfterStep, BoxError> {
        let term = cx.term().ok_or("a journal with a lease")?;
        let line = format!("{} {} {term} {}\n", self.number, self.step, cx.step_key());
        // One write, so that lines of two processes do not mix.
        cx.resource::<fs::File>().write_all(line.as_bytes())?;
        let (number, step) = (i64::from(self.number), i64::from(self.step));
        cx.commit_with(Sql::new(NOTE).bind(number).bind(step))?;
        cx.sleep(Duration::from_millis(100)).await;
        self.step += 1;
        Ok(match self.step {
            STEPS => TravellingAfterStep::Done,
            _ => TravellingAfterStep::Step,
        })
    }
}

/// The program of a node. Prints a line when something has happened.
async fn program(config: &str, effects: &Path) -> Result<(), BoxError> {
    let engine = PostgresEngine::builder(config, "trips");
    let engine = engine.allow_no_fsync().allow_one_copy().build()?;
    let effects = effects.to_owned();
    let cluster = Cluster::builder(engine, env::var("FOM_POSTGRES_NODE")?)
        .network(Tcp::bind("127.0.0.1:0")?)
        .slots(SLOTS)
        .operation::<Trip>()
        .runtime(move |builder| {
            let open = fs::File::options().append(true).create(true).open(&effects);
            match open {
                Ok(effects) => builder.resource(effects),
                Err(_) => builder,
            }
        })
        .join()
        .await?;
    println!("joined");
    let mut ends = Vec::new();
    for number in 0..OPERATIONS {
        let trip = Trip { number, step: 0 };
        let submission = cluster.submit(trip).key(number).once(number);
        ends.push(submission.start().await?);
    }
    println!("submitted");
    for end in ends {
        end.await?.map_err(|failure| failure.to_string())?;
    }
    println!("done");
    // Until the test closes the input.
    tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
    cluster.leave().await;
    println!("released");
    Ok(())
}

/// What the children run.
#[test]
fn child() {
    let Ok(child) = env::var(CHILD) else {
        return;
    };
    let (config, effects) = child.split_once('|').unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if let Err(error) = runtime.block_on(program(config, Path::new(effects))) {
        println!("fails: {error}");
    }
}

/// PR-06, KY-20, PR-07: each node submits each operation, and it runs once. A node is killed, then the server, then another
/// node. Each operation makes each step in order, and a repeated step has its key. No process begins a step with an earlier term
/// than one before it. What the steps wrote to a table of their own is there once.
#[test]
fn operations_go_on_when_nodes_and_the_server_are_killed() {
    let Some(mut server) = Server::start(SAFE) else {
        return;
    };
    let effects = Effects::new("cluster");
    run(create_ledger(&server));
    let config = server.config();
    let start = |name: &str| {
        let process = Process::start_child(CHILD, "nodes::child", name, &config, &effects.0);
        process.says("joined");
        process
    };
    let (a, b, c) = (start("a"), start("b"), start("c"));
    for node in [&a, &b, &c] {
        node.says("submitted");
    }
    let all = (OPERATIONS * STEPS) as usize;
    effects.wait(all / 8);
    a.signal("-KILL");
    effects.wait(all / 4);
    server.kill();
    std::thread::sleep(Duration::from_secs(1));
    server.run();
    effects.wait(all / 2);
    b.signal("-KILL");
    let b = start("b");
    for node in [b, c] {
        node.says("done");
        node.end();
    }
    check(&effects);
    run(check_ledger(&server, OPERATIONS, STEPS));
}

fn check(effects: &Effects) {
    let mut steps: BTreeMap<u32, u32> = BTreeMap::new();
    let (mut terms, mut keys) = (HashMap::new(), HashMap::new());
    let mut repeated = 0;
    for effect in effects.read() {
        let (number, step) = (effect.number, effect.step);
        let next = steps.entry(number).or_default();
        assert!(step <= *next, "trip {number} has left out step {next}");
        repeated += u32::from(step < *next);
        *next = (*next).max(step + 1);
        let first = keys
            .entry((number, step))
            .or_insert_with(|| effect.key.clone());
        assert_eq!(*first, effect.key, "a repeated step has the same key");
        let term = terms.entry(number).or_insert(effect.term);
        assert!(*term <= effect.term, "a former owner has begun a step");
        *term = effect.term;
    }
    assert_eq!(steps.len(), OPERATIONS as usize);
    assert!(steps.values().all(|steps| *steps == STEPS), "{steps:?}");
    // Each operation repeats the step that it was in: once for each owner that is killed.
    assert!(repeated <= 3 * OPERATIONS, "{repeated} steps were repeated");
}
