//! Encrypted connections.

use std::{
    env,
    path::Path,
    process::{Command, Stdio},
};

use fom_cluster::engine::{Engine, Settings};
use fom_nats::NatsEngine;

use crate::{SAFE, authority::Authority, server::Servers};

/// Set in a process that opens a cluster: whether it encrypts, and the URLs of the server.
const CHILD: &str = "FOM_NATS_TLS";

/// What the children run. The authorities that a system trusts are those of a whole process.
#[test]
fn child() {
    let Ok(child) = env::var(CHILD) else {
        return;
    };
    let [encrypts, server, monitor] = child.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{child}");
    };
    let engine = NatsEngine::builder([server], [monitor], "orders").allow_one_copy();
    let engine = match encrypts {
        "tls" => engine.connect_with(|options| options.require_tls(true)),
        _ => engine,
    };
    match engine.build().unwrap().open(&Settings::new(2)) {
        Ok(_) => println!("opened"),
        Err(error) => println!("fails: {error}"),
    }
}

fn opens(servers: &Servers, encrypts: &str, authorities: &Path) -> String {
    let own = env::current_exe().unwrap();
    let mut command = Command::new(own);
    command.args(["tls::child", "--exact", "--nocapture"]);
    let (url, monitor) = (&servers.urls()[0], &servers.monitors()[0]);
    command.env(CHILD, format!("{encrypts} {url} {monitor}"));
    command
        .env("SSL_CERT_FILE", authorities)
        .env_remove("SSL_CERT_DIR");
    let ran = command.stdin(Stdio::null()).output().unwrap();
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
fn connections_are_encrypted_and_the_server_is_checked() {
    let (ours, others) = (Authority::new("nats-ours"), Authority::new("nats-others"));
    ours.signs("server", "IP:127.0.0.1");
    let [certificate, key] = ["server.crt", "server.key"].map(|name| ours.path(name));
    let (certificate, key) = (certificate.display(), key.display());
    let encrypted = format!("{SAFE} }}\ntls {{ cert_file: \"{certificate}\", key_file: \"{key}\"");
    let Some(servers) = Servers::start(1, &encrypted) else {
        return;
    };
    let authority = ours.path("ca.crt");
    let told = opens(&servers, "tls", &authority);
    assert!(told.contains("opened"), "{told}");
    let told = opens(&servers, "tls", &others.path("ca.crt"));
    assert!(
        told.contains("fails: ") && told.contains("UnknownIssuer"),
        "{told}"
    );

    let Some(plain) = Servers::start(1, SAFE) else {
        return;
    };
    let told = opens(&plain, "tls", &authority);
    assert!(told.contains("fails: "), "{told}");
    let told = opens(&plain, "plain", &authority);
    assert!(told.contains("opened"), "{told}");
}
