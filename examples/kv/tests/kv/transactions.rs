//! MULTI, EXEC and WATCH over keys in several localities.

use crate::bed::{Bed, Caller, shown};

fn number(client: &mut Caller, key: &str) -> i64 {
    client.text(&["GET", key]).parse().expect("a number")
}

/// Random transfers between accounts, many at a time: a client that reads all accounts at once always finds the same
/// sum.
#[test]
fn transfers_keep_the_sum_at_every_moment() {
    const ACCOUNTS: u64 = 8;
    let bed = Bed::new();
    let mut client = bed.client();
    let names: Vec<String> = (0..ACCOUNTS).map(|n| format!("account{n}")).collect();
    for name in &names {
        client.call(&["SET", name, "1000"]);
    }
    let movers: Vec<_> = (1..=4_u64)
        .map(|seed| {
            let (mut client, names) = (bed.client(), names.clone());
            std::thread::spawn(move || {
                let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                for _ in 0..300 {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    let (from, to) = (state % ACCOUNTS, state / 64 % ACCOUNTS);
                    let amount = (state / 4096 % 50).to_string();
                    client.send(&["MULTI"]);
                    client.send(&["DECRBY", &names[from as usize], &amount]);
                    client.send(&["INCRBY", &names[to as usize], &amount]);
                    client.send(&["EXEC"]);
                    let replies: Vec<String> = (0..4).map(|_| shown(&client.reply())).collect();
                    assert_eq!(replies[..3], ["OK", "QUEUED", "QUEUED"]);
                    assert!(replies[3].starts_with("[:"), "{replies:?}");
                    // Other commands on a key of a transaction wait for it.
                    client.call(&["INCRBY", &names[from as usize], "0"]);
                }
            })
        })
        .collect();
    let mut all = vec!["MGET"];
    all.extend(names.iter().map(String::as_str));
    let mut looks = 0;
    while looks < 50 || movers.iter().any(|mover| !mover.is_finished()) {
        let sum: i64 = client
            .text(&all)
            .trim_matches(['[', ']'])
            .split(' ')
            .map(|balance| balance.parse::<i64>().expect("a number"))
            .sum();
        assert_eq!(sum, 8000);
        looks += 1;
    }
    for mover in movers {
        mover.join().expect("a mover");
    }
    // No lock is left: everything is as fast as before, and no fom waits.
    assert!(!client.text(&["FOM", "WHY"]).contains("Transaction"));
    bed.stop();
}

/// Optimistic counting: of all clients that read the same value one wins, and no client's count is lost.
#[test]
fn watched_keys_that_changed_stop_a_transaction() {
    let bed = Bed::new();
    let mut client = bed.client();
    client.call(&["SET", "count", "0"]);
    let counters: Vec<_> = (0..4)
        .map(|_| {
            let mut client = bed.client();
            std::thread::spawn(move || {
                let mut tries = 0;
                for _ in 0..50 {
                    loop {
                        tries += 1;
                        client.call(&["WATCH", "count", "other"]);
                        let next = (number(&mut client, "count") + 1).to_string();
                        client.call(&["MULTI"]);
                        client.call(&["SET", "count", &next]);
                        client.call(&["SET", "elsewhere", &next]);
                        if shown(&client.call(&["EXEC"])) == "[OK OK]" {
                            break;
                        }
                    }
                }
                tries
            })
        })
        .collect();
    let tries: u32 = counters
        .into_iter()
        .map(|counter| counter.join().expect("a counter"))
        .sum();
    assert_eq!(number(&mut client, "count"), 200);
    assert!(tries >= 200);
    bed.stop();
}

#[test]
fn watch_sees_what_others_did_and_nothing_else() {
    let bed = Bed::new();
    let (mut client, mut other) = (bed.client(), bed.client());
    let mut exec = |touch: &mut dyn FnMut(&mut Caller, &mut Caller)| {
        client.call(&["DEL", "w", "done"]);
        client.call(&["SET", "w", "1"]);
        client.call(&["WATCH", "w"]);
        touch(&mut client, &mut other);
        client.call(&["MULTI"]);
        client.call(&["SET", "done", "yes"]);
        client.text(&["EXEC"])
    };
    assert_eq!(exec(&mut |_, _| {}), "[OK]");
    assert_eq!(
        exec(&mut |_, other| drop(other.call(&["SET", "w", "1"]))),
        "nil"
    );
    assert_eq!(exec(&mut |_, other| drop(other.call(&["DEL", "w"]))), "nil");
    assert_eq!(
        exec(&mut |_, other| drop(other.call(&["EXPIRE", "w", "5"]))),
        "nil"
    );
    assert_eq!(
        exec(&mut |_, other| drop(other.call(&["SET", "else", "1"]))),
        "[OK]"
    );
    assert_eq!(exec(&mut |me, _| drop(me.call(&["INCR", "w"]))), "nil");
    assert_eq!(
        exec(&mut |me, other| {
            other.call(&["SET", "w", "2"]);
            me.call(&["UNWATCH"]);
        }),
        "[OK]"
    );
    // A discarded transaction watches nothing any more.
    client.call(&["WATCH", "w"]);
    other.call(&["SET", "w", "3"]);
    client.call(&["MULTI"]);
    assert_eq!(client.text(&["DISCARD"]), "OK");
    client.call(&["MULTI"]);
    assert_eq!(client.text(&["GET", "w"]), "QUEUED");
    assert_eq!(client.text(&["EXEC"]), "[3]");
    bed.stop();
}

#[test]
fn what_is_wrong_before_exec_discards_all_of_it() {
    let bed = Bed::new();
    let mut client = bed.client();
    assert_eq!(client.text(&["MULTI"]), "OK");
    assert_eq!(
        client.text(&["MULTI"]),
        "-ERR MULTI calls can not be nested"
    );
    assert_eq!(
        client.text(&["WATCH", "k"]),
        "-ERR WATCH inside MULTI is not allowed"
    );
    assert_eq!(client.text(&["SET", "k", "1"]), "QUEUED");
    assert!(
        client
            .text(&["NONESUCH"])
            .starts_with("-ERR unknown command")
    );
    assert_eq!(
        client.text(&["EXEC"]),
        "-EXECABORT Transaction discarded because of previous errors."
    );
    assert_eq!(client.text(&["GET", "k"]), "nil");
    // A command that fails only when it runs stops nothing.
    client.call(&["MULTI"]);
    client.call(&["SET", "k", "text"]);
    client.call(&["INCR", "k"]);
    client.call(&["BLPOP", "none", "0"]);
    client.call(&["DBSIZE"]);
    client.call(&["PING"]);
    client.call(&["DEL", "k", "other"]);
    assert_eq!(
        client.text(&["EXEC"]),
        "[OK -ERR value is not an integer or out of range nil :1 PONG :1]"
    );
    bed.stop();
}

/// The elements that a transaction pushes are handed out after the transaction, not before.
#[test]
fn elements_are_handed_out_after_the_transaction() {
    let bed = Bed::new();
    let (mut waiter, mut client) = (bed.client(), bed.client());
    for other in ["here", "there", "anywhere", "nowhere"] {
        waiter.send(&["BLPOP", "q", "0"]);
        bed.blocked(1);
        client.call(&["MULTI"]);
        client.call(&["RPUSH", "q", "a"]);
        client.call(&["SET", other, "1"]);
        client.call(&["LPUSH", "q", "b"]);
        client.call(&["LLEN", "q"]);
        assert_eq!(client.text(&["EXEC"]), "[:1 OK :2 :2]");
        assert_eq!(shown(&waiter.reply()), "[q b]");
        assert_eq!(client.text(&["LPOP", "q"]), "a");
    }
    bed.stop();
}
