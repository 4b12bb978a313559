//! A recording as a trace, which viewers open.

use fom_durable::{journal::MemoryJournal, prelude::*};
use fom_recorder::TraceExt as _;
use fom_runtime::{
    FomId,
    observe::{FlightEvent, FlightRecording},
    time::TestClock,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kit::{
    limited, one, secs,
    trips::{Signal, Trip, trip},
};

pub(super) fn trace(recording: &FlightRecording) -> Value {
    let mut json = Vec::new();
    recording.write_trace(&mut json).unwrap();
    serde_json::from_slice(&json).unwrap()
}

/// Finds the trace events with these values.
pub(super) fn find<'a>(trace: &'a Value, fields: &[(&str, Value)]) -> Vec<&'a Value> {
    let events = trace["traceEvents"].as_array().unwrap().iter();
    let fits = |event: &&Value| fields.iter().all(|(name, value)| &event[name] == value);
    events.filter(fits).collect()
}

/// Returns the track of an event, as the names of its process and thread.
fn track(trace: &Value, event: &Value) -> (String, String) {
    let name = |fields: &[(&str, Value)]| {
        let named = find(trace, fields);
        assert_eq!(named.len(), 1, "{fields:?}");
        named[0]["args"]["name"].as_str().unwrap().to_owned()
    };
    let process = ("pid", event["pid"].clone());
    (
        name(&[("name", "process_name".into()), process.clone()]),
        name(&[
            ("name", "thread_name".into()),
            process,
            ("tid", event["tid"].clone()),
        ]),
    )
}

/// A trace has a track for each locality with its runs, a track for each fom with its phases, and arrows.
#[test]
fn a_trace_has_tracks_and_arrows() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).recorder(1 << 10).build().unwrap();
        let waits = runtime.submit(trip(0)).start().unwrap();
        let tells = Trip {
            fails: 0,
            tells: Some(waits.fom().clone()),
        };
        let tells = runtime.submit(tells).start().unwrap();
        let stays = runtime.submit(trip(0)).start().unwrap();
        runtime.quiet().await;
        clock.advance(secs(2));
        tells.send(Signal::Go).unwrap();
        let (told, teller, resting) = (waits.id(), tells.id(), stays.id());
        waits.await.unwrap();
        tells.await.unwrap();
        runtime.quiet().await;
        clock.advance(secs(3));
        let trace = trace(&runtime.inspect().recording());
        let of = |id: FomId| ("Trip".to_owned(), format!("Trip {id}"));
        let locality = ("localities".to_owned(), "locality 0".to_owned());

        let slices = |name: &str, id| {
            let slices = find(&trace, &[("ph", "X".into()), ("name", name.into())]);
            let mine = slices
                .into_iter()
                .filter(|slice| track(&trace, slice) == of(id));
            mine.map(|slice| {
                (
                    slice["ts"].as_f64().unwrap(),
                    slice["dur"].as_f64().unwrap(),
                )
            })
            .collect::<Vec<_>>()
        };
        assert_eq!(slices("Wait", told), [(0.0, 2e6)]);
        assert_eq!(slices("Try", told), [(2e6, 0.0)]);
        assert_eq!(slices("blocking", told).len(), 1);
        assert_eq!(slices("Wait", resting), [(0.0, 5e6)], "it is there still");
        let ends = find(&trace, &[("ph", "i".into()), ("name", "Home".into())]);
        assert_eq!(ends.len(), 2);

        let runs = find(&trace, &[("ph", "X".into()), ("cat", "run".into())]);
        assert!(runs.iter().all(|run| track(&trace, run) == locality));
        // A blocking section parts the first run.
        let name = Value::from(format!("Trip {told}"));
        assert_eq!(runs.iter().filter(|run| run["name"] == name).count(), 3);

        let arrow = |kind: &str| {
            let begin = find(&trace, &[("ph", "s".into()), ("name", kind.into())]);
            let end = find(&trace, &[("ph", "f".into()), ("name", kind.into())]);
            assert_eq!((begin.len(), end.len()), (1, 1), "{kind}");
            assert_eq!(begin[0]["id"], end[0]["id"]);
            (track(&trace, begin[0]), track(&trace, end[0]))
        };
        assert_eq!(arrow("event"), (of(teller), of(told)));
        assert_eq!(arrow("wake"), (locality.clone(), locality));
        assert_eq!(trace["otherData"]["overwritten"], 0);
        drop(stays);
    });
}
#[derive(Serialize, Deserialize)]
struct Order;

#[fom(operation(Order))]
enum Ordering {
    #[phase(start, sync, to(Done))]
    Accept,
    #[phase(end)]
    Done,
}

impl OrderingTransitions for Order {
    fn accept(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// The way of a step into the journal is recorded.
#[test]
fn commits_are_recorded() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock)
            .recorder(1 << 10)
            .journal_with(MemoryJournal::new())
            .build()
            .unwrap();
        let order = runtime.submit(Order).key("7").start().unwrap();
        let id = order.id();
        order.await.unwrap();
        let recording = runtime.inspect().recording();
        let count = |event: FlightEvent| {
            let mut timeline = recording.timeline(id);
            let is_first = timeline.position(|entry| entry.event == event);
            is_first.map(|first| (first, timeline.filter(|entry| entry.event == event).count()))
        };
        let (begins, _) = count(FlightEvent::CommitBegins).expect("a commit begins");
        let (ends, _) = count(FlightEvent::CommitEnds).expect("a commit ends");
        assert!(begins < ends);
        let trace = trace(&recording);
        let commits = find(&trace, &[("ph", "X".into()), ("name", "commit".into())]);
        assert!(!commits.is_empty());
    });
}
