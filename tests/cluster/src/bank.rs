//! What the nodes carry out: transfers between accounts of different slots, and visits that queue at desks.

use std::{fs::File, io::Write, sync::Arc, time::Duration};

use fom_cluster::{ClusterBuilder, ClusterCxExt as _};
use fom_durable::prelude::*;
use fom_postgres::Sql;
use serde::{Deserialize, Serialize};

/// Each booking writes a row of its own, in the transaction of its commit. The table takes a row twice.
pub(crate) const TABLE: &str =
    "CREATE TABLE booking (account bigint, transfer bigint, cents bigint)";
pub(crate) const ROWS: &str = "SELECT account || ' ' || transfer || ' ' || cents FROM booking";
const BOOK: &str = "INSERT INTO booking (account, transfer, cents) VALUES ($1, $2, $3)";

/// How long outcomes are remembered: a client may ask again until the end of the run.
const REMEMBERED: Duration = Duration::from_secs(86_400);

/// The log that all nodes write. A line is one write, so that lines of two processes do not mix.
#[derive(Clone)]
pub(crate) struct Log {
    file: Arc<File>,
    node: Arc<str>,
}

impl Log {
    pub(crate) fn new(file: File, node: &str) -> Self {
        Self {
            file: Arc::new(file),
            node: node.into(),
        }
    }

    /// Notes that a phase function was entered: an effect outside of the journal.
    fn enters<E>(&self, cx: &Cx<'_, E>, of: &str, step: u32) -> Result<(), BoxError> {
        let term = cx.term().ok_or("a journal with a lease")?;
        let line = format!("{} {of} {step} {term} {}\n", self.node, cx.step_key());
        (&*self.file).write_all(line.as_bytes())?;
        Ok(())
    }
}

/// Serves the operations.
pub(crate) fn serve(builder: ClusterBuilder, log: Log) -> ClusterBuilder {
    let builder = builder.operation::<Transfer>().operation::<Account>();
    builder.operation::<Visit>().runtime(move |builder| {
        builder
            .resource(log.clone())
            .remember(1_000_000, REMEMBERED)
    })
}

/// Moves money between two accounts: one part after the other.
#[derive(Serialize, Deserialize)]
pub(crate) struct Transfer {
    pub(crate) number: u32,
    pub(crate) from: u32,
    pub(crate) to: u32,
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
    pub(crate) number: u32,
    pub(crate) booked: Vec<(u32, i64)>,
    /// How many bookings there are in all; known at the end of the run.
    pub(crate) expects: Option<usize>,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum News {
    Book { transfer: u32, cents: i64 },
    Close { expects: usize },
}

#[fom(operation(Account), event(News))]
pub(crate) enum Keeping {
    #[phase(start, sync, on(Book, Close), to(Open, Closed))]
    Open,
    #[phase(end)]
    Closed,
}

impl KeepingTransitions for Account {
    fn open(&mut self, cx: &mut Cx<'_, News>, news: News) -> Result<KeepingAfterOpen, BoxError> {
        match news {
            News::Book { transfer, cents } => {
                let booking = 2 * transfer + u32::from(cents > 0);
                cx.resource::<Log>()
                    .enters(cx, &format!("account-{}", self.number), booking)?;
                let (account, of) = (i64::from(self.number), i64::from(transfer));
                cx.commit_with(Sql::new(BOOK).bind(account).bind(of).bind(cents))?;
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

pub(crate) fn account_key(number: u32) -> String {
    format!("account {number}")
}

/// Waits at a desk until its time is over. Visits with one key queue.
#[derive(Serialize, Deserialize)]
pub(crate) struct Visit {
    pub(crate) number: u32,
    pub(crate) desk: u32,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum Call {
    /// No node sends it.
    Come,
}

#[fom(operation(Visit), event(Call))]
pub(crate) enum Visiting {
    #[phase(start, to(Sit))]
    Enter,
    #[phase(sync, on(Come), to(Left), within = "2s", late)]
    Sit,
    #[phase(end)]
    Left,
}

impl VisitingTransitions for Visit {
    async fn enter(&mut self, cx: &mut Cx<'_, Call>) -> Result<(), BoxError> {
        cx.resource::<Log>()
            .enters(cx, &format!("desk-{}", self.desk), self.number)
    }

    fn sit(&mut self, _: &mut Cx<'_, Call>, _: Call) -> Result<VisitingAfterSit, BoxError> {
        Err("no node calls".into())
    }

    fn sit_late(&mut self, cx: &mut Cx<'_, Call>) -> Result<VisitingAfterSit, BoxError> {
        cx.resource::<Log>()
            .enters(cx, &format!("desk-{}-late", self.desk), self.number)?;
        Ok(VisitingAfterSit::Left)
    }
}
