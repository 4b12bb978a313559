//! Where the inspector of a program listens.

use std::{env, fmt, path::PathBuf, time::Duration};

use hyper::Uri;

use crate::{args::Program, failure::Failure};

/// Where the inspector of a program listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// A host with a port.
    Tcp {
        /// Without the brackets of an IPv6 address.
        host: String,
        port: u16,
        /// Host and port, as the user wrote them.
        text: String,
    },
    /// A Unix socket.
    Unix(PathBuf),
}

/// The variable that names the inspector.
const VARIABLE: &str = "FOM_INSPECT";

impl Address {
    /// Returns the address in the command line, or else that in the environment.
    pub(super) fn of(program: &Program) -> Result<Self, Failure> {
        if let Some(text) = &program.at {
            return Self::read(text).map_err(Failure::Usage);
        }
        match env::var(VARIABLE) {
            Ok(text) if !text.is_empty() => Self::read(&text).map_err(|message| {
                Failure::usage(format!("in the variable {VARIABLE}: {message}"))
            }),
            _ => Err(Failure::usage(format!(
                "no program is named; write `--at http://HOST:PORT` or `--at unix:PATH`, or set {VARIABLE}"
            ))),
        }
    }

    /// Reads `http://HOST:PORT`, `HOST:PORT`, `unix:PATH`, or a path with a `/`.
    fn read(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Unix(path.into()));
        }
        if text.contains("#token=") {
            let remedy = "put the token into FOM_INSPECT_TOKEN: other users see a command line";
            return Err(format!("the address has a token; {remedy}"));
        }
        let is_url = text.contains("://");
        if !is_url && text.contains('/') {
            return Ok(Self::Unix(text.into()));
        }
        let url = if is_url {
            text.to_owned()
        } else {
            format!("http://{text}/")
        };
        let wrong = |why: &str| {
            format!("`{text}` is no address{why}; write `http://HOST:PORT` or `unix:PATH`")
        };
        let url: Uri = url.parse().map_err(|_| wrong(""))?;
        if url.scheme_str() != Some("http") {
            return Err(wrong(
                ": an inspector speaks plain HTTP, for another machine through a tunnel",
            ));
        }
        let (Some(host), Some(port)) = (url.host(), url.port_u16()) else {
            return Err(wrong(" with a port"));
        };
        if url.path() != "/" || url.query().is_some() {
            return Err(wrong(" alone"));
        }
        Ok(Self::Tcp {
            text: format!("{host}:{port}"),
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
        })
    }

    /// Returns the host, for the header of that name.
    pub(super) fn host(&self) -> &str {
        match self {
            Self::Tcp { text, .. } => text,
            Self::Unix(_) => "localhost",
        }
    }

    /// Nothing at this address answers in time.
    pub(super) fn silent(&self, after: Duration) -> Failure {
        Failure::Away(format!("{self} does not answer within {after:?}"))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { text, .. } => write!(f, "http://{text}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_url_a_host_with_a_port_or_a_path() {
        for (text, shown) in [
            ("http://127.0.0.1:7070/", "http://127.0.0.1:7070"),
            ("http://localhost:7070", "http://localhost:7070"),
            ("localhost:7070", "http://localhost:7070"),
            ("http://[::1]:7070", "http://[::1]:7070"),
            ("unix:run.sock", "unix:run.sock"),
            ("/run/orders.sock", "unix:/run/orders.sock"),
        ] {
            assert_eq!(Address::read(text).unwrap().to_string(), shown);
        }
        let Ok(Address::Tcp { host, .. }) = Address::read("http://[::1]:7070") else {
            panic!("it is one");
        };
        assert_eq!(host, "::1");
    }

    #[test]
    fn what_is_no_address_is_named() {
        for text in [
            "",
            "7070",
            "http://localhost",
            "https://localhost:7070",
            "http://localhost:7070/view",
            "http://localhost:99999",
            "http://a b:1",
        ] {
            let message = Address::read(text).unwrap_err();
            assert!(message.contains(&format!("`{text}`")), "{message}");
        }
        let message = Address::read("http://localhost:7070/#token=secret").unwrap_err();
        assert!(
            message.contains("FOM_INSPECT_TOKEN") && !message.contains("secret"),
            "{message}"
        );
    }
}
