//! The values: they are those of the listings.

use std::fmt;

use fom_metrics::{Metrics, RuntimeCollector, Value, text};
use fom_runtime::{observe::IncidentKind, prelude::*, time::TestClock};
use prometheus_client::{encoding::prometheus_text, metrics::counter::Counter, registry::Registry};

use crate::{
    kit::{limited, one, secs},
    program::{Task, Word},
};

/// Returns the lines of the metrics with these beginnings.
fn lines(text: &str, beginnings: &[&str]) -> String {
    let is_one = |line: &&str| {
        let line = line.trim_start_matches("# HELP ");
        let line = line.trim_start_matches("# TYPE ");
        beginnings.iter().any(|one| line.starts_with(one))
    };
    let lines: Vec<_> = text.lines().filter(is_one).collect();
    lines.join("\n")
}

/// Returns the value of a sample.
fn value(runtime: &Runtime, name: &str, labels: &[&str]) -> Option<Value> {
    let read = Metrics::read(runtime);
    let metric = read.find(name).unwrap_or_else(|| panic!("{name}"));
    let mut samples = metric.samples.iter();
    let found = samples.find(|sample| sample.labels == labels);
    found.map(|sample| sample.value.clone())
}

async fn run(runtime: &Runtime, clock: &TestClock) {
    let hears = runtime.submit(Task("hear")).start().unwrap();
    let late = runtime.submit(Task("hear")).start().unwrap();
    let _waits = runtime.submit(Task("hear")).start().unwrap();
    runtime.quiet().await;
    clock.advance(secs(2));
    hears.send(Word::Go).unwrap();
    hears.await.unwrap();
    drop(late);
    for kind in ["done", "lose", "fail"] {
        let ended = runtime.submit(Task(kind)).start().unwrap();
        let _ = ended.await;
    }
    runtime.quiet().await;
}

/// OB-01
#[test]
fn operations_are_counted_by_edge_and_phase() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).observe().build().unwrap();
        run(&runtime, &clock).await;
        let text = text(&runtime).unwrap();
        let of_operations = ["fom_operations", "fom_transitions", "fom_phase"];
        insta::assert_snapshot!("operations", lines(&text, &of_operations));
    });
}

#[test]
fn a_missed_deadline_is_a_failure() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).observe().build().unwrap();
        let late = runtime.submit(Task("hear")).start().unwrap();
        runtime.quiet().await;
        clock.advance(secs(6));
        late.await.unwrap_err();
        let transitions = "fom_transitions_total";
        let labels = ["Task", "Hear", "", "failed late"];
        let count = value(&runtime, transitions, &labels);
        assert_eq!(count, Some(Value::Count(1)));
        let ended = ["Task", "failed"];
        let ended = value(&runtime, "fom_operations_ended_total", &ended);
        assert_eq!(ended, Some(Value::Count(1)));
    });
}

mod first {
    use super::*;

    pub(super) struct Same;

    #[fom(operation(Same), transient)]
    pub(super) enum Machine {
        #[phase(start, sync, to(End))]
        Begin,
        #[phase(end)]
        End,
    }

    impl MachineTransitions for Same {
        fn begin(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
            Ok(())
        }
    }
}

mod second {
    use super::*;

    pub(super) struct Same;

    #[fom(operation(Same), transient)]
    pub(super) enum Machine {
        #[phase(start, sync, to(End))]
        Begin,
        #[phase(end)]
        End,
    }

    impl MachineTransitions for Same {
        fn begin(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
            Ok(())
        }
    }
}

/// Prometheus refuses a scrape that has a sample twice.
#[test]
fn operations_with_one_name_are_one_series() {
    limited(|| async {
        let runtime = one(&TestClock::new()).observe().build().unwrap();
        runtime.submit(first::Same).start().unwrap().await.unwrap();
        runtime.submit(second::Same).start().unwrap().await.unwrap();
        let text = text(&runtime).unwrap();
        let started = lines(&text, &["fom_operations_started_total{"]);
        assert_eq!(
            started,
            "fom_operations_started_total{operation=\"Same\"} 2"
        );
        let mut series: Vec<_> = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| Some(line.rsplit_once(' ')?.0))
            .collect();
        let all = series.len();
        series.sort_unstable();
        series.dedup();
        assert_eq!(series.len(), all);
    });
}

/// The list of incidents keeps 64, the counter counts all.
#[test]
fn incidents_are_counted_beyond_those_that_are_kept() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        for number in 0..100 {
            runtime.report(IncidentKind::Lost, "an event", format!("event {number}"));
        }
        for _ in 0..5 {
            runtime.report(IncidentKind::Journal, "the journal", "the disk is full");
        }
        let count = |kind| value(&runtime, "fom_incidents_total", &[kind]);
        assert_eq!(count("lost"), Some(Value::Count(100)));
        assert_eq!(count("journal"), Some(Value::Count(5)));
        // A counter begins with zero: otherwise the first incident is no increase.
        assert_eq!(count("policy"), Some(Value::Count(0)));
    });
}

/// A runtime that does not count has what it knows all the same.
#[test]
fn a_collector_makes_the_runtime_count() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let busy = "fom_locality_busy_seconds_total";
        assert_eq!(value(&runtime, busy, &["0"]), None);
        assert!(value(&runtime, "fom_locality_runs_total", &["0"]).is_some());
        let _collector = RuntimeCollector::new(&runtime);
        assert!(value(&runtime, busy, &["0"]).is_some());
    });
}

#[test]
fn a_registry_has_them_beside_the_metrics_of_the_program() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let mut registry = Registry::default();
        let packets = Counter::<u64>::default();
        registry.register("packets", "Packets", packets.clone());
        registry.register_collector(Box::new(RuntimeCollector::new(&runtime)));
        packets.inc();
        let scrape = || {
            let mut text = String::new();
            prometheus_text::encode(&mut text, &registry)?;
            Ok::<_, fmt::Error>(text)
        };
        let first = scrape().unwrap();
        assert!(first.contains("packets_total 1\n"), "{first}");
        assert!(first.contains("fom_in_flight 0\n"), "{first}");
        let waits = runtime.submit(Task("hear")).start().unwrap();
        runtime.quiet().await;
        assert!(scrape().unwrap().contains("fom_in_flight 1\n"));
        // It does not keep the runtime alive.
        drop(runtime);
        waits.await.unwrap_err();
        scrape().unwrap();
    });
}
