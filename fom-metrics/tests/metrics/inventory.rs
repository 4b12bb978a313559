//! The names: all have a value, the book lists them, and no label has a key.

use std::collections::BTreeSet;

use fom_metrics::{Kind, Metrics};
use fom_runtime::{observe::PartValue, time::TestClock};

use crate::{kit::limited, program::Program};

/// Metrics of a state that the program of this test does not have.
const WITHOUT: [&str; 1] = ["fom_admission_throttled_seconds"]; // needs a policy with a rate

/// OB-10
#[test]
fn each_metric_has_a_value_in_a_program_with_all_parts() {
    limited(|| async {
        let program = Program::new(&TestClock::new()).await;
        let read = Metrics::read(&program.runtime);
        let empty: Vec<_> = read
            .metrics
            .iter()
            .filter(|metric| metric.samples.is_empty())
            .map(|metric| metric.name)
            .collect();
        assert_eq!(empty, WITHOUT);
    });
}

#[test]
fn names_and_units_are_those_of_prometheus() {
    limited(|| async {
        let program = Program::new(&TestClock::new()).await;
        let mut names = BTreeSet::new();
        for metric in Metrics::read(&program.runtime).metrics {
            let name = metric.name;
            assert!(names.insert(name), "{name} is there twice");
            assert!(name.starts_with("fom_"), "{name}");
            let is_counter = metric.kind == Kind::Counter;
            assert_eq!(name.ends_with("_total"), is_counter, "{name}");
            let is_name = |byte: u8| byte == b'_' || byte.is_ascii_lowercase();
            assert!(name.bytes().all(is_name), "{name}");
            for wrong in ["_ms", "_nanos", "_time", "_kib", "_percent"] {
                assert!(!name.contains(wrong), "{name} has no base unit");
            }
        }
    });
}

#[test]
fn no_label_has_a_key_or_an_id() {
    limited(|| async {
        let program = Program::new(&TestClock::new()).await;
        let text = fom_metrics::text(&program.runtime).unwrap();
        assert!(text.contains("fom_active_objects{object=\"Counter\"} 2"));
        assert!(!text.contains("secret"), "{text}");
    });
}

/// A counter that is new in this list needs a metric, or stays in the listing only.
#[test]
fn the_numbers_of_the_parts_are_known() {
    limited(|| async {
        let program = Program::new(&TestClock::new()).await;
        let mut lines = BTreeSet::new();
        for part in program.runtime.inspect().parts().parts {
            for (name, value) in part.counters {
                let is_number = matches!(
                    value,
                    PartValue::Count(_) | PartValue::Time(_) | PartValue::Flag(_)
                );
                if is_number {
                    lines.insert(format!("{}: {name}", part.kind));
                }
            }
        }
        let lines: Vec<_> = lines.into_iter().collect();
        insta::assert_snapshot!("parts", lines.join("\n"));
    });
}

#[test]
fn the_book_lists_each_metric_with_its_kind_and_labels() {
    limited(|| async {
        let book = include_str!("../../../book/src/metrics.md");
        let rows: Vec<_> = book
            .lines()
            .filter(|line| line.starts_with("| `fom_"))
            .collect();
        let program = Program::new(&TestClock::new()).await;
        let read = Metrics::read(&program.runtime);
        let expected: Vec<_> = read
            .metrics
            .iter()
            .map(|metric| {
                let kind = match metric.kind {
                    Kind::Counter => "counter",
                    Kind::Gauge => "gauge",
                    Kind::Histogram => "histogram",
                    other => panic!("{other:?} is new"),
                };
                let labels: Vec<_> = metric.labels.iter().map(|it| format!("`{it}`")).collect();
                let (name, help) = (metric.name, metric.help);
                format!("| `{name}` | {kind} | {} | {help} |", labels.join(", "))
            })
            .collect();
        assert_eq!(rows, expected);
    });
}
