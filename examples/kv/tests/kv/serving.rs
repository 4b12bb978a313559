//! The program, as a process of its own.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

/// The program itself.
pub(crate) struct Serving {
    child: Child,
    pub(crate) at: SocketAddr,
    /// Open, so that the program can print more.
    _output: BufReader<ChildStdout>,
}

impl Serving {
    pub(crate) fn start(options: &[&str]) -> Serving {
        let mut child = Command::new(env!("CARGO_BIN_EXE_kv"))
            .args(["--listen", "127.0.0.1:0", "--localities", "2"])
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut output = BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        while !line.starts_with("kv on ") {
            line.clear();
            assert!(
                output.read_line(&mut line).expect("a line") > 0,
                "it has ended"
            );
        }
        let at = line.split([' ', ',']).nth(2).expect("an address");
        Serving {
            at: at.parse().expect("an address"),
            child,
            _output: output,
        }
    }

    /// Returns the id of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the program has ended.
    pub(crate) fn ends(mut self) -> ExitStatus {
        self.child.wait().expect("it has ended")
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it is killed"); // SIGKILL
        self.child.wait().expect("it has ended");
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
