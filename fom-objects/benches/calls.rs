//! What does a call of an object cost: of an object of this process, of this node, of another node, and a request over TCP alone?
//!
//! `cargo bench -p fom-objects --bench calls`. Both nodes are in this process, and their connection is real. The answers of each round come
//! in one run, one after the other.

use std::time::{Duration, Instant};

use fom_cluster::{Cluster, MemoryEngine, Place, Tcp};
use fom_objects::{ObjectCx, ObjectsBuilderExt as _, ObjectsExt as _};
use fom_patterns::prelude::*;
use futures::{StreamExt as _, stream};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

const ROUNDS: usize = 5;
const CALLS: u64 = 20_000;

struct Adder(u64);

#[active(remote)]
impl Adder {
    pub(crate) fn add(&mut self, number: u64) -> u64 {
        self.0 += number;
        self.0
    }
}

async fn join(engine: &MemoryEngine, name: &str) -> Cluster {
    let builder = Cluster::builder(engine.clone(), name)
        .slots(8)
        .network(Tcp::bind("127.0.0.1:0").expect("a port"));
    let make = async |_: ObjectCx| Ok::<_, BoxError>(Adder(0).activation());
    builder.objects(make).join().await.expect("a member")
}

/// Returns the time of a call, with so many under way.
async fn calls(adder: &AdderProxy, in_flight: usize) -> Duration {
    let begun = Instant::now();
    let calls = stream::iter(0..CALLS).map(|number| adder.add(number));
    let answers = calls.buffer_unordered(in_flight);
    let answers = answers.fold(0, async |count, answer| {
        answer.expect("an answer");
        count + 1
    });
    assert_eq!(answers.await, CALLS);
    begun.elapsed() / CALLS as u32
}

/// Returns the time of a request of 64 bytes and its answer, one after the other.
async fn requests(stream: &mut TcpStream) -> Duration {
    let begun = Instant::now();
    let mut message = [7; 64];
    for _ in 0..CALLS {
        stream.write_all(&message).await.expect("a connection");
        stream.read_exact(&mut message).await.expect("an answer");
    }
    begun.elapsed() / CALLS as u32
}

/// Answers requests, on a thread of its own as the nodes do.
fn serve(listener: std::net::TcpListener) {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).expect("a listener");
            let (mut stream, _) = listener.accept().await.expect("a client");
            let mut message = [0; 64];
            while stream.read_exact(&mut message).await.is_ok() {
                if stream.write_all(&message).await.is_err() {
                    return;
                }
            }
        });
    });
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a listener");
    let address = listener.local_addr().expect("an address");
    serve(listener);
    let mut alone = TcpStream::connect(address).await.expect("a connection");
    alone.set_nodelay(true).expect("a connection");

    let engine = MemoryEngine::new();
    let nodes = [join(&engine, "a").await, join(&engine, "b").await];
    // Slots move to the second node ten seconds after it has joined.
    let shares = || nodes.iter().map(|node| node.served().len());
    while shares().any(|share| share == 0) || shares().sum::<usize>() < 8 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(Duration::from_secs(12)).await;
    let served = nodes[0].served();
    let is_here = |key: &u64| {
        let slot = Place::key(*key).slot(8);
        served.iter().any(|(served, _)| *served == slot)
    };
    let here = (0..).find(is_here).expect("a key");
    let there = (0..).find(|key| !is_here(key)).expect("a key");

    let runtime = Runtime::builder().localities(1).build().expect("a runtime");
    let own = Adder(0).activate(&runtime).expect("an object");
    let proxy = |key| {
        nodes[0]
            .object::<Adder>(key)
            .start(&runtime)
            .expect("a proxy")
    };
    let (here, there) = (proxy(here), proxy(there));
    println!(
        "µs per call: an object of this process, of this node, of another node; a request over TCP alone"
    );
    for in_flight in [1, 64] {
        for round in 0..=ROUNDS {
            let mut times = Vec::new();
            for adder in [&own, &here, &there] {
                times.push(calls(adder, in_flight).await);
            }
            if in_flight == 1 {
                times.push(requests(&mut alone).await);
            }
            // The first round warms up.
            if round > 0 {
                let times: Vec<_> = times
                    .iter()
                    .map(|time| format!("{:>8.2}", time.as_nanos() as f64 / 1e3))
                    .collect();
                println!("{in_flight:>3} in flight: {}", times.join(" "));
            }
        }
    }
}
