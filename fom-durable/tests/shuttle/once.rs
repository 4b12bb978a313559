//! Operation ids: submissions with one id meet each other, the end of the first, and the forgetting of answers.

use std::{
    pin::pin,
    task::{Context, Waker},
};

use fom_durable::{Address, Lookup};
use serde::{Deserialize, Serialize};

use super::*;

/// The number of bookings of each account.
#[derive(Clone, Default)]
struct Runs(Arc<[AtomicUsize; 2]>);

impl Runs {
    fn of(&self, account: usize) -> usize {
        self.0[account].load(Ordering::SeqCst)
    }
}

#[derive(Serialize, Deserialize)]
struct Pay {
    account: usize,
}

#[fom(operation(Pay))]
enum Payment {
    #[phase(start, sync, to(Paid))]
    Book,
    #[phase(end)]
    Paid { receipt: usize },
}

impl PaymentTransitions for Pay {
    fn book(&mut self, cx: &mut Cx<'_>) -> Result<PaymentAfterBook, BoxError> {
        let receipt = cx.resource::<Runs>().0[self.account].fetch_add(1, Ordering::SeqCst);
        Ok(PaymentAfterBook::Paid { receipt })
    }
}

/// Returns the receipt. Returns `None` if the journal failed, or an earlier failure is not resolved yet.
fn pay(runtime: &Runtime, account: usize) -> Option<usize> {
    let submission = runtime.submit(Pay { account }).once(account as u64);
    match submission.start().map(Handle::wait) {
        Ok(Ok(ended)) => match ended.end {
            PaymentEnd::Paid { receipt } => Some(receipt),
        },
        Ok(Err(failure)) => {
            assert!(matches!(failure.cause, Cause::Journal(_)), "{failure:?}");
            None
        }
        Err(refused) => {
            assert_eq!(refused.reason(), RefusedReason::Quarantined);
            None
        }
    }
}

/// The simulation lets time pass, and shuttle lets other threads run.
const MOMENT: Duration = Duration::from_millis(1);

/// Pays until the journal works.
fn pay_at_last(runtime: &Runtime, account: usize) -> usize {
    loop {
        match pay(runtime, account) {
            Some(receipt) => return receipt,
            None => sleep(MOMENT),
        }
    }
}

/// Submissions with one id meet the end of the first, and its commit that fails. The operation runs once, and all
/// answered callers have its answer, also after a restart.
///
/// Seeded: the lock on the ids given back before the first one is in flight (it ran twice); an end that forgets the
/// callers that wait for its answer (they were told of a shutdown).
fn one_id(faults: usize) {
    check(1000, move || {
        let (disk, runs) = (Disk::failing(faults), Runs::default());
        let bench = disk.bench(2, |builder| builder.resource(runs.clone()));
        let others = [(), ()].map(|()| {
            let runtime = bench.runtime.clone();
            thread::spawn(move || pay(&runtime, 0))
        });
        let mut receipts = vec![pay(&bench.runtime, 0)];
        receipts.extend(others.map(|other| other.join().unwrap()));
        assert!(faults > 0 || receipts.iter().all(Option::is_some));
        receipts.push(Some(pay_at_last(&bench.runtime, 0)));
        bench.end(Some(Shutdown::Drain));
        let bench = disk.bench(1, |builder| builder.resource(runs.clone()));
        receipts.push(Some(pay_at_last(&bench.runtime, 0)));
        assert!(receipts.iter().flatten().all(|receipt| *receipt == 0));
        assert_eq!(runs.of(0), 1);
        assert_eq!(disk.entries().len(), 1, "its outcome");
        bench.end(Some(Shutdown::Drain));
    });
}

#[test]
fn two_with_one_id() {
    one_id(0);
}

#[test]
fn two_with_one_id_and_a_journal_that_fails() {
    one_id(1);
}

/// From the moment in which a caller sees that an operation has ended, it has ended for all: a lookup by any name returns the
/// outcome, and a cancel finds nothing in flight.
///
/// Seeded: a fom found by its key before its outcome (it was in flight again); a cancel that only asks whether the fom is
/// still in the directory (it cancelled what had ended).
#[test]
fn what_has_ended_is_not_in_flight_any_more() {
    check(2000, || {
        let (disk, runs) = (Disk::default(), Runs::default());
        let bench = disk.bench(2, |builder| builder.resource(runs.clone()));
        let pay = bench.runtime.submit(Pay { account: 0 });
        let handle = pay.key("account").once(0).start().unwrap();
        let id = handle.id();
        let has_ended = |address: Address| {
            let found = bench.runtime.outcome::<Pay>(address);
            matches!(found, Lookup::Ended { .. })
        };
        while !has_ended(Address::once(0)) {
            thread::yield_now();
        }
        assert!(has_ended("account".into()) && has_ended(id.into()));
        assert!(!bench.runtime.cancel(id));
        handle.wait().unwrap();
        bench.end(Some(Shutdown::Drain));
    });
}

#[derive(Serialize, Deserialize)]
struct Overdraw;

#[fom(operation(Overdraw))]
enum Overdraft {
    #[phase(start, sync, to(Allowed))]
    Ask,
    #[phase(end)]
    Allowed,
}

impl OverdraftTransitions for Overdraw {
    fn ask(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Err("no money".into())
    }
}

/// The same for an operation that failed and is kept: whatever sees the failure first, a lookup by any name returns it.
///
/// Seeded: a failure that lookups do not find before it is listed (it was in flight again).
#[test]
fn what_has_failed_is_not_in_flight_any_more() {
    check(2000, || {
        let disk = Disk::default();
        let bench = disk.bench(2, |builder| builder);
        let submit = || bench.runtime.submit(Overdraw).key("account").once(0);
        let id = submit().start().unwrap().id();
        let has_failed = |address: Address| {
            let found = bench.runtime.outcome::<Overdraw>(address);
            matches!(
                found,
                Lookup::Ended {
                    outcome: Err(_),
                    ..
                }
            )
        };
        // Without a wait: callers that wait are told later.
        let is_told = || {
            let told = pin!(bench.runtime.ended::<Overdraw>(0));
            told.poll(&mut Context::from_waker(Waker::noop()))
                .is_ready()
        };
        while !is_told() {
            sleep(MOMENT);
        }
        assert!(has_failed(Address::once(0)) && has_failed("account".into()));
        assert!(has_failed(id.into()) && !bench.runtime.cancel(id));
        bench.end(Some(Shutdown::Drain));
    });
}

/// Of two outcomes one is remembered. Submissions meet the end of both, and the moment in which one is forgotten. Each
/// is answered by some run, and a forgotten outcome leaves the journal.
///
/// Seeded: an outcome that is forgotten and not deleted (it stayed in the journal).
#[test]
fn a_submission_meets_what_is_forgotten() {
    check(1000, || {
        let (disk, runs) = (Disk::default(), Runs::default());
        let with = |builder: Builder| builder.resource(runs.clone()).remember(1, NEVER);
        let bench = disk.bench(2, with);
        let others = [0, 1].map(|account| {
            let runtime = bench.runtime.clone();
            thread::spawn(move || pay(&runtime, account))
        });
        let receipt = pay(&bench.runtime, 0);
        let [other, one] = others.map(|other| other.join().unwrap());
        assert_eq!((one, runs.of(1)), (Some(0), 1));
        let ran = runs.of(0);
        assert!((1..=2).contains(&ran) && receipt.max(other) == Some(ran - 1));
        assert!(receipt.min(other) == Some(0));
        // The forgotten outcome leaves the journal with the next batch.
        let another = bench.runtime.submit(Pay { account: 1 });
        another.start().unwrap().wait().unwrap();
        assert_eq!(disk.entries().len(), 1);
        bench.end(Some(Shutdown::Drain));
    });
}
