//! Encrypted connections between nodes, with the feature `tls`.

mod authority;

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use authority::Authority;
use fom_cluster::{Cluster, MemoryEngine, Operator, Tcp, Tls};
use fom_durable::prelude::*;
use serde::{Deserialize, Serialize};

/// The limit of a test, in real time.
const LIMIT: Duration = Duration::from_secs(60);
const SECRET: &[u8] = b"of all nodes";
/// What no one may read on the way.
const TEXT: &str = "what the customer has bought";

#[derive(Serialize, Deserialize)]
struct Order {
    text: String,
}

#[fom(operation(Order))]
enum Selling {
    #[phase(start, sync, to(Sent))]
    Charge,
    #[phase(end)]
    Sent,
}

impl SellingTransitions for Order {
    fn charge(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// Reads a certificate that the authority signs for these hosts.
fn tls_of(authority: &Authority, name: &str, hosts: &str) -> Tls {
    authority.signs(name, hosts);
    let path = |kind: &str| authority.path(&format!("{name}.{kind}"));
    Tls::read(path("crt"), path("key"), authority.path("ca.crt")).unwrap()
}

async fn join(engine: &MemoryEngine, name: &str, network: Tcp) -> Cluster {
    let builder = Cluster::builder(engine.clone(), name).network(network.secret(SECRET));
    builder.slots(4).operation::<Order>().join().await.unwrap()
}

fn bind() -> Tcp {
    Tcp::bind("127.0.0.1:0").unwrap()
}

/// Passes connections on to another address. Returns its own address, and what it has seen.
fn relay(to: String) -> (String, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let seen = Arc::<Mutex<Vec<u8>>>::default();
    let sees = Arc::clone(&seen);
    thread::spawn(move || {
        while let Ok((from, _)) = listener.accept() {
            let there = TcpStream::connect(&to).unwrap();
            let ways = [(&from, &there), (&there, &from)];
            for (one, other) in ways {
                let (one, other) = (one.try_clone().unwrap(), other.try_clone().unwrap());
                let sees = Arc::clone(&sees);
                thread::spawn(move || pass_on(one, other, &sees));
            }
        }
    });
    (address, seen)
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, sees: &Mutex<Vec<u8>>) {
    let mut bytes = [0; 4096];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        sees.lock().unwrap().extend(&bytes[..length]);
        if to.write_all(&bytes[..length]).is_err() {
            return;
        }
    }
}

/// Submits operations of all slots at a node that must call the other one. Returns whether a relay between them has read one.
async fn is_read(tls: impl Fn(&str) -> Option<Tls>) -> bool {
    let with = |network: Tcp, name: &str| match tls(name) {
        Some(tls) => network.tls(tls),
        None => network,
    };
    let engine = MemoryEngine::new();
    let network = bind();
    let (address, seen) = relay(network.local_addr().to_string());
    let a = join(&engine, "a", with(network, "a").advertise(&address)).await;
    let b = join(&engine, "b", with(bind(), "b")).await;
    while a.served().is_empty() || a.served().len() + b.served().len() < 4 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for number in 0..20 {
        let order = Order {
            text: TEXT.to_owned(),
        };
        let submission = b.submit(order).key(format!("order {number}"));
        submission.start().await.unwrap().await.unwrap().unwrap();
    }
    let operator = Operator::connect(&address, SECRET);
    let operator = match tls("operator") {
        Some(tls) => operator.tls(tls),
        None => operator,
    };
    while operator.report().await.unwrap().nodes.len() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    b.leave().await;
    a.leave().await;
    let seen = seen.lock().unwrap();
    assert!(
        seen.len() > 20 * TEXT.len(),
        "the calls went past the relay"
    );
    seen.windows(TEXT.len()).any(|part| part == TEXT.as_bytes())
}

#[tokio::test]
async fn calls_are_encrypted() {
    let test = async {
        let authority = Authority::new("encrypted");
        let tls = |name: &str| Some(tls_of(&authority, name, "IP:127.0.0.1"));
        assert!(!is_read(tls).await);
        assert!(is_read(|_| None).await, "without TLS, the relay can read");
    };
    tokio::time::timeout(LIMIT, test).await.unwrap();
}

/// A side without a certificate of the authority, or with one for another host, is refused. Both the status of a node and an operator
/// say why.
#[tokio::test]
async fn other_certificates_are_refused() {
    let test = async {
        let (ours, others) = (Authority::new("ours"), Authority::new("others"));
        let engine = MemoryEngine::new();
        let network = bind();
        let address = network.local_addr().to_string();
        let a = join(
            &engine,
            "a",
            network.tls(tls_of(&ours, "a", "IP:127.0.0.1")),
        )
        .await;
        while a.served().len() < 4 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let strangers = [
            (
                Some(tls_of(&others, "b", "IP:127.0.0.1")),
                "invalid peer certificate: UnknownIssuer",
            ),
            (None, "the other side ends the connection; it may use TLS"),
        ];
        for (tls, why) in strangers {
            let operator = Operator::connect(&address, SECRET);
            let network = match tls.clone() {
                Some(tls) => bind().tls(tls),
                None => bind(),
            };
            let operator = match tls {
                Some(tls) => operator.tls(tls),
                None => operator,
            };
            let told = operator.report().await.unwrap_err().to_string();
            assert!(told.contains(why), "{told}");
            let b = join(&engine, "b", network).await;
            let order = Order {
                text: TEXT.to_owned(),
            };
            let submission = b.submit(order).key("order 1");
            let tells = async {
                while !b.status().to_string().contains(why) {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            tokio::select! {
                asked = submission.start() => panic!("{asked:?}"),
                () = tells => {}
            }
            b.leave().await;
        }
        // Its own side is right: only the host is another one.
        let moved = tls_of(&ours, "moved", "DNS:elsewhere");
        let network = bind().tls(moved);
        let elsewhere = network.local_addr().to_string();
        let b = join(&engine, "b", network).await;
        let operator =
            Operator::connect(&elsewhere, SECRET).tls(tls_of(&ours, "operator", "IP:127.0.0.1"));
        let told = operator.report().await.unwrap_err().to_string();
        assert!(
            told.contains("certificate not valid for name \"127.0.0.1\""),
            "{told}"
        );
        assert!(
            told.contains("give all nodes certificates of one authority"),
            "{told}"
        );
        b.leave().await;
        a.leave().await;
    };
    tokio::time::timeout(LIMIT, test).await.unwrap();
}

/// A node that does not use TLS says so to one that does.
#[tokio::test]
async fn a_node_without_tls_is_told() {
    let authority = Authority::new("plain");
    let engine = MemoryEngine::new();
    let network = bind();
    let address = network.local_addr().to_string();
    let a = join(&engine, "a", network).await;
    let operator = Operator::connect(&address, SECRET).tls(tls_of(&authority, "o", "IP:127.0.0.1"));
    let told = operator.report().await.unwrap_err().to_string();
    assert!(told.contains("TLS: "), "{told}");
    a.leave().await;
}

#[test]
fn files_without_a_certificate_are_an_error() {
    let authority = Authority::new("files");
    authority.signs("a", "IP:127.0.0.1");
    authority.signs("b", "IP:127.0.0.1");
    let path = |name: &str| authority.path(name);
    let fails = |certificate: &Path, key: &Path, root: &Path, file: &str, why: &str| {
        let error = Tls::read(certificate, key, root).unwrap_err().to_string();
        assert!(error.contains(file) && error.contains(why), "{error}");
    };
    let (a, key, root) = (path("a.crt"), path("a.key"), path("ca.crt"));
    fails(&path("none"), &key, &root, "none", "No such file");
    fails(
        &path("a.ext"),
        &key,
        &root,
        "a.ext",
        "it has no certificate",
    );
    fails(&a, &path("a.crt"), &root, "a.crt", "no items found");
    fails(&a, &path("b.key"), &root, "a.crt", "KeyMismatch");
    fails(&a, &key, &path("a.key"), "a.key", "it has no certificate");
    Tls::read(a, key, root).unwrap();
}
