//! The commands for a cluster, beside two nodes in the test's process.

#[cfg(feature = "tls")]
#[path = "../../fom-cluster/tests/authority/mod.rs"]
mod authority;

use std::{
    process::{Command, Output},
    time::Duration,
};

use fom_cluster::{Cluster, MemoryEngine, Tcp};
use fom_durable::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The limit of the test, in real time.
const LIMIT: Duration = Duration::from_secs(60);
const SECRET: &str = "correct horse battery staple";

#[derive(Serialize, Deserialize)]
struct Delivery;

#[fom(operation(Delivery))]
enum Delivering {
    #[phase(start, sync, to(There))]
    Drive,
    #[phase(end)]
    There,
}

impl DeliveringTransitions for Delivery {
    fn drive(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Err("the road is closed".into())
    }
}

async fn node(engine: &MemoryEngine, name: &str) -> (Cluster, String) {
    let network = Tcp::bind("127.0.0.1:0").unwrap().secret(SECRET);
    let address = network.local_addr().to_string();
    let builder = Cluster::builder(engine.clone(), name).network(network);
    let joined = builder.slots(4).operation::<Delivery>().join().await;
    (joined.unwrap(), address)
}

/// Runs `fom cluster` beside the runtime of the test.
async fn fom_with(at: &str, secret: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fom"));
    command.arg("cluster").args(arguments);
    command
        .env("FOM_CLUSTER", at)
        .env("FOM_CLUSTER_SECRET", secret);
    let run = tokio::task::spawn_blocking(move || command.output().unwrap());
    run.await.unwrap()
}

async fn fom(at: &str, arguments: &[&str]) -> String {
    let output = fom_with(at, SECRET, arguments).await;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

async fn json(at: &str, arguments: &[&str]) -> Vec<Value> {
    let text = fom(at, &[arguments, &["--json"]].concat()).await;
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

async fn fails(output: Output, status: i32, message: &str) {
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{errors}");
    assert!(errors.contains(message), "{errors}");
    assert_eq!(output.stdout, b"");
}

/// Repeats `status` until it says so.
async fn status_when(at: &str, is_so: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    loop {
        let lines = json(at, &["status"]).await;
        if is_so(&lines) {
            return lines;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// SV-11: the state of a cluster is read from outside, and its nodes are commanded.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_works_with_a_cluster() {
    let test = async {
        let engine = MemoryEngine::new();
        let (a, at) = node(&engine, "a").await;
        let (b, _) = node(&engine, "b").await;
        let at = at.as_str();
        let owned = |lines: &[Value]| lines[2..].iter().all(|slot| slot["owner"].is_string());
        let lines = status_when(at, |lines| lines.len() == 6 && owned(lines)).await;
        assert_eq!(
            (&lines[0]["node"], &lines[1]["node"]),
            (&"a".into(), &"b".into())
        );
        assert_eq!(lines[0]["answers"], true);

        for number in 0..3 {
            let delivery = a.submit(Delivery).key(format!("delivery {number}"));
            let started = delivery.once("one").start().await.unwrap();
            started.await.unwrap().unwrap_err();
        }
        let text = fom(at, &["quarantine"]).await;
        assert_eq!(text.lines().count(), 3);
        let why = " in Drive: it failed: the road is closed; try it again, or discard it";
        assert!(text.lines().all(|line| line.ends_with(why)), "{text}");
        let entries = json(at, &["quarantine"]).await;
        let entry = |at: usize| [&entries[at]["slot"], &entries[at]["id"]].map(Value::to_string);
        let [slot, id] = entry(0);
        let said = fom(at, &["discard", &slot, &id]).await;
        assert_eq!(said, format!("slot {slot}, {id} is removed\n"));
        let again = fom_with(at, SECRET, &["discard", &slot, &id]).await;
        fails(again, 1, "no operation is known by slot").await;
        let [slot, id] = entry(1);
        let said = fom(at, &["retry", &slot, &id]).await;
        assert_eq!(said, format!("slot {slot}, {id} runs again\n"));
        let quarantined = |lines: &[Value]| {
            lines[..2]
                .iter()
                .filter_map(|node| node["quarantined"].as_u64())
                .sum::<u64>()
        };
        // It fails again.
        status_when(at, |lines| quarantined(lines) == 2).await;

        let said = fom(at, &["drain", "a"]).await;
        let told = "a gives its slots up; `fom cluster status` shows how many are left\n";
        assert_eq!(said, told);
        let lines = status_when(at, |lines| lines[0]["slots"] == 0 && owned(lines)).await;
        assert_eq!(
            (&lines[0]["drained"], &lines[1]["slots"]),
            (&true.into(), &4.into())
        );
        assert_eq!(fom(at, &["pin", "3", "a"]).await, "slot 3 is pinned to a\n");
        status_when(at, |lines| lines[5]["owner"] == "a").await;
        let text = fom(at, &["status"]).await;
        let shown: Vec<_> = text.lines().collect();
        assert!(shown[0].starts_with("NODE  ADDRESS"), "{text}");
        assert!(shown[1].ends_with("  drained"), "{text}");
        assert!(shown[3].starts_with("slot 3: a for "), "{text}");
        assert!(shown[3].ends_with("; pinned to a"), "{text}");
        assert_eq!(shown.len(), 4, "{text}");
        assert_eq!(
            fom(at, &["unpin", "3"]).await,
            "slot 3 is pinned to no node\n"
        );
        assert_eq!(fom(at, &["undrain", "a"]).await, "a takes slots again\n");

        let nowhere = fom_with(at, SECRET, &["drain", "c"]).await;
        fails(nowhere, 1, "no node `c` lives; there are a, b").await;
        let stranger = fom_with(at, "another", &["status"]).await;
        fails(stranger, 3, "the other side has another secret").await;
        let none = fom_with("", SECRET, &["status"]).await;
        fails(
            none,
            2,
            "which node? Give its address with `--at HOST:PORT`",
        )
        .await;
        a.leave().await;
        b.leave().await;
    };
    tokio::time::timeout(LIMIT, test).await.unwrap();
}

/// The command shows a certificate of the authority of the cluster, and needs all three files.
#[cfg(feature = "tls")]
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_encrypts() {
    let test = async {
        let authority = authority::Authority::new("cli");
        let file = |name: &str| authority.path(name).display().to_string();
        let files = |name: &str| ["crt", "key"].map(|kind| file(&format!("{name}.{kind}")));
        for name in ["a", "operator"] {
            authority.signs(name, "IP:127.0.0.1");
        }
        let [certificate, key] = files("a");
        let tls = fom_cluster::Tls::read(certificate, key, file("ca.crt")).unwrap();
        let network = Tcp::bind("127.0.0.1:0").unwrap().secret(SECRET).tls(tls);
        let at = network.local_addr().to_string();
        let builder = Cluster::builder(MemoryEngine::new(), "a").network(network);
        let a = builder
            .slots(4)
            .operation::<Delivery>()
            .join()
            .await
            .unwrap();
        let ([certificate, key], ca) = (files("operator"), file("ca.crt"));
        let all = [
            "--certificate",
            &certificate,
            "--key",
            &key,
            "--authority",
            &ca,
        ];
        let text = fom(&at, &[&["status"], &all[..]].concat()).await;
        assert!(text.contains(&at), "{text}");
        let plain = fom_with(&at, SECRET, &["status"]).await;
        fails(plain, 3, "it may use TLS").await;
        let part = fom_with(&at, SECRET, &[&["status"], &all[..4]].concat()).await;
        fails(part, 2, "--authority <FILE>").await;
        let wrong = [&["status"], &all[..4], &["--authority", &key]].concat();
        fails(
            fom_with(&at, SECRET, &wrong).await,
            2,
            "it has no certificate",
        )
        .await;
        a.leave().await;
    };
    tokio::time::timeout(LIMIT, test).await.unwrap();
}
