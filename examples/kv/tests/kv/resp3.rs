//! `HELLO`, and what differs after `HELLO 3`.

use std::io::Read as _;

use crate::bed::{Bed, Caller, shown};

/// Sends words, and expects exactly these bytes.
fn expect(client: &mut Caller, command: &str, expected: &str) {
    client.send(&command.split(' ').collect::<Vec<_>>());
    let mut got = vec![0; expected.len()];
    client.stream.read_exact(&mut got).expect("a reply");
    let got = String::from_utf8_lossy(&got);
    assert_eq!(got, expected, "{command}");
}

#[test]
fn hello_changes_the_version_and_says_what_there_is() {
    let bed = Bed::new();
    let mut client = bed.client();
    let id = client.text(&["CLIENT", "ID"])[1..].to_owned();
    assert_eq!(
        client.text(&["HELLO", "2"]),
        format!(
            "[server redis version 7.0.0 proto :2 id :{id} mode standalone role master modules []]"
        )
    );
    let map = format!(
        "%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n$5\r\nproto\r\n:3\r\n\
         $2\r\nid\r\n:{id}\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n\
         $7\r\nmodules\r\n*0\r\n"
    );
    expect(&mut client, "HELLO 3 AUTH default any SETNAME me", &map);
    expect(&mut client, "CLIENT GETNAME", "$2\r\nme\r\n");
    // Without a version, HELLO keeps the version.
    expect(&mut client, "HELLO", &map);
    // A wrong HELLO changes nothing.
    for (wrong, expected) in [
        ("HELLO 4", "-NOPROTO unsupported protocol version\r\n"),
        (
            "HELLO x",
            "-ERR Protocol version is not an integer or out of range\r\n",
        ),
        (
            "HELLO 2 AUTH other any",
            "-WRONGPASS invalid username-password pair or user is disabled.\r\n",
        ),
        (
            "HELLO 2 SETNAME",
            "-ERR Syntax error in HELLO option 'SETNAME'\r\n",
        ),
        (
            "HELLO 2 AUTH default",
            "-ERR Syntax error in HELLO option 'AUTH'\r\n",
        ),
    ] {
        expect(&mut client, wrong, expected);
        expect(&mut client, "GET none", "_\r\n");
    }
    expect(&mut client, "CLIENT GETNAME", "$2\r\nme\r\n");
    expect(&mut client, "RESET", "+RESET\r\n");
    expect(&mut client, "CLIENT GETNAME", "$-1\r\n");
    bed.stop();
}

#[test]
fn version_3_has_maps_sets_texts_and_one_null() {
    let bed = Bed::new();
    let mut client = bed.client();
    for (command, resp2, resp3) in [
        ("GET none", "$-1\r\n", "_\r\n"),
        ("LPOP none 2", "*-1\r\n", "_\r\n"),
        ("BLPOP none 0.000001", "*-1\r\n", "_\r\n"),
        ("MGET none", "*1\r\n$-1\r\n", "*1\r\n_\r\n"),
        (
            "CONFIG GET databases",
            "*2\r\n$9\r\ndatabases\r\n$1\r\n1\r\n",
            "%1\r\n$9\r\ndatabases\r\n$1\r\n1\r\n",
        ),
        ("COMMAND DOCS", "*0\r\n", "%0\r\n"),
        ("INCR n", ":", ":"),
        ("SET text a", "+OK\r\n", "+OK\r\n"),
        ("GET text", "$1\r\na\r\n", "$1\r\na\r\n"),
        ("LRANGE none 0 -1", "*0\r\n", "*0\r\n"),
    ] {
        for (version, expected) in [("2", resp2), ("3", resp3)] {
            let mut client = bed.client();
            client.write(format!("HELLO {version}\r\nECHO begin\r\n").as_bytes());
            let mut came = Vec::new();
            while !came.ends_with(b"$5\r\nbegin\r\n") {
                let mut byte = [0];
                client.stream.read_exact(&mut byte).expect("a reply");
                came.extend(byte);
            }
            let waits = command.starts_with("BLPOP");
            if waits {
                client.send(&command.split(' ').collect::<Vec<_>>());
                bed.blocked(1);
                bed.advance(std::time::Duration::from_secs(1));
                let mut got = vec![0; expected.len()];
                client.stream.read_exact(&mut got).expect("a reply");
                assert_eq!(String::from_utf8_lossy(&got), expected, "{command}");
            } else {
                expect(&mut client, command, expected);
            }
        }
    }
    // A watched key has changed.
    expect(&mut client, "RESET", "+RESET\r\n");
    let mut other = bed.client();
    client.write(b"HELLO 3\r\n");
    client.write(b"WATCH k\r\nECHO begin\r\n");
    let mut came = Vec::new();
    while !came.ends_with(b"$5\r\nbegin\r\n") {
        let mut byte = [0];
        client.stream.read_exact(&mut byte).expect("a reply");
        came.extend(byte);
    }
    other.call(&["SET", "k", "1"]);
    expect(&mut client, "MULTI", "+OK\r\n");
    expect(&mut client, "GET k", "+QUEUED\r\n");
    expect(&mut client, "EXEC", "_\r\n");
    client.send(&["CLIENT", "INFO"]);
    let mut first = [0];
    client.stream.read_exact(&mut first).expect("a reply");
    assert_eq!(&first, b"=");
    bed.stop();
}

/// HELLO does not change the version of earlier replies, also if the client has not read them yet.
#[test]
fn replies_before_hello_are_in_the_version_of_before() {
    let bed = Bed::new();
    let mut client = bed.client();
    let value = "x".repeat(200_000);
    assert_eq!(client.text(&["SET", "big", &value]), "OK");
    let mut asked = b"GET big\r\nGET none\r\n".repeat(20);
    asked.extend(b"HELLO 3\r\nGET none\r\n");
    client.write(&asked);
    let first = format!("$200000\r\n{value}\r\n$-1\r\n").repeat(20);
    let mut got = vec![0; first.len()];
    client.stream.read_exact(&mut got).expect("the replies");
    assert!(
        got == first.as_bytes(),
        "a reply of before is written otherwise"
    );
    let mut rest = Vec::new();
    client.half_close();
    client.stream.read_to_end(&mut rest).expect("the rest");
    let rest = String::from_utf8_lossy(&rest);
    assert!(
        rest.starts_with("%7\r\n") && rest.ends_with("*0\r\n_\r\n"),
        "{rest}"
    );
    bed.stop();
}

#[test]
fn what_libraries_say_of_themselves_is_kept_and_shown() {
    let bed = Bed::new();
    let mut client = bed.client();
    assert_eq!(
        client.text(&["CLIENT", "SETINFO", "LIB-NAME", "mine"]),
        "OK"
    );
    assert_eq!(client.text(&["CLIENT", "SETINFO", "lib-ver", "1.2"]), "OK");
    let refused = client.text(&["CLIENT", "SETINFO", "lib-ver", "1 2"]);
    assert!(
        refused.starts_with("-ERR lib-name and lib-ver cannot"),
        "{refused}"
    );
    assert_eq!(
        client.text(&["CLIENT", "SETINFO", "else", "x"]),
        "-ERR Unrecognized option 'else'"
    );
    let info = client.text(&["CLIENT", "INFO"]);
    assert!(info.contains("resp=2 lib-name=mine lib-ver=1.2"), "{info}");
    assert!(
        client
            .text(&["AUTH", "x"])
            .starts_with("-ERR AUTH <password> called")
    );
    assert_eq!(client.text(&["AUTH", "default", "x"]), "OK");
    assert!(
        client
            .text(&["AUTH", "other", "x"])
            .starts_with("-WRONGPASS")
    );
    client.send(&["MULTI"]);
    client.send(&["HELLO", "3"]);
    client.send(&["EXEC"]);
    let replies: Vec<String> = (0..3).map(|_| shown(&client.reply())).collect();
    assert_eq!(replies[1], "-ERR Command not allowed inside a transaction");
    assert!(replies[2].starts_with("-EXECABORT"), "{replies:?}");
    bed.stop();
}
