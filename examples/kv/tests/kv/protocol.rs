//! The protocol: whole and in pieces, right and wrong.

use kv::wire::{Limits, Reader};
use redis_protocol::resp2::types::OwnedFrame;

use crate::bed::{Bed, request, shown};

/// A request is the same wherever the network cuts it.
#[test]
fn requests_are_understood_however_they_are_cut() {
    let mut whole = Vec::new();
    whole.extend(request(&["SET", "key", "a value\r\nof two lines"]));
    whole.extend(b"PING\r\n  set k \"a b\"  \r\n\r\n*0\r\n*-1\r\n");
    whole.extend(request(&["GET", ""]));
    let expected = [
        "SET key a value\r\nof two lines",
        "PING",
        "set k a b",
        "GET ",
    ];
    for cut in 0..=whole.len() {
        let mut reader = Reader::new(Limits::default());
        let mut requests = Vec::new();
        for part in [&whole[..cut], &whole[cut..]] {
            reader.room().extend_from_slice(part);
            while let Some(request) = reader.next_request().expect("the protocol") {
                let words: Vec<_> = request.words_from(0).map(String::from_utf8_lossy).collect();
                requests.push(words.join(" "));
            }
        }
        assert_eq!(requests, expected, "cut at {cut}");
        assert!(reader.is_empty());
    }
    // And byte by byte.
    let mut reader = Reader::new(Limits::default());
    let mut count = 0;
    for byte in &whole {
        reader.room().extend_from_slice(&[*byte]);
        while reader.next_request().expect("the protocol").is_some() {
            count += 1;
        }
    }
    assert_eq!(count, expected.len());
}

/// The words of a request are those that the protocol crate finds, few or many, short or long.
#[test]
fn the_words_are_those_of_the_protocol_crate() {
    let word = |count: usize| "w".repeat(count);
    let mut cases: Vec<Vec<String>> = (1..=9)
        .map(|count| (0..count).map(word).collect())
        .collect();
    for length in 65_500..65_540 {
        cases.push(vec!["SET".into(), word(length), word(3)]);
    }
    for words in cases {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let bytes = request(&words);
        let mut reader = Reader::new(Limits::default());
        reader.room().extend_from_slice(&bytes);
        let read = reader.next_request().expect("the protocol").expect("whole");
        let decoded = redis_protocol::resp2::decode::decode(&bytes).expect("the protocol");
        let Some((OwnedFrame::Array(frames), _)) = decoded else {
            panic!("an array");
        };
        let decoded = frames.into_iter().map(|frame| match frame {
            OwnedFrame::BulkString(word) => word,
            other => panic!("a word, and not {other:?}"),
        });
        let decoded: Vec<_> = decoded.collect();
        let read: Vec<_> = read.words_from(0).collect();
        assert_eq!(read, decoded);
        assert_eq!(read.len(), words.len());
    }
}

/// A malformed request gets Redis's words, behind the replies to earlier requests, and the connection is closed.
#[test]
fn what_is_wrong_is_told_and_ends_the_connection() {
    let bed = Bed::with(|settings| settings.limits.request = 2000);
    let long = "x".repeat(70_000);
    for (wrong, expected) in [
        ("*1\r\n$-1\r\n", "invalid bulk length"),
        ("*1\r\n$99999999999\r\n", "invalid bulk length"),
        ("*1\r\n$x\r\n", "invalid bulk length"),
        ("*1\r\n$3\r\nabcde\r\n", "invalid bulk length"),
        ("*1\r\n$1500\r", ""),
        ("*2\r\n$1\r\nx\r\n$1999\r\n", "too big request"),
        ("*99999999\r\n", "invalid multibulk length"),
        ("*x\r\n", "invalid multibulk length"),
        ("*1\r\n*1\r\n*1\r\n", "expected '$', got '*'"),
        ("*1\r\n:5\r\n", "expected '$', got ':'"),
        ("set k \"open\r\n", "unbalanced quotes in request"),
        (&long, "too big inline request"),
        (&format!("*{long}"), "too big mbulk count string"),
        (&format!("*1\r\n${long}"), "too big bulk count string"),
    ] {
        if expected.is_empty() {
            continue;
        }
        let mut client = bed.client();
        client.send(&["SET", "k", "v"]);
        client.write(wrong.as_bytes());
        assert_eq!(shown(&client.reply()), "OK", "{wrong:.40}");
        let error = client.next().map(|frame| shown(&frame));
        assert_eq!(
            error,
            Some(format!("-ERR Protocol error: {expected}")),
            "{wrong:.40}"
        );
        assert_eq!(client.next(), None, "{wrong:.40}");
    }
    bed.stop();
}

/// An announced length makes no room before its bytes come.
#[test]
fn what_is_announced_takes_no_memory() {
    let mut reader = Reader::new(Limits::default());
    reader
        .room()
        .extend_from_slice(b"*1000000\r\n$60000000\r\nabc");
    assert!(reader.next_request().expect("the protocol").is_none());
    assert!(reader.room().capacity() <= 2 << 20);
}

/// Replies come in the order of the commands, whichever locality is first.
#[test]
fn a_pipeline_is_answered_in_order() {
    let bed = Bed::new();
    let mut client = bed.client();
    let mut all = Vec::new();
    for n in 0..5000 {
        let key = format!("key{}", n % 97);
        all.extend(request(&["SET", &key, &n.to_string()]));
        all.extend(request(&["GET", &key]));
        if n % 50 == 0 {
            all.extend(request(&["MGET", &key, "none"]));
            all.extend(b"PING\r\n");
        }
    }
    let mut writing = client.stream.try_clone().expect("a socket");
    let writer = std::thread::spawn(move || std::io::Write::write_all(&mut writing, &all));
    for n in 0..5000 {
        assert_eq!(shown(&client.reply()), "OK");
        assert_eq!(shown(&client.reply()), n.to_string());
        if n % 50 == 0 {
            assert_eq!(shown(&client.reply()), format!("[{n} nil]"));
            assert_eq!(shown(&client.reply()), "PONG");
        }
    }
    writer.join().expect("a thread").expect("written");
    bed.stop();
}

/// A client that announces the end of its requests still gets its replies.
#[test]
fn a_client_that_half_closes_is_answered() {
    let bed = Bed::new();
    let mut client = bed.client();
    client.send(&["SET", "k", "v"]);
    client.send(&["GET", "k"]);
    client.half_close();
    assert_eq!(shown(&client.reply()), "OK");
    assert_eq!(shown(&client.reply()), "v");
    assert_eq!(client.next(), None);
    bed.stop();
}
