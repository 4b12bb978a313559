//! The tables, and how those of an earlier release become those of this one.

use crate::{connection::Connection, error::PostgresError};

/// Serializes the processes that change the tables. Any number that no other program uses.
const CHANGES: i64 = 0x666f_6d5f_706f_7374;

/// What makes each version of the tables out of the one before. Small rows that change often leave room in their pages, so
/// that an update needs no change of an index.
const VERSIONS: [&str; 3] = [
    // Journals, each of one process.
    "CREATE TABLE IF NOT EXISTS fom_tables (version int NOT NULL);
     CREATE TABLE IF NOT EXISTS fom_journal (
         name text PRIMARY KEY,
         term bigint NOT NULL,
         owner text NOT NULL,
         node text NOT NULL,
         beat bigint NOT NULL,
         batch bigint NOT NULL,
         passed bigint NOT NULL,
         at timestamptz NOT NULL
     ) WITH (fillfactor = 20);
     CREATE TABLE IF NOT EXISTS fom_log (
         journal text NOT NULL,
         seq bigint NOT NULL,
         body bytea NOT NULL,
         PRIMARY KEY (journal, seq)
     );
     ALTER TABLE fom_log ALTER COLUMN body SET STORAGE EXTERNAL;
     INSERT INTO fom_tables SELECT 1 WHERE NOT EXISTS (SELECT FROM fom_tables);",
    // Clusters, their nodes, and their slots.
    "CREATE TABLE fom_cluster (
         name text PRIMARY KEY,
         slots int NOT NULL,
         hash bigint NOT NULL,
         passed bigint NOT NULL,
         at timestamptz NOT NULL
     ) WITH (fillfactor = 20);
     CREATE TABLE fom_node (
         cluster text NOT NULL,
         incarnation text NOT NULL,
         name text NOT NULL,
         address text NOT NULL,
         weight bigint NOT NULL,
         survived text[] NOT NULL,
         beat bigint NOT NULL,
         PRIMARY KEY (cluster, incarnation),
         UNIQUE (cluster, name)
     ) WITH (fillfactor = 20);
     CREATE TABLE fom_slot (
         cluster text NOT NULL,
         slot int NOT NULL,
         term bigint NOT NULL,
         owner text,
         last bigint NOT NULL,
         passed bigint NOT NULL,
         notes bytea NOT NULL,
         PRIMARY KEY (cluster, slot)
     ) WITH (fillfactor = 20);
     CREATE TABLE fom_slot_log (
         cluster text NOT NULL,
         slot int NOT NULL,
         seq bigint NOT NULL,
         body bytea NOT NULL,
         PRIMARY KEY (cluster, slot, seq)
     );
     ALTER TABLE fom_slot_log ALTER COLUMN body SET STORAGE EXTERNAL;
     UPDATE fom_tables SET version = 2;",
    // What operators have said about the slots of a cluster, since when a slot has its owner, and what nodes can read.
    "ALTER TABLE fom_cluster
         ADD COLUMN assignment bigint NOT NULL DEFAULT 0,
         ADD COLUMN drained text[] NOT NULL DEFAULT '{}',
         ADD COLUMN pinned int[] NOT NULL DEFAULT '{}',
         ADD COLUMN pinned_to text[] NOT NULL DEFAULT '{}';
     ALTER TABLE fom_slot
         ADD COLUMN since bigint NOT NULL DEFAULT 0,
         ADD COLUMN holds text[] NOT NULL DEFAULT '{}';
     ALTER TABLE fom_node ADD COLUMN reads text[] NOT NULL DEFAULT '{}';
     UPDATE fom_tables SET version = 3;",
];

/// Creates the tables, or changes those of an earlier release.
///
/// # Errors
///
/// After an error, the connection must not be used any more. Fails with [`PostgresError::NewerTables`] if a later release
/// made the tables.
pub(crate) async fn create(to: &Connection) -> Result<(), PostgresError> {
    if version(to).await? < VERSIONS.len() {
        // The lock is of the session: a transaction that waits for it does not see the tables that were made meanwhile.
        let lock = format!("SELECT pg_advisory_lock({CHANGES})");
        to.execute_all(&lock).await?;
        let found = version(to).await?;
        if let Some(changes @ [_, ..]) = VERSIONS.get(found..) {
            let changes = format!("BEGIN; {} COMMIT", changes.concat());
            to.execute_all(&changes).await?;
        }
        let unlock = format!("SELECT pg_advisory_unlock({CHANGES})");
        to.execute_all(&unlock).await?;
    }
    let (found, known) = (version(to).await?, VERSIONS.len());
    if found > known {
        return Err(PostgresError::NewerTables { found, known });
    }
    Ok(())
}

/// Returns the version of the tables; 0 if there are none.
async fn version(to: &Connection) -> Result<usize, PostgresError> {
    let exists = "SELECT CASE WHEN to_regclass('fom_tables') IS NULL THEN 0 ELSE 1 END";
    if to.one_i32(exists).await? == 0 {
        return Ok(0);
    }
    let found = to.one_i32("SELECT max(version) FROM fom_tables").await?;
    Ok(usize::try_from(found).unwrap_or(0))
}
