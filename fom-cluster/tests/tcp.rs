//! A cluster of nodes with real threads and sockets: three nodes, and hostile bytes.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use fom_cluster::{Cluster, ClusterError, MemoryEngine, Operator, Report, Slot, Tcp};
use fom_durable::prelude::*;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

#[derive(Serialize, Deserialize)]
struct Order {
    number: u32,
}

#[derive(Serialize, Deserialize)]
enum News {
    Paid { cents: u32 },
}

#[fom(operation(Order), event(News))]
enum Selling {
    #[phase(start, sync, on(Paid), to(Sent))]
    Wait,
    #[phase(end)]
    Sent { cents: u32 },
}

impl SellingTransitions for Order {
    fn wait(&mut self, _: &mut Cx<'_, News>, event: News) -> Result<SellingAfterWait, BoxError> {
        let News::Paid { cents } = event;
        Ok(SellingAfterWait::Sent { cents })
    }
}

/// Fails until it is declared good.
#[derive(Serialize, Deserialize)]
struct Delivery;

#[fom(operation(Delivery))]
enum Delivering {
    #[phase(start, sync, to(There))]
    Drive,
    #[phase(end)]
    There,
}

static IS_GOOD: AtomicBool = AtomicBool::new(false);

impl DeliveringTransitions for Delivery {
    fn drive(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        match IS_GOOD.load(Ordering::SeqCst) {
            true => Ok(()),
            false => Err("the road is closed".into()),
        }
    }
}

/// The limit of a test, in real time.
const LIMIT: Duration = Duration::from_secs(60);

/// The secret of the nodes.
const SECRET: &[u8] = b"of all nodes";

async fn node(engine: &MemoryEngine, name: &str) -> (Cluster, String) {
    node_with(engine, name, SECRET).await
}

async fn node_with(engine: &MemoryEngine, name: &str, secret: &[u8]) -> (Cluster, String) {
    let network = Tcp::bind("127.0.0.1:0").unwrap().secret(secret);
    let address = network.local_addr().to_string();
    let builder = Cluster::builder(engine.clone(), name).network(network);
    let builder = builder
        .slots(16)
        .operation::<Order>()
        .operation::<Delivery>();
    let joined = builder.join().await;
    (joined.unwrap(), address)
}

/// Waits until the status of a node tells this.
async fn tells(node: &Cluster, what: &str) {
    while !node.status().to_string().contains(what) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn all_owned(nodes: &[&Cluster]) {
    while nodes.iter().map(|node| node.served().len()).sum::<usize>() < 16 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn operations_are_reached_over_sockets_and_move() {
    let test = async {
        let engine = MemoryEngine::new();
        let (a, _) = node(&engine, "a").await;
        let (b, _) = node(&engine, "b").await;
        all_owned(&[&a, &b]).await;
        let mut started = Vec::new();
        for number in 0..40 {
            let submission = a.submit(Order { number }).key(format!("order {number}"));
            started.push(submission.start().await.unwrap());
        }
        // All of them are still there after the first owner of some has left.
        a.leave().await;
        all_owned(&[&b]).await;
        assert!(matches!(
            a.find::<Order>("order 1").await,
            Err(ClusterError::Left)
        ));
        for (number, order) in (0..).zip(started) {
            let paid = News::Paid { cents: number };
            let key = format!("order {number}");
            assert!(b.send::<Order>(&*key, paid, "webhook").await.unwrap());
            let ended = b.outcome::<Order>(order.place().clone()).await.unwrap();
            let SellingEnd::Sent { cents } = ended.unwrap().end;
            assert_eq!(cents, number);
        }
        b.leave().await;
    };
    tokio::time::timeout(LIMIT, test).await.unwrap();
}

/// An operation is cancelled from any node. What has ended is not, and a missing one is an error.
#[tokio::test]
async fn an_operation_is_cancelled_from_any_node() {
    let test = async {
        let engine = MemoryEngine::new();
        let (a, _) = node(&engine, "a").await;
        let (b, _) = node(&engine, "b").await;
        all_owned(&[&a, &b]).await;
        for number in 0..10 {
            let order = a.submit(Order { number }).key(format!("order {number}"));
            let place = order.once("one").start().await.unwrap().place().clone();
            assert!(b.cancel::<Order>(place.clone()).await.unwrap());
            let ended = a.outcome::<Order>(place.clone()).await.unwrap();
            let cause = ended.unwrap_err().cause.to_string();
            assert_eq!(cause, Cause::<BoxError>::Cancelled.to_string());
            assert!(!a.cancel::<Order>(place).await.unwrap(), "it has ended");
        }
        let missing = b.cancel::<Order>("order 99").await.unwrap_err();
        assert!(matches!(missing, ClusterError::Unknown(_)), "{missing}");
        a.leave().await;
        b.leave().await;
    };
    tokio::time::timeout(LIMIT, test).await.unwrap();
}

/// Each node lists the operations that failed on all nodes, and tries them again or removes them.
#[tokio::test]
async fn a_failed_operation_is_tried_again_from_any_node() {
    let test = async {
        let engine = MemoryEngine::new();
        let (a, _) = node(&engine, "a").await;
        let (b, _) = node(&engine, "b").await;
        all_owned(&[&a, &b]).await;
        for number in 0..20 {
            let delivery = a.submit(Delivery).key(format!("delivery {number}"));
            let started = delivery.once("one").start().await.unwrap();
            started.await.unwrap().unwrap_err();
        }
        let (a_operates, b_operates) = (a.operator(), b.operator());
        let all = b_operates.quarantine().await.unwrap();
        assert_eq!(all.len(), 20);
        let first = &all[0];
        assert_eq!(first.operation.as_deref(), Some("Delivery"));
        assert_eq!(first.phase.as_deref(), Some("Drive"));
        let shown = format!(
            "{}, {} Delivery {} in Drive: it failed: the road is closed; try it again, or discard it",
            first.slot,
            first.id,
            first.key.as_ref().unwrap()
        );
        assert_eq!(first.to_string(), shown);
        assert_eq!(a_operates.quarantine().await.unwrap(), all);

        IS_GOOD.store(true, Ordering::SeqCst);
        let (kept, gone) = all.split_at(15);
        for entry in kept {
            b_operates.retry(entry.slot, entry.id).await.unwrap();
            let place = fom_cluster::Place::key(entry.key.clone().unwrap()).with_once("one");
            // The end of the retry replaces the failure.
            while a.outcome::<Delivery>(place.clone()).await.unwrap().is_err() {
                tokio::task::yield_now().await;
            }
        }
        for entry in gone {
            b_operates.discard(entry.slot, entry.id).await.unwrap();
        }
        assert_eq!(a_operates.quarantine().await.unwrap(), []);
        let again = b_operates.retry(first.slot, first.id).await.unwrap_err();
        assert!(matches!(again, ClusterError::Unknown(_)), "{again}");
        a.leave().await;
        b.leave().await;
    };
    tokio::time::timeout(LIMIT, test).await.unwrap();
}

async fn report_when(operator: &Operator, is_so: impl Fn(&Report) -> bool) -> Report {
    loop {
        let report = operator.report().await.unwrap();
        if is_so(&report) {
            return report;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A program that is no node looks into the cluster and changes what its nodes do.
#[tokio::test]
async fn an_operator_looks_and_acts_from_outside() {
    let test = async {
        let engine = MemoryEngine::new();
        let (a, address) = node(&engine, "a").await;
        let (b, _) = node(&engine, "b").await;
        all_owned(&[&a, &b]).await;
        let operator = Operator::connect(&address, SECRET);
        for number in 0..20 {
            let submission = a.submit(Order { number }).key(format!("order {number}"));
            drop(submission.start().await.unwrap());
        }
        let foms = |report: &Report| {
            let loads = report.nodes.iter().map(|node| node.load.as_ref());
            loads
                .map(|load| load.map_or(0, |load| load.foms))
                .sum::<usize>()
        };
        let report = report_when(&operator, |report| foms(report) == 20).await;
        let names: Vec<_> = report.nodes.iter().map(|node| &*node.node.name).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(report.slots.len(), 16);
        assert!(report.slots.iter().all(|slot| slot.owner.is_some()));

        operator.drain("a").await.unwrap();
        let slots_of = |report: &Report, at: usize| report.nodes[at].node.slots;
        let report = report_when(&operator, |report| slots_of(report, 0) == 0).await;
        assert!(report.nodes[0].node.drained);
        report_when(&operator, |report| {
            slots_of(report, 1) == 16 && foms(report) == 20
        })
        .await;
        // From the last slot that it has, and from a node without slots.
        operator.pin(Slot(3), "a").await.unwrap();
        let report = report_when(&operator, |report| slots_of(report, 0) == 1).await;
        let slot = &report.slots[3];
        assert_eq!(
            (slot.owner.as_deref(), slot.pinned.as_deref()),
            (Some("a"), Some("a"))
        );
        let shown = report.to_string();
        assert!(shown.contains("  drained\n"), "{shown}");
        assert!(shown.contains("slot 3: a for "), "{shown}");
        assert!(shown.contains("; pinned to a\n"), "{shown}");

        for (refused, why) in [
            (
                operator.drain("c").await,
                "no node `c` lives; there are a, b",
            ),
            (
                operator.pin(Slot(3), "").await,
                "no node `` lives; there are a, b",
            ),
            (
                operator.pin(Slot(16), "a").await,
                "there is no slot 16; there are slots 0 to 15",
            ),
            (
                operator.unpin(Slot(99)).await,
                "there is no slot 99; there are slots 0 to 15",
            ),
        ] {
            assert_eq!(refused.unwrap_err().to_string(), why);
        }
        operator.unpin(Slot(3)).await.unwrap();
        operator.undrain("a").await.unwrap();
        // It may have left.
        operator.undrain("c").await.unwrap();
        operator.drain("b").await.unwrap();
        b.leave().await;
        let report = report_when(&operator, |report| report.nodes.len() == 1).await;
        assert_eq!(report.drained, ["b"]);
        let shown = report.to_string();
        assert!(
            shown.contains("\nb: drained, and does not live\n"),
            "{shown}"
        );
        let mut slots = report.slots.iter();
        assert!(slots.all(|slot| slot.owner.as_deref() != Some("b")));
        let other = Operator::connect(&address, b"another").report().await;
        let why = other.unwrap_err().to_string();
        assert!(why.contains("the other side has another secret"), "{why}");
        a.leave().await;
    };
    tokio::time::timeout(LIMIT, test).await.unwrap();
}

/// Connects as a node does that has this secret. The other side may refuse it.
fn greeted(address: &str, secret: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let own = [7; 16];
    stream
        .write_all(&[&b"fom-tcp1"[..], &own].concat())
        .unwrap();
    let mut hello = [0; 8 + 16];
    stream.read_exact(&mut hello).unwrap();
    let mut proof = Hmac::<Sha256>::new_from_slice(secret).unwrap();
    proof.update(&[&b"c"[..], &own, &hello[8..]].concat());
    stream.write_all(&proof.finalize().into_bytes()).unwrap();
    let mut theirs = [0; 32];
    stream.read_exact(&mut theirs).unwrap();
    stream
}

/// A node without the secret, or with another one, is refused in both directions, and both learn why.
#[tokio::test]
async fn a_node_without_the_secret_is_refused() {
    let test = async {
        let engine = MemoryEngine::new();
        let (a, address) = node(&engine, "a").await;
        all_owned(&[&a]).await;
        for secret in [&b""[..], b"another"] {
            let (b, _) = node_with(&engine, "b", secret).await;
            let submission = b.submit(Order { number: 1 }).key("order 1");
            let expected =
                format!("a at {address} cannot be called: the other side has another secret");
            tokio::select! {
                asked = submission.start() => panic!("{asked:?}"),
                () = tells(&b, &expected) => {}
            }
            b.leave().await;
        }
        let read = tokio::task::spawn_blocking(move || {
            let mut stream = greeted(&address, b"another");
            let mut read = Vec::new();
            let _ = stream.write_all(&[0; 64]);
            let _ = stream.read_to_end(&mut read);
            read
        });
        assert_eq!(read.await.unwrap(), [], "no frame is read");
        let started = a.submit(Order { number: 1 }).key("order 1").start().await;
        assert!(started.is_ok(), "the node goes on");
        a.leave().await;
    };
    tokio::time::timeout(LIMIT, test).await.unwrap();
}

/// An address that other machines reach needs a secret.
#[tokio::test]
async fn an_open_address_needs_a_secret() {
    let network = Tcp::bind("0.0.0.0:0").unwrap();
    let builder = Cluster::builder(MemoryEngine::new(), "a").network(network);
    let refused = builder.join().await.err().unwrap().to_string();
    assert!(refused.contains("call `Tcp::secret`"), "{refused}");
}

/// Bytes that are no frames end their connection, and nothing else.
#[tokio::test]
async fn hostile_bytes_end_their_connection() {
    let test = async {
        let engine = MemoryEngine::new();
        let (a, address) = node(&engine, "a").await;
        all_owned(&[&a]).await;
        for bytes in [
            &b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n"[..],
            b"fom-tcp1",
            &[0; 200],
        ] {
            let address = address.clone();
            let bytes = bytes.to_vec();
            let read = tokio::task::spawn_blocking(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.set_read_timeout(Some(LIMIT)).unwrap();
                stream.write_all(&bytes).unwrap();
                let mut read = Vec::new();
                // A reset is an end, too.
                let _ = stream.read_to_end(&mut read);
                read
            });
            let read = read.await.unwrap();
            assert!(
                read.is_empty() || read.starts_with(b"fom-tcp1") && read.len() == 8 + 16,
                "only the first bytes come back: {read:?}"
            );
        }
        // A length that is too long, of a side that has the secret.
        let at = address.clone();
        let endless = tokio::task::spawn_blocking(move || {
            let mut stream = greeted(&at, SECRET);
            let mut bytes = 7u64.to_le_bytes().to_vec();
            bytes.extend(u32::MAX.to_le_bytes());
            stream.write_all(&bytes).unwrap();
            let mut read = Vec::new();
            let _ = stream.read_to_end(&mut read);
            read
        });
        assert_eq!(endless.await.unwrap(), [], "the connection ends");
        // A frame with a message that is none is answered.
        let damaged = tokio::task::spawn_blocking(move || {
            let mut stream = greeted(&address, SECRET);
            let mut bytes = 7u64.to_le_bytes().to_vec();
            bytes.extend(3u32.to_le_bytes());
            bytes.extend([1, 0xff, 0xff]);
            stream.write_all(&bytes).unwrap();
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).unwrap();
            let mut content = vec![0; usize::from(answer[8])];
            stream.read_exact(&mut content).unwrap();
            String::from_utf8_lossy(&content).into_owned()
        });
        assert!(damaged.await.unwrap().contains("a message is damaged"));
        let started = a.submit(Order { number: 1 }).key("order 1").start().await;
        assert!(started.is_ok(), "the node goes on");
        a.leave().await;
    };
    tokio::time::timeout(LIMIT, test).await.unwrap();
}
