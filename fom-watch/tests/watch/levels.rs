//! Levels, the end of a warning, the callback, and the listing.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use fom_runtime::{observe::IncidentKind, time::TestClock};
use fom_watch::{Level, Warned, Warning, WarningKind, Watch, WatchExt};

use crate::{
    kit::{Gate, hush_localities, limited, one, secs},
    task::{Task, Word, only, submit, until, warned, watched},
};

/// OB-05: one report for each level, in a callback.
#[test]
fn a_warning_is_told_once_for_each_level() {
    limited(|| async {
        let clock = TestClock::new();
        let told = Arc::new(Mutex::new(Vec::new()));
        let tell = Arc::clone(&told);
        let watch = Watch::default().on_warning(move |warning| {
            tell.lock().unwrap().push(warning.level);
        });
        let runtime = one(&clock).watch(watch).build().unwrap();
        let fom = submit(&runtime, Task::Hear);
        runtime.quiet().await;
        clock.advance(secs(301));
        for _ in 0..100 {
            clock.advance(secs(50));
            assert_eq!(runtime.inspect().warnings().warnings.len(), 1);
        }
        assert_eq!(only(&runtime, WarningKind::Hung).level, Level::Critical);
        until(|| told.lock().unwrap().len() >= 3);
        fom.send(Word::Go).unwrap();
        fom.await.unwrap();
        clock.advance(secs(1));
        let after = runtime.inspect().warnings();
        assert_eq!((after.warnings.len(), after.over.len()), (0, 1));
        assert_eq!(after.over[0].over, Some(secs(0)));
        // The same comes back soon. It is listed, and not told again before it is worse than it was.
        let again = submit(&runtime, Task::Hear);
        runtime.quiet().await;
        clock.advance(secs(301));
        let warning = only(&runtime, WarningKind::Hung);
        assert_eq!((&*warning.ids, warning.times), (&[again.id()][..], 2));
        assert_eq!(
            *told.lock().unwrap(),
            [Level::Warning, Level::Severe, Level::Critical]
        );
    });
}

#[test]
fn two_warnings_of_a_kind_about_one_subject_differ_in_their_detail() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).watch(Watch::default()).build().unwrap();
        let (ready, _waits) = (submit(&runtime, Task::Hear), submit(&runtime, Task::Hear));
        runtime.quiet().await;
        let gate = Gate::close(&runtime, 0);
        ready.send(Word::Go).unwrap();
        clock.advance(secs(301));
        let mut hung = warned(&runtime, WarningKind::Hung);
        hung.sort_by(|one, other| one.detail.cmp(&other.detail));
        let told = |warning: &Warning| (warning.subject.clone(), warning.detail.clone());
        let told: Vec<_> = hung.iter().map(told).collect();
        let of = |detail: &str| ("Task in Hearing".to_owned(), detail.to_owned());
        assert_eq!(told, [of("ready"), of("waiting: event")]);
        gate.open();
        ready.await.unwrap();
    });
}

#[test]
fn a_warning_is_an_incident() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = watched(&clock);
        let _fom = submit(&runtime, Task::Hear);
        runtime.quiet().await;
        clock.advance(secs(301));
        assert_eq!(runtime.inspect().warnings().warnings.len(), 1);
        let incidents = runtime.operations().incidents;
        assert_eq!(incidents.len(), 1, "{incidents:?}");
        assert_eq!(incidents[0].kind, IncidentKind::Warning);
        assert_eq!(incidents[0].subject, "Task in Hearing");
    });
}

#[test]
fn a_callback_that_panics_is_reported_and_called_again() {
    limited(|| async {
        hush_localities();
        let clock = TestClock::new();
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let watch = Watch::default().on_warning(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            panic!("no mail server");
        });
        let runtime = one(&clock).watch(watch).build().unwrap();
        let _fom = submit(&runtime, Task::Hear);
        runtime.quiet().await;
        clock.advance(secs(301));
        until(|| calls.load(Ordering::Relaxed) == 1);
        clock.advance(secs(1000));
        until(|| calls.load(Ordering::Relaxed) == 2);
        let is_told = || {
            let incidents = runtime.operations().incidents;
            incidents
                .iter()
                .any(|one| one.text.contains("no mail server"))
        };
        until(is_told);
    });
}

#[test]
fn a_kind_can_be_left_out() {
    limited(|| async {
        let clock = TestClock::new();
        let watch = Watch::default().without(WarningKind::Hung);
        let runtime = one(&clock).watch(watch).build().unwrap();
        let _fom = submit(&runtime, Task::Hear);
        runtime.quiet().await;
        clock.advance(secs(1000));
        assert_eq!(runtime.inspect().warnings().warnings, []);
    });
}

#[test]
fn without_a_watcher_nothing_is_counted_or_found() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let _fom = submit(&runtime, Task::Hear);
        runtime.quiet().await;
        clock.advance(secs(1000));
        let found = runtime.inspect().warnings();
        assert!(!found.watching && found.warnings.is_empty());
        assert!(runtime.inspect().counters().operations.is_empty());
        assert!(runtime.inspect().loads()[0].measured.is_none());
    });
}

#[test]
fn the_listing_has_fixed_names() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = watched(&clock);
        let first = submit(&runtime, Task::Hear);
        runtime.quiet().await;
        clock.advance(secs(900));
        assert!(!runtime.inspect().warnings().warnings.is_empty());
        let _second = submit(&runtime, Task::Nap { long: true });
        runtime.quiet().await;
        clock.advance(secs(301));
        assert!(!runtime.inspect().warnings().warnings.is_empty());
        first.send(Word::Go).unwrap();
        first.await.unwrap();
        runtime.quiet().await;
        clock.advance(secs(1));
        let mut listed = serde_json::to_value(runtime.inspect().warnings()).unwrap();
        listed["at"] = "now".into();
        for list in ["warnings", "over"] {
            for warning in listed[list].as_array_mut().unwrap() {
                warning["ids"] = "the ids".into();
            }
        }
        insta::assert_snapshot!("warnings", serde_json::to_string_pretty(&listed).unwrap());
    });
}
