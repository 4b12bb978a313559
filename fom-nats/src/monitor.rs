//! What the monitoring pages of servers tell: a client cannot ask for the settings of a disk.

use std::{collections::BTreeMap, io, time::Duration};

use futures::future::join_all;
use serde::Deserialize;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::error::NatsError;

/// How long a page may take.
const LIMIT: Duration = Duration::from_secs(2);
/// The longest page.
const LONGEST: u64 = 4 << 20;

/// What a server tells.
#[derive(Clone, Debug, Deserialize)]
struct Page {
    server_name: String,
    version: String,
    #[serde(default)]
    jetstream: JetStream,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct JetStream {
    #[serde(default)]
    config: Config,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Config {
    #[serde(default)]
    sync_always: bool,
}

/// Checks that the servers with these names, which have the stream, keep what they acknowledge. The others of them must answer
/// if fewer than a majority do.
pub(crate) async fn check(urls: &[String], servers: &[String]) -> Result<(), NatsError> {
    let answers = join_all(urls.iter().map(|url| read(url))).await;
    let mut found = BTreeMap::new();
    let mut failures = Vec::new();
    for (url, answer) in urls.iter().zip(answers) {
        match answer {
            Ok(page) => {
                found.insert(page.server_name.clone(), page);
            }
            Err(error) => failures.push(format!("{url}: {error}")),
        }
    }
    let mut unknown = Vec::new();
    for server in servers {
        let Some(page) = found.get(server) else {
            unknown.push(server.as_str());
            continue;
        };
        check_version(server, &page.version)?;
        if !page.jetstream.config.sync_always {
            let server = server.clone();
            return Err(NatsError::NoFsync { server });
        }
    }
    // A server that is down tells nothing. Most of the copies are safe without it.
    let has_majority = (servers.len() - unknown.len()) * 2 > servers.len();
    if unknown.is_empty() || has_majority && unknown.len() <= failures.len() {
        return Ok(());
    }
    Err(NatsError::NotChecked {
        servers: unknown.join(", "),
        failures: failures.join("; "),
    })
}

/// Checks that a server has version 2.12 or a later one.
pub(crate) fn check_version(server: &str, version: &str) -> Result<(), NatsError> {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
    let found = (parts.next().flatten(), parts.next().flatten());
    if matches!(found, (Some(major), Some(minor)) if (major, minor) >= (2, 12)) {
        return Ok(());
    }
    Err(NatsError::OldServer {
        server: server.to_owned(),
        version: version.to_owned(),
    })
}

async fn read(url: &str) -> io::Result<Page> {
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "it does not answer");
    timeout(LIMIT, read_page(url)).await.map_err(late)?
}

/// Reads a page with HTTP 1.0, whose answers are whole and end with the connection.
async fn read_page(url: &str) -> io::Result<Page> {
    let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let Some(rest) = url.strip_prefix("http://") else {
        return Err(invalid("a monitoring URL begins with `http://`".to_owned()));
    };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let address = match host.rsplit_once(':') {
        Some(_) => host.to_owned(),
        None => format!("{host}:8222"),
    };
    let mut stream = TcpStream::connect(address).await?;
    let path = path.trim_end_matches('/');
    let slash = if path.is_empty() { "" } else { "/" };
    let request = format!("GET {slash}{path}/varz HTTP/1.0\r\nHost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer).await?;
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let Some(end) = end else {
        return Err(invalid("the answer is no page".to_owned()));
    };
    let (head, body) = answer.split_at(end + 4);
    let status = String::from_utf8_lossy(head);
    let status = status.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        return Err(invalid(format!("the answer is `{status}`")));
    }
    serde_json::from_slice(body).map_err(|error| invalid(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_from_2_12_on_are_accepted() {
        for version in ["2.12.0", "2.15.1", "2.12.0-RC.1", "3.0.0"] {
            check_version("n1", version).unwrap();
        }
        for version in ["2.11.9", "1.99.0", "", "two"] {
            check_version("n1", version).unwrap_err();
        }
    }
}
