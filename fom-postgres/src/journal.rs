//! The journal: what the runtime commits, as rows of a log.

use std::{collections::BTreeMap, fmt, ops::Range, sync::mpsc, time::Duration};

use fom_journal::{Batch, EntryId, Journal, JournalError, JournalStats, Lease, Recover, Recovery};
use tokio_postgres::Config;

use crate::{
    body::{self, Body, Stored},
    connection::Accepts,
    error::PostgresError,
    log::Log,
    owner::Owner,
    settings::{Servers, Settings},
    thread::{Answer, Command, Owned, start},
    tls::Tls,
};

/// The most bytes of a row that holds several groups.
const ROW: usize = 32 << 20;
/// The longest row that the server takes, with room for its protocol.
const MOST: usize = 512 << 20;
/// The longest entry.
const ENTRY: usize = 64 << 20;
/// How long the drop of a journal waits for the server.
const RELEASE: Duration = Duration::from_millis(1_500);

/// The settings of a [`PostgresJournal`].
#[must_use = "`open` opens the journal"]
pub struct PostgresJournalBuilder {
    config: String,
    name: String,
    node: String,
    accepts: Accepts,
    #[cfg(feature = "tls")]
    tls: bool,
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
        self.tls = true;
        self
    }

    /// Accepts a server that acknowledges commits before they are on its disk. A power failure then loses acknowledged
    /// transitions. For tests.
    pub fn allow_no_fsync(mut self) -> Self {
        self.accepts.no_fsync = true;
        self
    }

    /// Accepts a server without a synchronous standby. The loss of its disk then loses all operations.
    pub fn allow_one_copy(mut self) -> Self {
        self.accepts.one_copy = true;
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
        let config: Config = self.config.parse()?;
        #[cfg(feature = "tls")]
        let tls = if self.tls {
            Tls::of_system()?
        } else {
            Tls::Off
        };
        #[cfg(not(feature = "tls"))]
        let tls = Tls::Off;
        let name = self.name.clone();
        let owned = start(Settings {
            servers: Servers {
                config,
                tls,
                accepts: self.accepts,
            },
            name: self.name,
            node: self.node,
            on_wait: self.on_wait,
        })?;
        let owned = owned.await.unwrap_or(Err(PostgresError::Closed))?;
        Ok(PostgresJournal {
            name,
            owned,
            log: Log::default(),
            written: 0,
            moved: 0,
            syncs: 0,
        })
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
pub struct PostgresJournal {
    name: String,
    owned: Owned,
    log: Log,
    written: u64,
    moved: u64,
    syncs: u64,
}

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
            config: config.into(),
            name: name.into(),
            node: String::new(),
            accepts: Accepts::default(),
            #[cfg(feature = "tls")]
            tls: false,
            on_wait: Box::new(|_| {}),
        }
    }

    /// Asks the thread of the connection, and waits for its answer.
    fn ask<T>(&self, command: impl FnOnce(Answer<T>) -> Command) -> Result<T, JournalError> {
        let (answer, answered) = mpsc::sync_channel(1);
        // If the thread has ended, it drops the sender of the answer.
        let _ = self.owned.commands.send(command(answer));
        answered.recv().unwrap_or(Err(JournalError::Closed))
    }

    /// Reads the rows up to `last`, in their order.
    fn read(
        &mut self,
        last: i64,
        mut row: impl FnMut(&mut Self, i64, Vec<u8>, Vec<Stored>),
    ) -> Result<(), JournalError> {
        let mut from = 0;
        loop {
            let rows = self.ask(|answer| Command::Load {
                from,
                to: last,
                answer,
            })?;
            let Some((newest, _)) = rows.last() else {
                return Ok(());
            };
            from = newest + 1;
            for (seq, body) in rows {
                let changes = body::decode(&body).map_err(|what| self.damaged(seq, what))?;
                row(self, seq, body, changes);
            }
        }
    }

    /// Appends rows: all of them, or none.
    fn append(&mut self, rows: Vec<Body>) -> Result<(), JournalError> {
        let (mut bodies, mut contents) = (Vec::new(), Vec::new());
        for Body { bytes, changes } in rows {
            let length = bytes.len();
            if length > MOST {
                return Err(JournalError::TooLong { length, most: MOST });
            }
            bodies.push(bytes);
            contents.push((length, changes));
        }
        let numbers = self.ask(|answer| Command::Append(bodies, answer))?;
        for (seq, (length, changes)) in numbers.into_iter().zip(contents) {
            self.syncs += 1;
            self.written += length as u64;
            self.log.add(seq, length, &changes);
        }
        Ok(())
    }

    fn damaged(&self, seq: i64, what: &'static str) -> JournalError {
        let name = self.name.clone();
        PostgresError::Damaged { name, seq, what }.into()
    }
}

impl Journal for PostgresJournal {
    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError> {
        let mut bodies = Vec::new();
        // The newest bytes of each entry: the body, and the place in it.
        let mut live: BTreeMap<EntryId, (usize, Range<usize>)> = BTreeMap::new();
        self.read(self.owned.last, |this, seq, body, changes| {
            this.log.add(seq, body.len(), &changes);
            for change in changes {
                match change.bytes {
                    Some(bytes) => _ = live.insert(change.id, (bodies.len(), bytes)),
                    None => _ = live.remove(&change.id),
                }
            }
            bodies.push(body);
        })?;
        to.expect(live.len() as u64);
        for (id, (body, bytes)) in &live {
            to.entry(*id, &bodies[*body][bytes.clone()]);
        }
        let mut recovery = Recovery::default();
        recovery.entries = live.len() as u64;
        Ok(recovery)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        let (mut groups, mut rows) = (batch.groups().peekable(), Vec::new());
        while groups.peek().is_some() {
            // Usually all groups are in one row.
            let mut length = 0;
            let row = std::iter::from_fn(|| {
                groups.next_if(|group| {
                    let more: usize = group.changes().map(length_of).sum();
                    let takes = length == 0 || length + more <= ROW;
                    length += more;
                    takes
                })
            });
            rows.push(body::encode(row));
        }
        self.append(rows)
    }

    fn tidy(&mut self) -> Result<bool, JournalError> {
        let Some(last) = self.log.oldest() else {
            return Ok(false);
        };
        let mut moved = Body::new();
        self.read(last, |this, seq, body, changes| {
            for change in changes {
                if let Some(bytes) = change.bytes
                    && this.log.is_live(change.id, seq)
                {
                    moved.put(change.id, &body[bytes]);
                }
            }
        })?;
        if !moved.changes.is_empty() {
            let moved = moved.finish();
            self.moved += moved.bytes.len() as u64;
            self.append(vec![moved])?;
        }
        // What is live in these rows is in a newer row now.
        self.ask(|answer| Command::DeleteUntil(last, answer))?;
        self.log.drop_until(last);
        Ok(self.log.oldest().is_some())
    }

    fn longest(&self) -> usize {
        ENTRY
    }

    fn lease(&self) -> Option<Lease> {
        Some(self.owned.lease.clone())
    }

    fn time(&self) -> Option<Duration> {
        Some(self.owned.time.now())
    }

    fn stats(&self) -> JournalStats {
        let mut stats = JournalStats::default();
        stats.entries = self.log.entries();
        stats.live_bytes = self.log.live_bytes();
        stats.size_bytes = self.log.size_bytes();
        stats.written_bytes = self.written;
        stats.moved_bytes = self.moved;
        stats.syncs = self.syncs;
        stats
    }
}

impl Drop for PostgresJournal {
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

impl fmt::Debug for PostgresJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresJournal")
            .field("name", &self.name)
            .field("lease", &self.owned.lease)
            .finish_non_exhaustive()
    }
}

fn length_of(change: fom_journal::Change<'_>) -> usize {
    match change {
        fom_journal::Change::Put { bytes, .. } => bytes.len(),
        fom_journal::Change::Delete { .. } => 0,
    }
}
