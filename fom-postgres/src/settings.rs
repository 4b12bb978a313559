//! The settings of a journal.

use tokio_postgres::Config;

use crate::{
    connection::{Accepts, Connection},
    error::PostgresError,
    owner::Owner,
};

pub(crate) struct Settings {
    pub(crate) config: Config,
    pub(crate) name: String,
    pub(crate) node: String,
    pub(crate) accepts: Accepts,
    pub(crate) on_wait: Box<dyn FnMut(&Owner) + Send>,
}

impl Settings {
    pub(crate) async fn connect(&self) -> Result<Connection, PostgresError> {
        Connection::open(&self.config, self.accepts).await
    }
}
