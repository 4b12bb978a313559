//! The program, as a user runs it.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _};
use std::net::UdpSocket;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_session-router"))
}

/// A program that serves. It ends with the test, also with one that fails: what it has inherited stays open otherwise.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Receives a datagram. A machine that was stopped and goes on interrupts a wait with a limit.
fn receive(socket: &UdpSocket, answer: &mut [u8]) -> usize {
    loop {
        match socket.recv(answer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            received => return received.expect("an answer"),
        }
    }
}

fn run(arguments: &[&str]) -> Output {
    program().args(arguments).output().expect("it runs")
}

#[test]
fn help_is_printed() {
    let output = run(&["serve", "--help"]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("--endpoint USER=ADDRESS"));
}

#[test]
fn a_mistake_is_told_and_is_status_2() {
    let output = run(&["serve", "--endpoint", "nowhere"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("wants USER=ADDRESS"));
}

#[test]
fn an_address_that_is_taken_is_told() {
    let taken = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let output = run(&[
        "serve",
        "--listen",
        &taken.local_addr().expect("an address").to_string(),
    ]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.starts_with("session-router: cannot listen on 127.0.0.1:"),
        "{said}"
    );
}

#[test]
fn a_signal_drains_it_and_it_prints_the_table() {
    for signal in ["TERM", "INT"] {
        let serving = program()
            .args(["serve", "--listen", "127.0.0.1:0", "--localities", "1"])
            .stdout(Stdio::piped())
            .spawn();
        let mut serving = Serving(serving.expect("it runs"));
        let mut output = BufReader::new(serving.0.stdout.take().expect("its output"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        let address = line
            .split([' ', ','])
            .nth(2)
            .expect("router on ADDRESS")
            .to_owned();

        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket
            .set_read_timeout(Some(Duration::from_secs(10)))
            .expect("a limit");
        let us = socket.local_addr().expect("an address");
        let options = format!(
            "OPTIONS sip:{address} SIP/2.0\r\nVia: SIP/2.0/UDP {us};branch=z9hG4bK1\r\nFrom: <sip:a@{us}>;tag=1\r\n\
             To: <sip:{address}>\r\nCall-ID: 1\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"
        );
        socket.send_to(options.as_bytes(), &address).expect("sent");
        let mut answer = [0; 2048];
        let length = receive(&socket, &mut answer);
        assert!(answer[..length].starts_with(b"SIP/2.0 200 OK\r\n"));

        let sent = Command::new("kill")
            .args(["-s", signal, &serving.0.id().to_string()])
            .status();
        assert!(sent.expect("kill runs").success());
        let mut table = String::new();
        output.read_to_string(&mut table).expect("the table");
        assert!(serving.0.wait().expect("it ends").success());
        assert!(
            table.contains("draining")
                && table.contains("Locate")
                && table.contains("datagrams in"),
            "{table}"
        );
    }
}

#[test]
fn the_twin_routes_the_same_calls() {
    let twin = Command::new(env!("CARGO_BIN_EXE_twin"))
        .args(["serve", "--listen", "127.0.0.1:0", "--localities", "2"])
        .stdout(Stdio::piped())
        .spawn();
    let mut twin = Serving(twin.expect("it runs"));
    let mut output = BufReader::new(twin.0.stdout.take().expect("its output"));
    let mut line = String::new();
    output.read_line(&mut line).expect("a line");
    let address = line
        .split([' ', ','])
        .nth(2)
        .expect("router on ADDRESS")
        .to_owned();

    let driven = run(&["drive", &address, "--calls", "200"]);
    let said = String::from_utf8_lossy(&driven.stdout).into_owned();
    assert!(driven.status.success(), "{said}");
    assert!(said.contains("200 calls in"), "{said}");

    let sent = Command::new("kill").arg(twin.0.id().to_string()).status();
    assert!(sent.expect("kill runs").success());
    let mut table = String::new();
    output.read_to_string(&mut table).expect("the table");
    assert!(twin.0.wait().expect("it ends").success());
    let count = |label: &str| {
        let line = table.lines().find(|line| line.trim().starts_with(label));
        line.and_then(|line| line.split_whitespace().last())
            .map(str::to_owned)
    };
    for (label, calls) in [
        ("completed", "180"),
        ("cancelled", "10"),
        ("rejected", "10"),
    ] {
        assert_eq!(count(label).as_deref(), Some(calls), "{table}");
    }
}

#[test]
fn it_runs_by_itself() {
    let file = std::env::temp_dir().join(format!("session-router-{}.json", std::process::id()));
    let output = run(&[
        "--calls",
        "200",
        "--localities",
        "2",
        "--records",
        &file.to_string_lossy(),
    ]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("200 calls in") && said.contains("p99"),
        "{said}"
    );
    let records = std::fs::read_to_string(&file).expect("records");
    std::fs::remove_file(&file).expect("removed");
    assert_eq!(records.lines().count(), 200);
    assert_eq!(records.matches("\"outcome\":\"cancelled\"").count(), 10);
}
