//! PR-07: operation ids. Of all submissions with the same id one runs, and all get its answer; the memory of answers is
//! bounded in number and time.

use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use fom_durable::{
    journal::{EntryId, MemoryJournal},
    prelude::*,
};
use fom_runtime::{
    Cause, Key,
    config::Shutdown,
    error::{BoxError, RefusedReason},
    time::TestClock,
};
use serde::{Deserialize, Serialize};

use crate::kit::{held::Held, limited, one, secs};

/// Counts the runs.
#[derive(Clone, Default)]
struct Runs(Arc<AtomicUsize>);

impl Runs {
    fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

#[derive(Debug, Serialize, Deserialize, PartialEq)]
struct Pay {
    cents: u64,
}

#[derive(Debug)]
enum PayEvent {
    Settled(u64),
    Refused,
    Fault(&'static str),
}

#[fom(operation(Pay), event(PayEvent))]
#[derive(Debug)]
enum Payment {
    #[phase(start, to(Wait))]
    Book,
    #[phase(sync, to(Paid, Rejected), on(Settled, Refused, Fault))]
    Wait,
    #[phase(end)]
    Paid { receipt: u64 },
    #[phase(end, failure)]
    Rejected,
}

impl PaymentTransitions for Pay {
    async fn book(&mut self, cx: &mut Cx<'_, PayEvent>) -> Result<(), BoxError> {
        cx.resource::<Runs>().0.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
    fn wait(
        &mut self,
        _: &mut Cx<'_, PayEvent>,
        event: PayEvent,
    ) -> Result<PaymentAfterWait, BoxError> {
        self.cents += 1;
        match event {
            PayEvent::Settled(receipt) => Ok(PaymentAfterWait::Paid { receipt }),
            PayEvent::Refused => Ok(PaymentAfterWait::Rejected),
            PayEvent::Fault(why) => Err(why.into()),
        }
    }
}

/// Another operation, all plain functions, that runs to its end at once.
#[derive(Debug, Serialize, Deserialize)]
struct Count;

#[fom(operation(Count))]
enum Counting {
    #[phase(start, sync, to(Counted))]
    Go,
    #[phase(end)]
    Counted { number: usize },
}

impl CountingTransitions for Count {
    fn go(&mut self, cx: &mut Cx<'_>) -> Result<CountingAfterGo, BoxError> {
        let number = cx.resource::<Runs>().0.fetch_add(1, Ordering::SeqCst);
        Ok(CountingAfterGo::Counted { number })
    }
}

/// An operation with an error of its own type.
#[derive(Debug, Serialize, Deserialize)]
struct Withdraw {
    cents: u64,
}

#[derive(Debug)]
struct Overdrawn(u64);

impl std::fmt::Display for Overdrawn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "overdrawn by {} cents", self.0)
    }
}

#[fom(operation(Withdraw), error(Overdrawn))]
enum Withdrawal {
    #[phase(start, sync, to(Withdrawn))]
    Try,
    #[phase(end)]
    Withdrawn,
}

impl WithdrawalTransitions for Withdraw {
    fn r#try(&mut self, _: &mut Cx<'_>) -> Result<(), Overdrawn> {
        Err(Overdrawn(self.cents))
    }
}

/// The text of an error is remembered, whatever the error's type.
#[test]
fn an_error_of_any_type_is_remembered_in_its_words() {
    limited(async || {
        let (journal, clock, runs) = (MemoryJournal::new(), TestClock::new(), Runs::default());
        for _ in 0..2 {
            let runtime = with(&journal, &clock, &runs);
            for _ in 0..2 {
                let failure = runtime.submit(Withdraw { cents: 5 }).once("w").await;
                let said = failure.unwrap_err().to_string();
                assert_eq!(said, "Withdraw failed in phase `Try`: overdrawn by 5 cents");
            }
        }
    });
}

fn receipt(
    ended: Result<fom_runtime::submission::Ended<Pay>, fom_runtime::Failure<Pay>>,
) -> (u64, u64) {
    let ended = ended.expect("it was paid");
    match ended.end {
        PaymentEnd::Paid { receipt } => (receipt, ended.operation.cents),
        other => panic!("it ended in {other:?}"),
    }
}

fn pay(cents: u64) -> Pay {
    Pay { cents }
}

fn with(journal: &MemoryJournal, clock: &TestClock, runs: &Runs) -> Runtime {
    one(clock)
        .resource(runs.clone())
        .journal_with(journal.clone())
        .operation::<Pay>()
        .operation::<Count>()
        .build()
        .unwrap()
}

/// Returns the number of foms and outcomes in the journal.
fn kept(journal: &MemoryJournal) -> usize {
    let ids = journal.ids();
    ids.iter().filter(|id| **id >= EntryId::HEAD).count()
}

fn without(clock: &TestClock, runs: &Runs) -> Runtime {
    one(clock).resource(runs.clone()).build().unwrap()
}

/// While the first is in flight, and after its end, every submission gets the answer of the first, with values of its
/// own.
#[test]
fn all_submissions_with_one_id_get_the_answer_of_the_first() {
    limited(async || {
        let clock = TestClock::new();
        for journaled in [false, true] {
            let runs = Runs::default();
            let runtime = if journaled {
                with(&MemoryJournal::new(), &clock, &runs)
            } else {
                without(&clock, &runs)
            };
            let first = runtime.submit(pay(10)).once("order 7").start().unwrap();
            first.reached([PaymentKind::Wait]).await;
            let second = runtime.submit(pay(20)).once("order 7").start().unwrap();
            assert_eq!(second.id(), first.id());
            second.send(PayEvent::Settled(77)).unwrap();
            assert_eq!(receipt(second.await), (77, 11));
            assert_eq!(receipt(first.await), (77, 11));
            let third = runtime.submit(pay(30)).once("order 7").start().unwrap();
            assert_eq!(receipt(third.await), (77, 11));
            assert_eq!(
                receipt(runtime.submit(pay(30)).once("order 7").await),
                (77, 11)
            );
            assert_eq!(runs.get(), 1, "it ran once, journal: {journaled}");
            assert_eq!(runtime.in_flight(), 0);
        }
    });
}

/// The first handle may be dropped, or may never exist.
#[test]
fn an_answer_does_not_need_the_first_handle() {
    limited(async || {
        let runs = Runs::default();
        let runtime = without(&TestClock::new(), &runs);
        let id = runtime.submit(pay(1)).once(7).detach().unwrap();
        let second = runtime.submit(pay(1)).once(7).start().unwrap();
        assert_eq!(second.id(), id);
        assert_eq!(runtime.submit(pay(1)).once(7).detach().unwrap(), id);
        drop(runtime.submit(pay(1)).once(7).start().unwrap());
        second.send(PayEvent::Refused).unwrap();
        let ended = second.await.unwrap();
        assert!(matches!(ended.end, PaymentEnd::Rejected));
        assert_eq!(runtime.submit(pay(1)).once(7).detach().unwrap(), id);
        assert_eq!(runs.get(), 1);
    });
}

/// Remembered answers survive a restart; a fom that was in flight goes on and is joined.
#[test]
fn ids_survive_a_restart() {
    limited(async || {
        let (journal, clock, runs) = (MemoryJournal::new(), TestClock::new(), Runs::default());
        let before_end;
        {
            let runtime = with(&journal, &clock, &runs);
            let first = runtime.submit(pay(10)).once("order 7").start().unwrap();
            first.reached([PaymentKind::Wait]).await;
            before_end = journal.fork();
            first.send(PayEvent::Settled(77)).unwrap();
            assert_eq!(receipt(first.await), (77, 11));
        }
        // As if the power failed after the end was told.
        {
            let runtime = with(&journal.fork(), &clock, &runs);
            assert_eq!(runtime.in_flight(), 0);
            let again = runtime.submit(pay(20)).once("order 7").start().unwrap();
            assert_eq!(receipt(again.await), (77, 11));
        }
        // As if the power failed before.
        let runtime = with(&before_end, &clock, &runs);
        let again = runtime.submit(pay(20)).once("order 7").start().unwrap();
        again.send(PayEvent::Settled(78)).unwrap();
        assert_eq!(receipt(again.await), (78, 11));
        assert_eq!(runs.get(), 1);
    });
}

/// At no moment does the journal have neither the fom nor its outcome, or both.
#[test]
fn the_outcome_takes_the_place_of_the_fom() {
    limited(async || {
        let (journal, clock, runs) = (MemoryJournal::new(), TestClock::new(), Runs::default());
        let runtime = with(&journal, &clock, &runs);
        let first = runtime.submit(pay(10)).once("order 7").start().unwrap();
        first.reached([PaymentKind::Wait]).await;
        let ids = journal.ids();
        first.send(PayEvent::Settled(77)).unwrap();
        assert_eq!(receipt(first.await), (77, 11));
        assert_eq!(journal.ids(), ids);
    });
}

/// Many threads at once, sync and async machine, with a journal and without.
#[test]
fn a_race_of_submissions_runs_one() {
    limited(async || {
        const THREADS: usize = 8;
        const IDS: u64 = 100;
        for journaled in [false, true] {
            let runs = Runs::default();
            let mut builder = Runtime::builder()
                .localities(2)
                .pin(false)
                .resource(runs.clone());
            if journaled {
                builder = builder
                    .journal_with(MemoryJournal::new())
                    .operation::<Count>();
            }
            let runtime = builder.build().unwrap();
            let start = Arc::new(Barrier::new(THREADS));
            let threads: Vec<_> = (0..THREADS)
                .map(|_| {
                    let (runtime, start) = (runtime.clone(), Arc::clone(&start));
                    thread::spawn(move || {
                        start.wait();
                        let handles: Vec<_> = (0..IDS)
                            .map(|id| runtime.submit(Count).once(id).start().unwrap())
                            .collect();
                        let numbers = handles.into_iter().map(|handle| {
                            let CountingEnd::Counted { number } = handle.wait().unwrap().end;
                            number
                        });
                        numbers.collect::<Vec<_>>()
                    })
                })
                .collect();
            let mut answers: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
            let first = answers.pop().unwrap();
            assert!(answers.iter().all(|other| *other == first));
            assert_eq!(runs.get(), IDS as usize);
        }
    });
}

/// An id belongs to one operation type.
#[test]
fn the_same_id_for_two_types_is_two() {
    limited(async || {
        let (journal, clock, runs) = (MemoryJournal::new(), TestClock::new(), Runs::default());
        {
            let runtime = with(&journal, &clock, &runs);
            let first = runtime.submit(pay(1)).once("x").start().unwrap();
            runtime.submit(Count).once("x").await.unwrap();
            first.send(PayEvent::Settled(5)).unwrap();
            assert_eq!(receipt(first.await), (5, 2));
            assert_eq!(runs.get(), 2);
        }
        let runtime = with(&journal, &clock, &runs);
        assert_eq!(receipt(runtime.submit(pay(1)).once("x").await), (5, 2));
        runtime.submit(Count).once("x").await.unwrap();
        assert_eq!(runs.get(), 2);
    });
}

/// A failure is an answer: its cause is remembered as text, with the phase.
#[test]
fn a_failure_is_remembered() {
    limited(async || {
        let (journal, clock, runs) = (MemoryJournal::new(), TestClock::new(), Runs::default());
        {
            let runtime = with(&journal, &clock, &runs);
            let first = runtime.submit(pay(1)).once("x").start().unwrap();
            let second = runtime.submit(pay(1)).once("x").start().unwrap();
            let cancelled = runtime.submit(pay(1)).once("y").start().unwrap();
            first.send(PayEvent::Fault("the bank is closed")).unwrap();
            assert!(matches!(first.await.unwrap_err().cause, Cause::Error(_)));
            let failure = second.await.unwrap_err();
            assert!(
                matches!(&failure.cause, Cause::Remembered { cause } if cause == "the bank is closed")
            );
            assert_eq!(
                failure.to_string(),
                "Pay failed in phase `Wait`: the bank is closed"
            );
            cancelled.cancel();
            assert!(matches!(
                cancelled.await.unwrap_err().cause,
                Cause::Cancelled
            ));
        }
        let runtime = with(&journal, &clock, &runs);
        let before = runs.get();
        let failure = runtime.submit(pay(1)).once("x").await.unwrap_err();
        assert_eq!(
            failure.to_string(),
            "Pay failed in phase `Wait`: the bank is closed"
        );
        let failure = runtime.submit(pay(1)).once("y").await.unwrap_err();
        assert!(matches!(&failure.cause, Cause::Remembered { cause } if cause == "cancelled"));
        assert_eq!(runs.get(), before);
    });
}

/// The memory is limited in time, on the journal's clock, also while nothing runs. A forgotten answer leaves the
/// journal.
#[test]
fn an_outcome_is_forgotten_when_its_time_has_passed() {
    limited(async || {
        let (journal, clock, runs) = (MemoryJournal::new(), TestClock::new(), Runs::default());
        let build = || {
            one(&clock)
                .resource(runs.clone())
                .journal_with(journal.clone())
                .operation::<Count>()
                .remember(100, secs(60))
                .build()
                .unwrap()
        };
        let runtime = build();
        runtime.submit(Count).once("a").await.unwrap();
        clock.advance(secs(30));
        runtime.submit(Count).once("b").await.unwrap();
        clock.advance(secs(29));
        runtime.submit(Count).once("a").await.unwrap();
        assert_eq!(runs.get(), 2);
        drop(runtime);
        clock.advance(secs(1));
        let runtime = build();
        runtime.submit(Count).once("b").await.unwrap();
        assert_eq!(runs.get(), 2, "b is remembered");
        runtime.submit(Count).once("a").await.unwrap();
        assert_eq!(runs.get(), 3, "a was forgotten");
        drop(runtime);
        assert_eq!(kept(&journal), 2, "a and b");
        clock.advance(secs(60));
        let runtime = build();
        runtime.submit(Count).await.unwrap();
        drop(runtime);
        assert_eq!(kept(&journal), 0, "both are forgotten");
    });
}

/// The memory is limited in number: the answers that ended first are forgotten first; a fom in flight never is.
#[test]
fn the_oldest_outcomes_are_forgotten_first() {
    limited(async || {
        let (journal, clock, runs) = (MemoryJournal::new(), TestClock::new(), Runs::default());
        let runtime = one(&clock)
            .resource(runs.clone())
            .journal_with(journal.clone())
            .operation::<Pay>()
            .operation::<Count>()
            .remember(2, secs(60))
            .build()
            .unwrap();
        let live = runtime.submit(pay(1)).once("live").start().unwrap();
        live.reached([PaymentKind::Wait]).await;
        for id in 0..5 {
            runtime.submit(Count).once(id).await.unwrap();
        }
        assert_eq!(runs.get(), 6);
        for id in [3, 4] {
            runtime.submit(Count).once(id).await.unwrap();
        }
        assert_eq!(runs.get(), 6, "the last two are remembered");
        runtime.submit(Count).once(0).await.unwrap();
        assert_eq!(runs.get(), 7, "the first was forgotten");
        let joined = runtime.submit(pay(1)).once("live").start().unwrap();
        assert_eq!(joined.id(), live.id());
        drop(runtime);
        assert!(joined.await.is_err());
        assert!(
            kept(&journal) <= 4,
            "the live one, two, and one that is not deleted yet"
        );
    });
}

/// A refusal returns the operation and leaves nothing behind: the id is as free as before.
#[test]
fn a_refused_submission_has_not_used_its_id() {
    limited(async || {
        let runs = Runs::default();
        let runtime = without(&TestClock::new(), &runs);
        let holder = runtime.submit(pay(1)).key("k").start().unwrap();
        let refused = runtime
            .submit(pay(2))
            .key("k")
            .once("x")
            .start()
            .unwrap_err();
        assert_eq!(refused.reason(), RefusedReason::KeyInUse);
        assert_eq!(refused.into_operation(), pay(2));
        let first = runtime.submit(pay(3)).key("l").once("x").start().unwrap();
        // A repetition has the key of the first, so nothing is in its way.
        let again = runtime.submit(pay(3)).key("l").once("x").start().unwrap();
        assert_eq!(again.id(), first.id());
        first.send(PayEvent::Settled(1)).unwrap();
        assert_eq!(receipt(again.await), (1, 4));
        drop(first);
        holder.cancel();
        runtime.shutdown(Shutdown::Now, secs(5)).await;
        let refused = runtime.submit(pay(9)).once("x").start().unwrap_err();
        assert_eq!(refused.reason(), RefusedReason::ShuttingDown);
        assert_eq!(refused.into_operation(), pay(9));
    });
}

/// A full runtime still gives the answers that it has.
#[test]
fn a_full_runtime_answers_from_memory() {
    limited(async || {
        let runs = Runs::default();
        let runtime = one(&TestClock::new())
            .capacity(1)
            .resource(runs.clone())
            .build()
            .unwrap();
        let first = runtime.submit(pay(1)).once("x").start().unwrap();
        let joined = runtime.submit(pay(1)).once("x").start().unwrap();
        first.send(PayEvent::Settled(1)).unwrap();
        assert_eq!(receipt(joined.await), (1, 2));
        drop(first);
        let holder = runtime.submit(pay(1)).start().unwrap();
        assert_eq!(receipt(runtime.submit(pay(1)).once("x").await), (1, 2));
        assert_eq!(
            runtime.submit(pay(1)).start().unwrap_err().reason(),
            RefusedReason::Full
        );
        drop(holder);
    });
}

/// A listener hears of no transition that did not happen.
#[test]
fn an_answer_from_memory_is_no_transition() {
    limited(async || {
        let runs = Runs::default();
        let runtime = without(&TestClock::new(), &runs);
        let heard = Arc::new(AtomicUsize::new(0));
        let hears = Arc::clone(&heard);
        let _listening = runtime.listen(move |_| {
            hears.fetch_add(1, Ordering::SeqCst);
        });
        runtime.submit(Count).once(1).await.unwrap();
        let before = heard.load(Ordering::SeqCst);
        assert_eq!(before, 2);
        runtime.submit(Count).once(1).await.unwrap();
        assert_eq!(heard.load(Ordering::SeqCst), before);
    });
}

/// The end of the runtime does not end the operation: its callers hear of the shutdown, and after a restart it is
/// joined.
#[test]
fn a_shutdown_is_told_and_not_remembered() {
    limited(async || {
        let (journal, clock, runs) = (MemoryJournal::new(), TestClock::new(), Runs::default());
        let runtime = with(&journal, &clock, &runs);
        let first = runtime.submit(pay(1)).once("x").start().unwrap();
        first.reached([PaymentKind::Wait]).await;
        let second = runtime.submit(pay(1)).once("x").start().unwrap();
        runtime.shutdown(Shutdown::Now, secs(5)).await;
        assert!(matches!(second.await.unwrap_err().cause, Cause::Shutdown));
        assert!(matches!(first.await.unwrap_err().cause, Cause::Shutdown));
        drop(runtime);
        let runtime = with(&journal, &clock, &runs);
        let third = runtime.submit(pay(1)).once("x").start().unwrap();
        third.send(PayEvent::Settled(3)).unwrap();
        assert_eq!(receipt(third.await), (3, 2));
        assert_eq!(runs.get(), 1);
    });
}

/// An end that could not be committed did not happen, and both callers hear why. Its id stays taken as long as its
/// record is there.
#[test]
fn an_end_that_cannot_be_committed_is_no_answer() {
    limited(async || {
        let (journal, runs) = (Held::default(), Runs::default());
        let clock = TestClock::new();
        let runtime = one(&clock)
            .resource(runs.clone())
            .journal_with(journal.clone())
            .operation::<Pay>()
            .build()
            .unwrap();
        let first = runtime.submit(pay(1)).once("x").start().unwrap();
        first.reached([PaymentKind::Wait]).await;
        let second = runtime.submit(pay(1)).once("x").start().unwrap();
        journal.fail(true);
        let new = runtime.submit(pay(1)).once("new").start().unwrap();
        assert!(matches!(new.await.unwrap_err().cause, Cause::Journal(_)));
        first.send(PayEvent::Settled(3)).unwrap();
        assert!(matches!(first.await.unwrap_err().cause, Cause::Journal(_)));
        assert!(matches!(second.await.unwrap_err().cause, Cause::Journal(_)));
        let refused = runtime.submit(pay(5)).once("x").start().unwrap_err();
        assert_eq!(refused.reason(), RefusedReason::Quarantined);
        assert_eq!(refused.into_operation(), pay(5));
        drop(runtime);
        let runtime = with(&journal.journal, &clock, &runs);
        let third = runtime.submit(pay(1)).once("x").start().unwrap();
        third.send(PayEvent::Settled(4)).unwrap();
        assert_eq!(receipt(third.await), (4, 2));
        let new = runtime.submit(pay(1)).once("new").start().unwrap();
        new.send(PayEvent::Settled(5)).unwrap();
        assert_eq!(receipt(new.await), (5, 2), "it had never begun");
        assert_eq!(runs.get(), 2);
    });
}

/// When the journal works again, the end is committed after all, and is the answer.
#[test]
fn an_end_that_is_committed_late_is_the_answer() {
    limited(async || {
        let (journal, runs) = (Held::default(), Runs::default());
        let clock = TestClock::new();
        let runtime = one(&clock)
            .resource(runs.clone())
            .journal_with(journal.clone())
            .build()
            .unwrap();
        let first = runtime.submit(pay(1)).once("x").start().unwrap();
        first.reached([PaymentKind::Wait]).await;
        let failed = runtime.submit(pay(1)).once("y").start().unwrap();
        failed.reached([PaymentKind::Wait]).await;
        journal.fail(true);
        first.send(PayEvent::Settled(3)).unwrap();
        assert!(matches!(first.await.unwrap_err().cause, Cause::Journal(_)));
        failed.send(PayEvent::Fault("no")).unwrap();
        assert!(matches!(failed.await.unwrap_err().cause, Cause::Journal(_)));
        journal.fail(false);
        let again = async |id: &str| {
            loop {
                // Any commit takes the waiting end with it.
                runtime.submit(Count).await.unwrap();
                match runtime.submit(pay(9)).once(id).start() {
                    Ok(handle) => break handle.await,
                    Err(refused) => assert_eq!(refused.reason(), RefusedReason::Quarantined),
                }
            }
        };
        assert_eq!(receipt(again("x").await), (3, 2));
        let failure = again("y").await.unwrap_err();
        assert!(matches!(&failure.cause, Cause::Remembered { cause } if cause == "no"));
        drop(runtime);
        let runtime = with(&journal.journal, &clock, &runs);
        assert_eq!(receipt(runtime.submit(pay(1)).once("x").await), (3, 2));
        assert!(runtime.submit(pay(1)).once("y").await.is_err());
    });
}

/// Keys of all kinds are ids.
#[test]
fn an_id_is_a_key() {
    limited(async || {
        let (journal, clock, runs) = (MemoryJournal::new(), TestClock::new(), Runs::default());
        let ids = || -> [Key; 4] {
            [
                7u64.into(),
                "7".into(),
                b"7".as_slice().into(),
                ("a", 7).into(),
            ]
        };
        {
            let runtime = with(&journal, &clock, &runs);
            for id in ids() {
                runtime.submit(Count).once(id).await.unwrap();
            }
            assert_eq!(runs.get(), 4);
        }
        let runtime = with(&journal, &clock, &runs);
        for id in ids() {
            runtime.submit(Count).once(id).await.unwrap();
        }
        assert_eq!(runs.get(), 4);
    });
}
