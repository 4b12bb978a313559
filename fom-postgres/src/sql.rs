//! The SQL of a phase, in the transaction that commits its transition.

use std::{
    any::TypeId,
    borrow::Cow,
    fmt,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::Poll,
};

use fom_journal::{JournalError, Statement};
use fom_protocol::panic_message;
use tokio_postgres::{Statement as Prepared, error::SqlState, types::ToSql};

use crate::{connection::Connection, error::PostgresError};

/// How often a transaction is tried that the server has ended because of another transaction.
const ATTEMPTS: usize = 3;

/// How a statement may begin. Others end the transaction, or change the connection.
const WORDS: [&str; 8] = [
    "INSERT", "UPDATE", "DELETE", "MERGE", "SELECT", "WITH", "CALL", "NOTIFY",
];

/// Begins a transaction. No statement of a phase may keep the commits of others waiting for long.
const BEGIN: &str = "BEGIN; SET LOCAL lock_timeout = '1s'; SET LOCAL statement_timeout = '2s'";
/// The same, right after a statement has waited for a lock in vain: others that need this lock fail at once.
const BEGIN_LOCKED: &str =
    "BEGIN; SET LOCAL lock_timeout = '20ms'; SET LOCAL statement_timeout = '2s'";
/// Checks what the statements of a group have deferred.
const CHECK: &str = "SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED";

/// A statement of SQL for `commit_with` of a phase's context: the server executes it in the transaction that commits the
/// transition. So its effect is there exactly once if the transition is made, and not at all otherwise.
///
/// It is for tables in the database of the [`PostgresJournal`](crate::PostgresJournal) or of the `PostgresEngine`. The
/// parameters `$1`, `$2`, .. are bound in their order, and are never part of the text. Rows that a statement returns are
/// dropped.
///
/// The statements of a phase are executed in their order, after its function has returned. If one fails, the transition is not
/// made, and no statement of the phase has an effect. The phase then fails with `Cause::Statement`, as if its function had
/// returned an error: its retries apply. `Cause::Statement` has a `JournalError::Statement`, with a [`PostgresError`] as its
/// source. A statement fails if the server refuses it, if it changes another number of rows than
/// [`expect_rows`](Self::expect_rows) says, if one of its values panics, if it waits for a lock for more than 1 s, and if it takes more than 2 s. The runtime
/// repeats a transaction that ends in a deadlock.
///
/// A statement belongs to the commit of many operations, which wait for it. Each statement that fails makes one more attempt,
/// and the first one that waits for a lock in vain delays it by a second; those in the next two seconds wait for 20 ms. Keep
/// statements short, and do not hold locks on their rows in other transactions for long.
///
/// ```no_run
/// use fom_durable::prelude::*;
/// use fom_postgres::{PostgresJournal, Sql};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Payment { account: i64, amount: i64 }
///
/// #[fom(operation(Payment))]
/// enum Paying {
///     #[phase(start, sync, to(Paid))]
///     Pay,
///     #[phase(end)]
///     Paid,
/// }
///
/// impl PayingTransitions for Payment {
///     fn pay(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
///         let take = "UPDATE account SET balance = balance - $2 WHERE id = $1 AND balance >= $2";
///         cx.commit_with(Sql::new(take).bind(self.account).bind(self.amount).expect_rows(1))?;
///         Ok(())
///     }
/// }
///
/// # async fn run() -> Result<(), BoxError> {
/// let journal = PostgresJournal::builder("host=db1,db2 user=fom", "payments").open().await?;
/// let runtime = Runtime::builder().journal_with(journal).build()?;
/// runtime.submit(Payment { account: 7, amount: 20 }).start()?.await?;
/// # Ok(())
/// # }
/// ```
///
/// The idea is the transaction step of DBOS, and the transactional outbox turned round: there, a message is committed with the
/// rows of the application.
#[must_use = "give it to `commit_with`"]
pub struct Sql {
    text: Cow<'static, str>,
    params: Vec<Box<dyn ToSql + Send + Sync>>,
    rows: Option<u64>,
}

impl Sql {
    /// Returns a statement with this text: one statement of SQL, with the parameters `$1`, `$2`, and so on. It begins with
    /// `INSERT`, `UPDATE`, `DELETE`, `MERGE`, `SELECT`, `WITH`, `CALL` or `NOTIFY`. Any other one fails.
    pub fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            text: text.into(),
            params: Vec::new(),
            rows: None,
        }
    }

    /// Binds the next parameter. The server says the type of each parameter; a value of another type fails.
    pub fn bind(mut self, value: impl ToSql + Send + Sync + 'static) -> Self {
        self.params.push(Box::new(value));
        self
    }

    /// Makes the statement fail if it changes another number of rows.
    pub fn expect_rows(mut self, rows: u64) -> Self {
        self.rows = Some(rows);
        self
    }
}

impl fmt::Debug for Sql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The values may be secret.
        f.debug_struct("Sql")
            .field("text", &self.text)
            .field("params", &self.params.len())
            .field("rows", &self.rows)
            .finish()
    }
}

impl From<Sql> for Statement {
    fn from(sql: Sql) -> Self {
        Self::new(sql)
    }
}

/// The type of statements that this package executes.
pub(crate) fn kind() -> Option<TypeId> {
    Some(TypeId::of::<Sql>())
}

/// A statement that failed, with its number. Nothing was committed.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) statement: usize,
    pub(crate) error: PostgresError,
}

impl From<Failed> for JournalError {
    fn from(failed: Failed) -> Self {
        Self::Statement {
            statement: failed.statement,
            source: Arc::new(failed.error),
        }
    }
}

/// The end of a transaction.
pub(crate) enum Transacted<T> {
    Committed(T),
    /// The caller did not accept what was appended. Nothing was committed.
    NotAccepted(T),
    Failed(Failed),
}

/// A group of statements that belong together: the place of its slot, and its number there.
pub(crate) type Group = (usize, usize);

/// What a transaction appends to a log, before it executes the statements.
pub(crate) trait Append: Sync {
    type Appended: Send;

    fn append(&self) -> impl Future<Output = Result<Self::Appended, PostgresError>> + Send;

    /// Whether the transaction may be committed.
    fn accepts(&self, appended: &Self::Appended) -> bool;
}

/// Appends and executes the statements in one transaction, and commits it if that is accepted.
///
/// # Errors
///
/// It is not known whether the transaction was committed, and the connection may be given up.
pub(crate) async fn transact<A: Append>(
    to: &Connection,
    all: Vec<(Group, &Statement)>,
    append: &A,
) -> Result<Transacted<A::Appended>, PostgresError> {
    let statements = match Statements::prepare(to, all).await? {
        Ok(statements) => statements,
        Err(failed) => return Ok(Transacted::Failed(failed)),
    };
    let done = statements.transact(to, append).await;
    // The transaction may be open.
    done.inspect_err(|_| to.abandon())
}

/// The statements of one transaction.
struct Statements<'a> {
    prepared: Vec<(Group, &'a Sql, Prepared)>,
}

impl<'a> Statements<'a> {
    /// Prepares statements. The first answer is for errors of the connection, the second for the statement that cannot be
    /// prepared.
    async fn prepare(
        to: &Connection,
        all: Vec<(Group, &'a Statement)>,
    ) -> Result<Result<Self, Failed>, PostgresError> {
        let mut prepared = Vec::new();
        for (statement, (group, opaque)) in all.into_iter().enumerate() {
            let Some(sql) = opaque.downcast_ref::<Sql>() else {
                let kind = opaque.kind_name();
                let error = PostgresError::NotSql { kind };
                return Ok(Err(Failed { statement, error }));
            };
            if !may_begin(&sql.text) {
                let text = Arc::from(&*sql.text);
                let error = PostgresError::NotInTransaction { text };
                return Ok(Err(Failed { statement, error }));
            }
            match to.prepared(&sql.text).await {
                Ok(done) => prepared.push((group, sql, done)),
                Err(error @ PostgresError::Silent { .. }) => return Err(error),
                Err(error) if is_of_statement(to, &error) => {
                    return Ok(Err(Failed { statement, error }));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Ok(Self { prepared }))
    }

    async fn transact<A: Append>(
        &self,
        to: &Connection,
        append: &A,
    ) -> Result<Transacted<A::Appended>, PostgresError> {
        let mut attempt = 0;
        // Whether each group is checked alone, because a constraint that was checked at the end has failed.
        let mut alone = false;
        loop {
            attempt += 1;
            let (appended, failed) = match alone {
                false => self.execute(to, append).await?,
                true => self.execute_alone(to, append).await?,
            };
            if !append.accepts(&appended) {
                to.execute_all("ROLLBACK").await?;
                return Ok(Transacted::NotAccepted(appended));
            }
            let error = match failed {
                Some(Failed { statement, error }) => {
                    if matches!(
                        error,
                        PostgresError::Silent { .. } | PostgresError::Panicked { .. }
                    ) {
                        // The transaction ends with the connection, which may have half a request.
                        to.abandon();
                    } else {
                        to.execute_all("ROLLBACK").await?;
                    }
                    if attempt < ATTEMPTS && is_of_another(&error) {
                        continue;
                    }
                    // The short waits do not prolong this: after it, a lock may be waited for again.
                    if is_lock(&error) && !to.has_waited_for_lock() {
                        to.waited_for_lock();
                    }
                    to.forget(&self.prepared[statement].1.text);
                    return Ok(Transacted::Failed(Failed { statement, error }));
                }
                None => match to.execute_all("COMMIT").await {
                    Ok(()) => return Ok(Transacted::Committed(appended)),
                    Err(error) => error,
                },
            };
            // The server has rolled the transaction back, and says so.
            if !error.is_refusal() || to.is_closed() || attempt >= ATTEMPTS {
                return Err(error);
            }
            alone = true;
        }
    }

    /// Sends all at once, in this order.
    async fn execute<A: Append>(
        &self,
        to: &Connection,
        append: &A,
    ) -> Result<(A::Appended, Option<Failed>), PostgresError> {
        let all = self.prepared.iter();
        let all = all.map(|(_, sql, prepared)| execute(to, sql, prepared));
        let (begun, appended, answers) =
            tokio::join!(biased; to.execute_inside(begin(to)), append.append(), in_order(all));
        begun?;
        let failed = answers
            .into_iter()
            .enumerate()
            .find_map(|(statement, answer)| {
                let error = answer.err()?;
                Some(Failed { statement, error })
            });
        let appended = appended?;
        match failed {
            Some(failed) if !is_of_statement(to, &failed.error) => Err(failed.error),
            failed => Ok((appended, failed)),
        }
    }

    /// Sends one after the other, and checks the constraints after each group.
    async fn execute_alone<A: Append>(
        &self,
        to: &Connection,
        append: &A,
    ) -> Result<(A::Appended, Option<Failed>), PostgresError> {
        to.execute_inside(begin(to)).await?;
        let appended = append.append().await?;
        for (statement, (group, sql, prepared)) in self.prepared.iter().enumerate() {
            let next = self.prepared.get(statement + 1);
            let mut done = execute(to, sql, prepared).await;
            if done.is_ok() && next.is_none_or(|(next, ..)| next != group) {
                done = to.execute_inside(CHECK).await;
            }
            match done {
                Ok(()) => {}
                Err(error) if is_of_statement(to, &error) => {
                    return Ok((appended, Some(Failed { statement, error })));
                }
                Err(error) => return Err(error),
            }
        }
        Ok((appended, None))
    }
}

fn begin(to: &Connection) -> &'static str {
    match to.has_waited_for_lock() {
        true => BEGIN_LOCKED,
        false => BEGIN,
    }
}

async fn execute(to: &Connection, sql: &Sql, prepared: &Prepared) -> Result<(), PostgresError> {
    let params = sql.params.iter().map(|param| &**param as _);
    let params: Vec<&(dyn ToSql + Sync)> = params.collect();
    let mut asked = Box::pin(to.execute(prepared, &params));
    // The values are converted by code of the user's.
    let changed = poll_fn(|cx| {
        let polled = catch_unwind(AssertUnwindSafe(|| asked.as_mut().poll(cx)));
        polled.unwrap_or_else(|panic| {
            Poll::Ready(Err(PostgresError::Panicked {
                text: Arc::from(&*sql.text),
                message: panic_message(panic),
            }))
        })
    });
    let changed = changed.await?;
    match sql.rows {
        Some(expected) if expected != changed => Err(PostgresError::Rows {
            text: Arc::from(&*sql.text),
            expected,
            changed,
        }),
        _ => Ok(()),
    }
}

/// Whether the text begins with a word that is allowed. Comments may come before.
fn may_begin(text: &str) -> bool {
    let mut text = text.trim_start();
    loop {
        text = match text.get(..2) {
            Some("--") => text.split_once('\n').map_or("", |(_, rest)| rest),
            Some("/*") => text.split_once("*/").map_or("", |(_, rest)| rest),
            _ => break,
        }
        .trim_start();
    }
    let end = text.find(|c: char| !c.is_ascii_alphabetic());
    let word = &text[..end.unwrap_or(text.len())];
    WORDS
        .iter()
        .any(|allowed| allowed.eq_ignore_ascii_case(word))
}

/// Whether an error is the statement's own. Otherwise the connection or the server has failed.
fn is_of_statement(to: &Connection, error: &PostgresError) -> bool {
    match error {
        PostgresError::Server(error) => match error.as_db_error() {
            Some(error) => {
                error.severity() == "ERROR" && *error.code() != SqlState::READ_ONLY_SQL_TRANSACTION
            }
            // A value does not have the type of its parameter, or their number is wrong. Nothing was sent.
            None => !to.is_closed(),
        },
        PostgresError::Rows { .. }
        | PostgresError::Silent { .. }
        | PostgresError::Panicked { .. } => true,
        _ => false,
    }
}

/// Whether the server has ended the transaction because of another one.
fn is_of_another(error: &PostgresError) -> bool {
    let PostgresError::Server(error) = error else {
        return false;
    };
    let codes = [
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
    ];
    error.code().is_some_and(|code| codes.contains(code))
}

fn is_lock(error: &PostgresError) -> bool {
    match error {
        PostgresError::Server(error) => error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE),
        _ => false,
    }
}

/// Waits for all futures. Each is begun before the next, so that their requests go out in this order and in one piece.
async fn in_order<F: Future>(all: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut all: Vec<Pin<Box<F>>> = all.map(Box::pin).collect();
    let mut answers: Vec<Option<F::Output>> = all.iter().map(|_| None).collect();
    let mut begun = false;
    let mut first = 0;
    poll_fn(|cx| {
        for (place, future) in all.iter_mut().enumerate().skip(first) {
            if answers[place].is_none()
                && let Poll::Ready(answer) = future.as_mut().poll(cx)
            {
                answers[place] = Some(answer);
            }
            if answers[place].is_some() && place == first {
                first += 1;
            } else if begun {
                // The answers come in the order of the requests.
                break;
            }
        }
        begun = true;
        match first == answers.len() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    answers.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::may_begin;

    #[test]
    fn statements_of_data_may_begin() {
        let good = [
            "insert into a values (1)",
            "  UPDATE a SET b = 1",
            "-- a comment\n /* another\n */ with x as (select 1) select * from x",
            "NOTIFY a",
        ];
        assert!(good.into_iter().all(may_begin));
        let bad = [
            "COMMIT",
            "/* x */ rollback",
            "SET a = 1",
            "",
            "--",
            "/*",
            "é",
            "inserted",
            "-- insert",
        ];
        for text in bad {
            assert!(!may_begin(text), "{text}");
        }
    }
}
