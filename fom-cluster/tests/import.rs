//! The journal of a program on a single machine becomes a cluster.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use fom_cluster::{
    BackupError, Cluster, ClusterError, MemoryEngine, Place, Tcp,
    engine::{Beat, Engine as _, NodeInfo},
};
use fom_durable::{journal::JournalError, prelude::*};
use serde::{Deserialize, Serialize};

const SLOTS: u16 = 5;
/// The limit of a test, in real time.
const LIMIT: Duration = Duration::from_secs(60);

/// How a process runs the orders.
#[derive(Clone, Default)]
struct Warehouse {
    /// The step key of each reservation that began, by the number of the order.
    reserved: Arc<Mutex<BTreeMap<u32, Vec<String>>>>,
    /// Whether orders of 10 and more stay in their first phase, and the order 30 fails.
    is_shut: bool,
}

#[derive(Serialize, Deserialize)]
struct Order {
    number: u32,
    paid: u64,
}

#[derive(Serialize, Deserialize)]
enum OrderEvent {
    Paid { cents: u64 },
}

#[fom(operation(Order), event(OrderEvent))]
enum Selling {
    #[phase(start, to(AwaitPayment))]
    Reserve,
    #[phase(sync, on(Paid), to(Shipped))]
    AwaitPayment,
    #[phase(end)]
    Shipped,
}

impl SellingTransitions for Order {
    async fn reserve(&mut self, cx: &mut Cx<'_, OrderEvent>) -> Result<(), BoxError> {
        let warehouse = cx.resource::<Warehouse>();
        let key = cx.step_key().to_string();
        warehouse
            .reserved
            .lock()
            .unwrap()
            .entry(self.number)
            .or_default()
            .push(key);
        match self.number {
            30.. if warehouse.is_shut => Err("nothing is left".into()),
            10.. if warehouse.is_shut => std::future::pending().await,
            _ => Ok(()),
        }
    }

    fn await_payment(
        &mut self,
        _: &mut Cx<'_, OrderEvent>,
        OrderEvent::Paid { cents }: OrderEvent,
    ) -> Result<SellingAfterAwaitPayment, BoxError> {
        self.paid += cents;
        Ok(SellingAfterAwaitPayment::Shipped)
    }
}

impl Warehouse {
    async fn until_reserved(&self, order: u32, times: usize) {
        let count = || {
            self.reserved
                .lock()
                .unwrap()
                .get(&order)
                .map_or(0, Vec::len)
        };
        while count() < times {
            tokio::task::yield_now().await;
        }
    }
}

/// Names of orders.
fn key(number: u32) -> String {
    format!("order {number}")
}

fn order(number: u32) -> Order {
    Order { number, paid: 0 }
}

fn paid(cents: u64) -> OrderEvent {
    OrderEvent::Paid { cents }
}

/// Its operation id, which is unique for the program on a single machine.
fn id(number: u32) -> String {
    format!("id {number}")
}

/// The program on a single machine. Some of its orders have ended, some wait for their payment, some are in their first phase, and
/// one has failed.
async fn run_alone(directory: &Path) -> Warehouse {
    let warehouse = Warehouse {
        is_shut: true,
        ..Warehouse::default()
    };
    let runtime = Runtime::builder()
        .localities(2)
        .journal(directory)
        .operation::<Order>()
        .resource(warehouse.clone())
        .build()
        .unwrap();
    let submit = |number| runtime.submit(order(number)).once(id(number));
    let ends = [
        submit(1).key(key(1)),
        submit(2).key(key(2)).serial("customer"),
        submit(3),
    ];
    for submission in ends {
        let handle = submission.start().unwrap();
        handle.committed().await.unwrap();
        let sent = runtime.send_durably::<Order>(handle.id(), paid(5), "pay");
        sent.await.unwrap();
        handle.await.unwrap();
    }
    for submission in [submit(4).key(key(4)), submit(5)] {
        let waits = submission.start().unwrap().id();
        while runtime
            .operation(waits)
            .is_none_or(|fom| fom.phase != "AwaitPayment")
        {
            tokio::task::yield_now().await;
        }
    }
    let stay = [
        submit(10).key(key(10)).serial("customer"),
        // It waits for its turn.
        submit(11).key(key(11)).serial("customer"),
        submit(12).key(("customer 7", 12u64)),
        runtime.submit(order(13)),
    ];
    for submission in stay {
        let handle = submission.start().unwrap();
        handle.committed().await.unwrap();
    }
    for number in [10, 11] {
        let sent = runtime.send_durably::<Order>(key(number), paid(7), "pay");
        sent.await.unwrap();
    }
    for number in [10, 12, 13] {
        warehouse.until_reserved(number, 1).await;
    }
    let fails = submit(30).key(key(30)).start().unwrap();
    fails.await.unwrap_err();
    runtime.shutdown(Shutdown::Now, LIMIT).await;
    warehouse
}

async fn join(engine: &MemoryEngine, name: &str, warehouse: &Warehouse) -> Cluster {
    let warehouse = warehouse.clone();
    let builder = Cluster::builder(engine.clone(), name)
        .network(Tcp::bind("127.0.0.1:0").unwrap())
        .slots(SLOTS)
        .operation::<Order>()
        .runtime(move |builder| builder.resource(warehouse.clone()));
    builder.join().await.unwrap()
}

/// PR-06, PR-07: operations go on in their phase, with their events and step keys. What has ended does not run again.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_of_one_machine_goes_on_as_a_cluster() {
    let test = async {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("journal");
        let warehouse = run_alone(&directory).await;
        let engine = MemoryEngine::new();
        let (tell, told) = std::sync::mpsc::channel();
        Cluster::import_journal(engine.clone(), &directory, SLOTS)
            .on_progress(move |copied| tell.send(copied).unwrap())
            .await
            .unwrap();
        let last = told.iter().last().unwrap();
        assert_eq!((last.slots, last.of), (SLOTS, SLOTS));
        assert!(last.entries > u64::from(SLOTS), "{last:?}");
        // Only nodes that read the orders are to own them.
        let info = NodeInfo::new("asks", "");
        let beat = Beat::new("asks 1", true, Duration::ZERO, &info);
        for slot in engine.beat(&beat).unwrap().slots {
            let holds: Vec<_> = slot.holds.into_iter().collect();
            assert_eq!(holds, [("Selling Order".to_owned(), 1)]);
        }
        engine.leave("asks 1").unwrap();
        let open = Warehouse {
            is_shut: false,
            ..warehouse.clone()
        };
        let nodes = [
            join(&engine, "a", &open).await,
            join(&engine, "b", &open).await,
        ];
        let [one, other] = &nodes;
        let place = |number| Place::key(key(number)).with_once(id(number));

        // What has ended: a submission with its id runs nothing.
        let ended = [
            (1, one.submit(order(1)).key(key(1)).once(id(1))),
            (
                2,
                other
                    .submit(order(2))
                    .key(key(2))
                    .serial("customer")
                    .once(id(2)),
            ),
            (3, one.submit(order(3)).once(id(3))),
        ];
        for (number, again) in ended {
            let outcome = again.start().await.unwrap().await.unwrap();
            assert_eq!(outcome.unwrap().operation.paid, 5, "order {number}");
        }

        // What waits for an event.
        let keyed = other.send::<Order>(place(4), paid(4), "pay").await;
        assert!(keyed.unwrap());
        let by_id = one.send::<Order>(Place::once(id(5)), paid(5), "pay").await;
        assert!(by_id.unwrap());
        for (place, cents) in [(place(4), 4), (Place::once(id(5)), 5)] {
            let outcome = one.outcome::<Order>(place).await.unwrap().unwrap();
            assert_eq!(outcome.operation.paid, cents);
        }

        // What was in its first phase begins the phase anew, with the same step key. Its event is there.
        for number in [10, 11] {
            let place = place(number).serial("customer");
            let outcome = one.outcome::<Order>(place.clone()).await.unwrap().unwrap();
            assert_eq!(outcome.operation.paid, 7);
            // The event was sent before.
            let again = other.send::<Order>(place, paid(7), "pay").await;
            assert!(!again.unwrap());
        }
        let in_pair = Place::key(("customer 7", 12u64)).with_once(id(12));
        assert!(
            other
                .send::<Order>(in_pair.clone(), paid(9), "pay")
                .await
                .unwrap()
        );
        other.outcome::<Order>(in_pair).await.unwrap().unwrap();
        open.until_reserved(13, 2).await;

        // What has failed can be tried again.
        let failed = one.outcome::<Order>(place(30)).await.unwrap().unwrap_err();
        assert!(matches!(&failed.cause, Cause::Remembered { cause } if cause.contains("nothing")));
        let entries = one.operator().quarantine().await.unwrap();
        let [entry] = &*entries else {
            panic!("{entries:?}")
        };
        one.operator().retry(entry.slot, entry.id).await.unwrap();
        assert!(
            other
                .send::<Order>(place(30), paid(30), "pay")
                .await
                .unwrap()
        );
        let outcome = one.outcome::<Order>(place(30)).await.unwrap().unwrap();
        assert_eq!(outcome.operation.paid, 30);

        // New orders in each slot have step keys of their own.
        for number in 100..100 + 4 * u32::from(SLOTS) {
            let new = one.submit(order(number)).key(key(number)).start();
            drop(new.await.unwrap());
            open.until_reserved(number, 1).await;
        }
        let reserved = open.reserved.lock().unwrap().clone();
        let mut keys: Vec<_> = Vec::new();
        for (number, of_order) in reserved {
            // Once on the machine, and once in the cluster.
            let times = match number {
                10 | 12 | 13 | 30 => 2,
                _ => 1,
            };
            assert_eq!(of_order.len(), times, "order {number}");
            if number != 30 {
                assert!(
                    of_order.iter().all(|key| *key == of_order[0]),
                    "{of_order:?}"
                );
            }
            keys.extend(of_order.first().cloned());
        }
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count, "each order has a step key of its own");
        for node in nodes {
            node.leave().await;
        }
    };
    tokio::time::timeout(LIMIT, test).await.unwrap();
}

#[tokio::test]
async fn a_journal_that_is_missing_in_use_or_damaged_is_refused_and_nothing_is_written() {
    let test = async {
        let folder = tempfile::tempdir().unwrap();
        let engine = MemoryEngine::new();
        let refused = async |directory: &Path| {
            let imported = Cluster::import_journal(engine.clone(), directory, SLOTS).await;
            match imported.unwrap_err() {
                ClusterError::Backup(error) => match &*error {
                    BackupError::Single { source, .. } => source.clone(),
                    other => panic!("{other}"),
                },
                other => panic!("{other}"),
            }
        };
        let missing = refused(&folder.path().join("none")).await;
        assert!(matches!(&missing, JournalError::Io { .. }), "{missing}");

        let empty = refused(folder.path()).await;
        assert!(matches!(&empty, JournalError::NotAJournal(_)), "{empty}");

        let directory = folder.path().join("journal");
        run_alone(&directory).await;
        let runtime = Runtime::builder()
            .journal(&directory)
            .operation::<Order>()
            .resource(Warehouse::default())
            .build()
            .unwrap();
        let in_use = refused(&directory).await;
        assert!(matches!(&in_use, JournalError::Locked(_)), "{in_use}");
        runtime.shutdown(Shutdown::Now, LIMIT).await;
        drop(runtime);

        let place = |bytes: &[u8]| bytes.windows(7).position(|part| part == b"order 4");
        let files = fs::read_dir(&directory).unwrap();
        let mut files = files.map(|file| file.unwrap().path());
        let segment = files.find(|path| place(&fs::read(path).unwrap()).is_some());
        let segment = segment.unwrap();
        let whole = fs::read(&segment).unwrap();
        let mut damaged = whole.clone();
        damaged[place(&whole).unwrap()] ^= 1;
        fs::write(&segment, damaged).unwrap();
        let broken = refused(&directory).await;
        assert!(matches!(&broken, JournalError::Damaged(_)), "{broken}");
        fs::write(&segment, whole).unwrap();

        // Nothing was written before: the cluster is new.
        Cluster::import_journal(engine.clone(), &directory, SLOTS)
            .await
            .unwrap();
        let again = Cluster::import_journal(engine.clone(), &directory, SLOTS).await;
        let again = again.unwrap_err();
        assert!(again.to_string().contains("its slots were used"), "{again}");
    };
    tokio::time::timeout(LIMIT, test).await.unwrap();
}
