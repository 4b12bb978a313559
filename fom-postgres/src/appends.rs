//! Rows at the end of the log, each exactly once. If the answer to a statement is lost, a write finds out what happened.

use std::{slice, sync::Arc, time::Duration};

use fom_journal::{JournalError, Lease, Statement};
use tokio::time::sleep;
use tokio_postgres::{
    Statement as Prepared,
    types::{ToSql, Type},
};

use crate::{
    clock::{JournalTime, boot_time, nanos},
    connection::{Connection, Param},
    error::PostgresError,
    row,
    settings::Settings,
    sql::{self, Append, Failed, Transacted},
    standby::AGAIN,
};

/// How long a commit waits for a server that does not answer. Then it fails, and the caller tries again later.
const PATIENCE: Duration = Duration::from_secs(60);

/// Does nothing if the journal has another term.
const APPEND: &str = "WITH own AS (UPDATE fom_journal SET batch = $3, passed = greatest(passed, $5), at = clock_timestamp() \
     WHERE name = $1 AND term = $2 RETURNING name) \
     INSERT INTO fom_log (journal, seq, body) SELECT name, $3, $4 FROM own RETURNING seq";

/// Deletes rows, if the journal has this term. A claim waits for this statement, or this statement waits for it.
const DELETE: &str = "WITH own AS (SELECT name FROM fom_journal WHERE name = $1 AND term = $2 FOR SHARE) \
     DELETE FROM fom_log WHERE journal IN (SELECT name FROM own) AND seq >= $3 AND seq <= $4";

/// The next rows, about 8 MiB of them.
const LOAD: &str = "SELECT seq, body FROM (SELECT seq, body, \
     sum(length(body)) OVER (ORDER BY seq) - length(body) AS before FROM fom_log \
     WHERE journal = $1 AND seq >= $2 AND seq <= $3 ORDER BY seq LIMIT 1024) page \
     WHERE before < 8388608 ORDER BY seq";

/// A row that was sent, without a known result.
#[derive(Clone, Copy, Debug)]
enum Doubt {
    None,
    /// The row with this number may be in the log.
    Sent(i64),
    /// The caller was told that its rows failed: none of them may stay.
    GivenUp,
}

/// A connection, with the statement of a commit.
struct Link {
    to: Connection,
    append: Prepared,
}

/// The end of the log that this process has.
pub(crate) struct Appends {
    settings: Settings,
    me: String,
    lease: Lease,
    time: JournalTime,
    link: Option<Arc<Link>>,
    term: i64,
    /// The last row that was acknowledged.
    last: i64,
    /// The greatest number that the server may have given to a row.
    used: i64,
    doubt: Doubt,
}

impl Appends {
    pub(crate) fn new(
        settings: Settings,
        me: String,
        lease: Lease,
        time: JournalTime,
        claim: row::Claim,
    ) -> Self {
        Self {
            settings,
            me,
            lease,
            time,
            link: None,
            term: claim.term,
            last: claim.batch,
            used: claim.batch,
            doubt: Doubt::None,
        }
    }

    /// Appends rows, and executes statements with them. Returns the numbers of the rows.
    ///
    /// # Errors
    ///
    /// With statements that the server may have executed, it waits for the server for as long as that takes.
    ///
    /// Fails with [`JournalError::Fenced`] if another process has the journal; otherwise with the error of the server.
    /// None of the rows is in the log when a later call succeeds.
    pub(crate) async fn append(
        &mut self,
        bodies: &[Vec<u8>],
        statements: &[(usize, Statement)],
    ) -> Result<Vec<i64>, JournalError> {
        if !statements.is_empty() {
            return self.append_some(bodies, statements).await;
        }
        let (before, mut rows) = (self.last, Vec::new());
        for body in bodies {
            match self.append_some(slice::from_ref(body), &[]).await {
                Ok(seqs) => rows.extend(seqs),
                Err(error) => {
                    if self.last != before {
                        self.last = before;
                        self.doubt = Doubt::GivenUp;
                    }
                    return Err(error);
                }
            }
        }
        Ok(rows)
    }

    /// Appends rows in one transaction, with the statements.
    async fn append_some(
        &mut self,
        bodies: &[Vec<u8>],
        statements: &[(usize, Statement)],
    ) -> Result<Vec<i64>, JournalError> {
        let begun = boot_time();
        loop {
            let error = match self.try_append(bodies, statements).await {
                Ok(Appended::Kept) => {
                    let rows = bodies.len() as i64;
                    return Ok((self.last - rows + 1..=self.last).collect());
                }
                Ok(Appended::Fenced) => return Err(self.fenced()),
                Ok(Appended::Failed(failed)) => return Err(failed.into()),
                Err(error) => error,
            };
            let is_over = boot_time().saturating_sub(begun) >= PATIENCE;
            if self.lease.is_lost() {
                return Err(JournalError::Fenced);
            }
            let is_sent = matches!(self.doubt, Doubt::Sent(_));
            // Rows that may be there can be deleted later. What statements did cannot.
            let gives_up = is_over && (!is_sent || statements.is_empty());
            if gives_up && is_sent {
                self.doubt = Doubt::GivenUp;
            }
            if gives_up || error.is_refusal() && !is_sent {
                return Err(error.into());
            }
            sleep(AGAIN).await;
        }
    }

    fn fenced(&mut self) -> JournalError {
        self.link = None;
        self.lease.lose();
        JournalError::Fenced
    }

    async fn try_append(
        &mut self,
        bodies: &[Vec<u8>],
        statements: &[(usize, Statement)],
    ) -> Result<Appended, PostgresError> {
        if !matches!(self.doubt, Doubt::None) {
            match self.resolve().await? {
                Resolved::Fenced => return Ok(Appended::Fenced),
                Resolved::Kept => return Ok(Appended::Kept),
                Resolved::Gone => {}
            }
        }
        let link = self.linked().await?;
        let first = self.used + 1;
        let last = self.used + bodies.len() as i64;
        let rows: Vec<_> = (first..).zip(bodies).collect();
        let done = match statements {
            [] => self
                .log(&link, &rows)
                .write(false)
                .await
                .map(|is_owned| match is_owned {
                    true => Appended::Kept,
                    false => Appended::Fenced,
                }),
            statements => self.transact(&link, &rows, statements).await,
        };
        match done {
            Ok(Appended::Kept) => {
                (self.last, self.used) = (last, last);
                Ok(Appended::Kept)
            }
            Ok(done) => Ok(done),
            // The server has rolled the statement back, and says so.
            Err(error) if error.is_refusal() && !link.to.is_closed() => Err(error),
            Err(error) => {
                self.doubt = Doubt::Sent(last);
                self.used = last;
                self.link = None;
                Err(error)
            }
        }
    }

    /// Appends rows and executes statements in one transaction.
    async fn transact(
        &self,
        link: &Link,
        rows: &[(i64, &Vec<u8>)],
        statements: &[(usize, Statement)],
    ) -> Result<Appended, PostgresError> {
        let all = statements.iter();
        let all = all.map(|(group, statement)| ((0, *group), statement));
        let log = self.log(link, rows);
        Ok(match sql::transact(&link.to, all.collect(), &log).await? {
            Transacted::Committed(_) => Appended::Kept,
            Transacted::NotAccepted(_) => Appended::Fenced,
            Transacted::Failed(failed) => Appended::Failed(failed),
        })
    }

    fn log<'a>(&'a self, link: &'a Link, rows: &'a [(i64, &'a Vec<u8>)]) -> Log<'a> {
        Log {
            name: &self.settings.name,
            term: self.term,
            passed: nanos(self.time.now()),
            link,
            rows,
        }
    }

    /// Finds out whether the last row is in the log, by a write: from its acknowledgment on, no earlier statement can
    /// change the log, and all that it kept is durable.
    async fn resolve(&mut self) -> Result<Resolved, PostgresError> {
        let link = self.linked().await?;
        let claimed = row::claim_again(&link.to, &self.settings.name, &self.me).await;
        let claimed = claimed.inspect_err(|_| self.link = None)?;
        let Some(claim) = claimed else {
            return Ok(Resolved::Fenced);
        };
        self.term = claim.term;
        self.lease.set_term(claim.term.cast_unsigned());
        match self.doubt {
            Doubt::Sent(seq) if claim.batch >= seq => {
                (self.last, self.doubt) = (seq, Doubt::None);
                return Ok(Resolved::Kept);
            }
            Doubt::GivenUp => {
                let from = self.last + 1;
                self.delete(from, i64::MAX).await?;
            }
            _ => {}
        }
        self.doubt = Doubt::None;
        Ok(Resolved::Gone)
    }

    /// Deletes rows. If the answer is lost, the rows may be there or not.
    async fn delete(&mut self, from: i64, to: i64) -> Result<(), PostgresError> {
        let link = self.linked().await?;
        let params: [Param<'_>; 4] = [
            (&self.settings.name, Type::TEXT),
            (&self.term, Type::INT8),
            (&from, Type::INT8),
            (&to, Type::INT8),
        ];
        let deleted = link.to.query_once(DELETE, &params).await;
        deleted.map(drop).inspect_err(|_| self.link = None)
    }

    /// Deletes the oldest rows, up to this one, and those that a lost answer left there before.
    pub(crate) async fn delete_until(&mut self, last: i64) -> Result<(), PostgresError> {
        self.delete(0, last).await
    }

    /// Returns the first rows from `from` to `to`, in their order.
    pub(crate) async fn load(
        &mut self,
        from: i64,
        to: i64,
    ) -> Result<Vec<(i64, Vec<u8>)>, PostgresError> {
        let link = self.linked().await?;
        let params: [Param<'_>; 3] = [
            (&self.settings.name, Type::TEXT),
            (&from, Type::INT8),
            (&to, Type::INT8),
        ];
        let rows = link.to.query_once(LOAD, &params).await;
        let rows = rows.inspect_err(|_| self.link = None);
        let rows = rows?.into_iter();
        rows.map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
            .collect()
    }

    /// Gives the journal up, so that a standby takes it over at once.
    pub(crate) async fn release(&mut self) -> Result<(), PostgresError> {
        let link = self.linked().await?;
        let passed = self.time.now();
        row::release(&link.to, &self.settings.name, &self.me, passed).await
    }

    /// Returns the connection. Opens one if there is none that works.
    async fn linked(&mut self) -> Result<Arc<Link>, PostgresError> {
        if let Some(link) = &self.link
            && !link.to.is_closed()
        {
            return Ok(Arc::clone(link));
        }
        let to = self.settings.servers.connect().await?;
        let types = [Type::TEXT, Type::INT8, Type::INT8, Type::BYTEA, Type::INT8];
        let append = to.statement(APPEND, &types).await?;
        let link = Arc::new(Link { to, append });
        self.link = Some(Arc::clone(&link));
        Ok(link)
    }
}

/// Rows for the end of the log.
struct Log<'a> {
    name: &'a str,
    term: i64,
    passed: i64,
    link: &'a Link,
    rows: &'a [(i64, &'a Vec<u8>)],
}

impl Log<'_> {
    /// Returns whether this process has the journal. If not, no row is appended. `inside`: in an open transaction.
    async fn write(&self, inside: bool) -> Result<bool, PostgresError> {
        for (seq, body) in self.rows {
            let params: [&(dyn ToSql + Sync); 5] =
                [&self.name, &self.term, seq, body, &self.passed];
            let appended = match inside {
                true => {
                    self.link
                        .to
                        .query_inside(&self.link.append, &params)
                        .await?
                }
                false => self.link.to.query(&self.link.append, &params).await?,
            };
            if appended.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Append for Log<'_> {
    type Appended = bool;

    async fn append(&self) -> Result<bool, PostgresError> {
        self.write(true).await
    }

    /// Whether this process has the journal.
    fn accepts(&self, is_owned: &bool) -> bool {
        *is_owned
    }
}

/// What a try has done.
enum Appended {
    Kept,
    /// Another process has the journal.
    Fenced,
    /// A statement failed, and nothing was appended.
    Failed(Failed),
}

enum Resolved {
    /// The row is in the log.
    Kept,
    /// The row is not in the log, and never will be.
    Gone,
    /// Another process has the journal.
    Fenced,
}
