//! The settings of a journal.

use tokio_postgres::Config;

use crate::{
    connection::{Accepts, Connection},
    error::PostgresError,
    owner::Owner,
    tls::Tls,
};

/// The servers, and what they must do.
#[derive(Clone)]
pub(crate) struct Servers {
    pub(crate) config: Config,
    pub(crate) tls: Tls,
    pub(crate) accepts: Accepts,
}

impl Servers {
    /// Connects to the one that accepts writes.
    pub(crate) async fn connect(&self) -> Result<Connection, PostgresError> {
        Connection::open(&self.config, &self.tls, self.accepts).await
    }
}

pub(crate) struct Settings {
    pub(crate) servers: Servers,
    pub(crate) name: String,
    pub(crate) node: String,
    pub(crate) on_wait: Box<dyn FnMut(&Owner) + Send>,
}
