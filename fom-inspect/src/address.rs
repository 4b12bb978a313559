//! Where an inspector listens.

use std::{
    fmt, io,
    net::{SocketAddr, ToSocketAddrs as _},
    path::{Path, PathBuf},
};

use crate::error::StartError;

/// Where an inspector listens: an IP address with a port, or the path of a Unix socket.
///
/// A text is a path if it begins with `unix:` or has a `/`. Otherwise it is an address such as `127.0.0.1:7070`, or a name such as
/// `localhost:7070`. Port 0 is a free port; [`InspectorHandle::url`](crate::InspectorHandle::url) returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Tcp(SocketAddr),
    Name(String),
    Unix(PathBuf),
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self(Kind::Tcp(address))
    }
}

impl From<&Path> for Address {
    fn from(path: &Path) -> Self {
        Self(Kind::Unix(path.into()))
    }
}

impl From<PathBuf> for Address {
    fn from(path: PathBuf) -> Self {
        Self(Kind::Unix(path))
    }
}

impl From<&str> for Address {
    fn from(text: &str) -> Self {
        Self(match text.strip_prefix("unix:") {
            Some(path) => Kind::Unix(path.into()),
            None if text.contains('/') => Kind::Unix(text.into()),
            None => Kind::Name(text.into()),
        })
    }
}

impl From<String> for Address {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Tcp(address) => address.fmt(f),
            Kind::Name(name) => f.write_str(name),
            Kind::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Where an inspector listens, after it was bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// The real port, also if port 0 was asked for.
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// What to bind to.
pub(crate) enum Target {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Address {
    /// Returns what to bind to. Looks names up.
    pub(crate) fn resolve(&self) -> Result<Target, StartError> {
        let name = match &self.0 {
            Kind::Tcp(address) => return Ok(Target::Tcp(*address)),
            Kind::Unix(path) => return Ok(Target::Unix(path.clone())),
            Kind::Name(name) => name,
        };
        let none = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        let found = name.to_socket_addrs();
        let first = found.and_then(|mut all| all.next().ok_or_else(none));
        match first {
            Ok(address) => Ok(Target::Tcp(address)),
            Err(source) => Err(StartError::Bind {
                address: self.to_string(),
                source,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_with_a_slash_is_a_path() {
        let path = Address::from(Path::new("/run/fom.sock"));
        assert_eq!(Address::from("/run/fom.sock"), path);
        assert_eq!(Address::from("unix:/run/fom.sock"), path);
        assert_eq!(path.to_string(), "unix:/run/fom.sock");
    }

    #[test]
    fn a_text_that_is_no_address_is_an_error_that_names_it() {
        let Err(error) = Address::from("7070").resolve() else {
            panic!("it is no address");
        };
        assert!(error.to_string().contains("7070"), "{error}");
    }
}
