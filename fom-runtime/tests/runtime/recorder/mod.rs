//! The flight recorder: what it holds, and what it drops. `random_machines` compares its transitions with a model.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use fom_runtime::{
    FomId,
    observe::{FlightEntry, FlightEvent},
    prelude::*,
    time::TestClock,
};

use crate::kit::{
    hush_localities, limited, many, one, secs,
    trips::{Signal, Trip, Walk, trip},
};

/// Returns a transition as a line.
fn line(entry: &FlightEntry) -> Option<String> {
    match entry.event {
        FlightEvent::Transition {
            operation,
            from,
            to,
            cause,
            ..
        } => Some(format!("{operation} {from:?} {to:?} {cause}")),
        _ => None,
    }
}

/// Sends some foms on trips that end in each way.
async fn trips(runtime: &Runtime, clock: &TestClock) {
    let trips: Vec<_> = [0, 1, 5, 9, 0]
        .map(|fails| runtime.submit(trip(fails)).start().unwrap())
        .into();
    runtime.quiet().await;
    for trip in &trips[..4] {
        trip.send(Signal::Go).unwrap();
    }
    runtime.quiet().await;
    clock.advance(secs(61));
    runtime.quiet().await;
    for trip in trips {
        let _ = trip.await;
    }
}

/// The recorder has the same transitions as a listener hears, with their causes.
#[test]
fn the_recorder_has_what_a_listener_hears() {
    hush_localities();
    limited(|| async {
        let clock = TestClock::new();
        let runtime = many(2, &clock).recorder(1 << 10).build().unwrap();
        let heard = Arc::new(Mutex::new(BTreeMap::<FomId, Vec<String>>::new()));
        let hears = Arc::clone(&heard);
        let listener = runtime.listen(move |told| {
            let operation = told.operation_type();
            let (from, to, cause) = (told.from(), told.to(), told.cause());
            let line = format!("{operation} {from:?} {to:?} {cause}");
            hears
                .lock()
                .unwrap()
                .entry(told.id())
                .or_default()
                .push(line);
        });
        trips(&runtime, &clock).await;
        let recording = runtime.inspect().recording();
        for (id, lines) in &*heard.lock().unwrap() {
            let recorded: Vec<_> = recording.timeline(*id).filter_map(line).collect();
            assert_eq!(&recorded, lines, "{id}");
        }
        assert_eq!((recording.older, recording.overwritten), (0, 0));
        drop(listener);
        // Without a listener, a transition takes a shorter way.
        let walk = runtime.submit(Walk(2)).start().unwrap();
        let id = walk.id();
        walk.await.unwrap();
        let recording = runtime.inspect().recording();
        let recorded: Vec<_> = recording.timeline(id).filter_map(line).collect();
        let expected = [
            r#"Walk None Some("Left") started"#,
            r#"Walk Some("Left") Some("Right") returned"#,
            r#"Walk Some("Right") Some("Left") returned"#,
            r#"Walk Some("Left") Some("Done") returned"#,
        ];
        assert_eq!(recorded, expected);
    });
}

/// A recorder that is full drops its oldest entries and counts them. Without writes, no read loses an entry.
#[test]
fn a_full_recorder_counts_what_it_dropped() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).recorder(8).build().unwrap();
        for steps in [1, 1_000] {
            runtime.submit(Walk(steps)).start().unwrap().await.unwrap();
        }
        runtime.quiet().await;
        let recording = runtime.inspect().recording();
        assert_eq!((recording.entries.len(), recording.overwritten), (7, 0));
        let last: Vec<_> = recording.entries.iter().filter_map(line).collect();
        assert_eq!(
            last.last().unwrap(),
            r#"Walk Some("Left") Some("Done") returned"#
        );
        assert!(recording.older > 2_000, "{}", recording.older);
        // Each entry is either there or counted.
        let all = recording.older + recording.entries.len() as u64;
        runtime.submit(Walk(1)).start().unwrap().await.unwrap();
        runtime.quiet().await;
        let recording = runtime.inspect().recording();
        let more = recording.older + recording.entries.len() as u64 - all;
        // It arrives, its run begins, it makes two transitions, and its run ends.
        assert_eq!(more, 5);
    });
}

/// OB-08: a reader beside a busy locality gets only whole entries, and the locality does not wait for it.
#[test]
fn a_reader_gets_whole_entries_of_a_busy_locality() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).recorder(64).build().unwrap();
        let walks = runtime.submit(Walk(100_000)).start().unwrap();
        let mut overwritten = 0;
        while runtime.in_flight() > 0 {
            let recording = runtime.inspect().recording();
            overwritten += recording.overwritten;
            let mut before = None;
            for entry in &recording.entries {
                if let FlightEvent::Transition { from, to, .. } = entry.event {
                    assert_eq!(entry.fom, walks.id());
                    if let Some(before) = before {
                        assert_eq!(from, before, "no entry is missing in between");
                    }
                    before = Some(to);
                }
            }
        }
        walks.await.unwrap();
        println!("{overwritten} entries were overwritten while they were read");
    });
}

/// Runs, blocking sections, events and wakes are recorded, with the fom that caused them.
#[test]
fn runs_and_wakes_are_recorded() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).recorder(1 << 10).build().unwrap();
        let waits = runtime.submit(trip(1)).start().unwrap();
        let tells = Trip {
            fails: 0,
            tells: Some(waits.fom().clone()),
        };
        let tells = runtime.submit(tells).start().unwrap();
        runtime.quiet().await;
        tells.send(Signal::Go).unwrap();
        runtime.quiet().await;
        clock.advance(secs(1));
        let (told, teller) = (waits.id(), tells.id());
        waits.await.unwrap();
        tells.await.unwrap();
        runtime.quiet().await;
        let recording = runtime.inspect().recording();
        let timeline = |id| {
            let events = recording.timeline(id).map(|entry| match entry.event {
                FlightEvent::Transition { to, .. } => format!("-> {}", to.unwrap()),
                FlightEvent::RunBegins { phase, .. } => format!("runs in {phase}"),
                FlightEvent::RunEnds => "stops".to_owned(),
                FlightEvent::Woken { by } => format!("woken by {by:?}"),
                FlightEvent::EventSent { by } => format!("event of {by:?}"),
                other => format!("{other:?}"),
            });
            events.collect::<Vec<_>>()
        };
        let begin = [
            "Arrived",
            "runs in Load",
            "-> Load",
            "BlockBegins",
            "BlockEnds",
            "-> Wait",
            "stops",
        ];
        let to = format!("event of Some({teller:?})");
        let by = format!("woken by Some({teller:?})");
        let rest = [
            &*to,
            &*by,
            "runs in Wait",
            "-> Try",
            "stops",
            "TimerFired",
            "runs in Try",
            "-> Home",
            "stops",
        ];
        assert_eq!(timeline(told), [&begin[..], &rest[..]].concat());
        let rest = ["Arrived", "runs in Wait", "-> Try", "-> Home", "stops"];
        assert_eq!(timeline(teller), [&begin[..], &rest[..]].concat());
    });
}

/// A recorder that another thread reads while the runtime ends.
#[test]
fn a_recorder_is_read_after_the_end() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).recorder(64).build().unwrap();
        let waits = runtime.submit(trip(0)).start().unwrap();
        runtime.quiet().await;
        runtime
            .shutdown(Shutdown::Now, Duration::from_secs(1))
            .await;
        let recording = runtime.inspect().recording();
        let last = recording.timeline(waits.id()).filter_map(line).last();
        assert_eq!(last.unwrap(), r#"Trip Some("Wait") None shutdown"#);
    });
}
