//! The settings of a journal, and of the servers.

use tokio_postgres::Config;

use crate::{
    connection::{Accepts, Connection},
    error::PostgresError,
    owner::Owner,
    tls::Tls,
};

/// What a caller sets of the servers.
#[derive(Clone, Default)]
pub(crate) struct ServerOptions {
    /// The settings of `libpq`. They may contain a password.
    pub(crate) config: String,
    pub(crate) accepts: Accepts,
    #[cfg(feature = "tls")]
    pub(crate) tls: bool,
}

impl ServerOptions {
    pub(crate) fn new(config: impl Into<String>) -> Self {
        Self {
            config: config.into(),
            ..Self::default()
        }
    }

    /// Reads the settings.
    pub(crate) fn servers(&self) -> Result<Servers, PostgresError> {
        #[cfg(feature = "tls")]
        let tls = if self.tls {
            Tls::of_system()?
        } else {
            Tls::Off
        };
        #[cfg(not(feature = "tls"))]
        let tls = Tls::Off;
        Ok(Servers {
            config: self.config.parse()?,
            tls,
            accepts: self.accepts,
        })
    }
}

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
