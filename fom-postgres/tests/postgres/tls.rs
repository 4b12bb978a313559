//! Encrypted connections.

use std::{fs, path::Path, process::Command};

use crate::{
    SAFE,
    kit::limited,
    server::Server,
    takeover::{Effects, Process},
};

/// Makes an authority, and a certificate of a server that it has signed.
fn certificates(directory: &Path) {
    fs::write(
        directory.join("server.ext"),
        "subjectAltName = IP:127.0.0.1\nbasicConstraints = CA:FALSE\n",
    )
    .unwrap();
    let openssl = |args: &str| {
        let ran = Command::new("openssl")
            .args(args.split(' '))
            .current_dir(directory)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "openssl {args}: {told}");
    };
    openssl(
        "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 30 -subj /CN=authority",
    );
    openssl("req -new -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=server");
    openssl(
        "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out server.crt -days 30 -extfile server.ext",
    );
}

#[test]
fn connections_are_encrypted_and_the_server_is_checked() {
    let Some(mut server) = Server::start(SAFE) else {
        return;
    };
    limited(move || async move {
        let effects = Effects::new("tls");
        let (ours, others) = (
            server.directory.join("ours"),
            server.directory.join("others"),
        );
        for directory in [&ours, &others] {
            fs::create_dir(directory).unwrap();
            certificates(directory);
        }
        let fails = start(&server, &effects, &ours.join("ca.crt")).says("fails");
        assert!(fails.contains("server does not support TLS"), "{fails}");
        let fails = start(&server, &effects, &ours.join("missing")).says("fails");
        assert!(fails.contains("install `ca-certificates`"), "{fails}");

        server.use_certificate(&ours.join("server.crt"), &ours.join("server.key"));
        let fails = start(&server, &effects, &others.join("ca.crt")).says("fails");
        assert!(fails.contains("invalid peer certificate"), "{fails}");
        let child = start(&server, &effects, &ours.join("ca.crt"));
        child.says("owns");
        let plain = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                     WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND NOT ssl";
        assert_eq!(server.number(plain).await, 0);
        child.says("done");
        effects.check_once();
        child.end();
    });
}

fn start(server: &Server, effects: &Effects, authorities: &Path) -> Process {
    let authorities = authorities.display().to_string();
    let tls = [
        ("SSL_CERT_FILE", &*authorities),
        ("SSL_CERT_DIR", "/nowhere"),
        ("FOM_POSTGRES_TLS", "1"),
    ];
    Process::start_with("only", &server.config(), &effects.0, &tls)
}
