//! Clients that mean harm, or are broken. The inspector answers each, and the program goes on.

use std::{
    io::{Read as _, Write as _},
    time::Instant,
};

use serde_json::json;

use crate::kit::{Answer, Served, TOKEN, limited, runtime, secs};

#[test]
fn a_head_that_is_too_large_is_refused_with_what_is_allowed() {
    limited(|| {
        let served = Served::new(runtime());
        let head = |length: usize| {
            let filler = "x".repeat(length);
            format!(
                "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nFiller: {filler}\r\n\r\n"
            )
        };
        assert_eq!(served.raw(head(15 * 1024).as_bytes()).status, 200);
        for length in [16 * 1024, 64 * 1024, 1024 * 1024] {
            let answer = served.raw(head(length).as_bytes());
            answer.is(431, "head");
            assert!(answer.body.contains("16 KiB"), "{}", answer.body);
        }
        let many = "A: b\r\n".repeat(10_000);
        let many = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{many}\r\n");
        served.raw(many.as_bytes()).is(431, "head");
        served.goes_on();
    });
}

#[test]
fn what_is_no_http_is_refused() {
    limited(|| {
        let served = Served::new(runtime());
        for bytes in [
            &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"[..],
            b"GET\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"\0\0\0\0\r\n\r\n",
            b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        ] {
            let answer = served.raw(bytes);
            assert_eq!(answer.status, 400, "{bytes:?}");
            answer.is(400, "http");
        }
        served.goes_on();
    });
}

#[test]
fn a_body_that_is_too_large_is_refused() {
    limited(|| {
        let served = Served::acting(runtime());
        let body = |length: usize| {
            let filler = " ".repeat(length);
            format!(
                "{filler}{}",
                json!({"action": "cancel", "id": 1, "reason": "why not"})
            )
        };
        served
            .act_with(TOKEN, &body(60 * 1024))
            .is(404, "not_found");
        for length in [64 * 1024, 1024 * 1024] {
            let answer = served.act_with(TOKEN, &body(length));
            answer.is(413, "too_large");
            assert!(answer.body.contains("64 KiB"), "{}", answer.body);
        }
        // Only said, and never sent.
        let said = "POST /api/v1/actions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: 99999999999\r\n";
        let said = format!("{said}Authorization: Bearer {TOKEN}\r\n\r\n");
        served.raw(said.as_bytes()).is(413, "too_large");
        served.goes_on();
    });
}

#[test]
fn bodies_that_are_no_actions_are_refused() {
    limited(|| {
        let served = Served::acting(runtime());
        let deep = "[".repeat(60_000);
        for body in [
            "",
            "{",
            "[]",
            "null",
            "7",
            "\u{0}",
            "{\"action\": \"cancel\", \"id\": 1}",
            "{\"action\": \"cancel\", \"id\": 1, \"reason\": \" \"}",
            "{\"action\": \"cancel\", \"id\": -1, \"reason\": \"x\"}",
            "{\"action\": \"cancel\", \"reason\": \"x\"}",
            "{\"action\": \"format\", \"id\": 1, \"reason\": \"x\"}",
            "{\"action\": \"cancel\", \"id\": 1, \"reason\": \"x\", \"force\": true}",
            "{\"action\": \"cancel\", \"filter\": {}, \"reason\": \"x\"}",
            "{\"action\": \"cancel\", \"filter\": {\"size\": 1}, \"dry_run\": true, \"reason\": \"x\"}",
            "{\"action\": \"cancel\", \"filter\": {\"type\": []}, \"dry_run\": true, \"reason\": \"x\"}",
            "{\"action\": \"send\", \"filter\": {}, \"dry_run\": true, \"reason\": \"x\"}",
            "{\"action\": \"cancel\", \"dry_run\": true, \"reason\": \"x\"}",
            deep.as_str(),
        ] {
            served.act_with(TOKEN, body).is(400, "body");
        }
        let long = json!({"action": "cancel", "id": 1, "reason": "x".repeat(401)});
        served.act(&long).is(400, "body");
        served.goes_on();
    });
}

#[test]
fn queries_that_make_no_sense_are_refused_with_what_is_allowed() {
    limited(|| {
        let served = Served::new(runtime());
        for (query, allowed) in [
            ("foms?limit=1001", true),
            ("foms?limit=x", false),
            ("foms?oldest=21", true),
            ("foms?sort=size", true),
            ("foms?state=asleep", true),
            ("foms?in_phase=-1", false),
            ("foms?in_phase=1e300", false),
            ("foms?attempts=-1", false),
            ("foms?locality=99999999999999999999999", false),
            ("foms?after=here", false),
            ("foms?key=a&key_prefix=b", false),
            ("foms?limit=1&limit=2", false),
            ("foms?size=1", true),
            ("foms?type=%ff", false),
            ("find", true),
            ("find?q=", true),
            ("waits?limit=1001", true),
            ("summary?x=1", false),
        ] {
            let answer = served.get(&format!("/api/v1/{query}"));
            answer.is(400, "query");
            let told = &answer.json()["error"]["allowed"];
            assert_eq!(
                !told.as_array().unwrap().is_empty(),
                allowed,
                "{query}: {told}"
            );
        }
        served.get("/api/v1/foms?type=Nothing").is(404, "not_found");
        served.goes_on();
    });
}

#[test]
fn idle_and_trickling_connections_keep_nobody_out() {
    limited(|| {
        let served = Served::new(runtime());
        let mut idle: Vec<_> = (0..1000).map(|_| served.connect()).collect();
        served.goes_on();
        let mut trickling: Vec<_> = (0..100).map(|_| served.connect()).collect();
        for byte in b"GET / HT" {
            for stream in &mut trickling {
                // The connection may be closed by now.
                let _ = stream.write_all(&[*byte]);
            }
            served.goes_on();
        }
        // The last one is open still. It is told why it is closed.
        let began = Instant::now();
        let answer = Answer::read(trickling.last_mut().unwrap());
        answer.is(408, "slow");
        assert!(began.elapsed() < secs(30));
        let mut byte = [0];
        assert!(
            matches!(idle[0].read(&mut byte), Ok(0) | Err(_)),
            "closed long ago"
        );
        served.goes_on();
    });
}

#[test]
fn a_body_that_trickles_is_refused_after_ten_seconds() {
    limited(|| {
        let served = Served::acting(runtime());
        let mut stream = served.connect();
        let head = "POST /api/v1/actions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: 1000\r\n";
        let head = format!("{head}Authorization: Bearer {TOKEN}\r\n\r\n{{");
        stream.write_all(head.as_bytes()).unwrap();
        Answer::read(&mut stream).is(408, "slow");
        served.goes_on();
    });
}

#[test]
fn a_key_of_64_kib_of_markup_is_text() {
    limited(|| {
        let served = Served::acting(runtime());
        let key = "<script>alert(1)</script>".repeat(64 * 1024 / 25);
        let task = served.start("hear", &key);
        let id = task.id();
        served.quiet();
        let listed = served.json("foms?type=Task");
        let short = listed["page"][0]["key"].as_str().unwrap();
        assert!(
            short.chars().count() == 1025 && short.ends_with('…'),
            "{short}"
        );
        let whole = served.json(&format!("foms/{id}"));
        assert_eq!(whole["fom"]["key"], key.as_str());
        let answer = served.get("/api/v1/foms");
        assert!(
            answer.head.contains("content-type: application/json"),
            "{}",
            answer.head
        );
        let suspend = json!({"action": "suspend", "id": id, "reason": "<b>"});
        let answer = served.act(&suspend);
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert!(answer.body.len() < 1000, "{}", answer.body);
        let incidents = served.get("/api/v1/warnings");
        assert!(incidents.body.len() < 4000, "{}", incidents.body);
        let resume = json!({"action": "resume", "type": "Task", "key": key, "reason": "x"});
        // The key is too long for the body of a request.
        served.act(&resume).is(413, "too_large");
        let resume = json!({"action": "resume", "id": id, "reason": "x"});
        assert_eq!(served.act(&resume).status, 200);
        served.goes_on();
    });
}

#[test]
fn a_source_that_panics_or_never_ends_is_told() {
    limited(|| {
        let served = Served::with(runtime(), |inspector| {
            inspector.warnings(|| -> u32 { panic!("no listing") })
        });
        served.get("/api/v1/warnings").is(500, "panicked");
        served.get("/api/v1/warnings").is(500, "panicked");
        served.goes_on();
        let served = Served::with(runtime(), |inspector| {
            inspector.warnings(|| -> u32 {
                loop {
                    std::thread::park();
                }
            })
        });
        for _ in 0..3 {
            let began = Instant::now();
            served.get("/api/v1/warnings").is(503, "busy");
            assert!(began.elapsed() < secs(20));
        }
        served.goes_on();
    });
}

/// Random numbers, the same in each run (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).unwrap()
    }

    /// Changes, drops and doubles some bytes.
    fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            let place = self.below(bytes.len());
            match self.below(4) {
                0 => bytes[place] = u8::try_from(self.below(256)).unwrap(),
                1 => drop(bytes.remove(place)),
                2 => bytes.insert(place, bytes[place]),
                _ => bytes[place] = b"\0\"'%&=/?{}[],:;.\r\n -9eE~"[self.below(24)],
            }
        }
    }
}

#[test]
fn damaged_requests_are_answered_or_closed() {
    limited(|| {
        let served = Served::acting(runtime());
        let _task = served.start("hear", "a");
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let host = "Host: localhost\r\nConnection: close\r\n";
        let queries = [
            "foms?type=Task&phase=Hearing&state=waiting&wait=event&limit=5&sort=age&oldest=3",
            "foms?key_prefix=a%20b&in_phase=1.5&attempts=1&locality=0&after=-12.7",
            "find?q=hear",
            "machines/Task",
            "failures?type=Task&limit=1",
        ];
        for round in 0..500 {
            let query = queries[round % queries.len()];
            let request = format!("GET /api/v1/{query} HTTP/1.1\r\n{host}\r\n");
            let mut bytes = request.into_bytes();
            random.damage(&mut bytes);
            let mut stream = served.connect();
            stream.write_all(&bytes).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut answer = Vec::new();
            // A request that is not complete has no answer.
            let _ = stream.read_to_end(&mut answer);
            let text = String::from_utf8_lossy(&answer);
            let status = text.strip_prefix("HTTP/1.1 ").map_or("", |text| &text[..3]);
            let is_known = ["", "200", "400", "403", "404", "405", "414", "431"].contains(&status);
            assert!(
                is_known && answer.is_empty() == status.is_empty(),
                "{bytes:?}: {text}"
            );
        }
        let bodies = [
            json!({"action": "wake", "id": 1, "reason": "x", "actor": "ada"}),
            json!({"action": "send", "key": "a", "type": "Task", "event": {"Shout": []}, "reason": "x"}),
            json!({"action": "wake", "filter": {"type": "Task", "in_phase": 1.5}, "dry_run": true, "reason": "x"}),
            json!({"action": "resume", "type": "Task", "key": 7, "reason": "x"}),
        ];
        for round in 0..500 {
            let mut bytes = bodies[round % bodies.len()].to_string().into_bytes();
            random.damage(&mut bytes);
            let body = String::from_utf8_lossy(&bytes).into_owned();
            let answer = served.act_with(TOKEN, &body);
            assert!(
                [200, 400, 404, 409].contains(&answer.status),
                "{body}: {}",
                answer.body
            );
        }
        served.goes_on();
    });
}

#[test]
fn a_client_that_reads_nothing_is_closed() {
    limited(|| {
        let served = Served::new(runtime());
        let mut stream = served.connect();
        // Far more answers than the buffers of both sides hold.
        let request = b"GET /app.js HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(2000);
        let mut sent = 0;
        stream.set_write_timeout(Some(secs(40))).unwrap();
        let closed = loop {
            match stream.write(&request) {
                Ok(length) => sent += length,
                Err(error) => break error,
            }
            assert!(sent < 1 << 30, "the server takes everything");
        };
        assert!(
            !matches!(
                closed.kind(),
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
            ),
            "the server keeps the connection: {closed}"
        );
        served.goes_on();
    });
}
