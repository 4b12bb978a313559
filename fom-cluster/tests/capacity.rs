//! What a node takes on, in all of its slots together.

use std::time::Duration;

use fom_cluster::{Cluster, ClusterError, MemoryEngine, Tcp};
use fom_durable::prelude::*;
use serde::{Deserialize, Serialize};

/// The time limit of a test.
const LIMIT: Duration = Duration::from_secs(60);
const CAPACITY: usize = 10;

#[derive(Serialize, Deserialize)]
struct Ticket {
    number: u64,
}

#[derive(Serialize, Deserialize)]
enum Till {
    Pay,
}

#[fom(operation(Ticket), event(Till))]
enum Selling {
    #[phase(start, sync, on(Pay), to(Sold))]
    Reserve,
    #[phase(end)]
    Sold,
}

impl SellingTransitions for Ticket {
    fn reserve(&mut self, _: &mut Cx<'_, Till>, _: Till) -> Result<SellingAfterReserve, BoxError> {
        Ok(SellingAfterReserve::Sold)
    }
}

/// Limits are those of a node, however many slots it has. What is refused comes back to its caller.
#[tokio::test]
async fn a_node_takes_on_what_it_has_room_for_in_all_slots() {
    let test = async {
        let engine = MemoryEngine::new();
        let builder = |name| {
            let builder = Cluster::builder(engine.clone(), name).slots(8);
            builder.network(Tcp::bind("127.0.0.1:0").unwrap())
        };
        let node = builder("a").operation::<Ticket>().capacity(CAPACITY);
        let node = node.join().await.unwrap();
        while node.served().len() < 8 {
            tokio::task::yield_now().await;
        }
        // It owns no slot, because it cannot read tickets.
        let other = builder("b").join().await.unwrap();
        let key = |number: u64| format!("ticket {number}");
        let mut sold = Vec::new();
        for number in 0..2 * CAPACITY as u64 {
            let from = [&node, &other][number as usize % 2];
            let submission = from.submit(Ticket { number }).key(key(number)).once("sale");
            match submission.start().await {
                Ok(started) => sold.push((number, started)),
                Err(refused) => {
                    assert!(matches!(&refused.reason, ClusterError::Busy), "{refused}");
                    assert_eq!(refused.operation.unwrap().number, number);
                }
            }
        }
        assert_eq!(sold.len(), CAPACITY);
        // Those that wait are served, and make room.
        for (number, started) in sold {
            node.send::<Ticket>(key(number), Till::Pay, "pay")
                .await
                .unwrap();
            started.await.unwrap().unwrap();
        }
        let again = node.submit(Ticket { number: 99 }).key(key(99));
        drop(again.start().await.unwrap());
        for node in [other, node] {
            node.leave().await;
        }
    };
    tokio::time::timeout(LIMIT, test).await.expect("in time");
}
