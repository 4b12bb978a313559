//! The row of a journal: its owner, its term and its time.

use std::time::Duration;

use tokio_postgres::{Row, types::Type};

use crate::{
    clock::{duration, nanos},
    connection::{Connection, Param},
    error::PostgresError,
};

/// The row of a journal, as a process read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JournalRow {
    pub(crate) term: i64,
    /// The process that has the journal; empty if no process has it.
    pub(crate) owner: String,
    /// The name of the node of that process.
    pub(crate) node: String,
    /// Counted by the owner with each heartbeat.
    pub(crate) beat: i64,
    /// How long the row was not written, by the clock of the server.
    pub(crate) unwritten: Duration,
}

/// A claim that the server has made durable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) term: i64,
    /// The number of the last row of the log.
    pub(crate) batch: i64,
    /// The time of the journal.
    pub(crate) passed: Duration,
}

const READ: &str = "SELECT term, owner, node, beat, \
     greatest(0, extract(epoch FROM clock_timestamp() - at) * 1000)::bigint FROM fom_journal WHERE name = $1";

const CREATE: &str = "INSERT INTO fom_journal (name, term, owner, node, beat, batch, passed, at) \
     VALUES ($1, 0, '', '', 0, 0, 0, clock_timestamp()) ON CONFLICT DO NOTHING";

// It succeeds only if the row is as the process has read it.
const CLAIM: &str = "UPDATE fom_journal SET term = term + 1, owner = $2, node = $3, beat = 0, \
     passed = passed + $4, at = clock_timestamp() \
     WHERE name = $1 AND term = $5 AND owner = $6 AND beat = $7 RETURNING term, batch, passed";

const CLAIM_AGAIN: &str = "UPDATE fom_journal SET term = term + 1, at = clock_timestamp() \
     WHERE name = $1 AND owner = $2 RETURNING term, batch, passed";

const BEAT: &str = "UPDATE fom_journal SET beat = beat + 1, passed = greatest(passed, $3), at = clock_timestamp() \
     WHERE name = $1 AND owner = $2 RETURNING beat";

const RELEASE: &str = "UPDATE fom_journal SET owner = '', passed = greatest(passed, $3), at = clock_timestamp() \
     WHERE name = $1 AND owner = $2";

/// Reads the row. Creates it if there is none.
pub(crate) async fn read(to: &Connection, name: &str) -> Result<JournalRow, PostgresError> {
    loop {
        let rows = to.query_once(READ, &[(&name, Type::TEXT)]).await?;
        let Some(row) = rows.first() else {
            to.query_once(CREATE, &[(&name, Type::TEXT)]).await?;
            continue;
        };
        let unwritten: i64 = row.try_get(4)?;
        return Ok(JournalRow {
            term: row.try_get(0)?,
            owner: row.try_get(1)?,
            node: row.try_get(2)?,
            beat: row.try_get(3)?,
            unwritten: Duration::from_millis(u64::try_from(unwritten).unwrap_or(0)),
        });
    }
}

/// Claims a journal, if its row is still as it was read. `elapsed` is the time since its last owner wrote it.
pub(crate) async fn claim(
    to: &Connection,
    name: &str,
    me: &str,
    node: &str,
    read: &JournalRow,
    elapsed: Duration,
) -> Result<Option<Claim>, PostgresError> {
    let rows = to
        .query_once(
            CLAIM,
            &[
                (&name, Type::TEXT),
                (&me, Type::TEXT),
                (&node, Type::TEXT),
                (&nanos(elapsed), Type::INT8),
                (&read.term, Type::INT8),
                (&read.owner, Type::TEXT),
                (&read.beat, Type::INT8),
            ],
        )
        .await?;
    claimed(&rows)
}

/// Claims the own journal again. The acknowledgment of this write proves all that was committed before.
pub(crate) async fn claim_again(
    to: &Connection,
    name: &str,
    me: &str,
) -> Result<Option<Claim>, PostgresError> {
    let rows = to
        .query_once(CLAIM_AGAIN, &[(&name, Type::TEXT), (&me, Type::TEXT)])
        .await?;
    claimed(&rows)
}

/// Sends a heartbeat. Returns whether the process has the journal.
pub(crate) async fn beat(
    to: &Connection,
    name: &str,
    me: &str,
    passed: Duration,
) -> Result<bool, PostgresError> {
    let rows = to
        .query_once(
            BEAT,
            &[
                (&name, Type::TEXT),
                (&me, Type::TEXT),
                (&nanos(passed), Type::INT8),
            ],
        )
        .await?;
    Ok(!rows.is_empty())
}

/// Gives the journal up.
pub(crate) async fn release(
    to: &Connection,
    name: &str,
    me: &str,
    passed: Duration,
) -> Result<(), PostgresError> {
    let params: [Param<'_>; 3] = [
        (&name, Type::TEXT),
        (&me, Type::TEXT),
        (&nanos(passed), Type::INT8),
    ];
    to.query_once(RELEASE, &params).await.map(drop)
}

fn claimed(rows: &[Row]) -> Result<Option<Claim>, PostgresError> {
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    let passed: i64 = row.try_get(2)?;
    Ok(Some(Claim {
        term: row.try_get(0)?,
        batch: row.try_get(1)?,
        passed: duration(passed),
    }))
}
