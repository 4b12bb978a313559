//! Runs that take too long, blocking that was not announced, storms and starvation (OB-06).

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use fom_runtime::{FomId, prelude::*, submission::Placement, time::TestClock};
use fom_watch::{Warned, WarningKind, Watch, WatchExt};

use crate::{
    kit::{Gate, limited, many, secs},
    task::{Task, held, only, submit, until, warned, watched},
};

/// Returns a clock that has run for a second: a locality measures nothing that began at zero.
fn started() -> TestClock {
    let clock = TestClock::new();
    clock.advance(secs(1));
    clock
}

/// Returns whether this fom runs in the locality, in this phase. Then its run began at the time of the clock.
fn runs(runtime: &Runtime, locality: usize, fom: FomId, phase: &str) -> bool {
    let measured = runtime.inspect().loads().swap_remove(locality).measured;
    let is_it = measured.is_some_and(|load| load.running_fom == Some(fom));
    is_it && runtime.operation(fom).is_some_and(|fom| fom.phase == phase)
}

/// OB-06: a long run is told with type, phase and time. All localities spin here, and the watcher still looks.
#[test]
fn a_run_that_takes_too_long_is_named_while_it_runs() {
    limited(|| async {
        let clock = started();
        let runtime = many(2, &clock).watch(Watch::default()).build().unwrap();
        runtime.quiet().await;
        let over = Arc::new(AtomicBool::new(false));
        let spin = |locality| {
            let task = Task::Spin(Arc::clone(&over));
            let placed = runtime.submit(task).place(Placement::Locality(locality));
            placed.start().unwrap()
        };
        let spinning = [spin(0), spin(1)];
        let runs = |at: usize| runs(&runtime, at, spinning[at].id(), "Spinning");
        until(|| runs(0) && runs(1));
        clock.advance(secs(2));
        let found = warned(&runtime, WarningKind::LongRun);
        assert_eq!(found.len(), 2, "{}", runtime.inspect().warnings());
        for (warning, fom) in found.iter().zip(&spinning) {
            assert_eq!(
                (warning.operation.as_deref(), warning.phase.as_deref()),
                (Some("Task"), Some("Spinning"))
            );
            assert_eq!((&*warning.ids, warning.age), (&[fom.id()][..], secs(2)));
        }
        clock.advance(secs(60));
        let hung = only(&runtime, WarningKind::Hung);
        assert!(hung.foms == 2 && hung.text.ends_with("running"), "{hung}");
        over.store(true, Ordering::Relaxed);
        for fom in spinning {
            fom.await.unwrap();
        }
        runtime.quiet().await;
        clock.advance(secs(1));
        assert_eq!(warned(&runtime, WarningKind::LongRun), []);
    });
}

#[test]
fn blocking_that_was_not_announced_is_told_from_computing() {
    limited(|| async {
        let clock = started();
        // Other tests of this program have no ninth locality, so no thread of them has the same name.
        let runtime = many(9, &clock).watch(Watch::default()).build().unwrap();
        runtime.quiet().await;
        let (over, freezes) = held();
        let task = runtime.submit(Task::Freeze(freezes));
        let fom = task.place(Placement::Locality(8)).start().unwrap();
        until(|| runs(&runtime, 8, fom.id(), "Freezing"));
        clock.advance(secs(2));
        let kind = match cfg!(target_os = "linux") {
            true => WarningKind::UnannouncedBlocking,
            false => WarningKind::LongRun,
        };
        let warning = only(&runtime, kind);
        let expected = (&[fom.id()][..], Some("Freezing"));
        assert_eq!((&*warning.ids, warning.phase.as_deref()), expected);
        assert!(warning.advice.contains("cx.block()"), "{warning}");
        drop(over);
        fom.await.unwrap();
    });
}

#[test]
fn a_job_that_holds_a_locality_is_found() {
    limited(|| async {
        let clock = started();
        let runtime = watched(&clock);
        let gate = Gate::close(&runtime, 0);
        let fom = submit(&runtime, Task::Rest);
        for _ in 0..3 {
            clock.advance(secs(1));
            runtime.inspect().warnings();
        }
        let found = runtime.inspect().warnings().warnings;
        let is_found = |kind| {
            found
                .iter()
                .any(|warning| warning.kind == kind && warning.subject == "locality 0")
        };
        assert!(
            is_found(WarningKind::LongRun) || is_found(WarningKind::UnannouncedBlocking),
            "{found:?}"
        );
        gate.open();
        fom.send(crate::task::Word::Go).unwrap();
        fom.await.unwrap();
    });
}

#[test]
fn a_fom_that_wakes_itself_without_end_is_a_storm() {
    limited(|| async {
        let clock = started();
        let runtime = watched(&clock);
        runtime.quiet().await;
        let over = Arc::new(AtomicBool::new(false));
        let fom = submit(&runtime, Task::Storm(Arc::clone(&over)));
        let idle = || {
            runtime.inspect().loads()[0]
                .measured
                .as_ref()
                .map_or(0, |load| load.idle_runs)
        };
        for _ in 0..5 {
            let before = idle();
            until(|| idle() >= before + 11_000);
            clock.advance(secs(1));
            runtime.inspect().warnings();
        }
        let warning = only(&runtime, WarningKind::WakeStorm);
        assert_eq!(
            (&*warning.ids, warning.phase.as_deref()),
            (&[fom.id()][..], Some("Storming"))
        );
        over.store(true, Ordering::Relaxed);
        fom.await.unwrap();
    });
}

#[test]
fn foms_that_are_ready_and_have_no_turn_starve() {
    limited(|| async {
        let clock = started();
        let watch = Watch::default().long_run(secs(60));
        let runtime = many(1, &clock).watch(watch).build().unwrap();
        runtime.quiet().await;
        let over = Arc::new(AtomicBool::new(false));
        let greedy = submit(&runtime, Task::Spin(Arc::clone(&over)));
        until(|| runs(&runtime, 0, greedy.id(), "Spinning"));
        let starved = submit(&runtime, Task::Rest);
        clock.advance(secs(3));
        let warning = only(&runtime, WarningKind::Starvation);
        let expected = (&[starved.id()][..], Some("Choosing"));
        assert_eq!((&*warning.ids, warning.phase.as_deref()), expected);
        over.store(true, Ordering::Relaxed);
        greedy.await.unwrap();
    });
}

#[test]
fn foms_that_were_ready_for_long_are_told_for_some_time() {
    limited(|| async {
        let clock = started();
        let runtime = watched(&clock);
        runtime.quiet().await;
        let over = Arc::new(AtomicBool::new(false));
        // Both come into the run queue at once.
        let gate = Gate::close(&runtime, 0);
        let spinning = submit(&runtime, Task::Spin(Arc::clone(&over)));
        let waited = submit(&runtime, Task::Rest);
        gate.open();
        until(|| runs(&runtime, 0, spinning.id(), "Spinning"));
        clock.advance(secs(5));
        over.store(true, Ordering::Relaxed);
        spinning.await.unwrap();
        runtime.quiet().await;
        clock.advance(secs(1));
        let warning = only(&runtime, WarningKind::Starvation);
        assert!(warning.age >= secs(4), "{warning}");
        for _ in 0..12 {
            clock.advance(secs(1));
            runtime.inspect().warnings();
        }
        assert_eq!(warned(&runtime, WarningKind::Starvation), []);
        drop(waited);
    });
}
