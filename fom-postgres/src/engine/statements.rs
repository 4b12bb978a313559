//! The statements of an engine. `$1` is the name of the cluster.

use tokio_postgres::types::Type;

/// Changes nothing of a cluster that is there, and returns its settings.
pub(super) const CREATE: &str = "INSERT INTO fom_cluster (name, slots, hash, passed, at) \
     VALUES ($1, $2, $3, 0, clock_timestamp()) \
     ON CONFLICT (name) DO UPDATE SET name = EXCLUDED.name RETURNING slots, hash";

pub(super) const CREATE_SLOTS: &str = "INSERT INTO fom_slot (cluster, slot, term, owner, last, passed, notes) \
     SELECT $1, slot, 0, NULL, 0, 0, '' FROM generate_series(0, $2 - 1) slot ON CONFLICT DO NOTHING";

/// Counts the heartbeat of a member up, or adds a node. The clock of the server counts only while there is no node.
pub(super) const BEAT: &str = "WITH others AS (SELECT FROM fom_node WHERE cluster = $1), \
     old AS (UPDATE fom_node SET beat = beat + 1, address = $5, weight = $6, survived = $7, reads = $9 \
         WHERE cluster = $1 AND incarnation = $2 RETURNING 1), \
     new AS (INSERT INTO fom_node (cluster, incarnation, name, address, weight, survived, beat, reads) \
         SELECT $1, $2, $4, $5, $6, $7, 1, $9 WHERE $3 AND NOT EXISTS (SELECT FROM old) ON CONFLICT DO NOTHING RETURNING 1), \
     member AS (SELECT EXISTS (SELECT FROM old) OR EXISTS (SELECT FROM new) AS is_member), \
     kept AS (UPDATE fom_cluster SET at = clock_timestamp(), passed = greatest($8, passed + \
         CASE WHEN EXISTS (SELECT FROM others) THEN 0 \
         ELSE greatest(0, extract(epoch FROM clock_timestamp() - at) * 1000000000)::bigint END) \
         FROM member WHERE fom_cluster.name = $1 AND is_member) \
     SELECT is_member FROM member";

/// Read before the nodes: an owner that is no node has been removed.
pub(super) const SLOTS: &str =
    "SELECT term, owner, since, holds FROM fom_slot WHERE cluster = $1 ORDER BY slot";

pub(super) const CLUSTER: &str =
    "SELECT passed, assignment, drained, pinned, pinned_to FROM fom_cluster WHERE name = $1";

/// Replaces the assignment before this one.
pub(super) const ASSIGN: &str = "UPDATE fom_cluster \
     SET assignment = $2, drained = $3, pinned = $4, pinned_to = $5 WHERE name = $1 AND assignment = $2 - 1";

pub(super) const NODES: &str = "SELECT incarnation, name, address, weight, survived, beat, reads FROM fom_node WHERE cluster = $1";

pub(super) const EVICT: &str =
    "DELETE FROM fom_node WHERE cluster = $1 AND incarnation = $2 AND beat = $3 RETURNING beat";

/// The lock keeps the claimant a member until the claim is over.
pub(super) const CLAIM: &str = "WITH me AS (SELECT FROM fom_node WHERE cluster = $1 AND incarnation = $2 FOR KEY SHARE), \
     before AS (SELECT owner FROM fom_slot WHERE cluster = $1 AND slot = $3 FOR UPDATE) \
     UPDATE fom_slot s SET term = term + 1, owner = $2, passed = greatest(passed, $5), \
     since = CASE WHEN s.owner = $2 THEN since ELSE greatest(passed, $5) END, \
     holds = CASE WHEN s.owner = $2 THEN holds ELSE $6 END FROM before \
     WHERE s.cluster = $1 AND s.slot = $3 AND EXISTS (SELECT FROM me) AND (s.owner = $2 OR s.term = $4 AND NOT EXISTS \
         (SELECT FROM fom_node n WHERE n.cluster = $1 AND n.incarnation = s.owner)) \
     RETURNING s.term, s.last, s.passed, before.owner, s.notes";

/// Appends the bodies of all slots that have their terms. The lock of the row makes a claim wait for this statement, or this
/// statement for the claim.
///
/// The server must plan it once: that takes as long as its execution. It keeps a plan if one made for given values looks no
/// better, so a sub-select hides each value from the planner. A plan for given values also tends to read all slots of the
/// cluster for each slot.
pub(super) const COMMIT: &str = "WITH own AS (UPDATE fom_slot s SET last = w.last, passed = greatest(s.passed, w.passed) \
     FROM unnest((SELECT $2::int[]), (SELECT $3::bigint[]), (SELECT $4::bigint[]), (SELECT $5::bigint[])) \
         AS w (slot, term, last, passed) \
     WHERE s.cluster = (SELECT $1) AND s.slot = w.slot AND s.term = w.term AND s.owner IS NOT NULL RETURNING s.slot), \
     log AS (INSERT INTO fom_slot_log (cluster, slot, seq, body) SELECT $1, b.slot, b.seq, b.body \
     FROM unnest((SELECT $6::int[]), (SELECT $7::bigint[]), (SELECT $8::bytea[])) AS b (slot, seq, body) \
         JOIN own USING (slot)) \
     SELECT slot FROM own";

pub(super) const COMMIT_TYPES: &[Type] = &[
    Type::TEXT,
    Type::INT4_ARRAY,
    Type::INT8_ARRAY,
    Type::INT8_ARRAY,
    Type::INT8_ARRAY,
    Type::INT4_ARRAY,
    Type::INT8_ARRAY,
    Type::BYTEA_ARRAY,
];

/// The next bodies, about 8 MiB of them.
pub(super) const LOAD: &str = "SELECT seq, body FROM (SELECT seq, body, \
     sum(length(body)) OVER (ORDER BY seq) - length(body) AS before FROM fom_slot_log \
     WHERE cluster = $1 AND slot = $2 AND seq >= $3 AND seq <= $4 ORDER BY seq LIMIT 1024) page \
     WHERE before < 8388608 ORDER BY seq";

pub(super) const ENDS: &str = "SELECT last FROM fom_slot WHERE cluster = $1 ORDER BY slot";

pub(super) const DELETE: &str = "WITH own AS (SELECT FROM fom_slot WHERE cluster = $1 AND slot = $2 AND term = $3 FOR SHARE) \
     DELETE FROM fom_slot_log WHERE EXISTS (SELECT FROM own) AND cluster = $1 AND slot = $2 AND seq <= $4";

pub(super) const NOTE: &str = "UPDATE fom_slot SET notes = $4 \
     WHERE cluster = $1 AND slot = $2 AND term = $3 AND owner IS NOT NULL RETURNING slot";

pub(super) const RELEASE: &str =
    "UPDATE fom_slot SET owner = NULL WHERE cluster = $1 AND slot = $2 AND term = $3";

pub(super) const LEAVE: &str = "DELETE FROM fom_node WHERE cluster = $1 AND incarnation = $2";
