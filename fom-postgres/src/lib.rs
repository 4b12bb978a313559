//! A [journal](fom_journal::Journal) of fom in PostgreSQL. A second machine runs the same program: it waits as standby,
//! and takes the operations over when the first one ends, dies or loses its connection.
//!
//! ```no_run
//! use fom_durable::prelude::*;
//! use fom_postgres::PostgresJournal;
//!
//! # async fn run() -> Result<(), BoxError> {
//! let journal = PostgresJournal::builder("host=db1,db2 user=fom", "orders")
//!     .node("eu-1a")
//!     .on_wait(|owner| eprintln!("{owner}"))
//!     .open()
//!     .await?;
//! let runtime = Runtime::builder().journal_with(journal).build()?;
//! // Serves until another process takes over.
//! runtime.moved().await;
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//!
//! - The table `fom_journal` has a row for each journal: the owner, its term (a fencing token, which only grows), and
//!   its heartbeat. The table `fom_log` has a row for each commit.
//! - The owner sends a heartbeat each second. A standby claims the journal when it has read the same heartbeat for 5 s,
//!   in at least three answers, by its own clock. A released journal is claimed at once. The claim is one statement that
//!   succeeds only if the row is as the standby has read it.
//! - Each commit is one statement that does nothing if the term has changed. So no commit of a former owner is kept.
//! - The runtime enters no phase function later than 4 s after the owner sent the last heartbeat that was answered. When
//!   the server answers again and no other process has claimed the journal, the operations go on.
//! - If the answer to a commit is lost, the owner claims the journal again. The acknowledgment of that write proves
//!   whether the commit is kept. A read would prove nothing: a server shows commits that its standby does not have.
//! - Deadlines follow the time of the journal. The owners measure it, and pass it on. The clock of a server counts only
//!   while no process watched the journal.
//!
//! The promise is that of each journal: *transitions exactly once, effects at least once*. A process that is paused
//! between the check of its lease and an effect can carry the effect out after another process has taken over. The effect
//! has the same step key there, and a lower [term](https://docs.rs/fom-durable/latest/fom_durable/trait.DurableCxExt.html#tymethod.term).
//!
//! The feature `tls` encrypts the connections: `PostgresJournalBuilder::tls`. Without it, they are not encrypted.
//!
//! # Tables of the application
//!
//! A phase gives an [`Sql`] to `commit_with` of its context. It is executed in the transaction that commits the transition.
//!
//! # The engine of a cluster
//!
//! With the feature `cluster`, `PostgresEngine` keeps a cluster of [`fom-cluster`](https://docs.rs/fom-cluster): several nodes
//! share the operations, and take over from each other. The tables `fom_cluster`, `fom_node` and `fom_slot` have a row for each
//! cluster, node and slot, and `fom_slot_log` has a row for each commit of a slot. One statement commits what all slots of a
//! node hand over. It does nothing for a slot with another term.
//!
//! # Modules
//!
//! From the bottom. Each module imports only from modules above it in this table; `tests/layout.rs` checks this.
//!
//! | module | contents |
//! | --- | --- |
//! | `error` | the errors |
//! | `clock` | the clock of the lease |
//! | `owner` | the process that has a journal |
//! | `tls` | the encryption of connections |
//! | `connection` | a connection that was checked |
//! | `sql` | the SQL of phases |
//! | `settings` | the settings |
//! | `tables` | the tables, and their versions |
//! | `row` | the row of a journal: read, claim, heartbeat, release |
//! | `standby` | the wait for the journal |
//! | `appends` | commits, each exactly once |
//! | `thread` | the thread with the connections |
//! | `journal` | the journal |
//! | `engine` | the engine of a cluster: its connections, and its statements |

mod appends;
mod clock;
mod connection;
#[cfg(feature = "cluster")]
mod engine;
mod error;
mod journal;
mod owner;
mod row;
mod settings;
mod sql;
mod standby;
mod tables;
mod thread;
mod tls;

#[cfg(feature = "cluster")]
pub use engine::{PostgresEngine, PostgresEngineBuilder};
pub use error::PostgresError;
pub use journal::{PostgresJournal, PostgresJournalBuilder};
pub use owner::Owner;
pub use sql::Sql;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
