//! The memory of all clients together has a limit, and the server still serves small clients.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use crate::bed::{Bed, Caller, LIMIT, request, until};
use crate::serving::Serving;

const MIB: usize = 1 << 20;

/// Returns a number from INFO.
fn told(client: &mut Caller, field: &str) -> usize {
    let info = client.text(&["INFO"]);
    let line = info.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name == field).then_some(value)
    });
    let number = line.and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("no {field} in {info}"))
}

fn memory(client: &mut Caller) -> usize {
    told(client, "mem_clients_normal")
}

/// Returns a bed with this limit for all clients together.
fn bed(limit: usize) -> Bed {
    Bed::with(|settings| settings.clients_memory = limit)
}

/// Begins a word of so many bytes, and sends all but the last of them, or as many as the server takes.
fn unfinished(at: SocketAddr, bytes: usize) -> TcpStream {
    let mut stream = TcpStream::connect(at).expect("a connection");
    stream.set_write_timeout(Some(LIMIT)).expect("a socket");
    let head = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${bytes}\r\n");
    let part = vec![b'x'; 64 * 1024];
    let mut left = bytes - 1;
    let mut sent = stream.write_all(head.as_bytes());
    while sent.is_ok() && left > 0 {
        let count = left.min(part.len());
        sent = stream.write_all(&part[..count]);
        left -= count;
    }
    stream
}

/// Returns the most memory that the process has had so far.
#[cfg(target_os = "linux")]
fn resident(serving: &Serving) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", serving.id()));
    let status = status.expect("a process");
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = most.and_then(|most| most.trim().strip_suffix(" kB"));
    let kilobytes: usize = kilobytes.and_then(|n| n.parse().ok()).expect("a number");
    kilobytes * 1024
}

/// Twenty clients, each within its own limits.
#[test]
#[cfg(target_os = "linux")]
fn twenty_clients_with_unfinished_words_stay_within_the_limit_together() {
    let limit = 64 * MIB;
    let serving = Serving::start(&["--clients-memory", &limit.to_string()]);
    let mut client = Caller::to(serving.at);
    assert_eq!(client.text(&["SET", "mine", "kept"]), "OK");
    let before = resident(&serving);
    let at = serving.at;
    let sending: Vec<_> = (0..20)
        .map(|_| std::thread::spawn(move || unfinished(at, 20 * MIB)))
        .collect();
    let mut most = 0;
    while !sending.iter().all(|sender| sender.is_finished()) {
        most = most.max(memory(&mut client));
        assert_eq!(client.text(&["GET", "mine"]), "kept");
    }
    let streams: Vec<_> = sending.into_iter().map(|sender| sender.join()).collect();
    // The clients that the server has not seen yet.
    until("some were sent away", || {
        told(&mut client, "evicted_clients") > 0
    });
    most = most.max(memory(&mut client));
    // A buffer counts after it has grown.
    assert!(most <= limit + 2 * MIB, "{most} bytes were held");
    let grown = resident(&serving) - before;
    assert!(grown <= 2 * limit, "{grown} bytes more are resident");
    drop(streams);
    until("what they held is given back", || memory(&mut client) < MIB);
    serving.kill();
}

/// The wait for room has an end: the server serves each of these clients or sends it away.
#[test]
fn a_client_that_waits_for_room_is_served_or_sent_away() {
    let bed = bed(24 * MIB);
    let mut watching = bed.client();
    let address = bed.server.local();
    let value = "x".repeat(6 * MIB);
    for _ in 0..5 {
        let value = value.clone();
        let clients: Vec<_> = (0..12)
            .map(|_| {
                let value = value.clone();
                std::thread::spawn(move || {
                    let begun = Instant::now();
                    let mut client = Caller::to(address);
                    client.send(&["SET", "k", &value]);
                    let served = client.next_or_end().is_some();
                    assert!(begun.elapsed() < LIMIT, "it waits, and nothing ends that");
                    served
                })
            })
            .collect();
        let served = clients
            .into_iter()
            .map(|client| client.join().expect("a client"))
            .filter(|served| *served)
            .count();
        assert!(served > 0, "no client was served");
    }
    until("all have left", || {
        told(&mut watching, "connected_clients") == 1
    });
    assert!(memory(&mut watching) < MIB);
    bed.stop();
}

/// One client after the other takes nearly all memory and gives it back.
#[test]
fn a_client_keeps_nothing_of_a_finished_request() {
    let bed = bed(32 * MIB);
    let mut watching = bed.client();
    let value = "x".repeat(10 * MIB);
    let mut clients: Vec<Caller> = (0..10).map(|_| bed.client()).collect();
    for client in &mut clients {
        assert_eq!(client.text(&["SET", "big", &value]), "OK");
        assert_eq!(client.text(&["GET", "big"]).len(), value.len());
        assert_eq!(client.text(&["GET", "none"]), "nil");
    }
    assert!(memory(&mut watching) < 2 * MIB);
    assert_eq!(told(&mut watching, "evicted_clients"), 0);
    bed.stop();
}

#[test]
fn replies_that_are_not_read_count_together() {
    let bed = bed(32 * MIB);
    let mut client = bed.client();
    assert_eq!(client.text(&["SET", "big", &"x".repeat(MIB)]), "OK");
    let slow: Vec<Caller> = (0..10)
        .map(|_| {
            let mut slow = bed.client();
            slow.write(&request(&["GET", "big"]).repeat(20));
            slow
        })
        .collect();
    until("some are sent away", || {
        assert_eq!(client.text(&["PING"]), "PONG");
        told(&mut client, "evicted_clients") > 0
    });
    assert!(memory(&mut client) <= 34 * MIB);
    assert_eq!(told(&mut client, "sent_away_slow"), 0);
    drop(slow);
    bed.stop();
}

/// Each of these requests is small. All replies exist before the client's fom sees the first.
#[test]
fn a_pipeline_of_small_requests_with_large_replies_is_cut_short() {
    let bed = bed(16 * MIB);
    let mut client = bed.client();
    let item = "x".repeat(64 * 1024);
    for _ in 0..32 {
        client.call(&["RPUSH", "list", &item]);
    }
    let before = told(&mut client, "commands_run_on_keys");
    let mut greedy = bed.client();
    greedy.write(&request(&["LRANGE", "list", "0", "-1"]).repeat(1000));
    until("it is sent away", || {
        let [evicted, slow] = ["evicted_clients", "sent_away_slow"];
        told(&mut client, evicted) + told(&mut client, slow) == 1
    });
    until("it has left", || {
        told(&mut client, "connected_clients") == 1
    });
    let run = told(&mut client, "commands_run_on_keys") - before;
    assert!(run < 500, "{run} were run for a client that is sent away");
    assert!(memory(&mut client) < MIB);
    bed.stop();
}

/// The server makes replies that need no shard while it reads requests. It reads all that came beside a BLPOP at once.
#[test]
#[cfg(target_os = "linux")]
fn requests_are_left_while_too_much_is_unread() {
    let serving = Serving::start(&["--unread", &(2 * MIB).to_string()]);
    let mut client = Caller::to(serving.at);
    let before = resident(&serving);
    let mut greedy = Caller::to(serving.at);
    greedy.send(&["BLPOP", "queue", "0"]);
    greedy.write(&b"COMMAND\r\n".repeat(5_000));
    until("it waits", || told(&mut client, "blocked_clients") == 1);
    client.call(&["RPUSH", "queue", "x"]);
    until("it is sent away", || {
        told(&mut client, "sent_away_slow") == 1
    });
    let grown = resident(&serving) - before;
    assert!(grown <= 32 * MIB, "{grown} bytes more are resident");
    serving.kill();
}

#[test]
fn requests_that_were_left_are_answered_when_the_socket_has_taken_replies() {
    let bed = Bed::with(|settings| settings.unread = 1024);
    let mut client = bed.client();
    let word = "x".repeat(1100);
    client.write(&request(&["ECHO", &word]).repeat(10));
    for _ in 0..10 {
        assert_eq!(crate::bed::shown(&client.reply()), word);
    }
    bed.stop();
}

#[test]
fn what_is_queued_watched_or_waited_at_counts() {
    let bed = bed(64 * MIB);
    let mut watching = bed.client();
    let base = memory(&mut watching);
    let keys: Vec<String> = (0..5000).map(|n| format!("key{n}")).collect();
    let of = |command: &'static str| -> Vec<&str> {
        let keys = keys.iter().map(String::as_str);
        std::iter::once(command).chain(keys).collect()
    };
    let mut client = bed.client();
    client.call(&["MULTI"]);
    let value = "x".repeat(MIB);
    for _ in 0..4 {
        client.call(&["SET", "k", &value]);
    }
    until("what is queued counts", || {
        memory(&mut watching) > base + 4 * MIB
    });
    client.call(&["DISCARD"]);
    until("it counts no more", || memory(&mut watching) < base + MIB);
    client.call(&of("WATCH"));
    until("what is watched counts", || {
        memory(&mut watching) > base + MIB
    });
    client.call(&["UNWATCH"]);
    until("it counts no more", || memory(&mut watching) < base + MIB);
    let mut pop = of("BLPOP");
    pop.push("0");
    client.send(&pop);
    bed.blocked(1);
    assert!(memory(&mut watching) > base + MIB);
    watching.call(&["RPUSH", "key4999", "x"]);
    client.reply();
    until("it counts no more", || memory(&mut watching) < base + MIB);
    bed.stop();
}

/// The ready replies of queued commands count, too. A spoilt transaction keeps nothing.
#[test]
fn a_transaction_holds_no_more_than_is_counted() {
    let bed = Bed::with(|settings| settings.limits.request = 4 * MIB);
    let mut client = bed.client();
    client.call(&["MULTI"]);
    let refused = (0..10_000).find_map(|n| {
        let reply = client.text(&["COMMAND"]);
        (reply != "QUEUED").then_some((n, reply))
    });
    let (queued, error) = refused.expect("there is an end");
    assert_eq!(error, "-ERR the transaction is too large");
    assert!(queued > 10, "{queued}");
    assert_eq!(client.text(&["SET", "k", "v"]), "QUEUED");
    assert!(client.text(&["EXEC"]).starts_with("-EXECABORT"));
    assert_eq!(client.text(&["EXISTS", "k"]), ":0");
    bed.stop();
}

#[test]
fn a_transaction_with_too_large_replies_is_done_and_says_so() {
    let bed = Bed::with(|settings| settings.unread = 4 * MIB);
    let mut client = bed.client();
    client.call(&["RPUSH", "list", &"x".repeat(MIB)]);
    // In one locality, and in both.
    for others in [&[][..], &["a", "b", "c", "d"]] {
        client.call(&["MULTI"]);
        for _ in 0..20 {
            client.call(&["LRANGE", "list", "0", "-1"]);
        }
        client.call(&["RPUSH", "list", "y"]);
        for other in others {
            client.call(&["SET", other, "1"]);
        }
        assert_eq!(
            client.text(&["EXEC"]),
            "-ERR the transaction is done, but its replies are larger than client-unread-limit"
        );
    }
    assert_eq!(client.text(&["LLEN", "list"]), ":3");
    assert_eq!(client.text(&["EXISTS", "a", "d"]), ":2");
    bed.stop();
}

#[test]
fn the_limit_is_a_setting_and_is_kept_when_it_is_lowered() {
    let bed = bed(64 * MIB);
    let mut client = bed.client();
    let wanted = (64 * MIB).to_string();
    assert_eq!(
        client.text(&["CONFIG", "GET", "maxmemory-clients"]),
        format!("[maxmemory-clients {wanted}]")
    );
    assert_eq!(
        client.text(&["CONFIG", "SET", "maxmemory-clients", "0"]),
        "-ERR CONFIG SET failed - argument must be at least 1048576"
    );
    let holding = unfinished(bed.server.local(), 10 * MIB);
    until("it is held", || memory(&mut client) > 10 * MIB);
    assert_eq!(
        client.text(&["CONFIG", "SET", "maxmemory-clients", "4194304"]),
        "OK"
    );
    until("it is sent away", || {
        told(&mut client, "evicted_clients") == 1
    });
    until("it is gone", || memory(&mut client) < MIB);
    let mut holding = Caller::of(holding);
    assert!(holding.next_or_end().is_none_or(|reply| {
        crate::bed::shown(&reply).starts_with("-ERR all clients together are above")
    }));
    bed.stop();
}
