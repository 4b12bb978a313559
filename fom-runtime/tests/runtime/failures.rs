//! The last failures that no quarantine keeps.

use fom_runtime::{machine::Retry, prelude::*, time::TestClock};
use serde::{Deserialize, Serialize};

use crate::kit::{hush_localities, limited, one, secs};

const ONCE_MORE: Retry = Retry::new(1, secs(1), secs(1));

/// Fails in its second phase until a test has repaired what it needs.
#[derive(Serialize, Deserialize)]
struct Payment {
    amount: u64,
}

#[fom(operation(Payment), error(String))]
enum Paying {
    #[phase(start, to(Charge))]
    Check,
    #[phase(to(Paid), retry(ONCE_MORE))]
    Charge { account: String },
    #[phase(end)]
    Paid,
}

/// Whether the provider takes payments.
static WORKS: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

impl PayingTransitions for Payment {
    async fn check(&mut self, _: &mut Cx<'_>) -> Result<PayingAfterCheck, String> {
        Ok(PayingAfterCheck::Charge {
            account: "A1".into(),
        })
    }

    async fn charge(&mut self, cx: &mut Cx<'_>, account: &mut String) -> Result<(), String> {
        assert_eq!(
            (account.as_str(), self.amount < 9),
            ("A1", true),
            "too much"
        );
        if WORKS.load(std::sync::atomic::Ordering::Relaxed) {
            return Ok(());
        }
        Err(format!("attempt {} bounced", cx.attempt()))
    }
}

/// A transient machine, which panics, misses a deadline, or ends in its failure phase.
struct Errand(&'static str);

#[fom(operation(Errand), transient)]
enum Running {
    #[phase(start, to(Gone, Lost), within = "5s")]
    Run,
    #[phase(end)]
    Gone,
    #[phase(end, failure)]
    Lost,
}

impl RunningTransitions for Errand {
    async fn run(&mut self, cx: &mut Cx<'_>) -> Result<RunningAfterRun, BoxError> {
        match self.0 {
            "panic" => panic!("tripped"),
            "late" => cx.sleep(secs(60)).await,
            "lost" => return Ok(RunningAfterRun::Lost),
            _ => {}
        }
        Ok(RunningAfterRun::Gone)
    }
}

/// A failure is kept with its cause, its path, its attempts and its age. The snapshot runs again where it failed.
#[test]
fn a_failure_is_kept_and_can_run_again() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).history(4).build().unwrap();
        let payment = runtime.submit(Payment { amount: 7 }).key("p").start();
        let payment = payment.unwrap();
        let id = payment.id();
        runtime.quiet().await;
        clock.advance(secs(1));
        assert!(payment.await.is_err());
        clock.advance(secs(5));
        let [failed] = &runtime.inspect().failures()[..] else {
            panic!("one failure")
        };
        assert_eq!((failed.id, failed.operation), (id, "Payment"));
        assert_eq!((failed.phase, &failed.path[..]), ("Charge", &["Check"][..]));
        assert_eq!(failed.cause, "attempt 1 bounced");
        assert_eq!(failed.attempts[0].error, "attempt 0 bounced");
        assert_eq!((failed.attempts.len(), failed.age), (1, secs(5)));
        assert_eq!(
            failed.to_string(),
            format!("Payment {id} (key p) failed in Charge: attempt 1 bounced")
        );
        WORKS.store(true, std::sync::atomic::Ordering::Relaxed);
        let snapshot = failed.snapshot.as_ref().unwrap();
        let again = runtime.resume::<Payment>(snapshot).unwrap().start();
        let ended = again.unwrap().await.unwrap();
        assert_eq!(ended.operation.amount, 7);
        assert_eq!(runtime.inspect().failures().len(), 1);
    });
}

/// What ends as declared, is cancelled or shut down is no failure. A transient operation is kept without a snapshot.
/// Each type keeps as many as the builder says, the latest ones.
#[test]
fn which_failures_are_kept() {
    hush_localities();
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).failures(2).build().unwrap();
        let start = |what| runtime.submit(Errand(what)).start().unwrap();
        for what in ["gone", "lost"] {
            assert!(start(what).await.is_ok());
        }
        let cancelled = start("late");
        runtime.quiet().await;
        cancelled.cancel();
        assert!(cancelled.await.is_err());
        assert!(runtime.inspect().failures().is_empty());
        for what in ["panic", "late", "panic"] {
            let errand = start(what);
            runtime.quiet().await;
            clock.advance(secs(5));
            assert!(errand.await.is_err());
        }
        let too_much = runtime.submit(Payment { amount: 9 }).start().unwrap();
        assert!(too_much.await.is_err());
        let failures = runtime.inspect().failures();
        let causes: Vec<_> = failures.iter().map(|one| one.cause.as_str()).collect();
        assert_eq!(causes.len(), 3, "{causes:?}");
        assert!(causes[0].contains("deadline of `Run`"), "{causes:?}");
        assert!(causes[1].contains("tripped"), "{causes:?}");
        assert!(causes[2].contains("too much"), "{causes:?}");
        assert!(failures.iter().all(|one| one.path.is_empty()));
        assert!(failures[..2].iter().all(|one| one.snapshot.is_none()));
    });
}

/// A runtime that keeps none lists none.
#[test]
fn none_are_kept() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).failures(0).build().unwrap();
        let late = runtime.submit(Errand("late")).start().unwrap();
        runtime.quiet().await;
        clock.advance(secs(5));
        assert!(late.await.is_err());
        assert!(runtime.inspect().failures().is_empty());
    });
}
