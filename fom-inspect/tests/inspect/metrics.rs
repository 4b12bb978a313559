//! The metrics that the program gives.

use std::{
    fmt,
    sync::{Arc, Mutex, mpsc},
};

use crate::kit::{Served, TOKEN, limited, runtime};

const TEXT: &str = "# TYPE calls counter\ncalls_total 7\n";

#[test]
fn a_scraper_gets_the_text_of_the_program() {
    limited(|| {
        let served = Served::with(runtime(), |inspector| inspector.metrics(|| Ok(TEXT.into())));
        let answer = served.get("/metrics");
        assert_eq!((answer.status, &*answer.body), (200, TEXT));
        let kind = "content-type: text/plain; version=0.0.4; charset=utf-8";
        assert!(answer.head.contains(kind), "{}", answer.head);
        served
            .request("POST /metrics HTTP/1.1", "", "")
            .is(405, "method");
        // A scrape may come with parameters of its own.
        assert_eq!(served.get("/metrics?job=a").status, 200);
        served.goes_on();
    });
}

#[test]
fn a_program_without_metrics_says_how_to_add_them() {
    limited(|| {
        let answer = Served::new(runtime()).get("/metrics");
        assert!(answer.body.contains("Inspector::metrics"));
        answer.is(404, "unavailable");
    });
}

#[test]
fn metrics_need_the_token_for_reading() {
    limited(|| {
        let served = Served::with(runtime(), |inspector| {
            inspector.token(TOKEN).metrics(|| Ok(TEXT.into()))
        });
        served.get("/metrics").is(403, "token");
        let token = format!("Authorization: Bearer {TOKEN}\r\n");
        let answer = served.request("GET /metrics HTTP/1.1", &token, "");
        assert_eq!((answer.status, &*answer.body), (200, TEXT));
        let foreign = "Host: evil.example\r\nConnection: close\r\n";
        let answer = served.raw(format!("GET /metrics HTTP/1.1\r\n{foreign}\r\n").as_bytes());
        answer.is(403, "host");
    });
}

#[test]
fn a_source_that_fails_panics_or_hangs_affects_no_other_request() {
    limited(|| {
        let (go, held) = mpsc::channel::<()>();
        let (called, held) = (Mutex::new(0), Arc::new(Mutex::new(held)));
        let served = Served::with(runtime(), |inspector| {
            inspector.metrics(move || {
                let call = {
                    let mut called = called.lock().unwrap();
                    *called += 1;
                    *called
                };
                match call {
                    1 => Err(fmt::Error),
                    2 => panic!("the source breaks"),
                    3 => {
                        // Until the test ends.
                        let _ = held.lock().unwrap().recv();
                        Ok(String::new())
                    }
                    _ => Ok(TEXT.into()),
                }
            })
        });
        served.get("/metrics").is(404, "unavailable");
        served.get("/metrics").is(500, "panicked");
        served.get("/metrics").is(503, "busy");
        // The call that hangs keeps its place.
        served.get("/metrics").is(503, "busy");
        served.goes_on();
        drop(go);
    });
}
