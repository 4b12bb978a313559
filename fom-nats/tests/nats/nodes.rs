//! Nodes of one cluster on three servers, which are killed one after the other.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use fom_cluster::{Cluster, Place, Tcp};
use fom_durable::prelude::*;
use fom_nats::NatsEngine;
use serde::{Deserialize, Serialize};

use crate::{SAFE, server::Servers};

const OPERATIONS: u32 = 40;
const STEPS: u32 = 60;
/// The longest time of the test.
const LIMIT: Duration = Duration::from_secs(120);

/// What the steps have done: an effect outside of the engine.
#[derive(Clone, Default)]
struct Effects(Arc<Mutex<Vec<(u32, u32, u64)>>>);

impl Effects {
    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    async fn wait(&self, count: usize) {
        while self.count() < count {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

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
        let effects = cx.resource::<Effects>();
        effects
            .0
            .lock()
            .unwrap()
            .push((self.number, self.step, term));
        cx.sleep(Duration::from_millis(100)).await;
        self.step += 1;
        Ok(match self.step {
            STEPS => TravellingAfterStep::Done,
            _ => TravellingAfterStep::Step,
        })
    }
}

fn engine(servers: &Servers, cluster: &str) -> NatsEngine {
    let engine = NatsEngine::builder(servers.urls(), servers.monitors(), cluster);
    engine.build().unwrap()
}

async fn join(servers: &Servers, cluster: &str, name: &str, effects: &Effects) -> Cluster {
    let effects = effects.clone();
    let builder = Cluster::builder(engine(servers, cluster), name)
        .network(Tcp::bind("127.0.0.1:0").unwrap())
        .slots(8)
        .operation::<Trip>()
        .runtime(move |builder| builder.resource(effects.clone()));
    builder.join().await.unwrap()
}

/// PR-06, KY-20, PR-07: each node submits each operation, and it runs once, while one server after the other is killed and a node
/// leaves. Each operation makes each step in order, in terms that never go back.
#[test]
fn operations_go_on_when_servers_are_killed() {
    let Some(mut servers) = Servers::start(3, SAFE) else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let program = async {
        let effects = Effects::default();
        let mut nodes = Vec::new();
        for name in ["a", "b", "c"] {
            nodes.push(join(&servers, "trips", name, &effects).await);
        }
        let mut ends = Vec::new();
        for (at, node) in nodes.iter().enumerate() {
            for number in 0..OPERATIONS {
                let trip = Trip { number, step: 0 };
                let submission = node.submit(trip).key(number).once(number);
                let started = submission.start().await.unwrap();
                // The last one leaves.
                if at < 2 {
                    ends.push(started);
                }
            }
        }
        let all = (OPERATIONS * STEPS) as usize;
        for server in 0..3 {
            effects.wait(all * (server + 1) / 5).await;
            servers.kill(server);
            tokio::time::sleep(Duration::from_millis(500)).await;
            servers.run(server);
            servers.wait(server);
        }
        let half = servers.folder().join("half");
        nodes[0].export(&half).await.unwrap();
        nodes.remove(2).leave().await;
        for end in ends {
            assert_eq!(end.await.unwrap().unwrap().operation.step, STEPS);
        }
        for node in nodes {
            node.leave().await;
        }
        check(&effects);

        // What was under way at the moment of the export ends in another cluster, too.
        Cluster::import(engine(&servers, "again"), half)
            .await
            .unwrap();
        let node = join(&servers, "again", "d", &Effects::default()).await;
        for number in 0..OPERATIONS {
            let place = Place::key(number).with_once(number);
            let ended = node.outcome::<Trip>(place).await.unwrap().unwrap();
            assert_eq!(ended.operation.step, STEPS);
        }
        node.leave().await;
    };
    let done = runtime.block_on(async { tokio::time::timeout(LIMIT, program).await });
    done.expect("the operations end in time");
}

fn check(effects: &Effects) {
    let mut next: BTreeMap<u32, (u32, u64)> = BTreeMap::new();
    let mut repeated = 0;
    for (number, step, term) in effects.0.lock().unwrap().iter().copied() {
        let (expected, before) = next.entry(number).or_default();
        assert!(step <= *expected, "trip {number} left out step {expected}");
        assert!(term >= *before, "a former owner has begun a step");
        repeated += u32::from(step < *expected);
        (*expected, *before) = ((*expected).max(step + 1), term);
    }
    assert_eq!(next.len(), OPERATIONS as usize);
    assert!(next.values().all(|(steps, _)| *steps == STEPS), "{next:?}");
    // Only the end of an owner repeats a step.
    assert!(repeated <= 4 * OPERATIONS, "{repeated} steps were repeated");
}
