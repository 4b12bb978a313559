//! The errors of a journal in PostgreSQL.

use std::{io, sync::Arc};

use fom_journal::JournalError;
use tokio_postgres::error::SqlState;

/// The journal could not be opened, or its server does not do what it must.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostgresError {
    /// The connection settings cannot be read, or the server refuses the connection or a statement. [`Display`] includes
    /// the message of the server.
    ///
    /// [`Display`]: std::fmt::Display
    #[error("PostgreSQL: {}", told(.0))]
    Server(#[from] Arc<tokio_postgres::Error>),
    /// The server did not answer in time.
    #[error("PostgreSQL did not answer within {seconds} s; check the server and the network")]
    Silent {
        /// The limit, in seconds.
        seconds: u64,
    },
    /// The server acknowledges commits before they are on its disk.
    #[error(
        "the server runs with `fsync = off`, and a power failure loses committed transitions; set `fsync = on`, or call \
         `allow_no_fsync`"
    )]
    NoFsync,
    /// The server acknowledges commits before a second server has them.
    #[error(
        "the server has no synchronous standby, and its failure loses committed transitions; set \
         `synchronous_standby_names`, or call `allow_one_copy`"
    )]
    OneCopy,
    /// The server has a commit, and warned: its standby may not have it. An administrator cancels the wait for the standby
    /// like this.
    #[error(
        "the server warned: its standby may not have the commit; see its log, and whether the standby is connected"
    )]
    OneServer,
    /// A later release made the tables.
    #[error(
        "the tables of fom have version {found}, but this release knows versions up to {known}; use the release that \
         made them"
    )]
    NewerTables {
        /// The version of the tables.
        found: usize,
        /// The latest version that this release knows.
        known: usize,
    },
    /// The term of the journal went back: the server was restored from an old backup, or a standby without the last
    /// commits was promoted.
    #[error(
        "the journal {name} has term {found}, but this process has seen term {seen}: the server has lost commits; \
         restore the latest state of the server, or restart all nodes to accept the loss"
    )]
    TermWentBack {
        /// The name of the journal.
        name: String,
        /// The term that the server has.
        found: u64,
        /// The highest term that this process has seen.
        seen: u64,
    },
    /// A row of the log cannot be read.
    #[error("row {seq} of the journal {name} is damaged: {what}; restore the server from a backup")]
    Damaged {
        /// The name of the journal.
        name: String,
        /// The number of the row.
        seq: i64,
        /// What is wrong.
        what: &'static str,
    },
    /// A statement of a phase changed another number of rows than it must.
    #[error("the statement changed {changed} rows instead of {expected}: {text}")]
    Rows {
        /// The text of the statement.
        text: Arc<str>,
        /// The number of rows that [`Sql::expect_rows`](crate::Sql::expect_rows) says.
        expected: u64,
        /// The number of rows that the statement would have changed.
        changed: u64,
    },
    /// A value of a statement panicked when it was converted for the server.
    #[error("a value of the statement panicked: {message}: {text}")]
    Panicked {
        /// The text of the statement.
        text: Arc<str>,
        /// The message of the panic.
        message: String,
    },
    /// A statement of a phase is none that may be in a transaction of the store.
    #[error(
        "a statement of a phase begins with INSERT, UPDATE, DELETE, MERGE, SELECT, WITH, CALL or NOTIFY, and not as this one: {text}"
    )]
    NotInTransaction {
        /// The text of the statement.
        text: Arc<str>,
    },
    /// A statement of a phase is not one for this store.
    #[error("PostgreSQL executes statements of the type `Sql`, and got one of the type `{kind}`")]
    NotSql {
        /// The type of the statement.
        kind: &'static str,
    },
    /// The system trusts no authority that could have signed the certificate of a server.
    #[cfg(feature = "tls")]
    #[error(
        "TLS needs certificates of authorities, and the system has none; install `ca-certificates`, or set \
         `SSL_CERT_FILE`. {0}"
    )]
    NoAuthorities(String),
    /// The thread for the connection could not be created.
    #[error("the thread `fom-postgres` could not be created: {0}")]
    Thread(#[source] Arc<io::Error>),
    /// The thread for the connection has ended.
    #[error("the journal is closed")]
    Closed,
}

impl PostgresError {
    /// Returns whether the server has refused the statement, and rolled it back. Every other error leaves that open.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::Server(error) => error.as_db_error().is_some_and(|error| {
                // A server that was demoted is left for the new one. A lock that another statement has is waited for.
                let goes_on = [
                    SqlState::READ_ONLY_SQL_TRANSACTION,
                    SqlState::LOCK_NOT_AVAILABLE,
                ];
                error.severity() == "ERROR" && !goes_on.contains(error.code())
            }),
            Self::NoFsync | Self::OneCopy | Self::NewerTables { .. } => true,
            _ => false,
        }
    }
}

impl From<tokio_postgres::Error> for PostgresError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Server(Arc::new(error))
    }
}

impl From<PostgresError> for JournalError {
    fn from(error: PostgresError) -> Self {
        Self::Other(Arc::new(error))
    }
}

/// Returns the error with the message of the server, which the error itself keeps as its source.
fn told(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => error.to_string(),
        None => {
            let source = std::error::Error::source(error);
            source.map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
        }
    }
}
