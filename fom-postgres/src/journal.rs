//! The journal: what the runtime commits, as rows of a log.

use std::{any::TypeId, fmt, sync::mpsc, time::Duration};

use fom_journal::{
    Batch, Journal, JournalError, JournalStats, Lease, Recover, Recovery, Statement,
    log::{LogJournal, LogStore},
};

use crate::{
    error::PostgresError,
    owner::Owner,
    settings::{ServerOptions, Settings},
    sql,
    thread::{Answer, Command, Owned, start},
};

/// The longest row that the server takes, with room for its protocol.
const MOST: usize = 512 << 20;
/// How long the drop of a journal waits for the server.
const RELEASE: Duration = Duration::from_millis(1_500);

/// The settings of a [`PostgresJournal`].
#[must_use = "`open` opens the journal"]
pub struct PostgresJournalBuilder {
    servers: ServerOptions,
    name: String,
    node: String,
    on_wait: Box<dyn FnMut(&Owner) + Send>,
}

impl PostgresJournalBuilder {
    /// Sets the name of this node, which other nodes and the table `fom_journal` show. Default: empty. Two nodes may
    /// have the same name.
    pub fn node(mut self, name: impl Into<String>) -> Self {
        self.node = name.into();
        self
    }

    /// Sets a function that hears which process has the journal while this process waits: once for each owner. It is
    /// called on the thread of the connection, and must return soon.
    pub fn on_wait(mut self, tell: impl FnMut(&Owner) + Send + 'static) -> Self {
        self.on_wait = Box::new(tell);
        self
    }

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

    /// Connects, waits until no other process has the journal, and claims it. The wait is as long as the owner lives:
    /// this process is its standby.
    ///
    /// # Errors
    ///
    /// Fails if the settings cannot be read, if the first connection fails, and if the server does not keep what it
    /// acknowledges. While the standby waits, it tries a failed connection again.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future ends the wait.
    pub async fn open(self) -> Result<PostgresJournal, PostgresError> {
        let name = self.name.clone();
        let owned = start(Settings {
            servers: self.servers.servers()?,
            name: self.name,
            node: self.node,
            on_wait: self.on_wait,
        })?;
        let owned = owned.await.unwrap_or(Err(PostgresError::Closed))?;
        Ok(PostgresJournal(LogJournal::new(Rows { name, owned })))
    }
}

impl fmt::Debug for PostgresJournalBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The settings of the connection may contain a password.
        f.debug_struct("PostgresJournalBuilder")
            .field("name", &self.name)
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

/// A journal in PostgreSQL that this process has, until another process takes it over.
///
/// Give it to [`journal_with`] of a builder. The drop of the runtime releases the journal, and a standby takes it over
/// at once. A process that dies, or that does not reach the server for 5 s, loses it.
///
/// [`journal_with`]: https://docs.rs/fom-durable/latest/fom_durable/trait.DurableBuilderExt.html#tymethod.journal_with
pub struct PostgresJournal(LogJournal<Rows>);

impl PostgresJournal {
    /// Returns the settings of the journal with this name on these servers. The settings are those of `libpq`, such as
    /// `host=db1,db2 user=fom dbname=orders`. The process uses the first server that accepts writes.
    ///
    /// Several journals with different names can be in one database.
    ///
    /// ```no_run
    /// use fom_durable::prelude::*;
    /// use fom_postgres::PostgresJournal;
    ///
    /// # async fn run() -> Result<(), BoxError> {
    /// let journal = PostgresJournal::builder("host=db1,db2 user=fom", "orders")
    ///     .node("eu-1a")
    ///     // "eu-1b has the journal, with term 3"
    ///     .on_wait(|owner| eprintln!("{owner}"))
    ///     .open()
    ///     .await?;
    /// let runtime = Runtime::builder().journal_with(journal).build()?;
    /// // Serves until another process takes over.
    /// runtime.moved().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(config: impl Into<String>, name: impl Into<String>) -> PostgresJournalBuilder {
        PostgresJournalBuilder {
            servers: ServerOptions::new(config),
            name: name.into(),
            node: String::new(),
            on_wait: Box::new(|_| {}),
        }
    }
}

/// The rows of the log.
struct Rows {
    name: String,
    owned: Owned,
}

impl Rows {
    /// Asks the thread of the connection, and waits for its answer.
    fn ask<T>(&self, command: impl FnOnce(Answer<T>) -> Command) -> Result<T, JournalError> {
        let (answer, answered) = mpsc::sync_channel(1);
        // If the thread has ended, it drops the sender of the answer.
        let _ = self.owned.commands.send(command(answer));
        answered.recv().unwrap_or(Err(JournalError::Closed))
    }
}

impl LogStore for Rows {
    fn last(&self) -> u64 {
        self.owned.last.cast_unsigned()
    }

    fn append(
        &mut self,
        bodies: Vec<Vec<u8>>,
        statements: Vec<(usize, Statement)>,
    ) -> Result<Vec<u64>, JournalError> {
        let rows = self.ask(|answer| Command::Append {
            bodies,
            statements,
            answer,
        })?;
        Ok(rows.into_iter().map(i64::cast_unsigned).collect())
    }

    fn load(&mut self, from: u64, to: u64) -> Result<Vec<(u64, Vec<u8>)>, JournalError> {
        let (from, to) = (from.cast_signed(), to.cast_signed());
        let rows = self.ask(|answer| Command::Load { from, to, answer })?;
        let rows = rows.into_iter();
        Ok(rows
            .map(|(seq, body)| (seq.cast_unsigned(), body))
            .collect())
    }

    fn delete_until(&mut self, last: u64) -> Result<(), JournalError> {
        self.ask(|answer| Command::DeleteUntil(last.cast_signed(), answer))
    }

    fn longest(&self) -> usize {
        MOST
    }

    fn damaged(&self, number: u64, what: &'static str) -> JournalError {
        let (name, seq) = (self.name.clone(), number.cast_signed());
        PostgresError::Damaged { name, seq, what }.into()
    }

    fn executes(&self) -> Option<TypeId> {
        sql::kind()
    }

    fn lease(&self) -> Option<Lease> {
        Some(self.owned.lease.clone())
    }

    fn time(&self) -> Option<Duration> {
        Some(self.owned.time.now())
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        if self.owned.lease.is_lost() {
            return;
        }
        let (answer, answered) = mpsc::sync_channel(1);
        let _ = self.owned.commands.send(Command::Release(answer));
        // Without an answer, the journal is free when the lease is over.
        let _ = answered.recv_timeout(RELEASE);
    }
}

impl Journal for PostgresJournal {
    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError> {
        self.0.recover(to)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        self.0.commit(batch)
    }

    fn tidy(&mut self) -> Result<bool, JournalError> {
        self.0.tidy()
    }

    fn longest(&self) -> usize {
        self.0.longest()
    }

    fn executes(&self) -> Option<TypeId> {
        self.0.executes()
    }

    fn lease(&self) -> Option<Lease> {
        self.0.lease()
    }

    fn time(&self) -> Option<Duration> {
        self.0.time()
    }

    fn stats(&self) -> JournalStats {
        self.0.stats()
    }
}

impl fmt::Debug for PostgresJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rows { name, owned } = self.0.store();
        f.debug_struct("PostgresJournal")
            .field("name", name)
            .field("lease", &owned.lease)
            .finish_non_exhaustive()
    }
}
