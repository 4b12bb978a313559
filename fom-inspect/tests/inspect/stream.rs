//! The stream of changes.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Instant,
};

use serde_json::{Value, json};

use crate::kit::{Served, limited, read_until, runtime, secs};

/// A client of the stream.
struct Reader {
    stream: TcpStream,
    rest: String,
    document: Value,
    messages: u64,
}

impl Reader {
    fn new(served: &Served, query: &str) -> Self {
        let mut stream = served.connect();
        let request = format!("GET /api/v1/stream{query} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let head = read_until(&mut stream, "\r\n\r\n");
        assert!(head.contains("text/event-stream"), "{head}");
        let (_, rest) = head.split_once("\r\n\r\n").unwrap();
        Self {
            rest: rest.to_owned(),
            stream,
            document: Value::Null,
            messages: 0,
        }
    }

    /// Reads one message, and applies it. Returns the message.
    fn next(&mut self) -> Value {
        loop {
            if let Some(message) = self.complete() {
                self.messages += 1;
                assert_eq!(message["seq"], self.messages);
                apply(&mut self.document, &message);
                return message;
            }
            let mut part = [0; 4096];
            let length = self.stream.read(&mut part).unwrap();
            assert!(length > 0, "closed: {}", self.rest);
            self.rest
                .push_str(std::str::from_utf8(&part[..length]).unwrap());
        }
    }

    fn complete(&mut self) -> Option<Value> {
        let begin = self.rest.find("event: live\ndata: ")?;
        let end = self.rest[begin..].find("\n\n")? + begin;
        let data = self.rest[begin..end].strip_prefix("event: live\ndata: ")?;
        // A chunk may begin in the middle of a message only if the message is longer than a buffer.
        let message = serde_json::from_str(data).unwrap();
        self.rest.drain(..end);
        Some(message)
    }
}

/// Applies a JSON merge patch.
fn apply(to: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *to = patch.clone();
        return;
    };
    if !to.is_object() {
        *to = json!({});
    }
    for (name, change) in changes {
        let members = to.as_object_mut().unwrap();
        match change {
            Value::Null => drop(members.remove(name)),
            change => apply(members.entry(name).or_insert(Value::Null), change),
        }
    }
}

#[test]
fn the_first_message_has_all_and_each_other_what_changed() {
    limited(|| {
        let served = Served::new(runtime());
        served.start("done", "a").wait().unwrap();
        let mut reader = Reader::new(&served, "?machine=Task");
        let first = reader.next();
        for field in [
            "at",
            "now",
            "in_flight",
            "queued",
            "incidents",
            "machines",
            "localities",
        ] {
            assert!(!first[field].is_null(), "{field}: {first}");
        }
        assert_eq!(first["machine"]["type"], "Task");
        let task = served.start("hear", "b");
        while reader.document["machines"]["Task"]["in_flight"] != 1 {
            let change = reader.next();
            assert!(
                change["machine"]["type"].is_null(),
                "it has not changed: {change}"
            );
        }
        let hearing =
            |reader: &Reader| reader.document["machine"]["phases"]["Hearing"]["foms"].clone();
        while hearing(&reader) != 1 {
            reader.next();
        }
        served.runtime.cancel(task.id());
        while hearing(&reader) != 0 {
            reader.next();
        }
        assert!(reader.document["machine"]["edges"]["Choosing>Hearing:returned"]["count"] == 1);
        served.goes_on();
    });
}

#[test]
fn there_are_at_most_four_messages_a_second() {
    limited(|| {
        let served = Served::new(runtime());
        let mut reader = Reader::new(&served, "");
        reader.next();
        let began = Instant::now();
        while began.elapsed() < secs(2) {
            served.start("done", "a").wait().unwrap();
        }
        let seen = served.json("machines/Task")["ended"].clone();
        while reader.document["machines"]["Task"]["ended"].as_u64() < seen.as_u64() {
            reader.next();
        }
        let most = began.elapsed().as_secs() * 4 + 5;
        assert!(reader.messages <= most, "{} messages", reader.messages);
        assert!(
            seen.as_u64().unwrap() > reader.messages,
            "several ends in one message"
        );
    });
}

#[test]
fn streams_are_limited_and_a_foreign_machine_is_refused() {
    limited(|| {
        let served = Served::new(runtime());
        served
            .get("/api/v1/stream?machine=Nothing")
            .is(404, "not_found");
        let mut readers: Vec<_> = (0..32).map(|_| Reader::new(&served, "")).collect();
        served.get("/api/v1/stream").is(503, "busy");
        assert_eq!(served.get("/api/v1/summary").status, 200);
        readers.iter_mut().for_each(|reader| drop(reader.next()));
        drop(readers);
        // The places are free once the server has noticed.
        let began = Instant::now();
        loop {
            let mut stream = served.connect();
            let request = b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n";
            stream.write_all(request).unwrap();
            if read_until(&mut stream, "\r\n\r\n").contains(" 200 ") {
                break;
            }
            assert!(began.elapsed() < secs(60), "the places stay taken");
        }
        served.goes_on();
    });
}
