//! A cluster of nodes with real threads and sockets: three nodes, and hostile bytes.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use fom_cluster::{Cluster, ClusterError, MemoryEngine, Tcp};
use fom_durable::prelude::*;
use serde::{Deserialize, Serialize};

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

/// The limit of a test, in real time.
const LIMIT: Duration = Duration::from_secs(60);

async fn node(engine: &MemoryEngine, name: &str) -> (Cluster, String) {
    let network = Tcp::bind("127.0.0.1:0").unwrap();
    let address = network.local_addr().unwrap().to_string();
    let builder = Cluster::builder(engine.clone(), name).network(network);
    let joined = builder.slots(16).operation::<Order>().join().await;
    (joined.unwrap(), address)
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

/// Bytes that are no frames end their connection, and nothing else.
#[tokio::test]
async fn hostile_bytes_end_their_connection() {
    let test = async {
        let engine = MemoryEngine::new();
        let (a, address) = node(&engine, "a").await;
        all_owned(&[&a]).await;
        let hello = b"fom-tcp1";
        let mut endless = hello.to_vec();
        endless.extend(7u64.to_le_bytes());
        endless.extend(u32::MAX.to_le_bytes());
        for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &endless] {
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
            assert_eq!(read.await.unwrap(), hello, "only the first bytes come back");
        }
        // A frame with a message that is none is answered.
        let damaged = tokio::task::spawn_blocking(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            let mut bytes = hello.to_vec();
            bytes.extend(7u64.to_le_bytes());
            bytes.extend(3u32.to_le_bytes());
            bytes.extend([1, 0xff, 0xff]);
            stream.write_all(&bytes).unwrap();
            let mut answer = [0; 8 + 12];
            stream.read_exact(&mut answer).unwrap();
            let mut content = vec![0; usize::from(answer[16])];
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
