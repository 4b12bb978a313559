//! Exports of a cluster, and imports of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use fom_cluster::{
    BackupError, Cluster, ClusterCxExt as _, ClusterError, Copied, Copying, MemoryEngine, Place,
    Tcp,
    engine::{Beat, Engine as _, NodeInfo},
};
use fom_durable::{
    journal::{Damage, EntryId},
    prelude::*,
    reading::{self, Content, Reader, Record, SavedFom},
};
use serde::{Deserialize, Serialize};

const ACCOUNTS: u32 = 5;
const SLOTS: u16 = 8;
/// The limit of a test, in real time.
const LIMIT: Duration = Duration::from_secs(90);

/// The keys of each step of each transfer, in all clusters.
type Keys = Arc<Mutex<BTreeMap<(u32, u32), BTreeSet<String>>>>;

/// Moves cents between two accounts, whose slots are others: one part after the other.
#[derive(Serialize, Deserialize)]
struct Transfer {
    number: u32,
}

#[fom(operation(Transfer))]
enum Moving {
    #[phase(start, to(Deposit))]
    Withdraw,
    #[phase(to(Done))]
    Deposit,
    #[phase(end)]
    Done,
}

impl Transfer {
    async fn book(&self, cx: &Cx<'_>, account: u32, sign: i64) -> Result<(), BoxError> {
        cx.sleep(Duration::from_millis(30)).await;
        let step = (self.number, u32::from(sign > 0));
        let key = cx.step_key().to_string();
        cx.resource::<Keys>()
            .lock()
            .unwrap()
            .entry(step)
            .or_default()
            .insert(key);
        let cents = sign * i64::from(self.number + 1);
        let news = News::Book {
            transfer: self.number,
            cents,
        };
        cx.letters()
            .send::<Account>(account_key(account % ACCOUNTS), news)?;
        Ok(())
    }
}

impl MovingTransitions for Transfer {
    async fn withdraw(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.book(cx, self.number, -1).await
    }

    async fn deposit(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.book(
            cx,
            self.number + 1 + self.number / ACCOUNTS % (ACCOUNTS - 1),
            1,
        )
        .await
    }
}

#[derive(Serialize, Deserialize)]
enum News {
    Book { transfer: u32, cents: i64 },
    Close { bookings: usize },
}

#[derive(Serialize, Deserialize)]
struct Account {
    booked: Vec<(u32, i64)>,
    bookings: Option<usize>,
}

#[fom(operation(Account), event(News))]
enum Keeping {
    #[phase(start, sync, on(Book, Close), to(Open, Closed))]
    Open,
    #[phase(end)]
    Closed,
}

impl KeepingTransitions for Account {
    fn open(&mut self, _: &mut Cx<'_, News>, news: News) -> Result<KeepingAfterOpen, BoxError> {
        match news {
            News::Book { transfer, cents } => self.booked.push((transfer, cents)),
            News::Close { bookings } => self.bookings = Some(bookings),
        }
        Ok(match self.bookings {
            Some(bookings) if self.booked.len() >= bookings => KeepingAfterOpen::Closed,
            _ => KeepingAfterOpen::Open,
        })
    }
}

fn account_key(number: u32) -> String {
    format!("account {number}")
}

async fn join(engine: &MemoryEngine, name: &str, keys: &Keys) -> Cluster {
    let keys = keys.clone();
    let builder = Cluster::builder(engine.clone(), name)
        .network(Tcp::bind("127.0.0.1:0").unwrap())
        .slots(SLOTS)
        .operation::<Transfer>()
        .operation::<Account>()
        .runtime(move |builder| builder.resource(keys.clone()));
    builder.join().await.unwrap()
}

/// Waits until all transfers have ended, closes the accounts, and checks that each has each of its bookings once.
async fn check(cluster: &Cluster, transfers: u32) {
    let mut expected: BTreeMap<u32, Vec<(u32, i64)>> = BTreeMap::new();
    for number in 0..transfers {
        let place = Place::key(format!("transfer {number}")).with_once("the one");
        cluster.outcome::<Transfer>(place).await.unwrap().unwrap();
        let cents = i64::from(number + 1);
        let (from, to) = (number, number + 1 + number / ACCOUNTS % (ACCOUNTS - 1));
        expected
            .entry(from % ACCOUNTS)
            .or_default()
            .push((number, -cents));
        expected
            .entry(to % ACCOUNTS)
            .or_default()
            .push((number, cents));
    }
    for (account, mut expected) in expected {
        let key = account_key(account);
        let close = News::Close {
            bookings: expected.len(),
        };
        cluster
            .send::<Account>(&*key, close, "close")
            .await
            .unwrap();
        let ended = cluster
            .outcome::<Account>(Place::key(key).with_once("the one"))
            .await;
        let mut booked = ended.unwrap().unwrap().operation.booked;
        booked.sort_unstable();
        expected.sort_unstable();
        assert_eq!(booked, expected, "account {account}");
    }
}

/// Counts the accounts in a journal.
#[derive(Default)]
struct Accounts(u32);

impl Reader for Accounts {
    fn record(&mut self, record: Record<'_>) {
        let is_account = |fom: &SavedFom<'_>| fom.operation.as_deref() == Some("Account");
        self.0 += u32::from(matches!(&record.content, Content::Fom(fom) if is_account(fom)));
    }

    fn damaged(&mut self, entry: EntryId, damage: Damage) {
        panic!("{entry:?}: {damage}");
    }
}

/// Two nodes move money while they are exported, again and again. In each cluster that is imported, each transfer is carried out once,
/// and each step has the key that it had.
#[tokio::test(flavor = "multi_thread")]
async fn an_export_is_a_cluster_as_of_one_moment() {
    const EXPORTS: u32 = 4;
    const EACH: u32 = 25;
    let test = async {
        let folder = tempfile::tempdir().unwrap();
        let (engine, keys) = (MemoryEngine::new(), Keys::default());
        let nodes = [
            join(&engine, "a", &keys).await,
            join(&engine, "b", &keys).await,
        ];
        for number in 0..ACCOUNTS {
            let account = Account {
                booked: Vec::new(),
                bookings: None,
            };
            let submission = nodes[0]
                .submit(account)
                .key(account_key(number))
                .once("the one");
            drop(submission.start().await.unwrap());
        }
        for export in 0..EXPORTS {
            for number in export * EACH..(export + 1) * EACH {
                let node = &nodes[number as usize % 2];
                let submission = node.submit(Transfer { number });
                let submission = submission.key(format!("transfer {number}")).once("the one");
                drop(submission.start().await.unwrap());
            }
            let directory = folder.path().join(export.to_string());
            followed(nodes[export as usize % 2].export(directory)).await;
        }
        check(&nodes[0], EXPORTS * EACH).await;
        for node in nodes {
            node.leave().await;
        }
        for export in 0..EXPORTS {
            let directory = folder.path().join(export.to_string());
            let mut accounts = Accounts::default();
            for slot in 0..SLOTS {
                let journal = directory.join(format!("slot-{slot}"));
                let read = reading::read(&journal, &mut accounts).unwrap();
                assert_eq!(read.recovery.gaps, []);
            }
            assert_eq!(
                accounts.0, ACCOUNTS,
                "a journal in files has the operations"
            );
            let engine = MemoryEngine::new();
            followed(Cluster::import(engine.clone(), &directory)).await;
            // What each slot holds, besides the operations of letters, which each node reads.
            let info = NodeInfo::new("asks", "");
            let beat = Beat::new("asks 1", true, Duration::ZERO, &info);
            let slots = engine.beat(&beat).unwrap().slots;
            let held: BTreeSet<_> = slots.iter().flat_map(|slot| slot.holds.keys()).collect();
            assert_eq!(
                held,
                ["Keeping Account", "Moving Transfer"]
                    .map(str::to_owned)
                    .iter()
                    .collect()
            );
            engine.leave("asks 1").unwrap();
            let node = join(&engine, "c", &keys).await;
            check(&node, (export + 1) * EACH).await;
            node.leave().await;
        }
        let keys = keys.lock().unwrap();
        assert_eq!(keys.len(), 2 * (EXPORTS * EACH) as usize);
        assert!(keys.values().all(|keys| keys.len() == 1), "{keys:?}");
    };
    tokio::time::timeout(LIMIT, test).await.unwrap();
}

/// Awaits an export or an import. What it tells only grows, and in the end all slots are complete.
async fn followed(copying: Copying) {
    let (tell, told) = mpsc::channel();
    let copying = copying.on_progress(move |copied| tell.send(copied).unwrap());
    copying.await.unwrap();
    let told: Vec<Copied> = told.iter().collect();
    // An export begins anew after a compaction.
    let begins = told.iter().rposition(|copied| copied.slots == 0);
    let told = &told[begins.unwrap()..];
    let grows = |pair: &[Copied]| {
        let [before, after] = pair else { return false };
        before.slots <= after.slots && before.entries <= after.entries
    };
    assert!(told.windows(2).all(grows), "{told:?}");
    let last = told.last().unwrap();
    assert_eq!((last.slots, last.of), (SLOTS, SLOTS));
    assert!(
        last.entries > ACCOUNTS.into() && last.bytes > last.entries,
        "{last:?}"
    );
}

#[tokio::test]
async fn what_is_no_export_and_what_is_no_new_cluster_is_refused() {
    let test = async {
        let folder = tempfile::tempdir().unwrap();
        let (engine, keys) = (MemoryEngine::new(), Keys::default());
        let node = join(&engine, "a", &keys).await;
        let directory = folder.path().join("export");
        node.export(&directory).await.unwrap();
        let backup = |error: ClusterError| match error {
            ClusterError::Backup(error) => error,
            other => panic!("{other}"),
        };
        let stops = node.export(folder.path().join("stops"));
        let stopped = stops
            .on_progress(|_| panic!("the caller has had enough"))
            .await;
        assert!(
            matches!(stopped, Err(ClusterError::Failed(_))),
            "{stopped:?}"
        );
        let again = backup(node.export(&directory).await.unwrap_err());
        assert!(matches!(&*again, BackupError::Exists(_)), "{again}");
        let nowhere = folder.path().join("none").join("below");
        let nowhere = backup(node.export(nowhere).await.unwrap_err());
        assert!(matches!(&*nowhere, BackupError::File { .. }), "{nowhere}");

        let lives = backup(
            Cluster::import(engine.clone(), &directory)
                .await
                .unwrap_err(),
        );
        assert!(matches!(&*lives, BackupError::NotNew(_)), "{lives}");
        assert!(lives.to_string().contains("is a node of it"), "{lives}");
        node.leave().await;
        let used = backup(Cluster::import(engine, &directory).await.unwrap_err());
        assert!(used.to_string().contains("its slots were used"), "{used}");
        let other = MemoryEngine::new();
        drop(
            Cluster::builder(other.clone(), "a")
                .slots(2)
                .join()
                .await
                .unwrap(),
        );
        let other = backup(Cluster::import(other, &directory).await.unwrap_err());
        assert!(
            other
                .to_string()
                .contains("it has 2 slots, and the import 8"),
            "{other}"
        );

        for (what, breaks) in [
            ("the journal of slot 3 is missing", ("slot-3", None)),
            (
                "has no number of `slots`",
                ("cluster", Some("fom cluster 1\n")),
            ),
            (
                "a later release has written it",
                ("cluster", Some("fom cluster 2\n")),
            ),
            ("the file `cluster`: No such file", ("cluster", None)),
        ] {
            let (file, content) = breaks;
            let path = directory.join(file);
            match content {
                Some(content) => fs::write(path, content).unwrap(),
                None if path.is_dir() => fs::rename(path, folder.path().join("moved")).unwrap(),
                None => fs::remove_file(path).unwrap(),
            }
            let error = backup(
                Cluster::import(MemoryEngine::new(), &directory)
                    .await
                    .unwrap_err(),
            );
            assert!(matches!(&*error, BackupError::NoExport { .. }), "{error}");
            assert!(error.to_string().contains(what), "{error}");
            if file == "slot-3" {
                fs::rename(folder.path().join("moved"), directory.join(file)).unwrap();
            }
        }
    };
    tokio::time::timeout(LIMIT, test).await.unwrap();
}
