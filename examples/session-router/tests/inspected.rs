//! The program with `--inspect`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The program. It ends with the test.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_inspector_shows_the_machines_of_the_router() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_session-router"));
    command
        .args(["serve", "--localities", "1", "--listen", "127.0.0.1:0"])
        .args(["--endpoint", "bob=127.0.0.1:9", "--inspect", "127.0.0.1:0"])
        .env("FOM_INSPECT_TOKEN", "0123456789abcdef")
        .stdout(Stdio::piped());
    let mut serving = Serving(command.spawn().unwrap());
    let mut lines = BufReader::new(serving.0.stdout.take().unwrap()).lines();
    let address = lines
        .find_map(|line| {
            Some(
                line.unwrap()
                    .strip_prefix("inspector at http://")?
                    .to_owned(),
            )
        })
        .unwrap();
    let address = address.trim_end_matches('/');
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let request =
        format!("GET /api/v1/summary HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    for part in [
        "\"Stage\"",
        "\"Contacts\"",
        "\"program\":\"session-router\"",
        "\"enabled\":true",
    ] {
        assert!(answer.contains(part), "no {part}: {answer}");
    }
    assert!(!answer.contains("0123456789abcdef"));
}
