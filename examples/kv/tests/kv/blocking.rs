//! Blocking pops: a waiting client gets its element in turn, once, or not at all.

use std::time::Duration;

use crate::bed::{Bed, Caller, shown, until};

fn waiting(bed: &Bed, count: usize, words: &[&str]) -> Caller {
    let mut client = bed.client();
    client.send(words);
    bed.blocked(count);
    client
}

#[test]
fn elements_go_to_waiting_clients_in_order_of_arrival() {
    let bed = Bed::new();
    let mut waiters: Vec<Caller> = (1..=4)
        .map(|count| waiting(&bed, count, &["BLPOP", "q", "0"]))
        .collect();
    let mut pusher = bed.client();
    // Elements that are pushed together count before they are handed out.
    assert_eq!(pusher.text(&["RPUSH", "q", "a", "b"]), ":2");
    assert_eq!(pusher.text(&["RPUSH", "q", "c"]), ":1");
    assert_eq!(pusher.text(&["LPUSH", "q", "d", "e"]), ":2");
    let got: Vec<String> = waiters
        .iter_mut()
        .map(|waiter| shown(&waiter.reply()))
        .collect();
    assert_eq!(got, ["[q a]", "[q b]", "[q c]", "[q e]"]);
    assert_eq!(pusher.text(&["LRANGE", "q", "0", "-1"]), "[d]");
    bed.stop();
}

#[test]
fn a_wait_at_several_lists_gets_one_element() {
    let bed = Bed::new();
    let mut client = bed.client();
    client.call(&["RPUSH", "second", "x"]);
    // A pop takes an existing element at once, from the first list that has one.
    assert_eq!(
        client.text(&["BRPOP", "first", "second", "0"]),
        "[second x]"
    );
    let keys: Vec<String> = (0..20).map(|n| format!("list{n}")).collect();
    let mut words = vec!["BRPOP"];
    words.extend(keys.iter().map(String::as_str));
    words.push("0");
    let mut waiter = waiting(&bed, 1, &words);
    let pushers: Vec<_> = keys
        .iter()
        .map(|key| {
            let (mut pusher, key) = (bed.client(), key.clone());
            std::thread::spawn(move || pusher.text(&["RPUSH", &key, "1", "2"]))
        })
        .collect();
    for pusher in pushers {
        assert_eq!(pusher.join().expect("a thread"), ":2");
    }
    let got = shown(&waiter.reply());
    assert!(got.ends_with(" 2]"), "{got}");
    let left: u32 = keys
        .iter()
        .map(|key| {
            client.text(&["LLEN", key])[1..]
                .parse::<u32>()
                .expect("a number")
        })
        .sum();
    assert_eq!(left, 39);
    bed.blocked(0);
    bed.stop();
}

#[test]
fn patience_ends_on_the_clock() {
    let bed = Bed::new();
    let mut waiter = waiting(&bed, 1, &["BLPOP", "q", "1.5"]);
    bed.advance(Duration::from_millis(1499));
    bed.blocked(1);
    bed.advance(Duration::from_millis(1));
    // Redis's null array.
    assert_eq!(shown(&waiter.reply()), "nil");
    bed.blocked(0);
    // Later elements stay.
    let mut client = bed.client();
    client.call(&["RPUSH", "q", "late"]);
    assert_eq!(client.text(&["LLEN", "q"]), ":1");
    assert_eq!(waiter.text(&["BLPOP", "q", "1"]), "[q late]");
    bed.stop();
}

#[test]
fn a_client_that_leaves_takes_no_element() {
    let bed = Bed::new();
    let mut pusher = bed.client();
    for round in 0..50 {
        let gone = waiting(&bed, 1, &["BLPOP", "q", "0"]);
        drop(gone);
        bed.blocked(0);
        assert_eq!(pusher.text(&["RPUSH", "q", "kept"]), ":1", "round {round}");
        assert_eq!(pusher.text(&["LPOP", "q"]), "kept", "round {round}");
    }
    bed.stop();
}

/// The client leaves just when an element is handed to it: the element is back in the list, or was sent.
#[test]
fn an_element_for_a_client_that_leaves_goes_back_or_was_sent() {
    let bed = Bed::new();
    let mut pusher = bed.client();
    let mut back = 0;
    for round in 0..100 {
        let gone = waiting(&bed, 1, &["BLPOP", "q", "0"]);
        let leaving = std::thread::spawn(move || {
            gone.half_close();
            gone
        });
        pusher.call(&["RPUSH", "q", "one"]);
        let mut gone = leaving.join().expect("a thread");
        let got = gone.next().map(|frame| shown(&frame));
        bed.blocked(0);
        let mut left = String::new();
        if got.is_none() {
            // The element may still be on its way back.
            until("it is back", || {
                left = pusher.text(&["LLEN", "q"]);
                left == ":1"
            });
            back += 1;
        }
        assert!(
            got.is_none() || got.as_deref() == Some("[q one]"),
            "round {round}: {got:?}"
        );
        pusher.call(&["DEL", "q"]);
    }
    assert!(back > 0, "it was never in time");
    bed.stop();
}

#[test]
fn a_server_that_ends_releases_waiting_clients() {
    let bed = Bed::new();
    let mut waiter = waiting(&bed, 1, &["BLPOP", "q", "0"]);
    bed.stop();
    assert_eq!(waiter.next(), None);
}
