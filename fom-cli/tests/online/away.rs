//! Programs that are away, and command lines with mistakes.

use std::net::TcpListener;

use fom_inspect::Inspector;
use fom_runtime::time::TestClock;

use crate::kit::{Served, failed, limited, one, plain};

#[test]
fn a_program_that_is_away_is_status_three() {
    limited(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let url = format!("http://{address}");
        for arguments in [
            &["list"][..],
            &["show", "7"],
            &["waits"],
            &["graph", "Task"],
            &["top"],
            &["watch"],
            &["record", "/nothing/here"],
            &["cancel", "7", "--reason", "x"],
            &["send", "7", "Go", "--reason", "x"],
            &["suspend", "Task", "a", "--reason", "x"],
        ] {
            let output = plain()
                .args(arguments)
                .args(["--at", &url])
                .output()
                .unwrap();
            match arguments[0] {
                // The file comes first.
                "record" => failed(&output, 1, "cannot write /nothing/here"),
                _ => failed(&output, 3, &format!("no program answers at {url}")),
            }
            assert_eq!(output.stdout, b"");
        }
        let output = plain()
            .args(["list", "--at", "unix:/nothing/here.sock"])
            .output()
            .unwrap();
        failed(&output, 3, "no program answers at unix:/nothing/here.sock");
        let output = plain()
            .args(["list", "--at", "nowhere.invalid:7070"])
            .output()
            .unwrap();
        failed(&output, 3, "nowhere.invalid");
    });
}

#[test]
fn a_mistake_in_the_command_line_is_status_two() {
    limited(|| {
        for (arguments, message) in [
            (&["list"][..], "no program is named"),
            (&["list", "--at", "7070"], "`7070` is no address"),
            (&["list", "--at", "https://localhost:1"], "through a tunnel"),
            (
                &["list", "--at", "http://localhost:1", "colour:red"],
                "`colour:red` is no part of a filter",
            ),
            (
                &["list", "--at", "http://localhost:1", "age>soon"],
                "`soon` is no time",
            ),
            (&["list", "--sort", "size"], "size"),
            (&["list", "--failed", "type:Task"], "cannot be used with"),
            (&["nothing"], "nothing"),
        ] {
            failed(&plain().args(arguments).output().unwrap(), 2, message);
        }
        let served = Served::acting(one(&TestClock::new()).build().unwrap());
        // What only the program knows.
        served.fails(
            &["list", "state:asleep"],
            2,
            "use one of init, ready, running",
        );
        served.fails(&["list", "locality:x"], 2, "locality");
        served.fails(&["list", "type:Nothing"], 1, "no machine of type `Nothing`");
        let mut command = plain();
        let output = command
            .env("FOM_INSPECT", "7070")
            .arg("list")
            .output()
            .unwrap();
        failed(&output, 2, "in the variable FOM_INSPECT");
    });
}

#[test]
fn a_unix_socket_is_an_address() {
    limited(|| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("inspect.sock");
        let runtime = one(&TestClock::new()).build().unwrap();
        let inspector = Inspector::new(&runtime)
            .bind(path.as_path())
            .start()
            .unwrap();
        let url = inspector.url();
        assert!(url.starts_with("unix:"), "{url}");
        for at in [url.as_str(), path.to_str().unwrap()] {
            let output = plain().args(["list", "--at", at]).output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{output:?}");
        }
    });
}

#[test]
fn control_characters_of_a_program_do_not_reach_the_terminal() {
    limited(|| {
        let served = Served::acting(one(&TestClock::new()).build().unwrap());
        drop(served.start("hear", "\u{1b}[2J\u{9b}evil"));
        served.quiet();
        for arguments in [&["list"][..], &["top"], &["list", "--json"]] {
            let text = served.done(arguments);
            assert!(text.contains("evil"), "{text}");
            assert!(!text.contains(['\u{1b}', '\u{9b}']), "{text:?}");
        }
    });
}
