//! Transfers between accounts under locks that a phase declares. Then two foms take locks by hand, stand in each
//! other's way, and are named.
//!
//! `cargo run --example long_locks`

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use fom_patterns::{
    lock::{LockSet, LongLock, LongLocks},
    prelude::*,
};
use tokio::sync::Barrier;

const ACCOUNTS: usize = 4;

/// The data behind the locks: a transfer reads a balance, and writes it later.
struct Bank {
    locks: LongLocks,
    balances: [AtomicI64; ACCOUNTS],
}

impl Bank {
    fn lock(&self, account: usize) -> LongLock {
        self.locks.of(account as u64)
    }
}

struct Transfer {
    from: usize,
    to: usize,
    cents: i64,
}

#[fom(operation(Transfer), transient)]
enum Transferring {
    /// Refuses what it can before it locks anything.
    #[phase(start, to(Move, Refused), sync)]
    Check,
    /// All locks first, then the change: while this phase waits, no other fom sees the two accounts.
    #[phase(to(Done, Refused), locks, within = "10s")]
    Move,
    #[phase(end)]
    Done,
    #[phase(end, failure)]
    Refused,
}

impl TransferringTransitions for Transfer {
    fn check(&mut self, _: &mut Cx<'_>) -> Result<TransferringAfterCheck, BoxError> {
        Ok(match self.from == self.to || self.cents <= 0 {
            true => TransferringAfterCheck::Refused,
            false => TransferringAfterCheck::Move,
        })
    }

    fn move_locks(&self, cx: &Cx<'_>) -> LockSet {
        let bank: &Bank = cx.resource();
        LockSet::new()
            .write(&bank.lock(self.from))
            .write(&bank.lock(self.to))
    }

    async fn r#move(&mut self, cx: &mut Cx<'_>) -> Result<TransferringAfterMove, BoxError> {
        let bank: &Bank = cx.resource();
        let [from, to] = [self.from, self.to].map(|account| &bank.balances[account]);
        let (left, had) = (
            from.load(Ordering::Relaxed) - self.cents,
            to.load(Ordering::Relaxed),
        );
        // A slow ledger, far away.
        cx.sleep(Duration::from_millis(1)).await;
        if left < 0 {
            return Ok(TransferringAfterMove::Refused);
        }
        from.store(left, Ordering::Relaxed);
        to.store(had + self.cents, Ordering::Relaxed);
        Ok(TransferringAfterMove::Done)
    }
}

/// Takes two locks by hand, in its own order.
struct Careless(usize, usize);

#[fom(operation(Careless), transient)]
enum Taking {
    #[phase(start, to(Done))]
    Both,
    #[phase(end)]
    Done,
}

impl TakingTransitions for Careless {
    async fn both(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let bank: &Bank = cx.resource();
        let _first = bank.lock(self.0).write(cx).await?;
        // Makes the deadlock happen each time.
        cx.resource::<Barrier>().wait().await;
        let _second = bank.lock(self.1).write(cx).await?;
        Ok(())
    }
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), BoxError> {
    let locks = LongLocks::new("account");
    let bank = Bank {
        locks: locks.clone(),
        balances: std::array::from_fn(|_| AtomicI64::new(10_000)),
    };
    let builder = Runtime::builder().resource(bank);
    let runtime = builder.resource(Barrier::new(2)).build()?;

    // Transfers in all directions at once. Sets are always taken in one order, so no transfer stands in another's way.
    let mut transfers = Vec::new();
    for n in 0..100 {
        let (from, to) = (n % ACCOUNTS, (n * 7 + 1 + n / ACCOUNTS) % ACCOUNTS);
        let cents = 100;
        transfers.push(runtime.submit(Transfer { from, to, cents }).start()?);
    }
    let mut done = 0;
    for transfer in transfers {
        let ended = transfer.await.map_err(|failure| failure.to_string())?;
        done += usize::from(matches!(ended.end, TransferringEnd::Done));
    }
    let sum = runtime
        .submit(Sum)
        .await
        .map_err(|failure| failure.to_string())?;
    let SummingEnd::Summed { cents } = sum.end;
    println!("{done} transfers, and still {cents} cents in all");
    assert_eq!(cents, 40_000);
    let stats = locks.stats();
    println!(
        "{} times locked, {} of them after a wait of {:.1?} at most; held for {:.1?} at most",
        stats.total.writes, stats.total.waits, stats.total.longest_wait, stats.total.longest_hold
    );
    assert!(
        locks.is_empty(),
        "a lock without a holder or a waiter is gone"
    );

    // Locks by hand in different orders deadlock, and the runtime finds the deadlock.
    let one = runtime.submit(Careless(0, 1)).start()?;
    let two = runtime.submit(Careless(1, 0)).start()?;
    let found = loop {
        if let Some(found) = runtime.inspect().deadlocks().pop() {
            break found;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    println!("a deadlock: {found}");
    two.cancel();
    assert!(matches!(two.await, Err(failure) if matches!(failure.cause, Cause::Cancelled)));
    one.await.map_err(|failure| failure.to_string())?;
    println!("one was cancelled, the other went on");
    Ok(())
}

/// Reads all accounts at one moment.
struct Sum;

#[fom(operation(Sum), transient)]
enum Summing {
    #[phase(start, to(Summed), sync, locks)]
    Add,
    #[phase(end)]
    Summed { cents: i64 },
}

impl SummingTransitions for Sum {
    fn add_locks(&self, cx: &Cx<'_>) -> LockSet {
        let bank: &Bank = cx.resource();
        let all = (0..ACCOUNTS).map(|account| bank.lock(account));
        all.fold(LockSet::new(), |set, lock| set.read(&lock))
    }

    fn add(&mut self, cx: &mut Cx<'_>) -> Result<SummingAfterAdd, BoxError> {
        let balances = &cx.resource::<Bank>().balances;
        let cents = balances.iter().map(|cents| cents.load(Ordering::Relaxed));
        Ok(SummingAfterAdd::Summed { cents: cents.sum() })
    }
}
