//! Locks over the pause between two attempts, and over a restart in it.

use fom_durable::{journal::MemoryJournal, prelude::*};
use fom_patterns::lock::{LockSet, LongLocks};
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
        let builder = builder.resource(LongLocks::new("account"));
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

/// Has a lock while it tries.
#[derive(Serialize, Deserialize)]
struct Book(String);

#[fom(operation(Book))]
enum Booking {
    #[phase(start, to(Done), sync, retry = "1, 10s..10s", locks)]
    Write,
    #[phase(end)]
    Done,
}

impl BookingTransitions for Book {
    fn write_locks(&self, cx: &Cx<'_>) -> LockSet {
        LockSet::new().write(&cx.resource::<LongLocks>().of(7_u64))
    }
    fn write(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let line = format!("{} {} at {:?}", self.0, cx.attempt(), cx.now());
        cx.resource::<Log>().put(line);
        match cx.attempt() {
            0 if self.0 == "first" => Err("again".into()),
            _ => Ok(()),
        }
    }
}

/// The locks of a phase are kept in the pause, so they are taken again before the rest of the pause.
#[test]
fn locks_are_held_in_the_pause() {
    limited(async || {
        let bench = Bench::default();
        {
            let runtime = bench.build();
            runtime.submit(Book("first".into())).detach().unwrap();
            assert_eq!(bench.said(&runtime).await, ["first 0 at 0ns"]);
        }
        let runtime = bench.build();
        runtime.quiet().await;
        runtime.submit(Book("second".into())).detach().unwrap();
        assert!(bench.said(&runtime).await.is_empty());
        bench.clock.advance(secs(10));
        let said = bench.said(&runtime).await;
        assert_eq!(said, ["first 1 at 10s", "second 0 at 10s"]);
    });
}
