//! The transfers and accounts of this release.

use std::time::Duration;

use fom_cluster::ClusterCxExt as _;
use fom_durable::prelude::*;
use serde::{Deserialize, Serialize};

use crate::bank::{Log, News, account_key};

/// Moves money between two accounts: one part after the other.
#[derive(Serialize, Deserialize)]
pub(crate) struct Transfer {
    pub(crate) number: u32,
    from: u32,
    to: u32,
}

#[fom(operation(Transfer))]
pub(crate) enum Moving {
    #[phase(start, to(Deposit))]
    Withdraw,
    #[phase(to(Done))]
    Deposit,
    #[phase(end)]
    Done,
}

impl Transfer {
    pub(crate) fn new(number: u32, from: u32, to: u32) -> Self {
        Self { number, from, to }
    }

    fn book(&self, cx: &Cx<'_>, account: u32, sign: i64) -> Result<(), BoxError> {
        let step = u32::from(sign > 0);
        cx.resource::<Log>()
            .enters(cx, &format!("transfer-{}", self.number), step)?;
        let booking = News::Book {
            transfer: self.number,
            cents: sign * i64::from(self.number + 1),
        };
        cx.letters()
            .send::<Account>(account_key(account), booking)?;
        Ok(())
    }
}

impl MovingTransitions for Transfer {
    async fn withdraw(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.sleep(Duration::from_millis(50)).await;
        self.book(cx, self.from, -1)
    }

    async fn deposit(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        self.book(cx, self.to, 1)
    }
}

/// Keeps the transfers of which it has heard, and their cents.
#[derive(Serialize, Deserialize)]
pub(crate) struct Account {
    number: u32,
    pub(crate) booked: Vec<(u32, i64)>,
    /// How many bookings there are in all; known at the end of the run.
    expects: Option<usize>,
}

#[fom(operation(Account), event(News))]
pub(crate) enum Keeping {
    #[phase(start, sync, on(Book, Close), to(Open, Closed))]
    Open,
    #[phase(end)]
    Closed,
}

impl Account {
    pub(crate) fn new(number: u32) -> Self {
        Self {
            number,
            booked: Vec::new(),
            expects: None,
        }
    }
}

impl KeepingTransitions for Account {
    fn open(&mut self, cx: &mut Cx<'_, News>, news: News) -> Result<KeepingAfterOpen, BoxError> {
        match news {
            News::Book { transfer, cents } => {
                let booking = 2 * transfer + u32::from(cents > 0);
                cx.resource::<Log>()
                    .enters(cx, &format!("account-{}", self.number), booking)?;
                cx.resource::<Log>()
                    .books(cx, self.number, (transfer, cents))?;
                self.booked.push((transfer, cents));
            }
            News::Close { expects } => self.expects = Some(expects),
        }
        Ok(match self.expects {
            Some(expects) if self.booked.len() >= expects => KeepingAfterOpen::Closed,
            _ => KeepingAfterOpen::Open,
        })
    }
}
