//! The engine of a cluster: its nodes, and its slots with their logs, in one stream of NATS JetStream.

use std::{fmt, sync::Arc};

use async_nats::{
    ConnectOptions,
    jetstream::stream::{Config, DiscardPolicy, Info, RetentionPolicy, StorageType},
};
use fom_cluster::{
    Slot,
    engine::{Append, Assignment, Beat, Claim, Claimed, Engine, EngineError, Settings, View},
};
use futures::future::join_all;

use crate::{
    connection::{Caller, Servers, Stream},
    control::{Answered, Control},
    error::NatsError,
    logs::{Added, Logs},
    monitor,
    request::{Answer, Request},
};

/// The copies of a stream.
const COPIES: usize = 3;

/// The settings of a [`NatsEngine`].
#[must_use = "`build` makes the engine"]
pub struct NatsEngineBuilder {
    servers: Servers,
    cluster: String,
    check: Check,
}

/// How the servers are checked, and what is accepted though it can lose what was acknowledged.
#[derive(Clone, Debug, Default)]
struct Check {
    monitors: Vec<String>,
    no_fsync: bool,
    one_copy: bool,
}

impl NatsEngineBuilder {
    /// Sets how the servers are connected to: with a password, with credentials, or with TLS. With TLS, the connections accept
    /// only a server whose certificate is signed by an authority that the system trusts; the variable `SSL_CERT_FILE` names a
    /// file with other authorities.
    ///
    /// ```no_run
    /// use fom_nats::NatsEngine;
    ///
    /// # fn engine() -> Result<NatsEngine, Box<dyn std::error::Error>> {
    /// let password = std::env::var("NATS_PASSWORD")?;
    /// let engine = NatsEngine::builder(["nats://a"], ["http://a:8222"], "orders")
    ///     .connect_with(move |options| {
    ///         let options = options.user_and_password("fom".to_owned(), password.clone());
    ///         options.require_tls(true)
    ///     })
    ///     .build()?;
    /// # Ok(engine)
    /// # }
    /// ```
    pub fn connect_with(
        mut self,
        options: impl Fn(ConnectOptions) -> ConnectOptions + Send + Sync + 'static,
    ) -> Self {
        self.servers.options = Arc::new(options);
        self
    }

    /// Accepts servers that acknowledge messages before they are on their disks, and asks no monitoring page. A power failure
    /// then loses acknowledged transitions. For tests.
    pub fn allow_no_fsync(mut self) -> Self {
        self.check.no_fsync = true;
        self
    }

    /// Accepts a stream with one copy, and creates such a one. The loss of its disk then loses all operations.
    pub fn allow_one_copy(mut self) -> Self {
        self.check.one_copy = true;
        self
    }

    /// Makes the engine. It connects when a node joins.
    ///
    /// # Errors
    ///
    /// Fails with [`NatsError::Name`] if the name of the cluster is empty or has other characters than letters, digits, `-` and
    /// `_`. Fails if the thread of the connections cannot be created.
    pub fn build(self) -> Result<NatsEngine, NatsError> {
        let name = self.cluster;
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || !name.chars().all(is_part) {
            return Err(NatsError::Name(name));
        }
        let stream = |servers| Stream::new(servers, format!("fom-{name}"));
        Ok(NatsEngine {
            caller: Caller::start()?,
            shared: Arc::new(Shared {
                requests: stream(self.servers.clone()),
                records: stream(self.servers),
                control: Control::new(format!("fom.{name}.control")),
                logs: Logs::new(format!("fom.{name}.slot")),
                subjects: format!("fom.{name}.>"),
                check: self.check,
            }),
        })
    }
}

impl fmt::Debug for NatsEngineBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsEngineBuilder")
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

/// A cluster that is kept in NATS JetStream.
///
/// Nodes with the same servers and the same name of a cluster are one cluster. The cluster `orders` is the stream `fom-orders`.
/// Several clusters with different names can be on the same servers. A node has two connections, one of them for requests such as heartbeats.
///
/// The stream has a subject for the state of the cluster and one for each slot. A message is added only directly after the last
/// one of its subject that the node knows. So a claim, which adds a message to the subject of the slot, keeps the former owner from
/// adding more.
pub struct NatsEngine {
    caller: Caller,
    shared: Arc<Shared>,
}

/// What the calls use.
struct Shared {
    /// Requests, with the heartbeats, have a connection of their own: no commit delays them.
    requests: Stream,
    records: Stream,
    control: Control,
    logs: Logs,
    subjects: String,
    check: Check,
}

impl NatsEngine {
    /// Returns the settings of the cluster with this name on these servers. NATS shows only on its monitoring pages whether a
    /// server writes to its disk before it acknowledges. So the engine needs the monitoring URL of each server, and asks it when a
    /// node joins.
    ///
    /// ```no_run
    /// use fom_cluster::{Cluster, Tcp};
    /// use fom_nats::NatsEngine;
    ///
    /// # async fn join() -> Result<(), Box<dyn std::error::Error>> {
    /// let servers = ["nats://a", "nats://b", "nats://c"];
    /// let monitors = ["http://a:8222", "http://b:8222", "http://c:8222"];
    /// let engine = NatsEngine::builder(servers, monitors, "orders").build()?;
    /// let node = Cluster::builder(engine, "eu-1a")
    ///     .network(Tcp::bind("10.0.0.7:7070")?.secret(std::env::var("ORDERS_SECRET")?));
    /// // `.operation::<Order>()` for each type of operation; then:
    /// let cluster = node.join().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(
        servers: impl IntoIterator<Item = impl Into<String>>,
        monitors: impl IntoIterator<Item = impl Into<String>>,
        cluster: impl Into<String>,
    ) -> NatsEngineBuilder {
        NatsEngineBuilder {
            servers: Servers {
                urls: servers.into_iter().map(Into::into).collect(),
                options: Arc::new(|options| options),
            },
            cluster: cluster.into(),
            check: Check {
                monitors: monitors.into_iter().map(Into::into).collect(),
                ..Check::default()
            },
        }
    }

    /// Runs a call on the thread of the connections, and waits for its answer.
    fn ask<T, F>(&self, call: impl FnOnce(Arc<Shared>) -> F) -> Result<T, EngineError>
    where
        F: Future<Output = Result<T, NatsError>> + Send + 'static,
        T: Send + 'static,
    {
        let answer = self.caller.ask(call(Arc::clone(&self.shared)));
        answer.map_err(engine_error)
    }

    /// Adds a request to the state of the cluster.
    fn execute(&self, request: Request) -> Result<Answer, EngineError> {
        self.ask(async move |shared| shared.execute(request).await)?
    }
}

fn engine_error(error: NatsError) -> EngineError {
    match error.is_refusal() {
        true => EngineError::refused(error),
        false => EngineError::unknown(error),
    }
}

impl Shared {
    async fn execute(&self, request: Request) -> Result<Answered, NatsError> {
        self.control.execute(&self.requests, request).await
    }

    /// Creates the stream, if there is none, and checks that its servers keep what they acknowledge.
    async fn check_servers(&self) -> Result<(), NatsError> {
        let context = self.records.context().await?;
        let server = context.client().server_info();
        // A server that is too old does not know all settings of the stream.
        monitor::check_version(&server.server_name, &server.version)?;
        let config = self.config();
        let info = self.records.create(config).await?;
        let stream = self.records.name().to_owned();
        if let Some(what) = differs(&info) {
            return Err(NatsError::Settings { stream, what });
        }
        if info.config.num_replicas < 2 && !self.check.one_copy {
            return Err(NatsError::OneCopy { stream });
        }
        if self.check.no_fsync {
            return Ok(());
        }
        let mut servers = Vec::new();
        if let Some(cluster) = info.cluster {
            servers.extend(cluster.leader);
            servers.extend(cluster.replicas.into_iter().map(|peer| peer.name));
        }
        if servers.is_empty() {
            servers.push(server.server_name);
        }
        monitor::check(&self.check.monitors, &servers).await
    }

    fn config(&self) -> Config {
        Config {
            name: self.records.name().to_owned(),
            subjects: vec![self.subjects.clone()],
            description: Some("A cluster of fom. Do not change it by hand.".to_owned()),
            num_replicas: if self.check.one_copy { 1 } else { COPIES },
            storage: StorageType::File,
            retention: RetentionPolicy::Limits,
            discard: DiscardPolicy::New,
            max_messages: -1,
            max_bytes: -1,
            max_messages_per_subject: -1,
            allow_direct: true,
            allow_atomic_publish: true,
            ..Config::default()
        }
    }
}

/// Returns which setting of a stream makes it lose messages, or take none.
fn differs(info: &Info) -> Option<&'static str> {
    let config = &info.config;
    let rules = [
        (
            config.storage == StorageType::File,
            "its storage is no file",
        ),
        (
            config.retention == RetentionPolicy::Limits,
            "its retention deletes messages that were read",
        ),
        (
            config.max_age.is_zero() && config.max_messages_per_subject <= 0,
            "it deletes messages by their age or number",
        ),
        (
            config.discard == DiscardPolicy::New
                || config.max_bytes <= 0 && config.max_messages <= 0,
            "it deletes old messages when it is full",
        ),
        (config.allow_direct, "it has no direct reads"),
        (config.allow_atomic_publish, "it has no atomic batches"),
        (!config.no_ack, "it acknowledges nothing"),
    ];
    rules
        .into_iter()
        .find(|(holds, _)| !holds)
        .map(|(_, what)| what)
}

impl Engine for NatsEngine {
    fn open(&self, wanted: &Settings) -> Result<Settings, EngineError> {
        let request = Request::Open(*wanted);
        let shared = Arc::clone(&self.shared);
        let opened = self.caller.ask_until_led(move || {
            let (shared, request) = (Arc::clone(&shared), request.clone());
            async move {
                shared.check_servers().await?;
                shared.execute(request).await
            }
        });
        opened.map_err(engine_error)??.settings()
    }

    fn beat(&self, me: &Beat<'_>) -> Result<View, EngineError> {
        let request = Request::Beat {
            incarnation: me.incarnation.to_owned(),
            is_first: me.is_first,
            time: me.time,
            node: me.node.clone(),
        };
        self.execute(request)?.view()
    }

    fn evict(&self, incarnation: &str, beat: u64) -> Result<bool, EngineError> {
        let incarnation = incarnation.to_owned();
        self.execute(Request::Evict { incarnation, beat })?.done()
    }

    fn claim(&self, claim: &Claim<'_>) -> Result<Option<Claimed>, EngineError> {
        let request = Request::Claim {
            slot: claim.slot,
            seen: claim.seen,
            incarnation: claim.incarnation.to_owned(),
            time: claim.time,
            reads: claim.reads.clone(),
        };
        let slot = claim.slot;
        self.ask(async move |shared| {
            let answer = shared.execute(request).await?;
            let mut granted = answer.and_then(Answer::claimed);
            if let Ok(Some(claimed)) = &mut granted {
                let claim = (slot, claimed.term, claimed.time);
                match shared.logs.claim(&shared.records, claim).await? {
                    Some((last, time)) => (claimed.last, claimed.time) = (last, time),
                    None => return Ok(Ok(None)),
                }
            }
            Ok(granted)
        })?
    }

    /// The records of all slots are under way at the same time.
    fn commit(&self, appends: &[Append]) -> Result<Vec<bool>, EngineError> {
        // The bodies are not copied.
        let (shared, appends) = (Arc::clone(&self.shared), appends.to_vec());
        let answer = self.caller.ask(async move {
            let adds = appends
                .iter()
                .map(|append| shared.logs.add(&shared.records, append));
            let added = join_all(adds).await.into_iter();
            added
                .map(|added| Ok(matches!(added?, Added::Kept)))
                .collect()
        });
        // Also if one slot is refused: the bodies of the others may be appended.
        answer.map_err(EngineError::unknown)
    }

    fn load(&self, slot: Slot, from: u64, to: u64) -> Result<Vec<(u64, Vec<u8>)>, EngineError> {
        self.ask(async move |shared| shared.logs.load(&shared.records, slot, (from, to)).await)
    }

    fn ends(&self, slots: u16) -> Result<Vec<u64>, EngineError> {
        self.ask(async move |shared| {
            let mark = shared.control.mark(&shared.requests).await?;
            let moment = (shared.control.subject(), mark);
            shared.logs.ends(&shared.records, moment, slots).await
        })
    }

    fn delete_until(&self, slot: Slot, term: u64, last: u64) -> Result<(), EngineError> {
        self.ask(async move |shared| {
            let owned = (slot, term);
            shared.logs.delete_until(&shared.records, owned, last).await
        })
    }

    fn note(&self, slot: Slot, term: u64, notes: &[u8]) -> Result<bool, EngineError> {
        let notes = notes.to_vec();
        self.execute(Request::Note { slot, term, notes })?.done()
    }

    fn assign(&self, assignment: &Assignment) -> Result<Assignment, EngineError> {
        let request = Request::Assign(assignment.clone());
        self.execute(request)?.assignment()
    }

    fn release(&self, slot: Slot, term: u64) -> Result<(), EngineError> {
        self.shared.logs.release(slot, term);
        self.execute(Request::Release { slot, term }).map(drop)
    }

    fn leave(&self, incarnation: &str) -> Result<(), EngineError> {
        let incarnation = incarnation.to_owned();
        self.execute(Request::Leave { incarnation }).map(drop)
    }
}

impl fmt::Debug for NatsEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsEngine")
            .field("stream", &self.shared.records.name())
            .finish_non_exhaustive()
    }
}
