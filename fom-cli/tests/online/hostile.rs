//! Servers that are no inspector, or one of another release.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
};

use crate::kit::{failed, limited, plain};

/// Answers each connection with these bytes, and then goes on for ever with the second ones.
fn serve(answer: Vec<u8>, forever: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let answer = answer.clone();
            thread::spawn(move || {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 4096]);
                // The client may go away.
                if stream.write_all(&answer).is_ok() && !forever.is_empty() {
                    while stream.write_all(forever).is_ok() {}
                }
            });
        }
    });
    url
}

fn http(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{headers}\r\n{body}").into_bytes()
}

/// Runs commands of each kind against a server, and checks status and message.
fn fails(url: &str, status: i32, message: &str) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("recording.json");
    for arguments in [
        &["list"][..],
        &["show", "7"],
        &["top"],
        &["watch"],
        &["record", file.to_str().unwrap()],
        &["suspend", "Task", "a", "--reason", "x"],
    ] {
        let output = plain()
            .args(arguments)
            .args(["--at", url])
            .output()
            .unwrap();
        failed(&output, status, message);
    }
    assert!(!file.exists(), "half a recording is removed");
}

#[test]
fn what_is_no_inspector_is_status_three() {
    limited(|| {
        let foreign = "is no inspector of a program of fom";
        fails(
            &serve(http("200 OK", "", "<html>hello</html>"), b""),
            3,
            foreign,
        );
        fails(&serve(http("404 Not Found", "", "{}"), b""), 3, foreign);
        fails(
            &serve(b"SSH-2.0-OpenSSH_9.6\r\n".to_vec(), b""),
            3,
            "does not answer as an inspector does",
        );
        fails(
            &serve(Vec::new(), b""),
            3,
            "does not answer as an inspector does",
        );
        let error = http("500 Oh", "Fom-Api: 1\r\n", "no JSON");
        fails(&serve(error, b""), 3, foreign);
    });
}

#[test]
fn answers_without_end_or_sense_are_errors() {
    limited(|| {
        let url = |body: &str| serve(http("200 OK", "Fom-Api: 1\r\n", body), b"");
        let list = |url: &str| plain().args(["list", "--at", url]).output().unwrap();
        let deep = "[".repeat(100_000);
        for body in ["", "null", "[]", "{\"page\"", &deep, "\u{0}"] {
            failed(&list(&url(body)), 3, "is no inspector of a program of fom");
        }
        // Fields of other kinds read as empty.
        for body in [
            "{}",
            r#"{"page": 7, "next": [], "foms": -1}"#,
            r#"{"page": [7, null, {"waits": {}}], "next": ""}"#,
        ] {
            let output = list(&url(body));
            assert_eq!(output.status.code(), Some(0), "{body}: {output:?}");
        }
        let endless = b"HTTP/1.1 200 OK\r\nFom-Api: 1\r\n\r\n".to_vec();
        let output = list(&serve(endless, &[b' '; 65536]));
        failed(&output, 3, "bytes, which no inspector does");
        let head = b"HTTP/1.1 200 OK\r\nX: ".to_vec();
        failed(
            &list(&serve(head, &[b'x'; 65536])),
            3,
            "does not answer as an inspector does",
        );
        // A list of pages that never ends.
        let same = r#"{"page": [{"id": 1}], "next": "1", "foms": 2}"#;
        let output = list(&url(same));
        assert_eq!(
            output.status.code(),
            Some(0),
            "the limit ends it: {output:?}"
        );
        assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 51);
    });
}

#[test]
fn a_program_of_another_release_says_which_command_it_needs() {
    limited(|| {
        let ours = format!("this is the command of fom {}", env!("CARGO_PKG_VERSION"));
        let message = "the client speaks version 1 of the API, this program version 2: use a client of fom 9.0.0";
        let body =
            format!(r#"{{"error": {{"status": 400, "code": "version", "message": "{message}"}}}}"#);
        let url = serve(http("400 Bad Request", "Fom-Api: 2\r\n", &body), b"");
        fails(&url, 1, message);
        fails(&url, 1, &ours);
        let url = serve(http("200 OK", "Fom-Api: 2\r\n", "{}"), b"");
        fails(
            &url,
            1,
            "speaks version 2 of the API, and this command version 1",
        );
    });
}
