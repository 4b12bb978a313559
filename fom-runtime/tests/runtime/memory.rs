//! The memory of a burst goes back to the system while the runtime lives.
//!
//! Each test runs its burst twice, each time in its own process: once small and once large. After the large one the
//! resident memory falls to at most 1.3 times that of the small one. The tests only limit the time until then.
#![cfg(target_os = "linux")]

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use fom_durable::prelude::*;
use fom_runtime::{Builder, Runtime, time::TestClock};
use serde::{Deserialize, Serialize};

use crate::kit::bursts::{self, PATIENCE, idle};

enum Told {
    Go,
}

/// Waits for an event.
struct Wait([u64; 4]);

#[fom(operation(Wait), event(Told), transient)]
enum Waiting {
    #[phase(start, sync, on(Go), to(Over))]
    Ready,
    #[phase(end)]
    Over,
}

impl WaitingTransitions for Wait {
    fn ready(&mut self, _: &mut Cx<'_, Told>, _: Told) -> Result<WaitingAfterReady, BoxError> {
        self.0[0] += 1;
        Ok(WaitingAfterReady::Over)
    }
}

/// The same with a deadline.
struct Timed;

#[fom(operation(Timed), event(Told), transient)]
enum Timing {
    #[phase(start, sync, on(Go), within = "1h", to(Over))]
    Ready,
    #[phase(end)]
    Over,
}

impl TimingTransitions for Timed {
    fn ready(&mut self, _: &mut Cx<'_, Told>, _: Told) -> Result<TimingAfterReady, BoxError> {
        Ok(TimingAfterReady::Over)
    }
}

/// The same in an async phase.
struct Async;

#[fom(operation(Async), event(Told), transient)]
enum Asynchronous {
    #[phase(start, on(Go), to(Over))]
    Ready,
    #[phase(end)]
    Over,
}

impl AsynchronousTransitions for Async {
    async fn ready(&mut self, cx: &mut Cx<'_, Told>) -> Result<(), BoxError> {
        let Told::Go = cx.event().await;
        Ok(())
    }
}

/// The same in a journal.
#[derive(Serialize, Deserialize)]
struct Saved(u64);

#[derive(Serialize, Deserialize)]
enum Signal {
    Go,
}

#[fom(operation(Saved), event(Signal))]
enum Saving {
    #[phase(start, sync, on(Go), to(Over))]
    Ready,
    #[phase(end)]
    Over,
}

impl SavingTransitions for Saved {
    fn ready(&mut self, _: &mut Cx<'_, Signal>, _: Signal) -> Result<SavingAfterReady, BoxError> {
        self.0 += 1;
        Ok(SavingAfterReady::Over)
    }
}

/// Ends at once.
struct Step;

#[fom(operation(Step), transient)]
enum Stepping {
    #[phase(start, sync, to(Stepped))]
    Step,
    #[phase(end)]
    Stepped,
}

impl SteppingTransitions for Step {
    fn step(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// Submits other foms in its own locality.
struct Parent(usize);

#[fom(operation(Parent), transient)]
enum Parenting {
    #[phase(start, sync, to(Done))]
    Bear,
    #[phase(end)]
    Done,
}

impl ParentingTransitions for Parent {
    fn bear(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        for _ in 0..self.0 {
            cx.submit(Step).detach()?;
        }
        Ok(())
    }
}

/// Returns how often the threads of the runtime yielded the processor so far.
fn sleeps() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let of_one = |task: fs::DirEntry| {
        let comm = fs::read_to_string(task.path().join("comm")).ok()?;
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        comm.starts_with("fom-")
            .then(|| line.trim().parse::<u64>().ok())?
    };
    tasks.filter_map(|task| of_one(task.ok()?)).sum()
}

/// Waits for a second in which no thread of the runtime wakes up.
fn asleep() {
    let began = Instant::now();
    loop {
        let before = sleeps();
        thread::sleep(Duration::from_secs(1));
        if before > 0 && sleeps() == before {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "the runtime is never asleep");
    }
}

/// Submits this many foms, sends each its event, and drops the outcomes.
fn told<O: Operation<Event = Told>>(runtime: &Runtime, foms: usize, make: impl Fn() -> O) {
    let handles: Vec<_> = (0..foms)
        .map(|_| runtime.submit(make()).start().unwrap())
        .collect();
    for handle in &handles {
        handle.send(Told::Go).unwrap();
    }
    idle(runtime);
}

/// Runs one burst to its end, and drops all that it made.
fn burst(kind: &str, foms: usize, runtime: &Runtime) {
    match kind {
        "events" => told(runtime, foms, || Wait([0; 4])),
        "deadlines" => told(runtime, foms, || Timed),
        "async" => told(runtime, foms, || Async),
        "detached" => {
            let senders: Vec<_> = (0..foms)
                .map(|_| {
                    let handle = runtime.submit(Wait([0; 4])).start().unwrap();
                    handle.sender()
                })
                .collect();
            senders.iter().for_each(|to| to.send(Told::Go).unwrap());
            idle(runtime);
        }
        // The foms end, and their handles live until the runtime sleeps. Then the handles go.
        "held" => {
            let handles: Vec<_> = (0..foms)
                .map(|_| runtime.submit(Wait([0; 4])).start().unwrap())
                .collect();
            for handle in &handles {
                handle.send(Told::Go).unwrap();
            }
            idle(runtime);
            asleep();
        }
        // The runtime waits only for distant deadlines. In between a few foms begin and end.
        "parked" => {
            let parked: Vec<_> = (0..foms)
                .map(|_| runtime.submit(Timed).start().unwrap())
                .collect();
            asleep();
            runtime.submit(Parent(10)).detach().unwrap();
            let handle = runtime.submit(Wait([0; 4])).start().unwrap();
            handle.send(Told::Go).unwrap();
            drop(handle);
            asleep();
            for handle in &parked {
                handle.send(Told::Go).unwrap();
            }
        }
        "keys" => {
            let handles: Vec<_> = (0..foms as u64)
                .map(|key| runtime.submit(Wait([0; 4])).key(key).start().unwrap())
                .collect();
            for handle in &handles {
                handle.send(Told::Go).unwrap();
            }
            idle(runtime);
        }
        "queue" => {
            let first = runtime.submit(Wait([0; 4])).key("the one").queue();
            let first = first.start().unwrap();
            for _ in 0..foms {
                let next = runtime.submit(Wait([1; 4])).key("the one").queue();
                next.start().unwrap().send(Told::Go).unwrap();
            }
            first.send(Told::Go).unwrap();
        }
        "steps" => {
            for _ in 0..foms {
                runtime.submit(Step).detach().unwrap();
            }
        }
        "inside" => {
            runtime.submit(Parent(foms)).detach().unwrap();
        }
        "journal" => {
            let handles: Vec<_> = (0..foms as u64)
                .map(|number| runtime.submit(Saved(number)).start().unwrap())
                .collect();
            for handle in &handles {
                handle.send(Signal::Go).unwrap();
            }
            idle(runtime);
        }
        "jobs" => {
            for _ in 0..foms {
                runtime.post(0, |_| {}).unwrap();
            }
        }
        _ => panic!("no such kind: {kind}"),
    }
    idle(runtime);
}

/// Compares the memory after a small and a large burst of this kind.
fn returns(test: &str, kind: &str) {
    let build = |builder: Builder, place: &Path| match kind {
        "journal" => builder.journal(place),
        _ => builder,
    };
    let burst = |runtime: &Runtime, foms| burst(kind, foms, runtime);
    bursts::returns(&format!("memory::{test}"), build, burst);
}

#[test]
fn of_foms_that_waited_for_events() {
    returns("of_foms_that_waited_for_events", "events");
}
#[test]
fn of_foms_with_deadlines() {
    returns("of_foms_with_deadlines", "deadlines");
}
#[test]
fn of_async_foms() {
    returns("of_async_foms", "async");
}
#[test]
fn of_detached_foms() {
    returns("of_detached_foms", "detached");
}
#[test]
fn of_foms_that_ended_long_before_their_handles_go() {
    returns("of_foms_that_ended_long_before_their_handles_go", "held");
}
#[test]
fn of_foms_that_were_parked_while_the_runtime_slept() {
    returns("of_foms_that_were_parked_while_the_runtime_slept", "parked");
}
#[test]
fn of_foms_with_keys() {
    returns("of_foms_with_keys", "keys");
}
#[test]
fn of_foms_of_one_key() {
    returns("of_foms_of_one_key", "queue");
}
#[test]
fn of_foms_that_ended_at_once() {
    returns("of_foms_that_ended_at_once", "steps");
}
#[test]
fn of_foms_submitted_inside() {
    returns("of_foms_submitted_inside", "inside");
}
#[test]
fn of_foms_in_a_journal() {
    returns("of_foms_in_a_journal", "journal");
}
#[test]
fn of_jobs() {
    returns("of_jobs", "jobs");
}

/// A page with living foms stays as it is, whatever the runtime frees around it.
#[tokio::test]
async fn foms_that_live_on_keep_their_memory() {
    let clock = TestClock::new();
    let runtime = Runtime::builder().localities(1).pin(false);
    let runtime = runtime.clock(clock.clone()).build().unwrap();
    let mut live = Vec::new();
    for round in 0..3 {
        let handles = (0..20_000_u64).map(|number| {
            let handle = runtime.submit(Wait([number; 4])).start().unwrap();
            (number, handle)
        });
        // Most pages have a fom that stays, and some have none.
        let is_kept = |number: &u64| number % 997 == round && *number < 10_000;
        let (kept, gone): (Vec<_>, Vec<_>) = handles
            .collect::<Vec<_>>()
            .into_iter()
            .partition(|(number, _)| is_kept(number));
        for (_, handle) in &gone {
            handle.send(Told::Go).unwrap();
        }
        for (_, handle) in gone {
            handle.await.unwrap();
        }
        live.extend(kept);
        for _ in 0..8 {
            clock.advance(Duration::from_millis(150));
            runtime.quiet().await;
        }
    }
    assert!(runtime.operations().incidents.is_empty());
    for (number, handle) in live {
        handle.send(Told::Go).unwrap();
        assert_eq!(handle.await.unwrap().operation.0[0], number + 1);
    }
}
