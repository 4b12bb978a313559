//! Statements that the store executes in the transaction of a step. One that fails makes its own phase fail, and nothing else.

use std::{
    any::TypeId,
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use fom_durable::{
    NotExecuted,
    journal::{
        Batch, Journal, JournalError, JournalStats, MemoryJournal, Recover, Recovery, Statement,
    },
    prelude::*,
};
use fom_runtime::{
    Cause,
    snapshot::{QuarantineKind, RestoreError},
    time::TestClock,
};
use serde::{Deserialize, Serialize};

use crate::kit::{held::Held, limited, one, secs, task::until};

/// Changes the balance of an account. Fails if it would be below zero.
#[derive(Clone, Copy)]
struct Change {
    account: u32,
    by: i64,
}

#[derive(Debug, thiserror::Error)]
#[error("account {0} has too little")]
struct TooLittle(u32);

/// A journal in a store with accounts. The changes of one commit are kept together, or not at all.
#[derive(Clone, Default)]
struct Bank {
    journal: Held,
    accounts: Arc<Mutex<BTreeMap<u32, i64>>>,
    /// How many steps each commit had.
    commits: Arc<Mutex<Vec<usize>>>,
}

impl Bank {
    fn balance(&self, account: u32) -> i64 {
        let accounts = self.accounts.lock().unwrap();
        accounts.get(&account).copied().unwrap_or(0)
    }

    fn pay_in(&self, account: u32, amount: i64) {
        *self.accounts.lock().unwrap().entry(account).or_default() += amount;
    }
}

impl Journal for Bank {
    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError> {
        self.journal.recover(to)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        let mut after = self.accounts.lock().unwrap().clone();
        for (statement, (_, change)) in batch.statements().enumerate() {
            let Change { account, by } = *change.downcast_ref().unwrap();
            let balance = after.entry(account).or_default();
            *balance += by;
            if *balance < 0 {
                let source = Arc::new(TooLittle(account));
                return Err(JournalError::Statement { statement, source });
            }
        }
        self.journal.commit(batch)?;
        *self.accounts.lock().unwrap() = after;
        self.commits
            .lock()
            .unwrap()
            .push(batch.statements().count());
        Ok(())
    }

    fn executes(&self) -> Option<TypeId> {
        Some(TypeId::of::<Change>())
    }

    fn stats(&self) -> JournalStats {
        self.journal.stats()
    }
}

/// Takes from one account in a phase with data, and gives to another one in the next phase.
#[derive(Serialize, Deserialize)]
struct Remittance {
    from: u32,
    to: u32,
    amount: i64,
    /// The step keys of the attempts.
    keys: Vec<String>,
}

#[fom(operation(Remittance))]
enum Remitting {
    #[phase(start, sync, to(Take))]
    Check,
    #[phase(sync, to(Give), retry = "3, 1s..1s")]
    Take { fee: i64 },
    #[phase(to(Done))]
    Give,
    #[phase(end)]
    Done,
}

impl RemittingTransitions for Remittance {
    fn check(&mut self, _: &mut Cx<'_>) -> Result<RemittingAfterCheck, BoxError> {
        Ok(RemittingAfterCheck::Take { fee: 1 })
    }

    fn take(&mut self, cx: &mut Cx<'_>, fee: &mut i64) -> Result<(), BoxError> {
        self.keys.push(cx.step_key().to_string());
        let (account, by) = (self.from, -self.amount);
        cx.commit_with(Statement::new(Change { account, by }))?;
        cx.commit_with(Statement::new(Change { account, by: -*fee }))?;
        cx.outbox().submit(Note).post()?;
        Ok(())
    }

    async fn give(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let (account, by) = (self.to, self.amount);
        cx.commit_with(Statement::new(Change { account, by }))?;
        Ok(())
    }
}

/// What a transfer sends with the transition out of `Take`.
#[derive(Serialize, Deserialize)]
struct Note;

#[fom(operation(Note))]
enum Noting {
    #[phase(start, sync, to(Noted))]
    Write,
    #[phase(end)]
    Noted,
}

impl NotingTransitions for Note {
    fn write(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

fn remittance(from: u32, to: u32, amount: i64) -> Remittance {
    let keys = Vec::new();
    Remittance {
        from,
        to,
        amount,
        keys,
    }
}

fn open(bank: &Bank, clock: &TestClock) -> Runtime {
    one(clock).journal_with(bank.clone()).build().unwrap()
}

fn notes(runtime: &Runtime) -> u64 {
    let types = runtime.operations().types;
    let of = types.iter().find(|of| of.operation == "Note");
    of.map_or(0, |of| of.started)
}

fn reason<E>(cause: &Cause<E>) -> String {
    let Cause::Statement(error) = cause else {
        panic!("another cause: {}", cause.name());
    };
    let Some(JournalError::Statement { statement, source }) = error.downcast_ref() else {
        panic!("another error: {error}");
    };
    format!("{statement}: {source}")
}

#[test]
fn statements_are_executed_with_their_transitions() {
    limited(|| async {
        let (bank, clock) = (Bank::default(), TestClock::new());
        bank.pay_in(1, 100);
        let runtime = open(&bank, &clock);
        runtime.submit(remittance(1, 2, 30)).await.unwrap();
        assert_eq!((bank.balance(1), bank.balance(2)), (69, 30));
        runtime.quiet().await;
        assert_eq!(notes(&runtime), 1);
    });
}

/// The retries of the phase apply. The attempts have one step key, and what is in the outbox is sent once.
#[test]
fn a_failed_statement_is_a_failed_attempt() {
    limited(|| async {
        let (bank, clock) = (Bank::default(), TestClock::new());
        let runtime = open(&bank, &clock);
        let handle = runtime.submit(remittance(1, 2, 30)).start().unwrap();
        runtime.quiet().await;
        assert_eq!(notes(&runtime), 0);
        clock.advance(secs(1));
        runtime.quiet().await;
        bank.pay_in(1, 100);
        clock.advance(secs(1));
        let done = handle.await.unwrap();
        let keys = &done.operation.keys;
        assert_eq!(keys.len(), 3, "{keys:?}");
        assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
        assert_eq!((bank.balance(1), bank.balance(2)), (69, 30));
        runtime.quiet().await;
        assert_eq!(notes(&runtime), 1);
    });
}

/// The second statement of the phase fails: the first one has no effect. The operation is kept in the phase that failed, with
/// its data, also over a restart, and can be tried again there.
#[test]
fn the_failed_operation_is_kept_in_its_phase() {
    limited(|| async {
        let (bank, clock) = (Bank::default(), TestClock::new());
        bank.pay_in(1, 30);
        let runtime = open(&bank, &clock);
        let handle = runtime
            .submit(remittance(1, 2, 30))
            .key("t")
            .start()
            .unwrap();
        let id = handle.id();
        for _ in 0..3 {
            runtime.quiet().await;
            clock.advance(secs(1));
        }
        let failure = handle.await.unwrap_err();
        assert_eq!(failure.phase, RemittingKind::Take);
        assert_eq!(reason(&failure.cause), "1: account 1 has too little");
        assert_eq!(failure.cause.name(), "statement");
        assert_eq!(failure.operation.unwrap().into_inner().keys.len(), 4);
        assert_eq!(bank.balance(1), 30);
        drop(runtime);

        let runtime = open(&bank, &clock);
        let kept = runtime.quarantine().list();
        let [kept] = &*kept else {
            panic!("{kept:?}");
        };
        assert_eq!(kept.kind(), QuarantineKind::Failed);
        assert_eq!(kept.phase.as_deref(), Some("Take"));
        let shown = kept.failure.as_ref().unwrap();
        assert_eq!(shown.path, ["Check"]);
        assert_eq!(shown.attempts.len(), 3, "{shown:?}");
        let text =
            "a statement that is committed with the transition failed: account 1 has too little";
        assert_eq!(shown.cause, text);
        let cause = text.to_owned();
        assert_eq!(kept.reason, RestoreError::Failed { cause });

        bank.pay_in(1, 1);
        let quarantine = runtime.quarantine();
        quarantine.retry(id).unwrap();
        runtime.quiet().await;
        assert_eq!((bank.balance(1), bank.balance(2)), (0, 30));
    });
}

/// Foms whose steps are in the same commit go on.
#[test]
fn others_in_the_same_commit_go_on() {
    limited(|| async {
        let (bank, clock) = (Bank::default(), TestClock::new());
        for account in 0..9 {
            bank.pay_in(account, if account % 3 == 0 { 0 } else { 11 });
        }
        let runtime = open(&bank, &clock);
        bank.journal.hold_commits(true);
        let handles: Vec<_> = (0..9)
            .map(|account| {
                runtime
                    .submit(remittance(account, 100 + account, 10))
                    .start()
            })
            .collect();
        bank.journal.hold_commits(false);
        let paid = |bank: &Bank| (0..9).filter(|of| bank.balance(100 + of) == 10).count();
        until("six transfers are paid", || paid(&bank) == 6);
        let most = bank.commits.lock().unwrap().iter().max().copied();
        assert!(most > Some(2), "several steps were in one commit: {most:?}");
        for _ in 0..3 {
            runtime.quiet().await;
            clock.advance(secs(1));
        }
        for (account, handle) in handles.into_iter().enumerate() {
            let ended = handle.unwrap().await;
            assert_eq!(ended.is_err(), account % 3 == 0, "{account}");
            if let Err(failure) = ended {
                let expected = format!("0: account {account} has too little");
                assert_eq!(reason(&failure.cause), expected);
            }
        }
        assert_eq!(paid(&bank), 6);
    });
}

/// The commit fails for a while: the statements are executed with the step, once, when the journal works again.
#[test]
fn a_stalled_step_has_its_statements() {
    limited(|| async {
        let (bank, clock) = (Bank::default(), TestClock::new());
        bank.pay_in(1, 100);
        let runtime = open(&bank, &clock);
        bank.journal.fail(true);
        let handle = runtime.submit(Visit { account: 1 }).key("v").start();
        let failure = handle.unwrap().await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Journal(_)), "{failure:?}");
        drop(runtime);
        bank.journal.fail(false);
        let runtime = open(&bank, &clock);
        let visit = runtime.submit(Visit { account: 1 }).key("v").start();
        let visit = visit.unwrap();
        visit.reached([VisitingKind::Wait]).await;
        bank.journal.fail(true);
        visit.send(Word::Take(7)).unwrap();
        let failure = visit.await.unwrap_err();
        assert!(matches!(failure.cause, Cause::Journal(_)), "{failure:?}");
        assert_eq!(bank.balance(1), 100);
        bank.journal.fail(false);
        until("the step is committed", || bank.balance(1) == 93);
        let visit = found(&runtime);
        visit.send(Word::Go).unwrap();
        until("the visit is over", || bank.balance(1) == 92);
    });
}

fn found(runtime: &Runtime) -> FomRef<Visit> {
    until("the fom is back", || runtime.find::<Visit>("v").is_some());
    runtime.find::<Visit>("v").unwrap()
}

/// A phase that stays for further events, and one with a way out.
#[derive(Serialize, Deserialize)]
struct Visit {
    account: u32,
}

#[derive(Serialize, Deserialize)]
enum Word {
    Take(i64),
    Go,
}

#[fom(operation(Visit), event(Word))]
enum Visiting {
    #[phase(start, sync, on(Take, Go), to(Leave), retry = "2, 1s..1s")]
    Wait,
    #[phase(sync, to(Left), failed(Owes))]
    Leave,
    #[phase(end)]
    Left,
    #[phase(end)]
    Owes,
}

impl VisitingTransitions for Visit {
    fn wait(&mut self, cx: &mut Cx<'_, Word>, word: Word) -> Result<VisitingAfterWait, BoxError> {
        let Word::Take(amount) = word else {
            return Ok(VisitingAfterWait::Leave);
        };
        let (account, by) = (self.account, -amount);
        cx.commit_with(Statement::new(Change { account, by }))?;
        Ok(VisitingAfterWait::Stay)
    }

    fn leave(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        let (account, by) = (self.account, -1);
        cx.commit_with(Statement::new(Change { account, by }))?;
        Ok(())
    }

    fn leave_failed(
        &mut self,
        _: &mut Cx<'_, Word>,
        cause: Cause<BoxError>,
    ) -> Result<(), BoxError> {
        assert_eq!(
            reason(&cause),
            format!("0: account {} has too little", self.account)
        );
        Ok(())
    }
}

/// A statement with the effect of an event fails: the phase takes the next event. Without enough for the last phase, the fom
/// takes the way out.
#[test]
fn a_phase_that_stays_and_a_way_out() {
    limited(|| async {
        let (bank, clock) = (Bank::default(), TestClock::new());
        bank.pay_in(1, 10);
        let runtime = open(&bank, &clock);
        let visit = runtime.submit(Visit { account: 1 }).start().unwrap();
        visit.send(Word::Take(11)).unwrap();
        runtime.quiet().await;
        clock.advance(secs(1));
        visit.send(Word::Take(4)).unwrap();
        visit.send(Word::Take(6)).unwrap();
        runtime.quiet().await;
        assert_eq!(bank.balance(1), 0);
        visit.send(Word::Go).unwrap();
        let end = visit.await.unwrap();
        assert!(matches!(end.end, VisitingEnd::Owes));
    });
}

/// A lazy machine waits for a commit with statements, so that it can fail.
#[derive(Serialize, Deserialize)]
struct Lazy {
    account: u32,
}

#[fom(operation(Lazy), durability = "lazy")]
enum Lazing {
    #[phase(start, sync, to(Done))]
    Take,
    #[phase(end)]
    Done,
}

impl LazingTransitions for Lazy {
    fn take(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let (account, by) = (self.account, -1);
        cx.commit_with(Statement::new(Change { account, by }))?;
        Ok(())
    }
}

#[test]
fn a_lazy_machine_waits() {
    limited(|| async {
        let (bank, clock) = (Bank::default(), TestClock::new());
        let runtime = open(&bank, &clock);
        let failure = runtime.submit(Lazy { account: 3 }).await.unwrap_err();
        assert_eq!(reason(&failure.cause), "0: account 3 has too little");
        bank.pay_in(3, 1);
        runtime.submit(Lazy { account: 3 }).await.unwrap();
        assert_eq!(bank.balance(3), 0);
    });
}

/// Without a store that executes it, the phase gets the statement back.
#[test]
fn other_stores_refuse_statements() {
    limited(|| async {
        let builder = one(&TestClock::new());
        let memory = builder.journal_with(MemoryJournal::new()).build().unwrap();
        let none = one(&TestClock::new()).build().unwrap();
        for (runtime, kept) in [(memory, true), (none, false)] {
            let failure = runtime.submit(Lazy { account: 3 }).await.unwrap_err();
            let Cause::Error(error) = failure.cause else {
                panic!("{failure:?}");
            };
            let error = *error.downcast::<NotExecuted>().unwrap();
            assert_eq!(matches!(error, NotExecuted::OtherStore(_)), kept, "{error}");
            let text = error.to_string();
            let change = error.into_statement();
            assert_eq!(change.downcast_ref::<Change>().unwrap().account, 3);
            match kept {
                true => assert!(text.contains("Change"), "{text}"),
                false => assert!(text.contains("no statement is committed"), "{text}"),
            }
        }
    });
}
