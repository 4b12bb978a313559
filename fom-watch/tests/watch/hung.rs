//! Foms that stay in a phase for too long, in each state (OB-05).

use std::sync::mpsc;

use fom_durable::prelude::*;
use fom_runtime::{observe::WaitsFor, time::TestClock};
use fom_watch::{Level, Warned, WarningKind, Watch, WatchExt};

use crate::{
    kit::{Gate, held::Held, leased::Leased, limited, many, one, secs},
    task::{Task, held, only, submit, until_waits, warned, watched},
};

const HUNG: WarningKind = WarningKind::Hung;

/// OB-05: a waiting fom is found, with its type, phase, id and wait.
#[test]
fn a_fom_that_waits_for_too_long_is_named_with_its_wait() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = watched(&clock);
        let fom = submit(&runtime, Task::Hear);
        runtime.quiet().await;
        clock.advance(secs(299));
        assert_eq!(warned(&runtime, HUNG), []);
        clock.advance(secs(2));
        let warning = only(&runtime, HUNG);
        assert_eq!(warning.level, Level::Warning);
        assert_eq!(
            (warning.operation.as_deref(), warning.phase.as_deref()),
            (Some("Task"), Some("Hearing"))
        );
        assert_eq!((&*warning.ids, warning.foms), (&[fom.id()][..], 1));
        assert_eq!((warning.age, warning.limit), (secs(301), Some(secs(300))));
        assert_eq!(warning.common, ["waits for an event: Go"]);
        assert!(warning.text.ends_with("waiting"), "{warning}");
        assert!(warning.advice.contains("sender"), "{warning}");
    });
}

/// OB-05: idle localities are watched. The watcher has a thread of its own: here all localities sleep, and nothing asks for warnings.
#[test]
fn an_idle_program_is_watched() {
    limited(|| async {
        let clock = TestClock::new();
        let (tell, told) = mpsc::channel();
        let watch = Watch::default().on_warning(move |warning| tell.send(warning.clone()).unwrap());
        let runtime = many(2, &clock).watch(watch).build().unwrap();
        let fom = submit(&runtime, Task::Hear);
        runtime.quiet().await;
        clock.advance(secs(301));
        let warning = told.recv().unwrap();
        assert_eq!((warning.kind, &*warning.ids), (HUNG, &[fom.id()][..]));
    });
}

/// OB-05: a phase can be exempt, by its declaration.
#[test]
fn a_fom_may_rest_in_a_phase_that_never_hangs() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = watched(&clock);
        let _fom = submit(&runtime, Task::Rest);
        runtime.quiet().await;
        clock.advance(secs(1_000_000));
        assert_eq!(runtime.inspect().warnings().warnings, []);
    });
}

/// OB-05: each phase has its own limit.
#[test]
fn the_limit_follows_the_times_of_earlier_foms() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = watched(&clock);
        let earlier: Vec<_> = (0..200)
            .map(|_| submit(&runtime, Task::Nap { long: false }))
            .collect();
        runtime.quiet().await;
        clock.advance(secs(10));
        for fom in earlier {
            fom.await.unwrap();
        }
        let fom = submit(&runtime, Task::Nap { long: true });
        runtime.quiet().await;
        clock.advance(secs(79));
        assert_eq!(warned(&runtime, HUNG), []);
        clock.advance(secs(12));
        let warning = only(&runtime, HUNG);
        assert_eq!(warning.ids, [fom.id()]);
        // Eight times ten seconds, and the eighth by which a histogram is off.
        let limit = warning.limit.unwrap();
        assert!((secs(80)..=secs(90)).contains(&limit), "{limit:?}");
    });
}

/// OB-05: a ready fom is found.
#[test]
fn a_fom_that_is_ready_and_does_not_run_is_named() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).watch(Watch::default()).build().unwrap();
        let heard = submit(&runtime, Task::Hear);
        runtime.quiet().await;
        let gate = Gate::close(&runtime, 0);
        heard.send(crate::task::Word::Go).unwrap();
        clock.advance(secs(301));
        let warning = only(&runtime, HUNG);
        assert_eq!(warning.ids, [heard.id()]);
        gate.open();
        heard.await.unwrap();
    });
}

/// OB-05: a blocked fom is found.
#[test]
fn a_fom_in_an_announced_blocking_section_is_blocked() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = watched(&clock);
        let (over, blocks) = held();
        let fom = submit(&runtime, Task::Block(blocks));
        until_waits(&runtime, &fom, |wait| *wait == WaitsFor::Blocking);
        clock.advance(secs(61));
        let warning = only(&runtime, HUNG);
        assert!(warning.text.ends_with("blocked"), "{warning}");
        assert_eq!(warned(&runtime, WarningKind::UnannouncedBlocking), []);
        assert_eq!(warned(&runtime, WarningKind::LongRun), []);
        drop(over);
        fom.await.unwrap();
    });
}

#[test]
fn a_fom_that_tries_again_and_again_is_named_with_its_last_error() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = watched(&clock);
        let fom = submit(&runtime, Task::Retry);
        for _ in 0..13 {
            runtime.quiet().await;
            clock.advance(secs(5));
        }
        runtime.quiet().await;
        let warning = only(&runtime, HUNG);
        assert_eq!(warning.ids, [fom.id()]);
        let common = warning.common.join("\n");
        assert!(common.contains("the provider is down"), "{warning}");
    });
}

/// Asks for one thing, and is kept in a journal.
#[derive(serde::Serialize, serde::Deserialize)]
struct Order;

#[fom(operation(Order))]
enum Ordering {
    #[phase(start, sync, to(Charge))]
    Take,
    #[phase(sync, to(Done))]
    Charge,
    #[phase(end)]
    Done,
}

impl OrderingTransitions for Order {
    fn take(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    fn charge(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// A runtime that may not run its operations says so.
#[test]
fn a_lease_that_is_over_is_told() {
    limited(|| async {
        let clock = TestClock::new();
        let journal = Leased::new();
        let builder = one(&clock).journal_with(journal.clone());
        let runtime = builder.watch(Watch::default()).build().unwrap();
        assert_eq!(warned(&runtime, WarningKind::Journal), []);
        journal.passes(4);
        clock.advance(secs(1));
        assert_eq!(warned(&runtime, WarningKind::Journal), []);
        clock.advance(secs(3));
        let warning = only(&runtime, WarningKind::Journal);
        assert_eq!(
            warning.text,
            "no operation goes on: the lease of the journal is over since 3s"
        );
        journal.lease.extend(secs(200));
        clock.advance(secs(1));
        assert_eq!(warned(&runtime, WarningKind::Journal), []);
    });
}

#[test]
fn foms_that_the_journal_holds_up_are_named() {
    limited(|| async {
        let clock = TestClock::new();
        let held = Held::default();
        let builder = one(&clock).journal_with(held.clone());
        let runtime = builder.watch(Watch::default()).build().unwrap();
        held.hold_commits(true);
        let fom = runtime.submit(Order).start().unwrap();
        crate::task::until(|| {
            let info = runtime.operation(fom.id());
            info.is_some_and(|info| info.waits.iter().any(|wait| wait.on == WaitsFor::Journal))
        });
        clock.advance(secs(1));
        assert_eq!(warned(&runtime, WarningKind::Journal), []);
        clock.advance(secs(2));
        let warning = only(&runtime, WarningKind::Journal);
        assert_eq!(
            (&*warning.ids, warning.operation.as_deref()),
            (&[fom.id()][..], Some("Order"))
        );
        clock.advance(secs(300));
        let warning = only(&runtime, HUNG);
        assert!(
            warning.text.ends_with("held up by the journal"),
            "{warning}"
        );
        let parts = runtime.inspect().parts().parts;
        assert_eq!(
            (parts[0].kind, parts[0].count("entries")),
            ("journal", Some(0))
        );
        held.hold_commits(false);
        fom.await.unwrap();
        clock.advance(secs(1));
        assert_eq!(runtime.inspect().warnings().warnings, []);
    });
}
