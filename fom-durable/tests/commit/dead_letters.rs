//! Events sent through an outbox that no fom takes: quarantined, tried again, discarded.

use fom_durable::{RetryError, journal::MemoryJournal, prelude::*};
use fom_runtime::{error::BoxError, snapshot::RestoreError, time::TestClock};
use serde::{Deserialize, Serialize};

use crate::kit::{limited, one};

/// Receives money.
#[derive(Serialize, Deserialize)]
struct Account {
    cents: u32,
}

#[derive(Debug, Serialize, Deserialize)]
enum Order {
    Add(u32),
    Close,
}

#[fom(operation(Account), event(Order))]
enum Holding {
    #[phase(start, sync, to(Closed), on(Close, Add))]
    Open,
    #[phase(end)]
    Closed,
}

impl HoldingTransitions for Account {
    fn open(&mut self, _: &mut Cx<'_, Order>, order: Order) -> Result<HoldingAfterOpen, BoxError> {
        match order {
            Order::Add(cents) => {
                self.cents += cents;
                Ok(HoldingAfterOpen::Stay)
            }
            Order::Close => Ok(HoldingAfterOpen::Closed),
        }
    }
}

/// Sends the money, in one step.
#[derive(Serialize, Deserialize)]
struct Transfer {
    to: String,
    cents: Vec<u32>,
}

#[fom(operation(Transfer))]
enum Transferring {
    #[phase(start, sync, to(Sent))]
    Send,
    #[phase(end)]
    Sent,
}

impl TransferringTransitions for Transfer {
    fn send(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        for cents in &self.cents {
            cx.outbox()
                .send::<Account>(self.to.clone(), Order::Add(*cents))?;
        }
        Ok(())
    }
}

fn build(journal: &MemoryJournal) -> Runtime {
    let builder = one(&TestClock::new());
    builder.journal_with(journal.clone()).build().unwrap()
}

fn transfer(cents: &[u32]) -> Transfer {
    Transfer {
        to: "ada".into(),
        cents: cents.to_vec(),
    }
}

/// Opens the account, delivers the events that there are, and returns the account's sum.
async fn total(runtime: &Runtime, deliver: impl FnOnce(&Runtime)) -> u32 {
    let account = runtime.submit(Account { cents: 0 }).key("ada");
    let account = account.start().unwrap();
    runtime.quiet().await;
    deliver(runtime);
    runtime.quiet().await;
    account.send(Order::Close).unwrap();
    account.await.unwrap().operation.cents
}

/// The event is listed with its receiver and the reason, and survives a restart. A retry delivers it once there is a
/// receiver.
#[test]
fn an_event_without_a_receiver_is_kept() {
    limited(|| async {
        let journal = MemoryJournal::new();
        let is_listed = |runtime: &Runtime| {
            let quarantined = runtime.quarantine().list();
            assert_eq!(quarantined.len(), 1, "{quarantined:?}");
            assert_eq!(quarantined[0].operation.as_deref(), Some("Account"));
            assert_eq!(quarantined[0].key, Some("ada".into()));
            let (operation, key) = ("Account".into(), "ada".into());
            let reason = RestoreError::NoReceiver { operation, key };
            assert_eq!(quarantined[0].reason, reason);
            assert!(quarantined[0].snapshot().is_none());
            let still = runtime.quarantine().retry(quarantined[0].id);
            assert_eq!(still, Err(RetryError::Still(reason)));
            quarantined[0].id
        };
        {
            let runtime = build(&journal);
            runtime.submit(transfer(&[5])).await.unwrap();
            runtime.quiet().await;
            is_listed(&runtime);
        }
        let journal = journal.fork();
        let runtime = build(&journal);
        let id = is_listed(&runtime);
        let deliver = |runtime: &Runtime| runtime.quarantine().retry(id).unwrap();
        let cents = total(&runtime, deliver);
        assert_eq!(cents.await, 5);
        assert!(runtime.quarantine().list().is_empty());
        let runtime = build(&journal.fork());
        assert!(runtime.quarantine().list().is_empty(), "it was taken");
    });
}

/// Two events come while their receiver is busy, and the receiver ends without them.
#[test]
fn an_event_that_its_receiver_did_not_take_is_kept() {
    limited(|| async {
        let journal = MemoryJournal::new();
        let runtime = build(&journal);
        let busy = runtime.submit(Busy).key("ada").start().unwrap();
        busy.reached([WorkingKind::Work]).await;
        runtime.submit(Note).await.unwrap();
        runtime.quiet().await;
        assert!(runtime.quarantine().list().is_empty());
        busy.cancel();
        assert!(matches!(busy.await.unwrap_err().cause, Cause::Cancelled));
        let ids = |runtime: &Runtime| {
            let quarantined = runtime.quarantine().list();
            let ids: Vec<_> = quarantined
                .iter()
                .map(|quarantined| quarantined.id)
                .collect();
            let has_none = |quarantined: &fom_durable::Quarantined| {
                matches!(quarantined.reason, RestoreError::NoReceiver { .. })
            };
            assert!(quarantined.iter().all(has_none), "{quarantined:?}");
            ids
        };
        let here = ids(&runtime);
        assert_eq!(here.len(), 2);
        let journal = journal.fork();
        let runtime = build(&journal);
        assert_eq!(ids(&runtime), here, "the same after a crash");
        for id in here {
            runtime.quarantine().discard(id).await.unwrap();
        }
        let runtime = build(&journal.fork());
        assert!(runtime.quarantine().list().is_empty());
    });
}

/// Takes no event and never ends.
#[derive(Serialize, Deserialize)]
struct Busy;

#[derive(Debug, Serialize, Deserialize)]
enum Talk {
    Hello,
}

#[fom(operation(Busy), event(Talk))]
enum Working {
    #[phase(start, to(Listen))]
    Work,
    #[phase(sync, to(Idle), on(Hello))]
    Listen,
    #[phase(end)]
    Idle,
}

impl WorkingTransitions for Busy {
    async fn work(&mut self, _: &mut Cx<'_, Talk>) -> Result<(), BoxError> {
        std::future::pending().await
    }
    fn listen(&mut self, _: &mut Cx<'_, Talk>, _: Talk) -> Result<WorkingAfterListen, BoxError> {
        Ok(WorkingAfterListen::Idle)
    }
}

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
    fn write(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        for _ in 0..2 {
            cx.outbox().send::<Busy>("ada", Talk::Hello)?;
        }
        Ok(())
    }
}

/// The events that are quarantined are bounded: above the limit, the newest are dropped, and that is reported.
#[test]
fn no_more_events_are_kept_than_may_be() {
    limited(|| async {
        let journal = MemoryJournal::new();
        let runtime = build(&journal);
        runtime.submit(transfer(&[1; 10_003])).await.unwrap();
        runtime.quiet().await;
        let operations = runtime.operations();
        assert_eq!(operations.quarantine.len(), 10_000);
        let told = operations.incidents.iter();
        let dropped = told.filter(|it| it.text.contains("dropped"));
        assert_eq!(dropped.map(|it| it.count).sum::<u64>(), 3);
    });
}
