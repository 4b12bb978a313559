//! A connection: its checks, and a time limit for each statement.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::{
    AsyncMessage, Client, Config, NoTls,
    config::TargetSessionAttrs,
    types::{ToSql, Type},
};

use crate::{
    clock::{boot_time, nanos},
    error::PostgresError,
    tls::Tls,
};

/// How long a statement may take. After that it is unknown what the server has done.
const STATEMENT: Duration = Duration::from_secs(5);

/// How long a lock that was waited for in vain counts as held.
const LOCKED: Duration = Duration::from_secs(2);
/// The most statements that a connection remembers as prepared.
const PREPARED: usize = 256;

/// What the caller accepts of a server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Accepts {
    pub(crate) no_fsync: bool,
    pub(crate) one_copy: bool,
}

/// A parameter of a statement, with its type.
pub(crate) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// A connection to a server that was checked.
pub(crate) struct Connection {
    client: Client,
    /// Set when the server warned. A commit with a warning may be on one server only.
    warned: Arc<AtomicBool>,
    /// Whether the server may still work on a statement that was given up.
    abandoned: AtomicBool,
    /// When a statement of a phase last waited for a lock for too long, in nanoseconds since the machine was started.
    lock_waited: AtomicI64,
    /// The statements of phases that the server has prepared, by their text.
    prepared: Mutex<HashMap<Box<str>, tokio_postgres::Statement>>,
}

impl Connection {
    /// Connects to the first server of the list that accepts writes, and checks it.
    pub(crate) async fn open(
        config: &Config,
        tls: &Tls,
        accepts: Accepts,
    ) -> Result<Self, PostgresError> {
        let mut config = config.clone();
        config
            .target_session_attrs(TargetSessionAttrs::ReadWrite)
            .connect_timeout(STATEMENT)
            .tcp_user_timeout(STATEMENT);
        let this = match tls {
            Tls::Off => Self::of(limited(config.connect(NoTls)).await?),
            #[cfg(feature = "tls")]
            Tls::On(tls) => {
                config.ssl_mode(tokio_postgres::config::SslMode::Require);
                Self::of(limited(config.connect(tls.clone())).await?)
            }
        };
        this.prepare(accepts).await?;
        Ok(this)
    }

    /// Starts to serve a connection.
    fn of<S, T>((client, mut connection): (Client, tokio_postgres::Connection<S, T>)) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let warned = Arc::new(AtomicBool::new(false));
        let warns = Arc::clone(&warned);
        // It ends when the client is dropped, or when the connection fails.
        tokio::spawn(async move {
            let messages = |cx: &mut std::task::Context<'_>| connection.poll_message(cx);
            let mut messages = std::pin::pin!(messages);
            while let Some(Ok(message)) = std::future::poll_fn(&mut *messages).await {
                if let AsyncMessage::Notice(notice) = message
                    && notice.severity() != "NOTICE"
                {
                    warns.store(true, Ordering::Release);
                }
            }
        });
        Self {
            client,
            warned,
            abandoned: AtomicBool::new(false),
            lock_waited: AtomicI64::new(i64::MIN),
            prepared: Mutex::default(),
        }
    }

    async fn prepare(&self, accepts: Accepts) -> Result<(), PostgresError> {
        // A commit is acknowledged when it is on the disks of this server and of a synchronous standby.
        limited(self.client.batch_execute(
            "SET synchronous_commit = on; SET client_min_messages = warning; SET statement_timeout = 0; \
             SET default_transaction_isolation = 'read committed'; SET lock_timeout = '4s'",
        ))
        .await?;
        if self
            .one_i32("SELECT current_setting('server_version_num')::int")
            .await?
            >= 140_000
        {
            // A statement of a client that has given up must not wait for ever.
            let ends = "SET client_connection_check_interval = '2s'";
            limited(self.client.batch_execute(ends)).await?;
        }
        if !accepts.no_fsync && self.shows("fsync").await? != "on" {
            return Err(PostgresError::NoFsync);
        }
        if !accepts.one_copy && self.shows("synchronous_standby_names").await?.is_empty() {
            return Err(PostgresError::OneCopy);
        }
        Ok(())
    }

    /// Runs several statements.
    pub(crate) async fn execute_all(&self, statements: &str) -> Result<(), PostgresError> {
        self.without_warning(self.client.batch_execute(statements))
            .await
    }

    pub(crate) async fn one_i32(&self, statement: &str) -> Result<i32, PostgresError> {
        let row = limited(self.client.query_one(statement, &[])).await?;
        Ok(row.try_get(0)?)
    }

    async fn shows(&self, setting: &str) -> Result<String, PostgresError> {
        let row = limited(self.client.query_one(&format!("SHOW {setting}"), &[])).await?;
        Ok(row.try_get(0)?)
    }

    /// Runs several statements inside a transaction. A warning there says nothing about the commit.
    pub(crate) async fn execute_inside(&self, statements: &str) -> Result<(), PostgresError> {
        limited(self.client.batch_execute(statements)).await
    }

    /// Returns whether the connection has failed, or was given up.
    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed() || self.abandoned.load(Ordering::Acquire)
    }

    /// Notes that a statement of a phase has waited for a lock for too long.
    pub(crate) fn waited_for_lock(&self) {
        self.lock_waited
            .store(nanos(boot_time()), Ordering::Relaxed);
    }

    /// Whether a statement of a phase has done so a moment ago.
    pub(crate) fn has_waited_for_lock(&self) -> bool {
        let since = nanos(boot_time()).saturating_sub(self.lock_waited.load(Ordering::Relaxed));
        since < nanos(LOCKED)
    }

    /// Gives the connection up. The server ends its transaction when the connection is dropped.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
    }

    /// Runs a statement. Returns its rows.
    pub(crate) async fn query(
        &self,
        statement: &tokio_postgres::Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<tokio_postgres::Row>, PostgresError> {
        self.without_warning(self.client.query(statement, params))
            .await
    }

    /// As [`query`](Self::query), inside a transaction. A warning there says nothing about the commit.
    pub(crate) async fn query_inside(
        &self,
        statement: &tokio_postgres::Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<tokio_postgres::Row>, PostgresError> {
        limited(self.client.query(statement, params)).await
    }

    /// Runs a statement inside a transaction. Returns the number of rows that it has changed.
    pub(crate) async fn execute(
        &self,
        statement: &tokio_postgres::Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, PostgresError> {
        limited(self.client.execute(statement, params)).await
    }

    /// Returns the statement with this text. The server prepares it once, until it is forgotten.
    pub(crate) async fn prepared(
        &self,
        text: &str,
    ) -> Result<tokio_postgres::Statement, PostgresError> {
        if let Some(prepared) = self.cache().get(text) {
            return Ok(prepared.clone());
        }
        let prepared = self.statement(text, &[]).await?;
        let mut cache = self.cache();
        if cache.len() >= PREPARED {
            cache.clear();
        }
        cache.insert(text.into(), prepared.clone());
        Ok(prepared)
    }

    /// Forgets a prepared statement, because the tables may have changed.
    pub(crate) fn forget(&self, text: &str) {
        self.cache().remove(text);
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, HashMap<Box<str>, tokio_postgres::Statement>> {
        // A panic leaves the statements as they should be.
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn statement(
        &self,
        text: &str,
        types: &[Type],
    ) -> Result<tokio_postgres::Statement, PostgresError> {
        limited(self.client.prepare_typed(text, types)).await
    }

    /// Runs a statement that is used rarely.
    pub(crate) async fn query_once(
        &self,
        text: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<tokio_postgres::Row>, PostgresError> {
        self.without_warning(self.client.query_typed(text, params))
            .await
    }

    /// Fails if the server warns. A cancelled wait for the standby is a success with a warning.
    async fn without_warning<T>(
        &self,
        asks: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, PostgresError> {
        self.warned.store(false, Ordering::Release);
        let answer = limited(asks).await?;
        // The warning comes before the end of the answer.
        match self.warned.load(Ordering::Acquire) {
            true => Err(PostgresError::OneServer),
            false => Ok(answer),
        }
    }
}

/// Gives the server a time limit.
async fn limited<T>(
    asks: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, PostgresError> {
    match tokio::time::timeout(STATEMENT, asks).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(PostgresError::Silent {
            seconds: STATEMENT.as_secs(),
        }),
    }
}
