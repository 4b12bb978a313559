//! The field names and units of serialized listings. They are part of the API.

use fom_runtime::{
    observe::{Filter, IncidentKind, Page, Sort},
    time::TestClock,
};
use serde_json::Value;

use crate::{
    kit::{limited, one, secs},
    survey::Task,
};

/// Replaces what differs from machine to machine.
fn stable(mut value: Value) -> String {
    fn walk(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    match name.as_str() {
                        "at" if field.as_f64().is_some_and(|at| at > 1e9) => *field = "now".into(),
                        "bytes" | "runs" | "idle_runs" | "idle_fom" => *field = "some".into(),
                        "queued" | "run_times" if field.is_array() => *field = "some".into(),
                        "cpus" => *field = Value::Array(Vec::new()),
                        _ => walk(field),
                    }
                }
            }
            Value::Array(values) => values.iter_mut().for_each(walk),
            _ => {}
        }
    }
    walk(&mut value);
    serde_json::to_string_pretty(&value).unwrap()
}

#[test]
fn operations_and_surveys() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).history(4).observe().build().unwrap();
        let start = |kind, key: &str| runtime.submit(Task(kind)).key(key).queue().start().unwrap();
        let _holds = start("hear", "a");
        let _waits = start("hear", "a");
        let _tries = start("fail", "b");
        let _sleeps = start("sleep", "c");
        runtime.quiet().await;
        clock.advance(secs(2));
        // Else the next move of the clock may come while the locality works, and count as its working time.
        runtime.quiet().await;
        for _ in 0..2 {
            let text = "the link to the provider is down";
            runtime.report(IncidentKind::Machine, "link 7", text);
        }
        clock.advance(secs(1));
        runtime.quiet().await;
        let listed = serde_json::to_value(runtime.operations()).unwrap();
        insta::assert_snapshot!("operations", stable(listed));
        let page = Page::of(1).sort(Sort::Id).oldest(1);
        let found = runtime.inspect().survey(&Filter::default(), &page);
        insta::assert_snapshot!("survey", stable(serde_json::to_value(found).unwrap()));
        let counters = serde_json::to_value(runtime.inspect().counters()).unwrap();
        insta::assert_snapshot!("counters", stable(counters));
        let waits = serde_json::to_value(runtime.inspect().waits()).unwrap();
        insta::assert_snapshot!("waits", stable(waits));
    });
}

#[test]
fn a_recording() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).recorder(64).build().unwrap();
        let sleeps = runtime.submit(Task("sleep")).start().unwrap();
        runtime.quiet().await;
        clock.advance(secs(1));
        let recording = serde_json::to_value(runtime.inspect().recording()).unwrap();
        insta::assert_snapshot!("recording", stable(recording));
        drop(sleeps);
    });
}
