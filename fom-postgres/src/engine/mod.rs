//! The engine of a cluster: its nodes, and its slots with their logs, in PostgreSQL.

mod pool;
mod requests;
mod statements;

use std::{any::TypeId, fmt, sync::Arc};

use fom_cluster::{
    Slot,
    engine::{Append, Assignment, Beat, Claim, Claimed, Engine, EngineError, Settings, View},
};

use crate::{
    engine::{
        pool::{Caller, Lane, Link},
        requests::{Owned, SlotFailed, Told},
    },
    error::PostgresError,
    settings::ServerOptions,
    sql,
};

/// The settings of a [`PostgresEngine`].
#[must_use = "`build` makes the engine"]
pub struct PostgresEngineBuilder {
    servers: ServerOptions,
    cluster: String,
}

impl PostgresEngineBuilder {
    /// Encrypts the connections, and accepts only a server whose certificate is signed by an authority that the system
    /// trusts. The variable `SSL_CERT_FILE` names a file with other authorities. Needs the feature `tls`.
    #[cfg(feature = "tls")]
    pub fn tls(mut self) -> Self {
        self.servers.tls = true;
        self
    }

    /// Accepts a server that acknowledges commits before they are on its disk. A power failure then loses acknowledged
    /// transitions. For tests.
    pub fn allow_no_fsync(mut self) -> Self {
        self.servers.accepts.no_fsync = true;
        self
    }

    /// Accepts a server without a synchronous standby. The loss of its disk then loses all operations.
    pub fn allow_one_copy(mut self) -> Self {
        self.servers.accepts.one_copy = true;
        self
    }

    /// Makes the engine. It connects when a node joins.
    ///
    /// # Errors
    ///
    /// Fails if the settings cannot be read, and if the thread of the connections cannot be created.
    pub fn build(self) -> Result<PostgresEngine, PostgresError> {
        Ok(PostgresEngine {
            caller: Caller::start(self.servers.servers()?)?,
            cluster: self.cluster.into(),
        })
    }
}

impl fmt::Debug for PostgresEngineBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The settings of the connection may contain a password.
        f.debug_struct("PostgresEngineBuilder")
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

/// A cluster that is kept in PostgreSQL. Needs the feature `cluster`.
///
/// Nodes with the same servers and the same name of a cluster are one cluster. Several clusters with different names can be in
/// one database. A node has one connection for its heartbeats, and up to four others.
///
/// One statement commits what all slots of a node hand over, and says the term of each slot. What has another term is not kept.
/// Phases can add [SQL of their own](crate::Sql) to it.
pub struct PostgresEngine {
    caller: Caller,
    cluster: Arc<str>,
}

impl PostgresEngine {
    /// Returns the settings of the cluster with this name on these servers. The settings of the connection are those of
    /// `libpq`, such as `host=db1,db2 user=fom dbname=orders`. A node uses the first server that accepts writes.
    ///
    /// ```no_run
    /// use fom_cluster::{Cluster, Tcp};
    /// use fom_postgres::PostgresEngine;
    ///
    /// # async fn join() -> Result<(), Box<dyn std::error::Error>> {
    /// let engine = PostgresEngine::builder("host=db1,db2 user=fom", "orders").build()?;
    /// let node = Cluster::builder(engine, "eu-1a")
    ///     .network(Tcp::bind("10.0.0.7:7070")?.secret(std::env::var("ORDERS_SECRET")?));
    /// // `.operation::<Order>()` for each type of operation; then:
    /// let cluster = node.join().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(config: impl Into<String>, cluster: impl Into<String>) -> PostgresEngineBuilder {
        PostgresEngineBuilder {
            servers: ServerOptions::new(config),
            cluster: cluster.into(),
        }
    }

    /// Asks the server about this cluster, and waits for the answer.
    fn ask<T, F>(
        &self,
        lane: Lane,
        asks: impl FnOnce(Arc<Link>, Arc<str>) -> F + Send + 'static,
    ) -> Result<T, EngineError>
    where
        F: Future<Output = Result<T, PostgresError>> + Send + 'static,
        T: Send + 'static,
    {
        let cluster = Arc::clone(&self.cluster);
        let answer = self.caller.ask(lane, move |link| asks(link, cluster));
        answer.map_err(|error| match error.is_refusal() {
            true => EngineError::refused(error),
            false => EngineError::unknown(error),
        })
    }
}

impl Engine for PostgresEngine {
    fn open(&self, wanted: &Settings) -> Result<Settings, EngineError> {
        let wanted = *wanted;
        self.ask(Lane::Work, async move |link, cluster| {
            requests::open(&link.to, &cluster, wanted).await
        })
    }

    fn beat(&self, me: &Beat<'_>) -> Result<View, EngineError> {
        let told = Told {
            incarnation: me.incarnation.to_owned(),
            is_first: me.is_first,
            time: me.time,
            node: me.node.clone(),
        };
        self.ask(Lane::Beats, async move |link, cluster| {
            requests::beat(&link.to, &cluster, &told).await
        })
    }

    fn evict(&self, incarnation: &str, beat: u64) -> Result<bool, EngineError> {
        let incarnation = incarnation.to_owned();
        self.ask(Lane::Beats, async move |link, cluster| {
            requests::evict(&link.to, &cluster, &incarnation, beat).await
        })
    }

    fn claim(&self, claim: &Claim<'_>) -> Result<Option<Claimed>, EngineError> {
        let (seen, time) = (owned(claim.slot, claim.seen), claim.time);
        let incarnation = claim.incarnation.to_owned();
        let reads = claim.reads.clone();
        self.ask(Lane::Work, async move |link, cluster| {
            requests::claim(&link.to, &cluster, &incarnation, seen, time, &reads).await
        })
    }

    fn commit(&self, appends: &[Append]) -> Result<Vec<bool>, EngineError> {
        // The bodies are not copied.
        let sent = appends.to_vec();
        let kept = self.ask(Lane::Work, async move |link, cluster| {
            requests::commit(&link, &cluster, &sent).await
        })?;
        let kept = kept.map_err(|SlotFailed { slot, failed }| EngineError::Statement {
            slot,
            statement: failed.statement,
            source: Arc::new(failed.error),
        })?;
        let kept_of = |append: &Append| kept.contains(&i32::from(append.slot.0));
        Ok(appends.iter().map(kept_of).collect())
    }

    fn executes(&self) -> Option<TypeId> {
        sql::kind()
    }

    fn load(&self, slot: Slot, from: u64, to: u64) -> Result<Vec<(u64, Vec<u8>)>, EngineError> {
        self.ask(Lane::Work, async move |link, cluster| {
            requests::load(&link.to, &cluster, i32::from(slot.0), (from, to)).await
        })
    }

    fn ends(&self, _: u16) -> Result<Vec<u64>, EngineError> {
        self.ask(Lane::Work, async move |link, cluster| {
            requests::ends(&link.to, &cluster).await
        })
    }

    fn delete_until(&self, slot: Slot, term: u64, last: u64) -> Result<(), EngineError> {
        self.ask(Lane::Work, async move |link, cluster| {
            requests::delete_until(&link.to, &cluster, owned(slot, term), last).await
        })
    }

    fn note(&self, slot: Slot, term: u64, notes: &[u8]) -> Result<bool, EngineError> {
        let notes = notes.to_vec();
        self.ask(Lane::Work, async move |link, cluster| {
            requests::note(&link.to, &cluster, owned(slot, term), &notes).await
        })
    }

    fn assign(&self, assignment: &Assignment) -> Result<Assignment, EngineError> {
        let assignment = assignment.clone();
        self.ask(Lane::Work, async move |link, cluster| {
            requests::assign(&link.to, &cluster, &assignment).await
        })
    }

    fn release(&self, slot: Slot, term: u64) -> Result<(), EngineError> {
        self.ask(Lane::Work, async move |link, cluster| {
            requests::release(&link.to, &cluster, owned(slot, term)).await
        })
    }

    fn leave(&self, incarnation: &str) -> Result<(), EngineError> {
        let incarnation = incarnation.to_owned();
        self.ask(Lane::Work, async move |link, cluster| {
            requests::leave(&link.to, &cluster, &incarnation).await
        })
    }
}

fn owned(slot: Slot, term: u64) -> Owned {
    Owned {
        slot: i32::from(slot.0),
        term: requests::signed(term),
    }
}

impl fmt::Debug for PostgresEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresEngine")
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}
