//! What an engine asks the server.

use std::{collections::BTreeMap, time::Duration};

use fom_cluster::{
    Slot,
    engine::{Append, Assignment, Claimed, NodeInfo, NodeRow, Settings, SlotRow, Versions, View},
};
use tokio_postgres::{
    Row,
    types::{ToSql, Type},
};

use crate::{
    clock::{duration, nanos},
    connection::{Connection, Param},
    engine::{pool::Link, statements},
    error::PostgresError,
    sql::{self, Failed, Transacted},
    tables,
};

/// The bytes of bodies that go with one statement. The server takes a statement of 1 GiB at most.
const TOGETHER: usize = 64 << 20;

/// The slot that a request is about, with the term that it must have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owned {
    pub(super) slot: i32,
    pub(super) term: i64,
}

pub(super) async fn open(
    to: &Connection,
    cluster: &str,
    wanted: Settings,
) -> Result<Settings, PostgresError> {
    tables::create(to).await?;
    let name = (&cluster as _, Type::TEXT);
    let (slots, hash) = (i32::from(wanted.slots), i64::from(wanted.hash));
    let create: [Param<'_>; 3] = [name, (&slots, Type::INT4), (&hash, Type::INT8)];
    let found = to.query_once(statements::CREATE, &create).await?;
    let Some(found) = found.first() else {
        return Err(PostgresError::Closed);
    };
    let (slots, hash): (i32, i64) = (found.try_get(0)?, found.try_get(1)?);
    let create: [Param<'_>; 2] = [(&cluster, Type::TEXT), (&slots, Type::INT4)];
    to.query_once(statements::CREATE_SLOTS, &create).await?;
    // Another number is not one that this release has written, and is refused as different settings.
    let mut settings = Settings::new(u16::try_from(slots).unwrap_or(0));
    settings.hash = u32::try_from(hash).unwrap_or(0);
    Ok(settings)
}

/// Writes each operation type with its version, such as `Selling Order 2`.
fn texts(versions: &Versions) -> Vec<String> {
    let texts = versions.iter();
    texts
        .map(|(operation, version)| format!("{operation} {version}"))
        .collect()
}

/// Reads what [`texts`] wrote.
fn versions(texts: Vec<String>) -> Versions {
    let version = |text: String| {
        // Any other text is not one that this release has written.
        let (operation, version) = text.rsplit_once(' ')?;
        Some((operation.to_owned(), version.parse().ok()?))
    };
    texts.into_iter().filter_map(version).collect()
}

/// A heartbeat, with all that it tells.
pub(super) struct Told {
    pub(super) incarnation: String,
    pub(super) is_first: bool,
    pub(super) time: Duration,
    pub(super) node: NodeInfo,
}

pub(super) async fn beat(
    to: &Connection,
    cluster: &str,
    told: &Told,
) -> Result<View, PostgresError> {
    let (weight, time) = (i64::from(told.node.weight), nanos(told.time));
    let reads = texts(&told.node.reads);
    let beat: [Param<'_>; 9] = [
        (&cluster, Type::TEXT),
        (&told.incarnation, Type::TEXT),
        (&told.is_first, Type::BOOL),
        (&told.node.name, Type::TEXT),
        (&told.node.address, Type::TEXT),
        (&weight, Type::INT8),
        (&told.node.survived, Type::TEXT_ARRAY),
        (&time, Type::INT8),
        (&reads, Type::TEXT_ARRAY),
    ];
    let name: [Param<'_>; 1] = [(&cluster, Type::TEXT)];
    let beaten = to.query_once(statements::BEAT, &beat).await?;
    let slots = to.query_once(statements::SLOTS, &name).await?;
    let nodes = to.query_once(statements::NODES, &name).await?;
    let cluster = to.query_once(statements::CLUSTER, &name).await?;
    let is_member = match beaten.first() {
        Some(row) => row.try_get(0)?,
        None => false,
    };
    let mut view = View::new(is_member, BTreeMap::new(), Vec::new(), Duration::ZERO);
    if let Some(row) = cluster.first() {
        view.time = duration(row.try_get(0)?);
        view.assignment = assignment(row)?;
    }
    for row in slots {
        let mut slot = SlotRow::new(number(row.try_get(0)?), row.try_get(1)?);
        slot.since = duration(row.try_get(2)?);
        slot.holds = versions(row.try_get(3)?);
        view.slots.push(slot);
    }
    for row in nodes {
        let weight: i64 = row.try_get(3)?;
        let mut info = NodeInfo::new(row.try_get::<_, String>(1)?, row.try_get::<_, String>(2)?);
        info.weight = u32::try_from(weight).unwrap_or(0);
        info.survived = row.try_get(4)?;
        info.reads = versions(row.try_get(6)?);
        let node = NodeRow::new(info, number(row.try_get(5)?));
        view.nodes.insert(row.try_get(0)?, node);
    }
    Ok(view)
}

pub(super) async fn evict(
    to: &Connection,
    cluster: &str,
    incarnation: &str,
    beat: u64,
) -> Result<bool, PostgresError> {
    let beat = signed(beat);
    let params: [Param<'_>; 3] = [
        (&cluster, Type::TEXT),
        (&incarnation, Type::TEXT),
        (&beat, Type::INT8),
    ];
    let evicted = to.query_once(statements::EVICT, &params).await?;
    Ok(!evicted.is_empty())
}

pub(super) async fn claim(
    to: &Connection,
    cluster: &str,
    incarnation: &str,
    seen: Owned,
    time: Duration,
    reads: &Versions,
) -> Result<Option<Claimed>, PostgresError> {
    let (time, reads) = (nanos(time), texts(reads));
    let params: [Param<'_>; 6] = [
        (&cluster, Type::TEXT),
        (&incarnation, Type::TEXT),
        (&seen.slot, Type::INT4),
        (&seen.term, Type::INT8),
        (&time, Type::INT8),
        (&reads, Type::TEXT_ARRAY),
    ];
    let claimed = to.query_once(statements::CLAIM, &params).await?;
    let Some(row) = claimed.first() else {
        return Ok(None);
    };
    let before: Option<String> = row.try_get(3)?;
    Ok(Some(Claimed::new(
        number(row.try_get(0)?),
        number(row.try_get(1)?),
        duration(row.try_get(2)?),
        before.filter(|before| before != incarnation),
        row.try_get(4)?,
    )))
}

/// A statement of a slot that failed. Nothing was committed.
pub(super) struct SlotFailed {
    pub(super) slot: Slot,
    pub(super) failed: Failed,
}

/// Returns the slots whose bodies were appended.
pub(super) async fn commit(
    link: &Link,
    cluster: &str,
    appends: &[Append],
) -> Result<Result<Vec<i32>, SlotFailed>, PostgresError> {
    let mut appends = appends.to_vec();
    // The statements of a slot with another term are not executed, so the others are tried without that slot.
    while appends.iter().any(executes) {
        match transact(link, cluster, &appends).await? {
            Transacted::Committed(kept) => return Ok(Ok(kept)),
            Transacted::NotAccepted(owned) => appends.retain(|append| is_in(append, &owned)),
            Transacted::Failed(failed) => return Ok(Err(slot_of(&appends, failed))),
        }
    }
    if size_of(&appends) <= TOGETHER {
        return append(link, cluster, &appends, false).await.map(Ok);
    }
    link.to.execute_all("BEGIN").await?;
    let kept = append_parts(link, cluster, &appends).await?;
    link.to.execute_all("COMMIT").await?;
    Ok(Ok(kept))
}

/// Appends the bodies and executes the statements of the slots in one transaction.
async fn transact(
    link: &Link,
    cluster: &str,
    appends: &[Append],
) -> Result<Transacted<Vec<i32>>, PostgresError> {
    let mut all = Vec::new();
    for (slot, append) in appends.iter().enumerate() {
        let statements = append.statements.iter();
        all.extend(statements.map(|(group, statement)| ((slot, *group), statement)));
    }
    // Before the transaction: a statement that fails would end it.
    link.commit().await?;
    let slots = Slots {
        link,
        cluster,
        appends,
    };
    sql::transact(&link.to, all, &slots).await
}

/// Returns the failure with its slot, and the number of the statement there.
fn slot_of(appends: &[Append], mut failed: Failed) -> SlotFailed {
    let mut slot = Slot(0);
    for append in appends {
        slot = append.slot;
        let statements = append.statements.len();
        if failed.statement < statements {
            break;
        }
        failed.statement -= statements;
    }
    SlotFailed { slot, failed }
}

/// The bodies of slots, some of which have statements.
struct Slots<'a> {
    link: &'a Link,
    cluster: &'a str,
    appends: &'a [Append],
}

impl sql::Append for Slots<'_> {
    type Appended = Vec<i32>;

    async fn append(&self) -> Result<Vec<i32>, PostgresError> {
        match size_of(self.appends) <= TOGETHER {
            true => append(self.link, self.cluster, self.appends, true).await,
            false => append_parts(self.link, self.cluster, self.appends).await,
        }
    }

    /// Whether the node owns all slots with statements.
    fn accepts(&self, owned: &Vec<i32>) -> bool {
        let mut appends = self.appends.iter().filter(|append| executes(append));
        appends.all(|append| is_in(append, owned))
    }
}

fn executes(append: &Append) -> bool {
    !append.statements.is_empty()
}

fn is_in(append: &Append, slots: &[i32]) -> bool {
    slots.contains(&i32::from(append.slot.0))
}

fn size_of(appends: &[Append]) -> usize {
    let bodies = appends.iter().flat_map(|append| append.bodies.iter());
    bodies.map(|(_, body)| body.len()).sum()
}

/// Appends the bodies inside a transaction, with a statement for each part.
async fn append_parts(
    link: &Link,
    cluster: &str,
    appends: &[Append],
) -> Result<Vec<i32>, PostgresError> {
    let mut kept = Vec::new();
    for part in appends.iter().flat_map(parts) {
        kept.extend(append(link, cluster, &[part], true).await?);
    }
    Ok(kept)
}

/// Divides bodies into parts that are not much larger than [`TOGETHER`].
fn parts(append: &Append) -> Vec<Append> {
    let mut parts = vec![Vec::new()];
    let mut size = 0;
    for (number, body) in &*append.bodies {
        if size > 0 && size + body.len() > TOGETHER {
            parts.push(Vec::new());
            size = 0;
        }
        size += body.len();
        if let Some(part) = parts.last_mut() {
            part.push((*number, body.clone()));
        }
    }
    let parts = parts.into_iter();
    parts
        .map(|bodies| Append::new(append.slot, append.term, append.time, bodies))
        .collect()
}

async fn append(
    link: &Link,
    cluster: &str,
    appends: &[Append],
    inside: bool,
) -> Result<Vec<i32>, PostgresError> {
    // Two commits lock the rows of slots in the same order.
    let mut appends: Vec<_> = appends.iter().collect();
    appends.sort_by_key(|append| append.slot);
    let (mut slots, mut terms, mut lasts, mut times) = (vec![], vec![], vec![], vec![]);
    let (mut of, mut numbers, mut bodies) = (vec![], vec![], vec![]);
    for append in appends {
        let slot = i32::from(append.slot.0);
        slots.push(slot);
        terms.push(signed(append.term));
        times.push(nanos(append.time));
        lasts.push(append.bodies.last().map_or(0, |(last, _)| signed(*last)));
        for (number, body) in &*append.bodies {
            of.push(slot);
            numbers.push(signed(*number));
            bodies.push(&**body);
        }
    }
    let commit = link.commit().await?;
    let params: [&(dyn ToSql + Sync); 8] = [
        &cluster, &slots, &terms, &lasts, &times, &of, &numbers, &bodies,
    ];
    let kept = match inside {
        true => link.to.query_inside(commit, &params).await?,
        false => link.to.query(commit, &params).await?,
    };
    let kept = kept.into_iter();
    Ok(kept.map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}

pub(super) async fn load(
    to: &Connection,
    cluster: &str,
    slot: i32,
    (from, until): (u64, u64),
) -> Result<Vec<(u64, Vec<u8>)>, PostgresError> {
    let (from, until) = (signed(from), signed(until));
    let params: [Param<'_>; 4] = [
        (&cluster, Type::TEXT),
        (&slot, Type::INT4),
        (&from, Type::INT8),
        (&until, Type::INT8),
    ];
    let rows = to.query_once(statements::LOAD, &params).await?;
    let rows = rows.into_iter();
    rows.map(|row| Ok((number(row.try_get(0)?), row.try_get(1)?)))
        .collect()
}

pub(super) async fn ends(to: &Connection, cluster: &str) -> Result<Vec<u64>, PostgresError> {
    let name: [Param<'_>; 1] = [(&cluster, Type::TEXT)];
    let rows = to.query_once(statements::ENDS, &name).await?.into_iter();
    rows.map(|row| Ok(number(row.try_get(0)?))).collect()
}

pub(super) async fn delete_until(
    to: &Connection,
    cluster: &str,
    owned: Owned,
    last: u64,
) -> Result<(), PostgresError> {
    let last = signed(last);
    let params: [Param<'_>; 4] = [
        (&cluster, Type::TEXT),
        (&owned.slot, Type::INT4),
        (&owned.term, Type::INT8),
        (&last, Type::INT8),
    ];
    to.query_once(statements::DELETE, &params).await.map(drop)
}

pub(super) async fn note(
    to: &Connection,
    cluster: &str,
    owned: Owned,
    notes: &[u8],
) -> Result<bool, PostgresError> {
    let params: [Param<'_>; 4] = [
        (&cluster, Type::TEXT),
        (&owned.slot, Type::INT4),
        (&owned.term, Type::INT8),
        (&notes, Type::BYTEA),
    ];
    let noted = to.query_once(statements::NOTE, &params).await?;
    Ok(!noted.is_empty())
}

/// Reads the assignment from a row of [`statements::CLUSTER`].
fn assignment(row: &Row) -> Result<Assignment, PostgresError> {
    let (pinned, to): (Vec<i32>, Vec<String>) = (row.try_get(3)?, row.try_get(4)?);
    let mut assignment = Assignment::default();
    assignment.version = number(row.try_get(1)?);
    assignment.drained = row.try_get::<_, Vec<String>>(2)?.into_iter().collect();
    // A slot with another number is not one that this release has written.
    let pinned = pinned.into_iter().zip(to);
    let slot = |(slot, to)| Some((Slot(u16::try_from(slot).ok()?), to));
    assignment.pinned = pinned.filter_map(slot).collect();
    Ok(assignment)
}

pub(super) async fn assign(
    to: &Connection,
    cluster: &str,
    wanted: &Assignment,
) -> Result<Assignment, PostgresError> {
    let version = signed(wanted.version);
    let drained: Vec<_> = wanted.drained.iter().collect();
    let pinned: Vec<_> = wanted.pinned.keys().map(|slot| i32::from(slot.0)).collect();
    let pinned_to: Vec<_> = wanted.pinned.values().collect();
    let params: [Param<'_>; 5] = [
        (&cluster, Type::TEXT),
        (&version, Type::INT8),
        (&drained, Type::TEXT_ARRAY),
        (&pinned, Type::INT4_ARRAY),
        (&pinned_to, Type::TEXT_ARRAY),
    ];
    to.query_once(statements::ASSIGN, &params).await?;
    let name: [Param<'_>; 1] = [(&cluster, Type::TEXT)];
    let kept = to.query_once(statements::CLUSTER, &name).await?;
    kept.first().map_or(Err(PostgresError::Closed), assignment)
}

pub(super) async fn release(
    to: &Connection,
    cluster: &str,
    owned: Owned,
) -> Result<(), PostgresError> {
    let params: [Param<'_>; 3] = [
        (&cluster, Type::TEXT),
        (&owned.slot, Type::INT4),
        (&owned.term, Type::INT8),
    ];
    to.query_once(statements::RELEASE, &params).await.map(drop)
}

pub(super) async fn leave(
    to: &Connection,
    cluster: &str,
    incarnation: &str,
) -> Result<(), PostgresError> {
    let params: [Param<'_>; 2] = [(&cluster, Type::TEXT), (&incarnation, Type::TEXT)];
    to.query_once(statements::LEAVE, &params).await.map(drop)
}

pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn number(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
