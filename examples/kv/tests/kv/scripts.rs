//! The lock scripts of clients.

use std::time::Duration;

use crate::bed::Bed;

const RELEASE: &str = "if redis.call(\"get\",KEYS[1]) == ARGV[1] then\n    \
                       return redis.call(\"del\",KEYS[1])\nelse\n    return 0\nend";
/// The hash of these bytes, as `sha1sum` says.
const RELEASE_SHA: &str = "647c65a442733a1aa440f99908d249d13b4d6c4a";
/// Hashes of the scripts that PyPI's redis registers.
const PYTHON: [(&str, &str); 3] = [
    ("release", "c3f8721cbb97f72bc19e972846bd7aaf91901658"),
    ("extend", "a4e8783852e6b949f9ef3a97212805108459a890"),
    ("reacquire", "1cac51482acf5858da00f6d685d68f886cd6b6b2"),
];

#[test]
fn a_lock_is_released_by_the_token_that_took_it() {
    let bed = Bed::new();
    let mut client = bed.client();
    assert_eq!(
        client.text(&["SET", "lock", "mine", "NX", "PX", "1000"]),
        "OK"
    );
    assert_eq!(
        client.text(&["SET", "lock", "other", "NX", "PX", "1000"]),
        "nil"
    );
    assert_eq!(
        client.text(&["EVALSHA", RELEASE_SHA, "1", "lock", "other"]),
        ":0"
    );
    assert_eq!(client.text(&["EVAL", RELEASE, "1", "lock", "mine"]), ":1");
    assert_eq!(client.text(&["EVAL", RELEASE, "1", "lock", "mine"]), ":0");
    client.call(&["RPUSH", "list", "a"]);
    assert!(
        client
            .text(&["EVAL", RELEASE, "1", "list", "a"])
            .starts_with("-WRONGTYPE")
    );
    assert_eq!(client.text(&["SCRIPT", "LOAD", RELEASE]), RELEASE_SHA);
    assert_eq!(
        client.text(&["SCRIPT", "EXISTS", RELEASE_SHA, &"0".repeat(40)]),
        "[:1 :0]"
    );
    bed.stop();
}

#[test]
fn the_scripts_of_a_client_do_on_the_clock_what_they_say() {
    let bed = Bed::new();
    let mut client = bed.client();
    let [(_, release), (_, extend), (_, reacquire)] = PYTHON;
    client.call(&["SET", "lock", "mine", "PX", "1000"]);
    bed.advance(Duration::from_millis(400));
    for (sha, arguments, expected, left) in [
        (extend, &["other", "500", "0"][..], ":0", ":600"),
        (extend, &["mine", "500", "0"], ":1", ":1100"),
        (extend, &["mine", "500", "1"], ":1", ":500"),
        (reacquire, &["other", "700"], ":0", ":500"),
        (reacquire, &["mine", "700"], ":1", ":700"),
        (
            extend,
            &["mine", "x", "0"],
            "-ERR value is not an integer or out of range",
            ":700",
        ),
        (release, &["other"], ":0", ":700"),
        (release, &["mine"], ":1", ":-2"),
        (extend, &["mine", "500", "0"], ":0", ":-2"),
    ] {
        let mut words = vec!["EVALSHA", sha, "1", "lock"];
        words.extend(arguments);
        assert_eq!(client.text(&words), expected, "{words:?}");
        assert_eq!(client.text(&["PTTL", "lock"]), left, "{words:?}");
    }
    // A lock that does not expire is not extended.
    client.call(&["SET", "lock", "mine"]);
    assert_eq!(
        client.text(&["EVALSHA", extend, "1", "lock", "mine", "5", "0"]),
        ":0"
    );
    bed.stop();
}

#[test]
fn a_script_is_part_of_a_transaction_and_changes_what_is_watched() {
    let bed = Bed::new();
    let (mut client, mut other) = (bed.client(), bed.client());
    client.call(&["SET", "lock", "mine"]);
    client.call(&["WATCH", "lock"]);
    other.call(&["EVALSHA", RELEASE_SHA, "1", "lock", "mine"]);
    client.call(&["MULTI"]);
    client.call(&["SET", "lock", "again"]);
    assert_eq!(client.text(&["EXEC"]), "nil");
    client.call(&["MSET", "a", "mine", "b", "mine", "c", "mine"]);
    client.call(&["MULTI"]);
    for key in ["a", "b", "c"] {
        assert_eq!(client.text(&["EVAL", RELEASE, "1", key, "mine"]), "QUEUED");
    }
    assert_eq!(client.text(&["EXEC"]), "[:1 :1 :1]");
    client.call(&["MULTI"]);
    assert!(
        client
            .text(&["EVAL", "return 1", "0"])
            .starts_with("-ERR there are no scripts here")
    );
    assert!(client.text(&["EXEC"]).starts_with("-EXECABORT"));
    bed.stop();
}
