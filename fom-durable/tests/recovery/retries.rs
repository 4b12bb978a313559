//! Retries over a restart: the rest of the pause is waited for, with the deadline of the phase.

use fom_durable::{journal::MemoryJournal, prelude::*};
use fom_runtime::time::TestClock;
use serde::{Deserialize, Serialize};

use crate::kit::{Log, limited, one, secs};

/// What outlives the restarts of a test.
#[derive(Default)]
struct Bench {
    clock: TestClock,
    journal: MemoryJournal,
    log: Log,
}

impl Bench {
    fn build(&self) -> Runtime {
        let builder = one(&self.clock).resource(self.log.clone());
        builder
            .journal_with(self.journal.clone())
            .build()
            .expect("the journal is sound")
    }

    /// Returns the lines logged until nothing runs, with their times.
    async fn said(&self, runtime: &Runtime) -> Vec<String> {
        runtime.quiet().await;
        self.log.take()
    }
}

/// Never succeeds.
#[derive(Serialize, Deserialize)]
struct Ask;

#[fom(operation(Ask))]
enum Asking {
    #[phase(start, to(Told), retry = "3, 10s..40s")]
    Try,
    #[phase(end)]
    Told,
}

impl AskingTransitions for Ask {
    async fn r#try(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let line = format!("attempt {} at {:?}", cx.attempt(), cx.now());
        cx.resource::<Log>().put(line);
        Err("no answer".into())
    }
}

/// The same in a plain function, with a deadline over all attempts.
#[derive(Serialize, Deserialize)]
struct Call;

#[fom(operation(Call))]
enum Calling {
    #[phase(start, to(Told), sync, retry = "3, 10s..40s", within = "25s", late)]
    Try,
    #[phase(end)]
    Told,
}

impl CallingTransitions for Call {
    fn r#try(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let line = format!("attempt {} at {:?}", cx.attempt(), cx.now());
        cx.resource::<Log>().put(line);
        Err("no answer".into())
    }
    fn try_late(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let line = format!("late at {:?}", cx.now());
        cx.resource::<Log>().put(line);
        Ok(())
    }
}

/// A restart in the pause, any number of times, brings the next attempt no nearer.
#[test]
fn the_pause_goes_on_over_a_restart() {
    limited(async || {
        let bench = Bench::default();
        {
            let runtime = bench.build();
            runtime.submit(Ask).detach().unwrap();
            assert_eq!(bench.said(&runtime).await, ["attempt 0 at 0ns"]);
        }
        for _ in 0..2 {
            bench.clock.advance(secs(3));
            let runtime = bench.build();
            assert!(bench.said(&runtime).await.is_empty());
            let waits = runtime.operations().foms[0].waiting_for();
            assert_eq!(waits.as_deref(), Some("its next attempt"));
            bench.clock.advance(secs(1));
            assert!(bench.said(&runtime).await.is_empty());
        }
        let runtime = bench.build();
        bench.clock.advance(secs(2));
        assert_eq!(bench.said(&runtime).await, ["attempt 1 at 10s"]);
        bench.clock.advance(secs(20));
        assert_eq!(bench.said(&runtime).await, ["attempt 2 at 30s"]);
    });
}

/// An attempt that became due while nothing ran is made at once, and the next pause keeps its length.
#[test]
fn an_attempt_that_is_overdue_is_made_at_once() {
    limited(async || {
        let bench = Bench::default();
        {
            let runtime = bench.build();
            runtime.submit(Ask).detach().unwrap();
            assert_eq!(bench.said(&runtime).await, ["attempt 0 at 0ns"]);
        }
        bench.clock.advance(secs(100));
        let runtime = bench.build();
        assert_eq!(bench.said(&runtime).await, ["attempt 1 at 100s"]);
        bench.clock.advance(secs(19));
        assert!(bench.said(&runtime).await.is_empty());
        bench.clock.advance(secs(1));
        assert_eq!(bench.said(&runtime).await, ["attempt 2 at 120s"]);
    });
}

/// The deadline passes in the pause as it would have without a restart.
#[test]
fn a_deadline_passes_in_the_pause() {
    limited(async || {
        let bench = Bench::default();
        {
            let runtime = bench.build();
            runtime.submit(Call).detach().unwrap();
            assert_eq!(bench.said(&runtime).await, ["attempt 0 at 0ns"]);
            bench.clock.advance(secs(10));
            assert_eq!(bench.said(&runtime).await, ["attempt 1 at 10s"]);
        }
        bench.clock.advance(secs(5));
        let runtime = bench.build();
        assert!(bench.said(&runtime).await.is_empty());
        bench.clock.advance(secs(10));
        assert_eq!(bench.said(&runtime).await, ["late at 25s"]);
        assert_eq!(runtime.in_flight(), 0);
    });
}

/// The failed attempts keep their numbers, errors and ages over a restart, and the next one counts on.
#[test]
fn the_attempts_are_listed_after_a_restart() {
    limited(async || {
        let bench = Bench::default();
        {
            let runtime = bench.build();
            runtime.submit(Ask).detach().unwrap();
            bench.said(&runtime).await;
        }
        bench.clock.advance(secs(4));
        for age in [4, 5] {
            let runtime = bench.build();
            bench.said(&runtime).await;
            let attempts = runtime.operations().foms[0].past.attempts.clone();
            let [first] = attempts.as_slice() else {
                panic!("{attempts:?}")
            };
            assert_eq!((first.number, &*first.error), (1, "no answer"));
            assert_eq!(first.age, secs(age));
            bench.clock.advance(secs(1));
        }
        let runtime = bench.build();
        bench.clock.advance(secs(4));
        bench.said(&runtime).await;
        let attempts = runtime.operations().foms[0].past.attempts.clone();
        let told = attempts.iter().map(|it| (it.number, it.age));
        let told: Vec<_> = told.collect();
        assert_eq!(told, [(1, secs(10)), (2, secs(0))]);
    });
}
