//! Operations that pay for each of their events, under its key. Bills come through outboxes of senders in other
//! localities, and directly, with an id or without one. After a restart another bill comes first.

use std::collections::BTreeSet;

use fom_durable::prelude::*;
use fom_runtime::{
    error::SendError,
    submission::{EventSender, Placement},
};
use serde::{Deserialize, Serialize};

use super::{Mark, Story, mixed};
use crate::{
    history::{History, now},
    points::{Point, Points},
};

/// The count of numbers of each operation: its own, and those of its payers.
pub(crate) const NUMBERS: u64 = 4;

/// The payers of one operation.
const PAYERS: u64 = 3;

/// The bills of one operation: one for each payer, and the direct ones with an id.
const BILLS: u64 = 5;

/// An event that the operation pays.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Bill {
    /// A bill that must arrive.
    Due(u64),
    /// A bill that comes once, and may be lost.
    Tip(u128),
}

/// The state of both kinds of receivers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Book {
    mark: Mark,
    paid: BTreeSet<u64>,
}

impl Book {
    fn new(n: u64) -> Self {
        Self {
            mark: Mark::new(n),
            paid: BTreeSet::new(),
        }
    }

    /// Submits the payers.
    fn begin(&mut self, cx: &Cx<'_, Bill>) -> Result<(), BoxError> {
        self.mark.effect(cx, "Begin");
        for n in self.mark.n + 1..=self.mark.n + PAYERS {
            let payer = cx.outbox().submit(Payer::make(n));
            payer.place(Placement::RoundRobin).post()?;
        }
        self.mark.hop();
        Ok(())
    }

    /// The provider takes the money once for each key.
    fn pay(&mut self, cx: &Cx<'_, Bill>, bill: &Bill) {
        let points = cx.resource::<Points>();
        points.pass(Point::BeforeEffect);
        let (n, key) = (self.mark.n, cx.step_key());
        let history = cx.resource::<History>();
        match bill {
            Bill::Due(due) => {
                history.line(format_args!("P {n} {} due-{due} {key}", cx.id()));
                self.paid.insert(*due);
            }
            Bill::Tip(tip) => history.line(format_args!("P {n} {} tip-{tip} {key}", cx.id())),
        }
        points.pass(Point::AfterEffect);
    }

    fn is_full(&self) -> bool {
        self.paid.len() as u64 == BILLS
    }

    fn outcome(&self) -> String {
        format!("paid-{:?}", self.paid).replace(' ', "")
    }
}

/// Sends the direct bills, again after each restart: a new tip each time, and the bills with ids in any order.
///
/// # Errors
///
/// Fails if the receiver has ended.
pub(crate) fn send_bills(to: &EventSender<Bill>) -> Result<(), SendError<Bill>> {
    let any = now().as_nanos();
    to.send(Bill::Tip(any))?;
    let ids = PAYERS..BILLS;
    let turn = any as u64 % (BILLS - PAYERS);
    for due in ids.clone().cycle().skip(turn as usize).take(ids.count()) {
        to.send_with_id(("bill", due), Bill::Due(due))?;
    }
    Ok(())
}

/// Takes each bill in a `sync` phase that stays.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Till(Book);

#[fom(operation(Till), event(Bill))]
pub(crate) enum Tilling {
    #[phase(start, sync, to(Open))]
    Begin,
    #[phase(sync, on(Due, Tip), to(Last))]
    Open,
    #[phase(sync, to(Done))]
    Last,
    #[phase(end)]
    Done,
}

impl TillingTransitions for Till {
    fn resume(&mut self, cx: &mut Cx<'_, Bill>, _: &mut Tilling) -> Result<(), BoxError> {
        Ok(send_bills(&cx.address())?)
    }
    fn begin(&mut self, cx: &mut Cx<'_, Bill>) -> Result<(), BoxError> {
        self.0.begin(cx)
    }
    fn open(&mut self, cx: &mut Cx<'_, Bill>, bill: Bill) -> Result<TillingAfterOpen, BoxError> {
        self.0.pay(cx, &bill);
        if !self.0.is_full() {
            return Ok(TillingAfterOpen::Stay);
        }
        self.0.mark.hop();
        Ok(TillingAfterOpen::Last)
    }
    fn last(&mut self, cx: &mut Cx<'_, Bill>) -> Result<(), BoxError> {
        self.0.mark.step(cx, "Last")
    }
}

/// Takes two bills in each visit of an async phase.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Desk(Book);

#[fom(operation(Desk), event(Bill))]
pub(crate) enum Sitting {
    #[phase(start, sync, to(Serve))]
    Begin,
    #[phase(on(Due, Tip), to(Serve, Last))]
    Serve,
    #[phase(sync, to(Done))]
    Last,
    #[phase(end)]
    Done,
}

impl SittingTransitions for Desk {
    fn resume(&mut self, cx: &mut Cx<'_, Bill>, _: &mut Sitting) -> Result<(), BoxError> {
        Ok(send_bills(&cx.address())?)
    }
    fn begin(&mut self, cx: &mut Cx<'_, Bill>) -> Result<(), BoxError> {
        self.0.begin(cx)
    }
    async fn serve(&mut self, cx: &mut Cx<'_, Bill>) -> Result<SittingAfterServe, BoxError> {
        self.0.mark.effect(cx, "Serve");
        for _ in 0..2 {
            if !self.0.is_full() {
                let bill = cx.event().await;
                self.0.pay(cx, &bill);
            }
        }
        self.0.mark.hop();
        Ok(match self.0.is_full() {
            true => SittingAfterServe::Last,
            false => SittingAfterServe::Serve,
        })
    }
    fn last(&mut self, cx: &mut Cx<'_, Bill>) -> Result<(), BoxError> {
        self.0.mark.step(cx, "Last")
    }
}

/// Sends one bill through its outbox.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Payer {
    mark: Mark,
}

/// Returns whether the operation with this number is a desk.
pub(crate) fn is_desk(n: u64) -> bool {
    mixed(n).is_multiple_of(2)
}

#[fom(operation(Payer))]
pub(crate) enum Paying {
    #[phase(start, to(Send))]
    Begin,
    #[phase(sync, to(Last))]
    Send,
    #[phase(sync, to(Done))]
    Last,
    #[phase(end)]
    Done,
}

impl PayingTransitions for Payer {
    async fn begin(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.effect(cx, "Begin");
        let micros = mixed(self.mark.n) % 2_000;
        cx.sleep(std::time::Duration::from_micros(micros)).await;
        self.mark.hop();
        Ok(())
    }
    fn send(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.effect(cx, "Send");
        self.mark.hop();
        let place = self.mark.n % NUMBERS;
        let (to, bill) = (("bills", self.mark.n - place), Bill::Due(place - 1));
        match is_desk(self.mark.n - place) {
            true => cx.outbox().send::<Desk>(to, bill)?,
            false => cx.outbox().send::<Till>(to, bill)?,
        }
        Ok(())
    }
    fn last(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.mark.step(cx, "Last")
    }
}

impl Story for Payer {
    const LETTER: char = 'y';
    fn make(n: u64) -> Self {
        Self { mark: Mark::new(n) }
    }
    marked!(mark);
    fn outcome(&self) -> String {
        "sent".to_owned()
    }
    fn due(_: u64) -> String {
        "sent".to_owned()
    }
}

macro_rules! receiver {
    ($operation:ident, $letter:literal) => {
        impl Story for $operation {
            const LETTER: char = $letter;
            fn make(n: u64) -> Self {
                Self(Book::new(n))
            }
            marked!(0.mark);
            fn outcome(&self) -> String {
                self.0.outcome()
            }
            fn due(_: u64) -> String {
                "paid-{0,1,2,3,4}".to_owned()
            }
        }
    };
}

receiver!(Till, 'i');
receiver!(Desk, 'j');
