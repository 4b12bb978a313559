//! Rows at the end of the log, each exactly once. If the answer to a statement is lost, a write finds out what happened.

use std::{sync::Arc, time::Duration};

use fom_journal::{JournalError, Lease};
use tokio::time::sleep;
use tokio_postgres::{Statement, types::Type};

use crate::{
    clock::{JournalTime, boot_time, nanos},
    connection::{Connection, Param},
    error::PostgresError,
    row,
    settings::Settings,
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
    append: Statement,
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

    /// Appends rows. Returns their numbers.
    ///
    /// # Errors
    ///
    /// Fails with [`JournalError::Fenced`] if another process has the journal; otherwise with the error of the server.
    /// None of the rows is in the log when a later call succeeds.
    pub(crate) async fn append(&mut self, bodies: &[Vec<u8>]) -> Result<Vec<i64>, JournalError> {
        let (before, mut rows) = (self.last, Vec::new());
        for body in bodies {
            match self.append_one(body).await {
                Ok(seq) => rows.push(seq),
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

    async fn append_one(&mut self, body: &[u8]) -> Result<i64, JournalError> {
        let begun = boot_time();
        loop {
            let error = match self.try_append(body).await {
                Ok(Some(seq)) => return Ok(seq),
                Ok(None) => return Err(self.fenced()),
                Err(error) => error,
            };
            let is_over = boot_time().saturating_sub(begun) >= PATIENCE;
            if self.lease.is_lost() {
                return Err(JournalError::Fenced);
            }
            let is_sent = matches!(self.doubt, Doubt::Sent(_));
            if is_over && is_sent {
                self.doubt = Doubt::GivenUp;
            }
            if is_over || error.is_refusal() && !is_sent {
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

    /// Returns no number if another process has the journal.
    async fn try_append(&mut self, body: &[u8]) -> Result<Option<i64>, PostgresError> {
        if !matches!(self.doubt, Doubt::None) {
            match self.resolve().await? {
                Resolved::Fenced => return Ok(None),
                Resolved::Kept => return Ok(Some(self.last)),
                Resolved::Gone => {}
            }
        }
        let link = self.linked().await?;
        let seq = self.used + 1;
        let passed = nanos(self.time.now());
        let done = link
            .to
            .query(
                &link.append,
                &[&self.settings.name, &self.term, &seq, &body, &passed],
            )
            .await;
        match done {
            Ok(rows) if rows.is_empty() => Ok(None),
            Ok(_) => {
                (self.last, self.used) = (seq, seq);
                Ok(Some(seq))
            }
            // The server has rolled the statement back, and says so.
            Err(error) if error.is_refusal() && !link.to.is_closed() => Err(error),
            Err(error) => {
                self.doubt = Doubt::Sent(seq);
                self.used = seq;
                self.link = None;
                Err(error)
            }
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

enum Resolved {
    /// The row is in the log.
    Kept,
    /// The row is not in the log, and never will be.
    Gone,
    /// Another process has the journal.
    Fenced,
}
