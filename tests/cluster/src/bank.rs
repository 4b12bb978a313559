//! What the nodes carry out: transfers between accounts of different slots, and visits that queue at desks. The transfers and accounts
//! are those of a `release`.

use std::{
    fmt,
    fs::File,
    io::{self, Write},
    sync::Arc,
    time::Duration,
};

use fom_cluster::ClusterBuilder;
use fom_durable::prelude::*;
use fom_postgres::Sql;
use serde::{Deserialize, Serialize};

use crate::release::{Account, Transfer};

const BOOK: &str = "INSERT INTO booking (account, transfer, cents) VALUES ($1, $2, $3)";

/// How long outcomes are remembered: a client may ask again until the end of the run.
const REMEMBERED: Duration = Duration::from_secs(86_400);

/// The log that all nodes write. A line is one write, so that lines of two processes do not mix.
#[derive(Clone)]
pub(crate) struct Log {
    file: Arc<File>,
    node: Arc<str>,
    /// Whether the engine has a table of bookings.
    has_table: bool,
}

impl Log {
    pub(crate) fn new(file: File, node: &str, has_table: bool) -> Self {
        Self {
            file: Arc::new(file),
            node: node.into(),
            has_table,
        }
    }

    /// Writes a row for a booking in the transaction of its commit.
    pub(crate) fn books<E>(
        &self,
        cx: &Cx<'_, E>,
        account: u32,
        (transfer, cents): (u32, i64),
    ) -> Result<(), BoxError> {
        if self.has_table {
            let sql = Sql::new(BOOK).bind(i64::from(account));
            cx.commit_with(sql.bind(i64::from(transfer)).bind(cents))?;
        }
        Ok(())
    }

    /// Notes that a phase function was entered: an effect outside of the journal.
    pub(crate) fn enters<E>(&self, cx: &Cx<'_, E>, of: &str, step: u32) -> Result<(), BoxError> {
        let term = cx.term().ok_or("a journal with a lease")?;
        Ok(self.write(of, u64::from(step), term, &cx.step_key())?)
    }

    /// Writes a line. `key` says what is done once.
    pub(crate) fn write(
        &self,
        of: &str,
        step: u64,
        term: u64,
        key: &dyn fmt::Display,
    ) -> io::Result<()> {
        let line = format!("{} {of} {step} {term} {key}\n", self.node);
        (&*self.file).write_all(line.as_bytes())
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

/// What an account hears.
#[derive(Serialize, Deserialize)]
pub(crate) enum News {
    Book { transfer: u32, cents: i64 },
    Close { expects: usize },
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
