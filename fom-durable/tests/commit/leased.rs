//! A journal that another process can take over: the lease, the fence, the term and the time of the store.

use std::time::Duration;

use fom_durable::{journal::MemoryJournal, prelude::*};
use fom_runtime::{
    Cause,
    error::{BoxError, RefusedReason},
    time::TestClock,
};
use serde::{Deserialize, Serialize};

use crate::kit::{Log, leased::Leased, limited, one};

fn start(journal: &Leased, log: &Log) -> Runtime {
    let builder = one(&TestClock::new()).resource(log.clone());
    builder.journal_with(journal.clone()).build().unwrap()
}

#[derive(Clone, Serialize, Deserialize)]
enum Go {
    On,
}

/// Goes on with a word, then waits for its deadline. Writes down which functions were entered.
#[derive(Serialize, Deserialize)]
struct Walk;

#[fom(operation(Walk), event(Go))]
enum Walking {
    #[phase(sync, start, to(There), on(On))]
    Here,
    #[phase(sync, to(Home), on(On), within = "10s", late)]
    There,
    #[phase(end)]
    Home,
}

impl WalkingTransitions for Walk {
    fn here(&mut self, cx: &mut Cx<'_, Go>, _: Go) -> Result<WalkingAfterHere, BoxError> {
        let term = cx.term().map_or("none".to_owned(), |term| term.to_string());
        cx.resource::<Log>().put(format_args!("here {term}"));
        Ok(WalkingAfterHere::There)
    }

    fn there(&mut self, cx: &mut Cx<'_, Go>, _: Go) -> Result<WalkingAfterThere, BoxError> {
        cx.resource::<Log>().put("there");
        Ok(WalkingAfterThere::Home)
    }

    fn there_late(&mut self, cx: &mut Cx<'_, Go>) -> Result<WalkingAfterThere, BoxError> {
        cx.resource::<Log>().put("late");
        Ok(WalkingAfterThere::Home)
    }
}

/// Passes this many times through a phase, without a wait for the journal.
#[derive(Serialize, Deserialize)]
struct Stroll {
    steps: usize,
}

#[fom(operation(Stroll), durability = "lazy")]
enum Strolling {
    #[phase(sync, start, to(Step, Done))]
    Step,
    #[phase(end)]
    Done,
}

impl StrollingTransitions for Stroll {
    fn step(&mut self, cx: &mut Cx<'_>) -> Result<StrollingAfterStep, BoxError> {
        let log = cx.resource::<Log>();
        log.put(self.steps);
        if self.steps == 2 {
            cx.resource::<Leased>().passes(10);
        }
        self.steps -= 1;
        Ok(match self.steps {
            0 => StrollingAfterStep::Done,
            _ => StrollingAfterStep::Step,
        })
    }
}

/// Waits until the locality has gone through its round several times.
async fn rounds(runtime: &Runtime) {
    for _ in 0..10 {
        let (tell, told) = tokio::sync::oneshot::channel();
        runtime
            .post(0, move |_| {
                let _ = tell.send(());
            })
            .unwrap();
        told.await.unwrap();
    }
}

/// A refused commit ends the runtime: nothing is tried again, no key is kept, and all callers hear that the operations
/// have moved.
#[test]
fn a_runtime_that_is_fenced_ends_for_good() {
    limited(|| async {
        let (store, log) = (Leased::new(), Log::default());
        let runtime = start(&store, &log);
        let [going, waiting] = ["a", "b"].map(|key| {
            let submission = runtime.submit(Walk).key(key).once(format!("id {key}"));
            submission.start().unwrap()
        });
        let again = runtime.submit(Walk).key("b").once("id b").start().unwrap();
        for fom in [&going, &waiting] {
            fom.committed().await.unwrap();
        }
        runtime.quiet().await;
        let asked = store.asked();
        store.fence();
        going.send(Go::On).unwrap();
        runtime.moved().await;
        for handle in [going, waiting, again] {
            let failure = handle.await.unwrap_err();
            assert!(matches!(failure.cause, Cause::Moved), "{failure:?}");
        }
        assert_eq!(log.lines(), ["here 1"]);
        assert_eq!(store.asked(), asked + 1, "nothing is tried again");
        assert!(runtime.quarantine().list().is_empty());
        assert!(runtime.find::<Walk>("a").is_none());
        let refused = runtime.submit(Walk).key("a").start().unwrap_err();
        assert_eq!(refused.reason(), RefusedReason::Moved);
        let refused = runtime.submit(Walk).once("id a").start().unwrap_err();
        assert_eq!(refused.reason(), RefusedReason::Moved);
        // A call of the journal after the refusal would be an incident, too.
        let incidents = runtime.operations().incidents;
        assert_eq!(incidents.len(), 1, "{incidents:?}");
        assert!(
            incidents
                .iter()
                .any(|incident| incident.text.contains("another process")),
            "{incidents:?}"
        );

        // The next process has all that was committed.
        let next = Leased::take_over(&store.journal, 2, 100);
        let runtime = start(&next, &log);
        let reached = runtime
            .find::<Walk>("a")
            .unwrap()
            .reached([WalkingKind::There]);
        runtime.find::<Walk>("a").unwrap().send(Go::On).unwrap();
        reached.await;
        assert!(runtime.find::<Walk>("b").is_some());
        assert_eq!(log.lines(), ["here 1", "here 2"]);
    });
}

/// A lease that is lost ends the runtime, although nothing is committed.
#[test]
fn a_runtime_that_loses_its_lease_ends() {
    limited(|| async {
        let (store, log) = (Leased::new(), Log::default());
        let runtime = start(&store, &log);
        let handle = runtime.submit(Walk).key("a").start().unwrap();
        handle.committed().await.unwrap();
        runtime.quiet().await;
        let asked = store.asked();
        store.lease.lose();
        runtime.moved().await;
        assert!(matches!(handle.await.unwrap_err().cause, Cause::Moved));
        assert_eq!(store.asked(), asked);
        assert!(log.lines().is_empty());
    });
}

/// I5: no phase function is entered after the end of the lease, and the foms go on when it is extended.
#[test]
fn without_a_lease_no_phase_function_is_entered() {
    limited(|| async {
        let (store, log) = (Leased::new(), Log::default());
        let runtime = start(&store, &log);
        let handle = runtime.submit(Walk).key("a").start().unwrap();
        handle.committed().await.unwrap();
        runtime.quiet().await;
        store.passes(4);
        handle.send(Go::On).unwrap();
        rounds(&runtime).await;
        assert!(log.lines().is_empty(), "{:?}", log.lines());
        store.lease.extend(Duration::from_secs(200));
        handle.reached([WalkingKind::There]).await;
        assert_eq!(log.lines(), ["here 1"]);
    });
}

/// A lazy operation, which does not wait for the journal, stops between two phases when the lease ends.
#[test]
fn the_lease_is_checked_before_each_phase_of_a_run() {
    limited(|| async {
        let (store, log) = (Leased::new(), Log::default());
        let builder = one(&TestClock::new()).resource(log.clone());
        let builder = builder.resource(store.clone()).journal_with(store.clone());
        let runtime = builder.build().unwrap();
        let handle = runtime.submit(Stroll { steps: 4 }).start().unwrap();
        // The locality answers although it is frozen.
        while log.lines().len() < 3 {
            rounds(&runtime).await;
        }
        rounds(&runtime).await;
        assert_eq!(log.lines(), ["4", "3", "2"]);
        store.lease.extend(Duration::from_secs(200));
        handle.await.unwrap();
        assert_eq!(log.lines(), ["4", "3", "2", "1"]);
    });
}

/// A frozen runtime can be shut down at once.
#[test]
fn a_runtime_without_a_lease_shuts_down() {
    limited(|| async {
        let (store, log) = (Leased::new(), Log::default());
        let runtime = start(&store, &log);
        let handle = runtime.submit(Walk).key("a").start().unwrap();
        handle.committed().await.unwrap();
        store.passes(4);
        let report = runtime
            .shutdown(Shutdown::Now, Duration::from_secs(20))
            .await;
        assert!(report.remained.is_empty());
        assert!(matches!(handle.await.unwrap_err().cause, Cause::Shutdown));
        assert!(log.lines().is_empty());
    });
}

/// Only the time of the store counts between two processes, whatever the clocks of their machines say.
#[test]
fn a_deadline_follows_the_time_of_the_store() {
    limited(|| async {
        let (store, log) = (Leased::new(), Log::default());
        let runtime = start(&store, &log);
        let handle = runtime.submit(Walk).key("a").start().unwrap();
        handle.send(Go::On).unwrap();
        handle.reached([WalkingKind::There]).await;
        runtime.quiet().await;
        drop((handle, runtime));

        let early = Leased::take_over(&store.journal, 2, 109);
        let runtime = start(&early, &log);
        runtime.quiet().await;
        assert_eq!(log.lines(), ["here 1"]);
        drop(runtime);

        let late = Leased::take_over(&store.journal, 3, 110);
        let runtime = start(&late, &log);
        runtime.quiet().await;
        assert_eq!(log.lines(), ["here 1", "late"]);
    });
}

/// Without a lease there is no term.
#[test]
fn a_journal_of_one_process_has_no_term() {
    limited(|| async {
        let log = Log::default();
        let builder = one(&TestClock::new()).resource(log.clone());
        let builder = builder.journal_with(MemoryJournal::new());
        let runtime = builder.build().unwrap();
        let handle = runtime.submit(Walk).key("a").start().unwrap();
        handle.send(Go::On).unwrap();
        handle.reached([WalkingKind::There]).await;
        assert_eq!(log.lines(), ["here none"]);
    });
}
