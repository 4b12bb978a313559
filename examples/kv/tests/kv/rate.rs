//! The rate limit of clients.

use std::time::Duration;

use crate::bed::{Bed, Caller, block_on, request, shown};

/// A client at another address of this host.
fn from_elsewhere(bed: &Bed) -> Caller {
    let at = bed.server.local();
    let stream = block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind(([127, 0, 0, 2], 0).into()).expect("an address");
        socket
            .connect(at)
            .await
            .expect("a connection")
            .into_std()
            .expect("a socket")
    });
    stream.set_nonblocking(false).expect("a socket");
    Caller::of(stream)
}

/// A command beyond the rate waits for its turn, and earlier commands stay before it. Other clients do not wait.
#[test]
fn commands_beyond_the_rate_wait_for_their_turn() {
    let bed = Bed::new();
    let mut client = bed.client();
    assert_eq!(client.text(&["CONFIG", "SET", "rate-limit", "10"]), "OK");
    // One token is in the bucket, and one comes each tenth of a second.
    for n in 0..5 {
        client.send(&["RPUSH", "log", &n.to_string()]);
    }
    client.send(&["LRANGE", "log", "0", "-1"]);
    assert_eq!(shown(&client.reply()), ":1");
    let mut other = from_elsewhere(&bed);
    assert_eq!(other.text(&["GET", "k"]), "nil");
    for n in 2..=5 {
        bed.advance(Duration::from_millis(100));
        assert_eq!(shown(&client.reply()), format!(":{n}"));
    }
    bed.advance(Duration::from_millis(100));
    assert_eq!(shown(&client.reply()), "[0 1 2 3 4]");
    // The limit is taken back while commands still queue: none is lost, and none overtakes.
    for n in 5..8 {
        client.send(&["RPUSH", "log", &n.to_string()]);
    }
    assert_eq!(other.text(&["CONFIG", "SET", "rate-limit", "0"]), "OK");
    client.write(&request(&["RPUSH", "log", "8"]));
    for _ in 0..4 {
        bed.advance(Duration::from_millis(100));
    }
    for n in 6..=9 {
        assert_eq!(shown(&client.reply()), format!(":{n}"));
    }
    assert_eq!(
        client.text(&["LRANGE", "log", "0", "-1"]),
        "[0 1 2 3 4 5 6 7 8]"
    );
    bed.stop();
}

#[test]
fn commands_beyond_the_rate_are_rejected_where_that_is_asked_for() {
    let bed = Bed::new();
    let mut client = bed.client();
    assert_eq!(
        client.text(&["CONFIG", "SET", "rate-limit-mode", "reject"]),
        "OK"
    );
    assert_eq!(client.text(&["CONFIG", "SET", "rate-limit", "20"]), "OK");
    let mut ask = |times: usize| -> usize {
        let replies = (0..times).map(|_| client.text(&["INCR", "n"]));
        replies.filter(|reply| reply != "-ERR rate limited").count()
    };
    assert_eq!(ask(10), 2);
    bed.advance(Duration::from_millis(50));
    assert_eq!(ask(10), 1);
    bed.advance(Duration::from_secs(10));
    assert_eq!(ask(10), 2);
    // Commands with several keys, and pops, count as one.
    assert_eq!(client.text(&["MGET", "a", "b"]), "-ERR rate limited");
    assert_eq!(client.text(&["BLPOP", "q", "0"]), "-ERR rate limited");
    assert_eq!(client.text(&["PING"]), "PONG");
    bed.advance(Duration::from_millis(50));
    assert_eq!(client.text(&["MGET", "a", "n"]), "[nil 5]");
    bed.stop();
}
