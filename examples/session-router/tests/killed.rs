//! The program with a journal in a directory, ended by `kill -9` and started again.

mod phone;

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use phone::{Calling, Phone};

/// The directory of a test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let name = format!("session-router-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path); // of a run that was broken off
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The program, and what it printed at its start.
struct Serving {
    child: Child,
    at: SocketAddr,
    came_back: String,
}

impl Drop for Serving {
    /// Kills it, and waits until its address and its journal are free.
    fn drop(&mut self) {
        let _ = self.child.kill(); // SIGKILL
        let _ = self.child.wait();
    }
}

fn command(journal: &Path, at: SocketAddr, bob: SocketAddr) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_session-router"));
    command
        .args(["serve", "--localities", "1", "--listen", &at.to_string()])
        .args(["--endpoint", &format!("bob={bob}"), "--journal"])
        .arg(journal);
    command
}

fn serve(journal: &Path, at: SocketAddr, bob: SocketAddr) -> Serving {
    let mut child = command(journal, at, bob)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it runs");
    let output = BufReader::new(child.stdout.take().expect("its output"));
    let mut lines = output.lines().map(|line| line.expect("a line"));
    let came_back = lines.next().expect("what came back");
    let listens = lines
        .find(|line| line.starts_with("router on "))
        .expect("router on ADDRESS");
    let at = listens.split([' ', ',']).nth(2).expect("an address");
    Serving {
        at: at.parse().expect("an address"),
        child,
        came_back,
    }
}

fn fails(journal: &Path) -> (Option<i32>, String) {
    let mut child = command(journal, ANYWHERE, ANYWHERE)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut errors = child.stderr.take().expect("its errors");
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let mut said = String::new();
        errors.read_to_string(&mut said).expect("text");
        tell.send(said)
    });
    let said = told.recv_timeout(Duration::from_secs(60));
    let _ = child.kill(); // it should have ended
    let status = child.wait().expect("it ends");
    (status.code(), said.expect("it gives up"))
}

const ANYWHERE: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

#[test]
fn killed_and_started_again_it_goes_on() {
    let directory = Directory::new("killed");
    let (caller, bob, carol) = (Phone::new(), Phone::new(), Phone::new());
    let router = serve(&directory.0, ANYWHERE, bob.address);
    let at = router.at;
    assert_eq!(carol.register("carol", 600, at).status(), Some(200));
    let mut call = Calling::to("bob");
    caller.request("INVITE", &call, at);
    caller.expect(100);
    let invite = bob.expect_request("INVITE");
    bob.answer(&invite, 200, "b");
    call.to_tag = caller.expect(200).to_tag();
    drop(router);

    let router = serve(&directory.0, at, bob.address);
    assert!(
        router
            .came_back
            .ends_with(": 1 calls (1 in Talk), 1 users with bindings; 0 quarantined"),
        "{}",
        router.came_back
    );
    caller.request("BYE", &call.next(), at);
    let bye = bob.expect_request("BYE");
    bob.answer(&bye, 200, "b");
    caller.expect(200);
    let other = Phone::new();
    other.request("INVITE", &Calling::to("carol"), at);
    other.expect(100);
    carol.expect_request("INVITE");
}

/// A second router on the same journal would end the calls of the first.
#[test]
fn a_journal_that_is_in_use_is_refused() {
    let directory = Directory::new("locked");
    let _router = serve(&directory.0, ANYWHERE, ANYWHERE);
    let (status, said) = fails(&directory.0);
    assert_eq!(status, Some(1));
    assert!(
        said.starts_with("session-router: cannot go on with what is in the journal: ")
            && said.contains("in use by another process"),
        "{said}"
    );
}

/// The program tells any fault of the directory with its place, and starts nothing on top of it.
#[test]
fn a_journal_that_cannot_be_read_is_told_and_is_status_1() {
    let directory = Directory::new("damaged");
    let (caller, bob) = (Phone::new(), Phone::new());
    let router = serve(&directory.0, ANYWHERE, bob.address);
    for _ in 0..3 {
        caller.request("INVITE", &Calling::to("bob"), router.at);
        caller.expect(100);
        bob.expect_request("INVITE");
    }
    drop(router);
    let segment = std::fs::read_dir(&directory.0)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "log"))
        .min()
        .expect("a segment");
    let bytes = std::fs::read(&segment).expect("its bytes");

    let mut header = bytes.clone();
    header[..64].fill(0xff);
    std::fs::write(&segment, &header).expect("written");
    let (status, said) = fails(&directory.0);
    assert_eq!(status, Some(1));
    assert!(said.contains(&segment.display().to_string()), "{said}");

    // The program reads the directory in its old state.
    std::fs::write(&segment, &bytes).expect("written");
    let router = serve(&directory.0, ANYWHERE, bob.address);
    assert!(
        router.came_back.contains("3 calls (3 in Ring)"),
        "{}",
        router.came_back
    );

    let file = directory.0.join("MANIFEST");
    let (status, said) = fails(&file);
    assert_eq!(status, Some(1));
    assert!(said.contains("MANIFEST"), "{said}");
}
