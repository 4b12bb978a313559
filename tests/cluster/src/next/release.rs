//! The transfers and accounts of the next release: a transfer has a note and is looked through before the deposit, and an account
//! counts its bookings.

use std::time::Duration;

use fom_cluster::ClusterCxExt as _;
use fom_durable::prelude::*;
use fom_runtime::snapshot::Saved;
use serde::{Deserialize, Serialize};

use crate::bank::{Log, News, account_key};

/// Moves money between two accounts: one part after the other.
#[derive(Serialize, Deserialize)]
pub(crate) struct Transfer {
    pub(crate) number: u32,
    from: u32,
    to: u32,
    note: String,
}

/// The transfers of the release before have no note.
fn noted(saved: &mut Saved) -> Result<(), BoxError> {
    #[derive(Deserialize)]
    struct Old {
        number: u32,
        from: u32,
        to: u32,
    }
    let Old { number, from, to } = saved.operation()?;
    saved.set_operation(&Transfer::new(number, from, to))?;
    Ok(())
}

#[fom(operation(Transfer), version = 2, migrate(v1(noted)))]
pub(crate) enum Moving {
    #[phase(start, to(Look))]
    Withdraw,
    #[phase(sync, to(Deposit))]
    Look,
    #[phase(to(Done))]
    Deposit,
    #[phase(end)]
    Done,
}

impl Transfer {
    pub(crate) fn new(number: u32, from: u32, to: u32) -> Self {
        let note = format!("of transfer {number}");
        Self {
            number,
            from,
            to,
            note,
        }
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

    fn look(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        match self.note.is_empty() {
            true => Err("there is no note".into()),
            false => Ok(()),
        }
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
    /// The number of the bookings.
    count: usize,
}

/// The accounts of the release before have not counted.
fn counted(saved: &mut Saved) -> Result<(), BoxError> {
    #[derive(Deserialize)]
    struct Old {
        number: u32,
        booked: Vec<(u32, i64)>,
        expects: Option<usize>,
    }
    let Old {
        number,
        booked,
        expects,
    } = saved.operation()?;
    let count = booked.len();
    saved.set_operation(&Account {
        number,
        booked,
        expects,
        count,
    })?;
    Ok(())
}

#[fom(operation(Account), event(News), version = 2, migrate(v1(counted)))]
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
            count: 0,
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
                self.count += 1;
                if self.count != self.booked.len() {
                    return Err("the bookings were not counted".into());
                }
            }
            News::Close { expects } => self.expects = Some(expects),
        }
        Ok(match self.expects {
            Some(expects) if self.booked.len() >= expects => KeepingAfterOpen::Closed,
            _ => KeepingAfterOpen::Open,
        })
    }
}
