//! What foms carry is in the journal with them.

use fom_durable::{QuarantineKind, journal::MemoryJournal, prelude::*};
use fom_runtime::{Builder, time::TestClock};
use serde::{Deserialize, Serialize};

use crate::kit::{Log, limited, one, secs};

/// How many foms lead to this one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Depth(u32);

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Tenant(String);

fn tenant(builder: Builder) -> Builder {
    builder.carry("tenant", |from: Option<&Tenant>| {
        from.cloned().unwrap_or_default()
    })
}

fn depth(builder: Builder) -> Builder {
    builder.carry("depth", |from: Option<&Depth>| {
        Depth(from.map_or(0, |from| from.0 + 1))
    })
}

/// Starts another one through its outbox, waits, and tells what it carries.
#[derive(Serialize, Deserialize)]
struct Task {
    children: u32,
    fails: bool,
}

#[derive(Serialize, Deserialize)]
enum Word {
    Go,
}

#[fom(operation(Task), event(Word))]
enum Doing {
    #[phase(start, sync, to(Hear))]
    Start,
    #[phase(sync, to(Done), on(Go))]
    Hear,
    #[phase(end)]
    Done,
}

impl DoingTransitions for Task {
    fn start(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        if self.children > 0 {
            let child = Task {
                children: self.children - 1,
                fails: false,
            };
            let key = format!("task {}", child.children);
            cx.outbox().submit(child).key(key).post()?;
        }
        Ok(())
    }

    fn hear(&mut self, cx: &mut Cx<'_, Word>, _: Word) -> Result<DoingAfterHear, BoxError> {
        let (tenant, depth) = (cx.carried::<Tenant>(), cx.carried::<Depth>());
        let (tenant, depth) = (tenant.map(|it| it.0.clone()), depth.map(|it| it.0));
        cx.resource::<Log>()
            .put(format!("{}: {tenant:?} {depth:?}", self.children));
        match std::mem::take(&mut self.fails) {
            true => Err("no luck".into()),
            false => Ok(DoingAfterHear::Done),
        }
    }
}

#[derive(Clone, Default)]
struct Bench {
    clock: TestClock,
    journal: MemoryJournal,
    log: Log,
}

impl Bench {
    fn run(&self, carry: impl FnOnce(Builder) -> Builder) -> Runtime {
        let builder = carry(one(&self.clock)).resource(self.log.clone());
        builder.journal_with(self.journal.clone()).build().unwrap()
    }

    /// Starts a task with so many children that waits, and ends the program.
    async fn park(&self, children: u32, carry: impl FnOnce(Builder) -> Builder) {
        let runtime = self.run(carry);
        let task = Task {
            children,
            fails: false,
        };
        let task = runtime.submit(task).key(format!("task {children}"));
        task.carrying(Tenant("acme".into())).detach().unwrap();
        runtime.quiet().await;
    }

    /// Lets a task go on, and returns what it told.
    async fn go(&self, runtime: &Runtime, children: u32) -> String {
        let task = runtime.find::<Task>(format!("task {children}")).unwrap();
        task.send(Word::Go).unwrap();
        runtime.quiet().await;
        self.log.take().join(", ")
    }
}

/// SM-20
#[test]
fn a_fom_has_what_it_carries_after_a_restart() {
    limited(async || {
        let bench = Bench::default();
        bench.park(2, |builder| tenant(depth(builder))).await;
        // Twice: the second start reads what the first one has kept.
        for _ in 0..2 {
            bench.run(|builder| tenant(depth(builder))).quiet().await;
        }
        let runtime = bench.run(|builder| tenant(depth(builder)));
        runtime.quiet().await;
        // The children came through outboxes.
        for (children, depth) in [(0, 2), (1, 1), (2, 0)] {
            let told = bench.go(&runtime, children).await;
            assert_eq!(told, format!("{children}: Some(\"acme\") Some({depth})"));
        }
    });
}

#[test]
fn an_operation_in_quarantine_keeps_what_it_carries() {
    limited(async || {
        let bench = Bench::default();
        let id = {
            let runtime = bench.run(tenant);
            let task = Task {
                children: 0,
                fails: true,
            };
            let task = runtime.submit(task).key("task 0");
            let task = task.carrying(Tenant("acme".into())).start().unwrap();
            runtime.quiet().await;
            task.send(Word::Go).unwrap();
            let id = task.id();
            task.await.unwrap_err();
            runtime.quiet().await;
            id
        };
        bench.log.take();
        let runtime = bench.run(tenant);
        assert_eq!(runtime.quarantine().count(QuarantineKind::Failed), 1);
        runtime.quarantine().retry(id).unwrap();
        runtime.quiet().await;
        assert_eq!(bench.go(&runtime, 0).await, "0: Some(\"acme\") None");
    });
}

#[test]
fn a_fom_of_an_earlier_release_gets_a_value_without_a_submitter() {
    limited(async || {
        let bench = Bench::default();
        bench.park(0, tenant).await;
        let runtime = bench.run(|builder| tenant(depth(builder)));
        runtime.quiet().await;
        assert_eq!(bench.go(&runtime, 0).await, "0: Some(\"acme\") Some(0)");
    });
}

#[test]
fn a_value_that_a_release_does_not_know_stays_with_its_fom() {
    limited(async || {
        let bench = Bench::default();
        bench.park(0, tenant).await;
        bench.run(|builder| builder).quiet().await;
        bench.run(depth).quiet().await;
        let runtime = bench.run(tenant);
        runtime.quiet().await;
        assert_eq!(bench.go(&runtime, 0).await, "0: Some(\"acme\") None");
    });
}

#[test]
fn a_value_that_cannot_be_read_quarantines_its_fom() {
    limited(async || {
        let bench = Bench::default();
        bench.park(0, tenant).await;
        {
            let number = |builder: Builder| builder.carry("tenant", |_: Option<&u64>| 7);
            let runtime = bench.run(number);
            runtime.quiet().await;
            let quarantined = runtime.inspect().quarantined();
            let [entry] = &quarantined[..] else {
                panic!("{quarantined:?}");
            };
            assert_eq!(entry.kind(), QuarantineKind::Unreadable);
            let reason = entry.reason.to_string();
            assert!(reason.starts_with("what it carries as `tenant` cannot be read: "));
            assert!(reason.ends_with("or give `Builder::carry` another name for it"));
        }
        // It is still there.
        let runtime = bench.run(tenant);
        runtime.quiet().await;
        assert_eq!(bench.go(&runtime, 0).await, "0: Some(\"acme\") None");
    });
}

/// A value that serde cannot write.
#[derive(Deserialize)]
struct Broken;

impl Serialize for Broken {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("it is broken"))
    }
}

#[test]
fn a_value_that_cannot_be_saved_is_an_incident() {
    limited(async || {
        let bench = Bench::default();
        let runtime = bench.run(|builder| builder.carry("broken", |_: Option<&Broken>| Broken));
        let task = Task {
            children: 0,
            fails: false,
        };
        runtime.submit(task).key("task 0").detach().unwrap();
        runtime.quiet().await;
        let incidents = runtime.inspect().incidents();
        let text = "what a Task carries as `broken` cannot be saved, and is made anew after a restart: it is broken";
        assert_eq!(incidents.last().unwrap().text, text);
        bench.clock.advance(secs(1));
        assert_eq!(bench.go(&runtime, 0).await, "0: None None");
    });
}

#[test]
fn a_value_that_cannot_be_saved_loses_no_other() {
    limited(async || {
        let bench = Bench::default();
        let broken =
            |builder: Builder| tenant(builder.carry("broken", |_: Option<&Broken>| Broken));
        bench.park(0, broken).await;
        let runtime = bench.run(tenant);
        runtime.quiet().await;
        assert_eq!(bench.go(&runtime, 0).await, "0: Some(\"acme\") None");
    });
}
