//! Clients that are slow, silent, too many, or gone in the middle.

use std::io::Read as _;
use std::time::Duration;

use crate::bed::{Bed, request, shown, until};

/// The server sends a client away if the client leaves too much unread, and no other client waits for it.
#[test]
fn a_client_that_does_not_read_is_sent_away() {
    let bed = Bed::with(|settings| settings.unread = 4 << 20);
    let mut other = bed.client();
    let mut slow = bed.client();
    let value = "x".repeat(1 << 20);
    assert_eq!(slow.text(&["SET", "big", &value]), "OK");
    let asked = request(&["GET", "big"]).repeat(64);
    slow.write(&asked);
    until("it is sent away", || {
        // Meanwhile the server serves other clients.
        assert_eq!(other.text(&["PING"]), "PONG");
        other.text(&["INFO"]).contains("sent_away_slow:1\r\n")
    });
    // The client gets what was sent before, and then the end.
    let mut rest = Vec::new();
    let _ = slow.stream.read_to_end(&mut rest); // a reset is an end, too
    assert!(rest.len() < asked.len() + 64 * value.len());
    bed.stop();
}

/// A connection that is cut anywhere in a command changes nothing, and the server continues.
#[test]
fn a_command_that_is_cut_is_not_done() {
    let bed = Bed::new();
    let whole = request(&["SET", "cut", "value"]);
    let mut watching = bed.client();
    for cut in 0..whole.len() {
        let mut client = bed.client();
        client.write(&request(&["SET", "before", &cut.to_string()]));
        client.write(&whole[..cut]);
        assert_eq!(shown(&client.reply()), "OK");
        drop(client);
        assert_eq!(watching.text(&["GET", "before"]), cut.to_string());
        assert_eq!(watching.text(&["GET", "cut"]), "nil", "cut at {cut}");
    }
    until("all have left", || {
        watching.text(&["INFO"]).contains("connected_clients:1\r\n")
    });
    bed.stop();
}

/// Many clients that leave without a word, with commands under way.
#[test]
fn clients_that_leave_in_the_middle_leave_nothing_behind() {
    let bed = Bed::new();
    let mut watching = bed.client();
    for n in 0..100 {
        let mut client = bed.client();
        client.send(&["WATCH", "a", "b"]);
        client.send(&["MULTI"]);
        client.send(&["INCR", "a"]);
        client.send(&["INCR", "b"]);
        if n % 2 == 0 {
            client.send(&["EXEC"]);
        }
        client.send(&["BLPOP", "nothing", "0"]);
    }
    until("all have left", || {
        watching.text(&["INFO"]).contains("connected_clients:1\r\n")
    });
    assert_eq!(watching.text(&["GET", "a"]), watching.text(&["GET", "b"]));
    bed.blocked(0);
    let why = watching.text(&["FOM", "WHY"]);
    assert!(
        !why.contains("Pop") && !why.contains("Transaction"),
        "{why}"
    );
    bed.stop();
}

#[test]
fn a_client_too_many_is_told() {
    let bed = Bed::with(|settings| settings.clients = 2);
    let (mut first, mut second) = (bed.client(), bed.client());
    assert_eq!(first.text(&["PING"]), "PONG");
    assert_eq!(second.text(&["PING"]), "PONG");
    let mut third = bed.client();
    assert_eq!(
        third.next().map(|frame| shown(&frame)).as_deref(),
        Some("-ERR max number of clients reached")
    );
    assert_eq!(third.next(), None);
    drop(second);
    until("there is room", || {
        let mut next = bed.client();
        next.write(&request(&["PING"]));
        next.next().map(|frame| shown(&frame)).as_deref() == Some("PONG")
    });
    bed.stop();
}

#[test]
fn a_silent_client_is_sent_away() {
    let bed = Bed::with(|settings| settings.idle = Some(Duration::from_secs(60)));
    let (mut silent, mut talking) = (bed.client(), bed.client());
    assert_eq!(silent.text(&["PING"]), "PONG");
    assert_eq!(talking.text(&["PING"]), "PONG");
    bed.advance(Duration::from_secs(40));
    assert_eq!(talking.text(&["PING"]), "PONG");
    bed.advance(Duration::from_secs(30));
    assert_eq!(silent.next(), None);
    assert_eq!(talking.text(&["PING"]), "PONG");
    bed.stop();
}

/// Rubbish of all kinds: the server continues.
#[test]
fn rubbish_does_no_harm() {
    let bed = Bed::new();
    let mut seed: u64 = 7;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for _ in 0..300 {
        let mut client = bed.client();
        let mut bytes = request(&["SET", "key", "value"]);
        bytes.extend(request(&["LRANGE", "list", "0", "-1"]));
        for _ in 0..1 + random() % 4 {
            let at = (random() % bytes.len() as u64) as usize;
            bytes[at] = b"*$:+-\r\n0189xX\xff\0"[(random() % 15) as usize];
        }
        client.write(&bytes);
        client.half_close();
        while client.next().is_some() {}
    }
    let mut client = bed.client();
    assert_eq!(client.text(&["PING"]), "PONG");
    bed.stop();
}
