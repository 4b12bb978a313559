//! Locks, services and admissions of `fom-patterns` under drawn orders, with nothing to find.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use fom_patterns::{
    admission::Admission,
    lock::LongLocks,
    prelude::*,
    service::{Provider, Running, Service},
};
use fom_sim as sim;

sim::interpose!();

const HOUR: Duration = Duration::from_secs(3600);

/// Moves money from one account to another. Both are locked, always in one order.
struct Transfer {
    locks: LongLocks,
    accounts: Arc<[AtomicI64; 3]>,
    from: usize,
    to: usize,
}

#[fom(operation(Transfer), transient)]
enum Transferring {
    #[phase(start, to(Done))]
    Move,
    #[phase(end)]
    Done,
}

impl TransferringTransitions for Transfer {
    async fn r#move(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let (from, to) = (self.from, self.to);
        let first = self.locks.of(from.min(to) as u64).write(cx).await?;
        let second = self.locks.of(from.max(to) as u64).write(cx).await?;
        let before = self.accounts[from].load(Relaxed);
        cx.sleep(Duration::from_millis(5)).await;
        // Only the holder of the lock has changed it.
        assert_eq!(self.accounts[from].load(Relaxed), before);
        self.accounts[from].fetch_sub(1, Relaxed);
        self.accounts[to].fetch_add(1, Relaxed);
        drop((first, second));
        Ok(())
    }
}

#[test]
fn transfers_under_locks() {
    sim::explore(0..200, |sim| {
        let bank = sim.node("bank", || Runtime::builder().localities(2));
        sim.during(|chaos| chaos.long_phases(Duration::from_millis(20)));
        let accounts = Arc::new([(); 3].map(|()| AtomicI64::new(10)));
        let locks = LongLocks::new("account");
        for number in 0..8 {
            let (from, to) = (number % 3, (number + 1 + number / 3) % 3);
            let transfer = Transfer {
                locks: locks.clone(),
                accounts: Arc::clone(&accounts),
                from,
                to: if from == to { (to + 1) % 3 } else { to },
            };
            bank.runtime().submit(transfer).detach().unwrap();
        }
        sim.settle(HOUR);
        let transfers = &bank.runtime().operations().types[0];
        assert_eq!((transfers.ended, transfers.failed), (8, 0));
        let sum: i64 = accounts.iter().map(|cents| cents.load(Relaxed)).sum();
        assert_eq!(sum, 30);
        assert!(locks.is_empty(), "all locks are free");
    });
}

static FETCH: Service<u32, u32> = Service::new("fetch");

/// A provider goes away and comes back. Each call is answered, or gives its argument back.
#[test]
fn a_service_comes_and_goes() {
    let answers = Arc::new(AtomicU32::new(0));
    let refusals = Arc::new(AtomicU32::new(0));
    let (answered, refused) = (Arc::clone(&answers), Arc::clone(&refusals));
    let explored = sim::explore(0..200, move |sim| {
        let node = sim.node("node", || Runtime::builder().localities(2));
        let services = node.runtime().services();
        let provide = |by| {
            Provider::future(
                move |cx: fom_patterns::service::CallCx, page: u32| async move {
                    cx.sleep(Duration::from_millis(10)).await;
                    page + by
                },
            )
        };
        let first = services.register(&FETCH, provide(100)).unwrap();
        let of = services.clone();
        sim.spawn(async move {
            sim::sleep(Duration::from_millis(sim::draw(20).into()));
            first.unregister(Running::Finish).await;
            let second = of.register(&FETCH, provide(200)).unwrap();
            sim::sleep(HOUR);
            drop(second);
        });
        for page in 0..6 {
            let services = services.clone();
            let (answered, refused) = (Arc::clone(&answered), Arc::clone(&refused));
            sim.spawn(async move {
                sim::sleep(Duration::from_millis(sim::draw(40).into()));
                match services.call(&FETCH, page).await {
                    Ok(answer) => {
                        assert!(answer == page + 100 || answer == page + 200);
                        answered.fetch_add(1, Relaxed);
                    }
                    Err(failure) => {
                        assert_eq!(failure.argument, Some(page), "{failure}");
                        refused.fetch_add(1, Relaxed);
                    }
                }
            });
        }
        sim.settle(3 * HOUR);
    });
    let (answers, refusals) = (answers.load(Relaxed), refusals.load(Relaxed));
    assert!(
        u64::from(answers) > 3 * explored.runs,
        "{answers} and {refusals}"
    );
    assert!(refusals > 0);
}

/// Counts how many of its kind run at a time.
struct Read(Arc<Mutex<(u32, u32)>>);

#[fom(operation(Read), transient)]
enum Reading {
    #[phase(start, to(Done))]
    Run,
    #[phase(end)]
    Done,
}

impl ReadingTransitions for Read {
    async fn run(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        {
            let mut reads = self.0.lock().unwrap();
            reads.0 += 1;
            reads.1 = reads.1.max(reads.0);
        }
        cx.sleep(Duration::from_millis(10)).await;
        self.0.lock().unwrap().0 -= 1;
        Ok(())
    }
}

#[test]
fn an_admission_lets_two_run() {
    sim::explore(0..200, |sim| {
        let node = sim.node("disk", || Runtime::builder().localities(2));
        let intake = Admission::builder(&node.runtime()).in_flight(2);
        let intake = Arc::new(intake.build().unwrap());
        let reads = Arc::new(Mutex::new((0, 0)));
        for client in 0..6_u32 {
            let (intake, reads) = (Arc::clone(&intake), Arc::clone(&reads));
            sim.spawn(async move {
                sim::sleep(Duration::from_millis(sim::draw(20).into()));
                let read = intake.submit(Read(reads)).client(client % 2);
                read.start().unwrap().await.unwrap();
            });
        }
        sim.settle(HOUR);
        assert_eq!(
            *reads.lock().unwrap(),
            (0, 2),
            "two at a time, and all have ended"
        );
    });
}
