//! Which requests are served.

use std::net::{IpAddr, SocketAddr};

use hyper::{
    Method,
    header::{AUTHORIZATION, HOST, HeaderMap, ORIGIN},
    http::request::Parts,
};

use crate::{problem::Problem, token::Token};

/// Which requests are served.
#[derive(Debug)]
pub(crate) struct Access {
    /// The address, if it is no Unix socket.
    pub(crate) bound: Option<SocketAddr>,
    /// Further names that clients may call the program.
    pub(crate) names: Vec<String>,
    /// The token for reading, if it needs one.
    pub(crate) read: Option<Token>,
    /// The token for actions, if there are any.
    pub(crate) act: Option<Token>,
}

/// What the token of a request allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(super) reads: bool,
    pub(super) acts: bool,
    /// Whether the request has a token.
    pub(super) has_token: bool,
}

impl Access {
    /// Refuses a request that another site makes. `local` is the address that the client reached.
    pub(super) fn check(&self, request: &Parts, local: Option<SocketAddr>) -> Result<(), Problem> {
        let host = self.check_host(request, local)?;
        check_origin(request, host)
    }

    /// A page that rebinds its name to this machine sends that name, and no other header that tells it from a page of
    /// the inspector.
    fn check_host<'a>(
        &self,
        request: &'a Parts,
        local: Option<SocketAddr>,
    ) -> Result<&'a str, Problem> {
        let wrong = || {
            let bound = self.bound.iter().map(SocketAddr::to_string);
            let names = self.names.iter().cloned();
            let message = "the Host of the request is no name of this program; \
                 `Inspector::allow_host` allows another one";
            let allowed = bound.chain(["localhost".to_owned()]).chain(names);
            Problem::forbidden("host", message).allow(allowed)
        };
        let mut hosts = request.headers.get_all(HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok());
        let Some(bound) = self.bound else {
            // No page of a browser reaches a Unix socket.
            return Ok(host.unwrap_or_default());
        };
        let host = host.ok_or_else(wrong)?;
        let is_allowed = |host: &str| self.is_name(host, bound, local);
        let uri = request.uri.authority();
        let uri_is_allowed = uri.is_none_or(|uri| is_allowed(uri.as_str()));
        if hosts.next().is_some() || !is_allowed(host) || !uri_is_allowed {
            return Err(wrong());
        }
        Ok(host)
    }

    /// Returns whether a host is this program. Its port does not matter, so that a tunnel works: a foreign page can choose
    /// its port, but not these names.
    fn is_name(&self, host: &str, bound: SocketAddr, local: Option<SocketAddr>) -> bool {
        let name = without_port(host);
        let is_same =
            |other: &String| other.eq_ignore_ascii_case(name) || other.eq_ignore_ascii_case(host);
        if name.eq_ignore_ascii_case("localhost") || self.names.iter().any(is_same) {
            return true;
        }
        let ip = name.trim_start_matches('[').trim_end_matches(']');
        let ip: Option<IpAddr> = ip.parse().ok();
        let ours = [
            Some(bound.ip()),
            local.map(|local| local.ip().to_canonical()),
        ];
        ip.is_some() && ours.contains(&ip)
    }

    /// Returns what the token of a request allows.
    pub(super) fn grant(&self, headers: &HeaderMap) -> Result<Grant, Problem> {
        let Some(given) = headers.get(AUTHORIZATION) else {
            return Ok(Grant {
                reads: self.read.is_none(),
                ..Grant::default()
            });
        };
        let wrong = |message: &str| Problem::forbidden("token", message);
        let given = given.as_bytes();
        let (scheme, token) = given.split_at_checked(7).unwrap_or((given, &[]));
        if !scheme.eq_ignore_ascii_case(b"bearer ") {
            return Err(wrong("send the token as `Authorization: Bearer TOKEN`"));
        }
        let is = |wanted: &Option<Token>| wanted.as_ref().is_some_and(|one| one.is(token));
        let (reads, acts) = (is(&self.read), is(&self.act));
        if !reads && !acts {
            return Err(wrong("the token is not that of this program"));
        }
        Ok(Grant {
            reads: true,
            acts,
            has_token: true,
        })
    }
}

/// Refuses a request of a page of another origin.
fn check_origin(request: &Parts, host: &str) -> Result<(), Problem> {
    let wrong = || {
        let message = "pages of other origins have no access; open the page of this program";
        Problem::forbidden("origin", message)
    };
    if let Some(origin) = request.headers.get(ORIGIN) {
        let origin = origin.to_str().unwrap_or_default();
        let origin = origin
            .strip_prefix("http://")
            // A proxy in front of the inspector may speak TLS.
            .or_else(|| origin.strip_prefix("https://"));
        if !origin.is_some_and(|origin| origin.eq_ignore_ascii_case(host)) {
            return Err(wrong());
        }
    }
    let header = |name: &str| request.headers.get(name).map(|value| value.as_bytes());
    let is_foreign = !matches!(
        header("sec-fetch-site"),
        None | Some(b"same-origin" | b"none")
    );
    // A link from elsewhere leads to the page.
    let is_link = header("sec-fetch-mode") == Some(b"navigate") && request.method == Method::GET;
    let is_page = below_api(request.uri.path()).is_none();
    if is_foreign && !(is_link && is_page) {
        return Err(wrong());
    }
    Ok(())
}

/// Returns what follows `/api` in a path of the API. `/api.js` is none.
pub(super) fn below_api(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("/api")?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// Returns a host without its port. An IPv6 address is in brackets.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') && !name.is_empty() => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_a_port_or_none() {
        for (host, name) in [
            ("a:1", "a"),
            ("a", "a"),
            ("[::1]:7", "[::1]"),
            ("[::1]", "[::1]"),
            (":7", ":7"),
        ] {
            assert_eq!(without_port(host), name);
        }
    }
}
