//! Histories of random commands by several clients on few keys. For each key there must be one order of its commands
//! that fits both the replies and the times. Linearizability is local, so the test checks each key by itself.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::bed::{Bed, shown};

/// One command on a counter, from before it was sent to after its reply came.
#[derive(Clone, Debug)]
struct Event {
    begun: u64,
    ended: u64,
    what: What,
    reply: String,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Set(i64),
    Get,
    Add(i64),
    Del,
}

/// Returns the value after the command, and the reply that it must get.
fn apply(value: Option<i64>, what: What) -> (Option<i64>, String) {
    match what {
        What::Set(new) => (Some(new), "OK".to_owned()),
        What::Get => (
            value,
            value.map_or("nil".to_owned(), |value| value.to_string()),
        ),
        What::Add(by) => {
            let new = value.unwrap_or(0) + by;
            (Some(new), format!(":{new}"))
        }
        What::Del => (None, format!(":{}", u8::from(value.is_some()))),
    }
}

/// Returns whether there is such an order: Wing and Gong's search, which remembers what it tried.
fn is_linear(events: &[Event]) -> bool {
    fn go(
        events: &[Event],
        done: &mut Vec<bool>,
        value: Option<i64>,
        tried: &mut HashSet<(Vec<bool>, Option<i64>)>,
    ) -> bool {
        let left = || (0..events.len()).filter(|at| !done[*at]);
        // A command that begins after another has ended cannot come before it.
        let Some(first_end) = left().map(|at| events[at].ended).min() else {
            return true;
        };
        let next: Vec<usize> = left().filter(|at| events[*at].begun <= first_end).collect();
        if !tried.insert((done.clone(), value)) {
            return false;
        }
        for at in next {
            let (new, reply) = apply(value, events[at].what);
            if reply == events[at].reply {
                done[at] = true;
                if go(events, done, new, tried) {
                    return true;
                }
                done[at] = false;
            }
        }
        false
    }
    // Cut where no commands overlap, which keeps the search short.
    go(
        events,
        &mut vec![false; events.len()],
        None,
        &mut HashSet::new(),
    )
}

#[test]
fn the_checker_sees_what_is_wrong() {
    let event = |begun, ended, what, reply: &str| Event {
        begun,
        ended,
        what,
        reply: reply.to_owned(),
    };
    assert!(is_linear(&[
        event(0, 3, What::Set(1), "OK"),
        event(1, 2, What::Get, "nil")
    ]));
    assert!(is_linear(&[
        event(0, 3, What::Set(1), "OK"),
        event(1, 2, What::Get, "1")
    ]));
    // Read before it was written, and missing after it was seen.
    assert!(!is_linear(&[
        event(2, 3, What::Set(1), "OK"),
        event(0, 1, What::Get, "1")
    ]));
    assert!(!is_linear(&[
        event(0, 9, What::Set(1), "OK"),
        event(1, 2, What::Get, "1"),
        event(3, 4, What::Get, "nil"),
    ]));
    // A lost count.
    assert!(!is_linear(&[
        event(0, 2, What::Add(1), ":1"),
        event(1, 3, What::Add(1), ":1")
    ]));
}

#[test]
fn commands_on_one_key_are_linearizable() {
    const KEYS: u64 = 3;
    for seed in 1..=8_u64 {
        let bed = Bed::new();
        let clock = std::sync::Arc::new(AtomicU64::new(0));
        let clients: Vec<_> = (0..4_u64)
            .map(|number| {
                let (mut client, clock) = (bed.client(), clock.clone());
                std::thread::spawn(move || {
                    let mut state = (seed << 8 | number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    let mut events = Vec::new();
                    for _ in 0..60 {
                        state ^= state << 13;
                        state ^= state >> 7;
                        state ^= state << 17;
                        let key = state % KEYS;
                        let name = format!("key{key}");
                        let by = ((state >> 20) % 9) as i64;
                        let what = match (state >> 40) % 8 {
                            0 => What::Set(by),
                            1..=3 => What::Get,
                            7 => What::Del,
                            _ => What::Add(by),
                        };
                        let number = by.to_string();
                        let words = match what {
                            What::Set(_) => vec!["SET", &name, &number],
                            What::Get => vec!["GET", &name],
                            What::Add(_) => vec!["INCRBY", &name, &number],
                            What::Del => vec!["DEL", &name],
                        };
                        let begun = clock.fetch_add(1, Ordering::SeqCst);
                        // Every fourth command runs in a transaction with other keys, so that the other commands must
                        // queue behind it.
                        let reply = if (state >> 50) % 4 == 0 {
                            client.send(&["MULTI"]);
                            client.send(&words);
                            client.send(&["INCR", "another"]);
                            client.send(&["INCR", "yet another"]);
                            client.send(&["EXEC"]);
                            let last = (0..5).map(|_| client.reply()).last().expect("five replies");
                            let redis_protocol::resp2::types::OwnedFrame::Array(replies) = last
                            else {
                                panic!("{last:?}");
                            };
                            shown(&replies[0])
                        } else {
                            client.text(&words)
                        };
                        let ended = clock.fetch_add(1, Ordering::SeqCst);
                        events.push((
                            key,
                            Event {
                                begun,
                                ended,
                                what,
                                reply,
                            },
                        ));
                    }
                    events
                })
            })
            .collect();
        let history: Vec<(u64, Event)> = clients
            .into_iter()
            .flat_map(|client| client.join().expect("a client"))
            .collect();
        for key in 0..KEYS {
            let mut events: Vec<Event> = history
                .iter()
                .filter(|(of, _)| *of == key)
                .map(|(_, event)| event.clone())
                .collect();
            events.sort_by_key(|event| event.begun);
            assert!(is_linear(&events), "seed {seed}, key {key}: {events:#?}");
        }
        bed.stop();
    }
}
