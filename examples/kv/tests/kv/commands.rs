//! The reply to each command.

use std::time::Duration;

use crate::bed::Bed;

/// Commands and their replies, in order.
const TOLD: &[(&str, &str)] = &[
    ("PING", "PONG"),
    ("ping hello", "hello"),
    ("ECHO hello", "hello"),
    ("SELECT 0", "OK"),
    ("SELECT 1", "-ERR DB index is out of range"),
    ("GET none", "nil"),
    ("SET k 1", "OK"),
    ("GET k", "1"),
    ("SET k 2 NX", "nil"),
    ("SET k 2 XX GET", "1"),
    ("SET k 3 BLA", "-ERR syntax error"),
    ("SET k 3 EX 0", "-ERR invalid expire time in 'set' command"),
    (
        "SET k 3 EX x",
        "-ERR value is not an integer or out of range",
    ),
    ("SET new 1 XX", "nil"),
    ("SETNX k 5", ":0"),
    ("SETNX nx 5", ":1"),
    ("GETSET k 10", "2"),
    ("GETDEL nx", "5"),
    ("EXISTS nx k", ":1"),
    ("INCR k", ":11"),
    ("INCRBY k 9", ":20"),
    ("DECR k", ":19"),
    ("DECRBY k 20", ":-1"),
    ("INCRBY k x", "-ERR value is not an integer or out of range"),
    ("SET big 9223372036854775807", "OK"),
    ("INCR big", "-ERR increment or decrement would overflow"),
    (
        "DECRBY big -9223372036854775808",
        "-ERR decrement would overflow",
    ),
    ("SET word abc", "OK"),
    ("INCR word", "-ERR value is not an integer or out of range"),
    ("APPEND word def", ":6"),
    ("STRLEN word", ":6"),
    ("APPEND fresh x", ":1"),
    ("TYPE word", "string"),
    ("TYPE none", "none"),
    (
        "LPUSH word x",
        "-WRONGTYPE Operation against a key holding the wrong kind of value",
    ),
    ("MSET a 1 b 2 c 3", "OK"),
    ("MGET a none c", "[1 nil 3]"),
    (
        "MSET a 1 b",
        "-ERR wrong number of arguments for 'mset' command",
    ),
    ("DEL a b c none", ":3"),
    ("RPUSH l a b c", ":3"),
    ("LPUSH l z y", ":5"),
    ("LRANGE l 0 -1", "[y z a b c]"),
    ("LRANGE l -2 10", "[b c]"),
    ("LRANGE l 3 1", "[]"),
    ("LRANGE none 0 -1", "[]"),
    ("LINDEX l 0", "y"),
    ("LINDEX l -1", "c"),
    ("LINDEX l 9", "nil"),
    ("LLEN l", ":5"),
    ("LLEN none", ":0"),
    ("LPOP l", "y"),
    ("RPOP l 2", "[c b]"),
    ("LPOP none", "nil"),
    ("LPOP l -1", "-ERR value is out of range, must be positive"),
    (
        "GET l",
        "-WRONGTYPE Operation against a key holding the wrong kind of value",
    ),
    ("MGET l word", "[nil abcdef]"),
    ("TYPE l", "list"),
    ("LPOP l 10", "[z a]"),
    ("EXISTS l", ":0"),
    ("SET l text", "OK"),
    ("TTL l", ":-1"),
    ("TTL none", ":-2"),
    ("EXPIRE l 100", ":1"),
    ("TTL l", ":100"),
    ("PTTL l", ":100000"),
    ("PERSIST l", ":1"),
    ("PERSIST l", ":0"),
    ("EXPIRE none 1", ":0"),
    ("EXPIRE l -1", ":1"),
    ("GET l", "nil"),
    ("GET", "-ERR wrong number of arguments for 'get' command"),
    (
        "GET a b",
        "-ERR wrong number of arguments for 'get' command",
    ),
    (
        "NONESUCH a",
        "-ERR unknown command 'NONESUCH', with args beginning with: 'a' ",
    ),
    ("BLPOP l x", "-ERR timeout is not a float or out of range"),
    ("BLPOP l -1", "-ERR timeout is negative"),
    ("EXEC", "-ERR EXEC without MULTI"),
    ("DISCARD", "-ERR DISCARD without MULTI"),
    ("CLIENT SETNAME me", "OK"),
    ("CLIENT GETNAME", "me"),
    ("CONFIG GET save", "[save ]"),
    (
        "CONFIG SET nonesuch 1",
        "-ERR Unknown option or number of arguments for CONFIG SET",
    ),
    ("CONFIG SET timeout 60", "OK"),
    ("CONFIG GET timeout", "[timeout 60]"),
    ("COMMAND DOCS", "[]"),
    ("KEYS wo*", "[word]"),
    ("DBSIZE", ":4"),
    ("FLUSHALL", "OK"),
    ("DBSIZE", ":0"),
];

#[test]
fn each_command_answers_as_redis_does() {
    let bed = Bed::new();
    let mut client = bed.client();
    for (command, expected) in TOLD {
        let words: Vec<&str> = command.split(' ').collect();
        assert_eq!(client.text(&words), *expected, "{command}");
    }
    bed.stop();
}

#[test]
fn keys_expire_when_they_are_wanted_and_when_they_are_not() {
    let bed = Bed::new();
    let mut client = bed.client();
    client.call(&["SET", "wanted", "1", "PX", "50"]);
    client.call(&["SET", "kept", "1", "EX", "1"]);
    client.call(&["SET", "kept", "2", "KEEPTTL"]);
    client.call(&["SET", "renewed", "1", "EX", "1"]);
    client.call(&["SET", "renewed", "2"]);
    client.call(&["RPUSH", "list", "a"]);
    client.call(&["PEXPIRE", "list", "999"]);
    client.call(&["INCR", "counted"]);
    client.call(&["EXPIRE", "counted", "1"]);
    assert_eq!(client.text(&["INCR", "counted"]), ":2");
    // Less than the interval between two sweeps for expired keys.
    bed.advance(Duration::from_millis(49));
    assert_eq!(client.text(&["GET", "wanted"]), "1");
    assert_eq!(client.text(&["PTTL", "wanted"]), ":1");
    bed.advance(Duration::from_millis(1));
    assert_eq!(client.text(&["GET", "wanted"]), "nil");
    assert_eq!(client.text(&["DBSIZE"]), ":4");
    bed.advance(Duration::from_secs(1));
    assert_eq!(client.text(&["DBSIZE"]), ":1");
    assert_eq!(
        client.text(&["MGET", "kept", "renewed", "counted", "list"]),
        "[nil 2 nil nil]"
    );
    assert_eq!(client.text(&["RPUSH", "list", "b"]), ":1");
    bed.stop();
}

#[test]
fn the_live_view_shows_each_wait() {
    let bed = Bed::new();
    let mut waiting = bed.client();
    waiting.send(&["BLPOP", "q", "0"]);
    bed.blocked(1);
    let mut client = bed.client();
    let why = client.text(&["FOM", "WHY"]);
    assert!(why.contains("Pop") && why.contains("in Wait"), "{why}");
    assert!(client.text(&["FOM", "LIST"]).contains("Connection"));
    assert!(
        client
            .text(&["FOM", "GRAPH", "command"])
            .contains("Apply --> Keep")
    );
    bed.stop();
}

/// The README's drawings match the code.
#[test]
fn the_readme_shows_the_machines_as_they_are() {
    let readme = include_str!("../../README.md");
    for name in ["command", "transaction"] {
        let graph = kv::graph(name.as_bytes()).expect("a machine");
        assert!(
            readme.contains(graph.trim()),
            "the drawing of `{name}` is:\n{graph}"
        );
    }
}
