//! What happens beside an operation that fails: a discard, an event, a new fom with its key, a commit that fails.

use std::{
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, Sender, channel},
    },
    time::Duration,
};

use fom_durable::{journal::MemoryJournal, prelude::*};
use fom_runtime::{
    Builder, Cause,
    observe::Incident,
    snapshot::{QuarantineKind, RestoreError},
    submission::Placement,
    time::TestClock,
};
use serde::{Deserialize, Serialize};

use crate::{
    kit::{held::Held, limited, many, one, secs, task::until},
    order::{failed, one_failed, order, retried},
};

/// Stops the thread that runs it, until the test lets it go.
struct Barrier(Sender<()>, Receiver<()>);

impl Barrier {
    /// Returns the barrier, what tells the test that it is reached, and what opens it.
    fn new() -> (Self, Receiver<()>, Sender<()>) {
        let (tell, reached) = channel();
        let (open, opened) = channel();
        (Self(tell, opened), reached, open)
    }

    fn wait(&self) {
        let _ = self.0.send(());
        // If the test has failed, its end of the channel is gone.
        let _ = self.1.recv_timeout(Duration::from_secs(20));
    }
}

/// Fails in a lazy machine. Its drop waits for the test.
#[derive(Serialize, Deserialize)]
struct Hasty {
    #[serde(skip)]
    barrier: Option<Mutex<Barrier>>,
}

impl Drop for Hasty {
    fn drop(&mut self) {
        if let Some(barrier) = self.barrier.take() {
            barrier.into_inner().unwrap().wait();
        }
    }
}

#[fom(operation(Hasty), durability = "lazy")]
enum Hurrying {
    #[phase(start, sync, to(Arrived))]
    Hurry,
    #[phase(end)]
    Arrived,
}

impl HurryingTransitions for Hasty {
    fn hurry(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Err("it fell".into())
    }
}

/// The entry of a lazy failure enters the journal before a discard of it: it does not come back.
#[test]
fn a_discard_comes_behind_a_lazy_failure() {
    limited(|| async {
        let journal = MemoryJournal::new();
        let build = |journal: &MemoryJournal| {
            let builder = one(&TestClock::new()).journal_with(journal.clone());
            builder.build().unwrap()
        };
        let runtime = build(&journal);
        let (barrier, reached, open) = Barrier::new();
        let barrier = Some(Mutex::new(barrier));
        let id = runtime.submit(Hasty { barrier }).detach().unwrap();
        reached.recv().unwrap();
        let gone = runtime.quarantine().discard(id).await.unwrap();
        assert_eq!(gone.id, id);
        open.send(()).unwrap();
        runtime.quiet().await;
        // Each commit that was handed over before this one is in the journal with it.
        runtime.submit(order(0)).await.unwrap();
        let journal = journal.fork();
        drop(runtime);
        assert!(failed(&build(&journal)).is_empty());
    });
}

/// A shelf that opens after a while. It cannot take thirteen of anything.
#[derive(Default, Serialize, Deserialize)]
struct Shelf {
    goods: Vec<u32>,
    fixed: bool,
}

#[derive(Debug, Serialize, Deserialize)]
enum Goods {
    Put(u32),
    Close,
}

/// The disk that is full when a shelf fails.
#[derive(Clone, Default)]
struct Disk(Held);

#[fom(operation(Shelf), event(Goods))]
enum Shelving {
    #[phase(start, to(Open))]
    Prepare,
    #[phase(sync, to(Closed), on(Put, Close))]
    Open,
    #[phase(end)]
    Closed,
}

impl ShelvingTransitions for Shelf {
    async fn prepare(&mut self, cx: &mut Cx<'_, Goods>) -> Result<(), BoxError> {
        cx.sleep(secs(10)).await;
        Ok(())
    }

    fn open(
        &mut self,
        cx: &mut Cx<'_, Goods>,
        goods: Goods,
    ) -> Result<ShelvingAfterOpen, BoxError> {
        match goods {
            Goods::Put(13) if !self.fixed => {
                self.fixed = true;
                cx.resource::<Disk>().0.fail(true);
                return Err("thirteen".into());
            }
            Goods::Put(number) => self.goods.push(number),
            Goods::Close => return Ok(ShelvingAfterOpen::Closed),
        }
        Ok(ShelvingAfterOpen::Stay)
    }
}

/// Sends goods to the shelf.
#[derive(Serialize, Deserialize)]
struct Deliver(Vec<u32>);

#[fom(operation(Deliver))]
enum Delivering {
    #[phase(start, sync, to(Sent))]
    Send,
    #[phase(end)]
    Sent,
}

impl DeliveringTransitions for Deliver {
    fn send(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        for number in &self.0 {
            cx.outbox().send::<Shelf>("shelf", Goods::Put(*number))?;
        }
        Ok(())
    }
}

/// As [`Deliver`], and is not kept.
struct Toss(Vec<u32>);

#[fom(operation(Toss), transient)]
enum Tossing {
    #[phase(start, sync, to(Tossed))]
    Toss,
    #[phase(end)]
    Tossed,
}

impl TossingTransitions for Toss {
    fn toss(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        for number in &self.0 {
            cx.outbox().send::<Shelf>("shelf", Goods::Put(*number))?;
        }
        Ok(())
    }
}

/// Opens a shelf that is ready to take goods.
async fn shelf(runtime: &Runtime, clock: &TestClock) -> Handle<Shelf> {
    let shelf = runtime.submit(Shelf::default()).key("shelf");
    let shelf = shelf.start().unwrap();
    runtime.quiet().await;
    clock.advance(secs(11));
    runtime.quiet().await;
    shelf
}

/// Closes the shelf, and returns its goods.
async fn goods(runtime: &Runtime, shelf: FomRef<Shelf>) -> Vec<u32> {
    let goods = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&goods);
    let _listener = runtime.listen_to::<Shelf>(move |transition| {
        if matches!(transition.phase(), Some(Shelving::Closed)) {
            seen.lock()
                .unwrap()
                .clone_from(&transition.operation().goods);
        }
    });
    shelf.send(Goods::Close).unwrap();
    runtime.quiet().await;
    let goods = goods.lock().unwrap();
    goods.clone()
}

/// After a restart, an event for the fom that has the key goes there, and not to the failed operation that had the key
/// before. The events of the failed operation stay with it.
#[test]
fn after_a_restart_each_event_has_its_receiver() {
    limited(|| async {
        for resident in [usize::MAX, 1] {
            let clock = TestClock::new();
            let journal = MemoryJournal::new();
            let build = |journal: &MemoryJournal| {
                let builder = one(&clock).resource(Disk::default()).resident(resident);
                builder.journal_with(journal.clone()).build().unwrap()
            };
            let runtime = build(&journal);
            let first = shelf(&runtime, &clock).await;
            let failed = first.id();
            runtime.submit(Deliver(vec![1, 13, 2])).await.unwrap();
            first.await.err().unwrap();
            let second = runtime.submit(Shelf::default()).key("shelf");
            let second = second.start().unwrap().id();
            runtime.quiet().await;
            // The second shelf is not open yet.
            runtime.submit(Deliver(vec![4])).await.unwrap();
            runtime.quiet().await;
            let journal = journal.fork();
            drop(runtime);

            let runtime = build(&journal);
            let events = runtime.quarantine().list_of(QuarantineKind::NoReceiver);
            assert_eq!(events.len(), 2, "{events:?}");
            runtime.quiet().await;
            clock.advance(secs(11));
            runtime.quiet().await;
            let open = runtime.find::<Shelf>("shelf").unwrap();
            assert_eq!(open.id(), second);
            assert_eq!(goods(&runtime, open).await, [4]);
            retried(&runtime, failed).await;
            let open = runtime.find::<Shelf>("shelf").unwrap();
            assert_eq!(open.id(), failed);
            assert_eq!(goods(&runtime, open).await, [1, 13, 2]);
            assert!(runtime.quarantine().list().is_empty());
        }
    });
}

/// The commit of a failure fails: the events that no phase took wait for the retry, too.
#[test]
fn events_wait_for_a_failure_that_is_committed_later() {
    limited(|| async {
        let clock = TestClock::new();
        let disk = Held::default();
        let builder = one(&clock).resource(Disk(disk.clone()));
        let runtime = builder.journal_with(disk.clone()).build().unwrap();
        let first = shelf(&runtime, &clock).await;
        let id = first.id();
        runtime.submit(Deliver(vec![1, 13, 2])).await.unwrap();
        let failure = first.await.err().unwrap();
        assert!(matches!(failure.cause, Cause::Journal(_)), "{failure:?}");
        disk.fail(false);
        let is_kept = || runtime.quarantine().count(QuarantineKind::Failed) == 1;
        until("the failure is committed", is_kept);
        runtime.quiet().await;
        let events = || runtime.quarantine().list_of(QuarantineKind::NoReceiver);
        until("both events wait", || events().len() == 2);
        for event in events() {
            assert_eq!(event.reason, RestoreError::ReceiverQuarantined(id));
        }
        retried(&runtime, id).await;
        let open = runtime.find::<Shelf>("shelf").unwrap();
        assert_eq!(goods(&runtime, open).await, [1, 13, 2]);
    });
}

/// An event whose sender is not in the journal cannot wait. That it is dropped is counted, and is an incident.
#[test]
fn an_event_that_cannot_wait_is_counted() {
    limited(|| async {
        let clock = TestClock::new();
        let builder = one(&clock).resource(Disk::default());
        let runtime = builder.journal_with(MemoryJournal::new()).build().unwrap();
        let first = shelf(&runtime, &clock).await;
        runtime.submit(Toss(vec![13, 2])).await.unwrap();
        first.await.err().unwrap();
        runtime.quiet().await;
        one_failed(&runtime);
        assert_eq!(runtime.quarantine().count(QuarantineKind::NoReceiver), 0);
        assert_eq!(runtime.quarantine().dropped(QuarantineKind::NoReceiver), 2);
        let incidents = runtime.operations().incidents;
        let dropped = |told: &&Incident| told.text.contains("an event was dropped");
        let dropped = incidents.iter().filter(dropped);
        assert_eq!(dropped.map(|it| it.count).sum::<u64>(), 2);
    });
}

/// An event that comes while the operation fails waits for its retry.
#[test]
fn an_event_beside_the_failure_waits() {
    limited(|| async {
        let clock = TestClock::new();
        let (barrier, reached, open) = Barrier::new();
        let barrier = Mutex::new(barrier);
        let builder: Builder = many(2, &clock).listen_to::<Shelf>(move |transition| {
            if transition.phase().is_none() {
                barrier.lock().unwrap().wait();
            }
        });
        let builder = builder.resource(Disk::default());
        let runtime = builder.journal_with(MemoryJournal::new()).build().unwrap();
        let first = runtime.submit(Shelf::default()).key("shelf");
        let first = first.place(Placement::Locality(0)).start().unwrap();
        let id = first.id();
        runtime.quiet().await;
        clock.advance(secs(11));
        runtime.quiet().await;
        let deliver = |number| {
            let deliver = runtime.submit(Deliver(vec![number]));
            deliver.place(Placement::Locality(1))
        };
        deliver(13).await.unwrap();
        reached.recv().unwrap();
        // The failure is told, and the operation has not left.
        deliver(3).await.unwrap();
        open.send(()).unwrap();
        first.await.err().unwrap();
        runtime.quiet().await;
        let events = runtime.quarantine().list_of(QuarantineKind::NoReceiver);
        assert_eq!(events.len(), 2, "{events:?}");
        for event in &events {
            assert_eq!(event.reason, RestoreError::ReceiverQuarantined(id));
        }
        retried(&runtime, id).await;
        let open = runtime.find::<Shelf>("shelf").unwrap();
        assert_eq!(goods(&runtime, open).await, [13, 3]);
    });
}
