//! The data on disk: after a clean end, and after `kill -9`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use kv::{Save, Server, Settings};

use crate::bed::{Bed, Caller, block_on, shown};
use crate::serving::Serving;

/// The directory of a test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("fom-kv-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path); // of a run that was broken off
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn bed(directory: &Directory, save: Save) -> Bed {
    Bed::with(|settings| {
        settings.directory = Some(directory.0.clone());
        settings.save = save;
    })
}

#[test]
fn everything_is_there_again_after_a_clean_end() {
    let directory = Directory::new("clean");
    let first = bed(&directory, Save::EverySecond);
    let mut client = first.client();
    for n in 0..100 {
        client.call(&["SET", &format!("key{n}"), &n.to_string()]);
    }
    client.call(&["RPUSH", "list", "a", "b", "c", "d"]);
    client.call(&["LPUSH", "list", "z", "y"]);
    client.call(&["RPOP", "list"]);
    client.call(&["LPOP", "list"]);
    client.call(&["RPUSH", "gone", "a", "b"]);
    client.call(&["SET", "gone", "now a string"]);
    client.call(&["DEL", "key7"]);
    client.call(&["SET", "leased", "1", "EX", "1000"]);
    client.call(&["SET", "short", "1", "PX", "10"]);
    client.call(&["RPUSH", "leased list", "a"]);
    client.call(&["EXPIRE", "leased list", "1000"]);
    client.call(&["MSET", "m1", "1", "m2", "2", "m3", "3"]);
    first.stop();
    std::thread::sleep(Duration::from_millis(11)); // the time of day continues

    let second = bed(&directory, Save::Always);
    let mut client = second.client();
    assert_eq!(second.server.loaded(), 99 + 7);
    assert_eq!(client.text(&["LRANGE", "list", "0", "-1"]), "[z a b c]");
    assert_eq!(
        client.text(&["MGET", "key42", "key7", "gone", "m1", "m2", "m3"]),
        "[42 nil now a string 1 2 3]"
    );
    assert_eq!(client.text(&["EXISTS", "short"]), ":0");
    for leased in ["leased", "leased list"] {
        let ttl: i64 = client.text(&["TTL", leased])[1..]
            .parse()
            .expect("a number");
        assert!((900..=1000).contains(&ttl), "{ttl}");
    }
    // And later changes.
    client.call(&["RPUSH", "list", "e"]);
    client.call(&["FLUSHALL"]);
    client.call(&["RPUSH", "list", "new"]);
    second.stop();

    let third = bed(&directory, Save::Always);
    let mut client = third.client();
    assert_eq!(client.text(&["DBSIZE"]), ":1");
    assert_eq!(client.text(&["LRANGE", "list", "0", "-1"]), "[new]");
    third.stop();
}

#[test]
fn a_directory_that_another_server_has_is_refused() {
    let directory = Directory::new("taken");
    let first = bed(&directory, Save::Always);
    let second = block_on(Server::start(Settings {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        directory: Some(directory.0.clone()),
        ..Settings::default()
    }));
    let error = second
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default();
    assert!(error.contains("cannot be read"), "{error}");
    first.stop();
}

fn serve(directory: &Directory) -> Serving {
    let directory = directory.0.to_str().expect("a path in UTF-8");
    Serving::start(&["--save", "always", "--dir", directory])
}

/// Clients count and push until the server is killed. All acknowledged changes are there again, and of the others at
/// most the last. A transaction is there as a whole or not at all.
#[test]
fn nothing_that_was_acknowledged_is_lost_when_it_is_killed() {
    let directory = Directory::new("killed");
    let mut before: Vec<i64> = vec![0; 4];
    for round in 0..5_u64 {
        let serving = serve(&directory);
        let at = serving.at;
        let writers: Vec<_> = (0..4_usize)
            .map(|number| {
                let from = before[number];
                std::thread::spawn(move || {
                    let mut client = Caller::to(at);
                    let (mut told, names) = (from, names(number));
                    loop {
                        let next = (told + 1).to_string();
                        client.send(&["MULTI"]);
                        client.send(&["INCR", &names[0]]);
                        client.send(&["RPUSH", &names[1], &next]);
                        client.send(&["INCR", &names[2]]);
                        client.send(&["EXEC"]);
                        for _ in 0..4 {
                            if client.next_or_end().is_none() {
                                return told;
                            }
                        }
                        match client.next_or_end() {
                            Some(reply)
                                if shown(&reply) == format!("[:{next} :{next} :{next}]") =>
                            {
                                told += 1;
                            }
                            Some(reply) => panic!("{reply:?} instead of {next}"),
                            None => return told,
                        }
                    }
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(120 + round * 40)); // the server works meanwhile
        serving.kill();
        let told: Vec<i64> = writers
            .into_iter()
            .map(|writer| writer.join().expect("a writer"))
            .collect();

        let again = serve(&directory);
        let mut client = Caller::to(again.at);
        for (number, told) in told.into_iter().enumerate() {
            let names = names(number);
            let count = |reply: String| reply.trim_start_matches(':').parse().unwrap_or(0);
            let first: i64 = count(client.text(&["GET", &names[0]]));
            let pushed: i64 = count(client.text(&["LLEN", &names[1]]));
            let last: i64 = count(client.text(&["GET", &names[2]]));
            assert!(
                first == told || first == told + 1,
                "round {round}: {told} told, {first} there"
            );
            assert_eq!(
                (first, first),
                (pushed, last),
                "round {round}: half a transaction"
            );
            if first > 0 {
                assert_eq!(client.text(&["LINDEX", &names[1], "-1"]), first.to_string());
            }
            before[number] = first;
        }
        again.kill();
    }
    assert!(before.iter().sum::<i64>() > 0, "nothing was done");
}

fn names(number: usize) -> [String; 3] {
    ["first", "list", "last"].map(|name| format!("{name} of {number}"))
}

/// A signal ends the program: it answers the commands that it took, and saves all changes.
#[test]
fn a_signal_ends_it_cleanly() {
    let directory = Directory::new("signal");
    let serving = serve(&directory);
    let mut client = Caller::to(serving.at);
    assert_eq!(client.text(&["SET", "k", "v"]), "OK");
    let pid = serving.id().to_string();
    let killed = Command::new("kill")
        .args(["-TERM", &pid])
        .status()
        .expect("kill runs");
    assert!(killed.success());
    assert_eq!(client.next_or_end(), None);
    assert!(serving.ends().success());
    let again = serve(&directory);
    assert_eq!(Caller::to(again.at).text(&["GET", "k"]), "v");
}
