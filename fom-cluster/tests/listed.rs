//! The cluster among the parts of a runtime, as an inspector shows it.

use std::time::Duration;

use fom_cluster::{Cluster, MemoryEngine, Slot, Tcp};
use fom_runtime::{Runtime, observe::PartInfo};
use serde_json::{Value, json};

/// The time limit of a test.
const LIMIT: Duration = Duration::from_secs(60);

/// Waits until the listing is as a test wants it.
async fn until(runtime: &Runtime, holds: impl Fn(&Value) -> bool) -> (PartInfo, Value) {
    let listed = async {
        loop {
            let parts = runtime.inspect().parts().parts;
            if let Some(part) = parts.into_iter().find(|part| part.kind == "cluster") {
                let value = serde_json::to_value(&part).unwrap()["counters"].take();
                if !part.busy && holds(&value) {
                    return (part, value);
                }
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, listed).await.expect("in time")
}

/// SV-11: the listing has the nodes and the slots, and leaves with the node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_listed_among_the_parts_of_a_runtime() {
    let engine = MemoryEngine::new();
    let join = async |name: &str| {
        let builder = Cluster::builder(engine.clone(), name).slots(2);
        let builder = builder.network(Tcp::bind("127.0.0.1:0").unwrap());
        builder.join().await.unwrap()
    };
    let runtime = Runtime::builder().localities(1).build().unwrap();
    let a = join("a").await;
    a.list_in(&runtime);
    let is_owned = |value: &Value| value["slots_without_owner"] == 0;
    let (part, value) = until(&runtime, is_owned).await;
    assert_eq!(part.name, "the cluster, seen by a");
    assert_eq!(part.queued, Some(0));
    let slots = value["slots"].as_array().unwrap();
    assert_eq!(slots.len(), 2);
    assert_eq!(slots[1]["slot"], 1);
    assert_eq!(slots[1]["owner"], "a");
    assert_eq!(slots[1]["term"], 1);

    let b = join("b").await;
    b.operator().pin(Slot(0), "b").await.unwrap();
    let (_, value) = until(&runtime, |value| value["slots"][0]["pinned_to"] == "b").await;
    // It moves when the members have been the same for ten seconds.
    assert_eq!(value["slots"][0]["owner"], "a");
    assert_eq!(value["slots"][0]["moves_to"], "b");
    let node = &value["nodes"][1];
    let told = json!({
        "node": "b",
        "address": node["address"],
        "slots": node["slots"],
        "foms": 0,
        "letters": 0,
        "letter_age": 0.0,
        "quarantined": 0,
    });
    assert_eq!(node, &told);
    assert_eq!(value.get("troubles"), None);

    a.leave().await;
    b.leave().await;
    drop(a);
    let parts = runtime.inspect().parts().parts;
    assert!(parts.iter().all(|part| part.kind != "cluster"));
}
