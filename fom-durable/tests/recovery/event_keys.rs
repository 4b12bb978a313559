//! The step key of an event is the same in every step that takes the event, and no other event has it: over a crash and
//! within one run.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use fom_durable::{journal::MemoryJournal, prelude::*};
use fom_runtime::{
    Builder,
    context::{Reply, StepKey},
    submission::EventSender,
    time::TestClock,
};
use serde::{Deserialize, Serialize};

use crate::kit::{limited, many, millis, one};

/// A provider that logs each payment with its key, and the journal as a crash before the next commit leaves it.
#[derive(Clone, Default)]
struct Bank {
    paid: Arc<Mutex<Vec<(String, StepKey)>>>,
    journal: MemoryJournal,
    crashed: Arc<Mutex<Option<MemoryJournal>>>,
}

impl Bank {
    fn pay(&self, what: &str, key: StepKey) {
        let mut paid = self.paid.lock().unwrap();
        paid.push((what.to_owned(), key));
        let mut crashed = self.crashed.lock().unwrap();
        crashed.get_or_insert_with(|| self.journal.fork());
    }

    fn take(&self) -> Vec<(String, StepKey)> {
        std::mem::take(&mut *self.paid.lock().unwrap())
    }

    /// Returns each payment with the index of the first payment under the same key.
    fn keys(&self) -> Vec<(String, usize)> {
        let paid = self.take();
        let first = |key| paid.iter().position(|other| other.1 == key).unwrap();
        let paid = paid.iter();
        paid.map(|(what, key)| (what.clone(), first(*key)))
            .collect()
    }
}

#[derive(Serialize, Deserialize)]
enum Bill {
    Pay(String),
    /// The attempt fails after that.
    Fail(String),
    Close,
}

fn pay(what: &str) -> Bill {
    Bill::Pay(what.to_owned())
}

/// The first event of a fom after a restart.
type First = Arc<Mutex<Option<Bill>>>;

fn send_first(cx: &Cx<'_, Bill>, address: &EventSender<Bill>) -> Result<(), BoxError> {
    if let Some(bill) = cx.resource::<First>().lock().unwrap().take() {
        address.send(bill)?;
    }
    Ok(())
}

/// Pays each bill as it comes, with plain functions.
#[derive(Serialize, Deserialize)]
struct Register;

#[fom(operation(Register), event(Bill))]
enum Tilling {
    #[phase(
        start,
        sync,
        on(Pay, Fail, Close),
        to(Closed),
        retry = "1, 10ms..10ms",
        exhausted
    )]
    Open,
    #[phase(end)]
    Closed,
}

impl TillingTransitions for Register {
    fn resume(&mut self, cx: &mut Cx<'_, Bill>, _: &mut Tilling) -> Result<(), BoxError> {
        send_first(cx, &cx.address())
    }
    fn open(&mut self, cx: &mut Cx<'_, Bill>, bill: Bill) -> Result<TillingAfterOpen, BoxError> {
        match bill {
            Bill::Pay(what) => cx.resource::<Bank>().pay(&what, cx.step_key()),
            Bill::Fail(what) => {
                cx.resource::<Bank>().pay(&what, cx.step_key());
                return Err("no".into());
            }
            Bill::Close => return Ok(TillingAfterOpen::Closed),
        }
        Ok(TillingAfterOpen::Stay)
    }
    fn open_exhausted(&mut self, cx: &mut Cx<'_, Bill>) -> Result<TillingAfterOpen, BoxError> {
        cx.resource::<Bank>().pay("exhausted", cx.step_key());
        Ok(TillingAfterOpen::Closed)
    }
}

/// Pays each bill as it comes, all in one visit.
#[derive(Serialize, Deserialize)]
struct Desk;

#[fom(operation(Desk), event(Bill))]
enum Sitting {
    #[phase(
        start,
        on(Pay, Fail, Close),
        to(Closed),
        within = "1s",
        late,
        retry = "1, 10ms..10ms"
    )]
    Open,
    #[phase(end)]
    Closed,
}

impl SittingTransitions for Desk {
    fn resume(&mut self, cx: &mut Cx<'_, Bill>, _: &mut Sitting) -> Result<(), BoxError> {
        send_first(cx, &cx.address())
    }
    async fn open(&mut self, cx: &mut Cx<'_, Bill>) -> Result<(), BoxError> {
        let bank = cx.resource::<Bank>();
        if cx.key().is_none() {
            bank.pay("before", cx.step_key());
        }
        loop {
            match cx.event().await {
                Bill::Pay(what) => bank.pay(&what, cx.step_key()),
                Bill::Fail(what) => {
                    bank.pay(&what, cx.step_key());
                    return Err("no".into());
                }
                Bill::Close => return Ok(()),
            }
        }
    }
    async fn open_late(&mut self, cx: &mut Cx<'_, Bill>) -> Result<(), BoxError> {
        cx.resource::<Bank>().pay("late", cx.step_key());
        Ok(())
    }
}

/// Sends a bill through its outbox.
#[derive(Serialize, Deserialize)]
struct Customer;

#[fom(operation(Customer))]
enum Sending {
    #[phase(start, sync, to(Sent))]
    Send,
    #[phase(end)]
    Sent,
}

impl SendingTransitions for Customer {
    fn send(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        match cx.runtime().find::<Register>("till") {
            Some(_) => cx.outbox().send::<Register>("till", pay("x"))?,
            None => cx.outbox().send::<Desk>("till", pay("x"))?,
        }
        Ok(())
    }
}

fn built(builder: Builder, bank: &Bank, first: &First) -> Runtime {
    let builder = builder.resource(bank.clone()).resource(first.clone());
    builder
        .operation::<Register>()
        .operation::<Desk>()
        .build()
        .unwrap()
}

/// How the bill `x` comes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Outbox,
    Id,
}

/// Takes `x`, dies before the commit, and takes `y` first after the restart. Returns the payments of both lives.
async fn crashed<O: Operation<Event = Bill>>(make: fn() -> O, by: By) -> Vec<(String, StepKey)> {
    let (clock, bank, first) = (TestClock::new(), Bank::default(), First::default());
    let life = built(
        many(2, &clock).journal_with(bank.journal.clone()),
        &bank,
        &first,
    );
    let fom = life.submit(make()).key("till").start().unwrap();
    life.quiet().await;
    match by {
        By::Outbox => drop(life.submit(Customer).await.unwrap()),
        By::Id => fom.send_with_id(("client", "r-1"), pay("x")).unwrap(),
    }
    life.quiet().await;
    drop((fom, life));
    let journal = bank.crashed.lock().unwrap().take().expect("x was paid");
    *first.lock().unwrap() = Some(pay("y"));
    let life = built(many(1, &clock).journal_with(journal), &bank, &first);
    life.quiet().await;
    if by == By::Id {
        let fom = life.find::<O>("till").expect("it came back");
        fom.send_with_id(("client", "r-1"), pay("x")).unwrap();
    }
    life.quiet().await;
    bank.take()
}

/// An event from an outbox, or an event that its sender repeats with its id, has the same key after a crash. This holds
/// also when another event comes first. The other event has a key of its own.
#[test]
fn another_event_after_a_crash_does_not_get_the_key_of_the_first() {
    for by in [By::Outbox, By::Id] {
        limited(async move || {
            let lives = [crashed(|| Register, by).await, crashed(|| Desk, by).await];
            for paid in lives {
                let what: Vec<_> = paid.iter().map(|(what, _)| what.as_str()).collect();
                assert_eq!(what, ["x", "y", "x"], "{by:?}");
                assert_ne!(paid[1].1, paid[0].1, "{by:?}: y is taken for x");
                assert_eq!(paid[2].1, paid[0].1, "{by:?}: x is paid twice");
            }
        });
    }
}

fn runtime(clock: &TestClock, journaled: bool, bank: &Bank) -> Runtime {
    let builder = match journaled {
        true => one(clock).journal_with(bank.journal.clone()),
        false => one(clock),
    };
    built(builder, bank, &First::default())
}

fn expected<const N: usize>(paid: [(&str, usize); N]) -> Vec<(String, usize)> {
    paid.map(|(what, key)| (what.to_owned(), key)).to_vec()
}

/// In a `sync` phase each event has its own key, also where each event is an attempt of one visit. The `exhausted`
/// function has the key of the last event.
#[test]
fn each_attempt_with_another_event_has_another_key() {
    for journaled in [true, false] {
        limited(async move || {
            let (clock, bank) = (TestClock::new(), Bank::default());
            let runtime = runtime(&clock, journaled, &bank);
            let till = runtime.submit(Register).start().unwrap();
            for bill in ["a", "b"] {
                till.send(pay(bill)).unwrap();
            }
            for bill in ["c", "d"] {
                till.send(Bill::Fail(bill.into())).unwrap();
            }
            runtime.quiet().await;
            clock.advance(millis(10));
            till.await.unwrap();
            let paid = expected([("a", 0), ("b", 1), ("c", 2), ("d", 3), ("exhausted", 3)]);
            assert_eq!(bank.keys(), paid, "journal: {journaled}");
        });
    }
}

/// In an async phase each event changes the key. The next attempt begins with the key of the visit again.
#[test]
fn the_key_changes_when_an_event_is_taken() {
    for journaled in [true, false] {
        limited(async move || {
            let (clock, bank) = (TestClock::new(), Bank::default());
            let runtime = runtime(&clock, journaled, &bank);
            let desk = runtime.submit(Desk).start().unwrap();
            desk.send(pay("a")).unwrap();
            desk.send(Bill::Fail("b".into())).unwrap();
            desk.send(pay("c")).unwrap();
            runtime.quiet().await;
            clock.advance(millis(10));
            runtime.quiet().await;
            clock.advance(millis(1000));
            desk.await.unwrap();
            let paid = bank.keys();
            let what: Vec<_> = paid.iter().map(|(what, _)| what.as_str()).collect();
            assert_eq!(what, ["before", "a", "b", "before", "c", "late"]);
            let keys: Vec<_> = paid.iter().map(|(_, key)| *key).collect();
            // Without a journal there is no restart after which it must be the same.
            let again = if journaled { [0, 0] } else { [3, 5] };
            assert_eq!(
                keys,
                [0, 1, 2, again[0], 4, again[1]],
                "journal: {journaled}"
            );
        });
    }
}

/// An event that its sender repeats with its id has the same key, with a journal and without. A repeated event without
/// an id is another event.
#[test]
fn an_event_with_an_id_has_one_key_however_often_it_is_sent() {
    for journaled in [true, false] {
        limited(async move || {
            let (clock, bank) = (TestClock::new(), Bank::default());
            let runtime = runtime(&clock, journaled, &bank);
            let till = runtime.submit(Register).start().unwrap();
            till.send(pay("none")).unwrap();
            for id in [1u64, 2, 1] {
                till.send_with_id(id, pay(&id.to_string())).unwrap();
                till.sender().send(pay("none")).unwrap();
            }
            till.sender().send_with_id("1", pay("text")).unwrap();
            till.send_with_id(1, Bill::Close).unwrap();
            till.await.unwrap();
            let paid = expected([
                ("none", 0),
                ("1", 1),
                ("none", 2),
                ("2", 3),
                ("none", 4),
                ("1", 1),
                ("none", 6),
                ("text", 7),
            ]);
            assert_eq!(bank.keys(), paid, "journal: {journaled}");
        });
    }
}

/// Two foms may get events with the same id.
#[test]
fn an_id_is_of_one_receiver() {
    limited(async || {
        let (clock, bank) = (TestClock::new(), Bank::default());
        let runtime = runtime(&clock, true, &bank);
        for _ in 0..2 {
            let till = runtime.submit(Register).start().unwrap();
            till.send_with_id("r-1", pay("it")).unwrap();
            till.send(Bill::Close).unwrap();
            till.await.unwrap();
        }
        assert_eq!(bank.keys(), expected([("it", 0), ("it", 1)]));
    });
}

/// Makes a request for each of its events, and logs the part of its key.
#[derive(Serialize, Deserialize)]
struct Asker;

#[fom(operation(Asker), event(Bill))]
enum Asking {
    #[phase(start, on(Pay, Fail, Close), to(Done))]
    Ask,
    #[phase(end)]
    Done,
}

#[derive(Clone, Default)]
struct Clerk(Arc<Mutex<BTreeMap<StepKey, String>>>);

impl AskingTransitions for Asker {
    async fn ask(&mut self, cx: &mut Cx<'_, Bill>) -> Result<(), BoxError> {
        while let Bill::Pay(what) = cx.event().await {
            for number in 1..3 {
                let expected = cx.step_key().part(number);
                let ask = |clerk: &Clerk, reply: Reply<()>| {
                    assert_eq!(reply.step_key(), Some(expected));
                    clerk.0.lock().unwrap().insert(expected, what.clone());
                    reply.send(()).unwrap();
                };
                cx.call(ask).await?;
            }
        }
        Ok(())
    }
}

/// The requests for each event are numbered from 1: an earlier event may be a later one when the fom takes the events
/// again.
#[test]
fn requests_are_numbered_anew_for_each_event() {
    limited(async || {
        let (clock, clerk) = (TestClock::new(), Clerk::default());
        let builder = one(&clock).resource(clerk.clone());
        let runtime = builder.journal_with(MemoryJournal::new()).build().unwrap();
        let asker = runtime.submit(Asker).start().unwrap();
        for bill in [pay("a"), pay("b"), Bill::Close] {
            asker.send(bill).unwrap();
        }
        asker.await.unwrap();
        assert_eq!(clerk.0.lock().unwrap().len(), 4);
    });
}
