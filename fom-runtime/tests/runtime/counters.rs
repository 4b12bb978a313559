//! The counters of edges and times, and the measured loads of localities. `random_machines` checks the counts.

use std::{sync::mpsc, thread, time::Duration};

use fom_runtime::{prelude::*, time::TestClock};

use crate::kit::{limited, one, secs, task::quick};

/// Takes some time in its first phase, and rests until it gets an event.
struct Job {
    clock: TestClock,
    takes: Duration,
}

#[fom(operation(Job), event(Go), transient)]
enum Working {
    #[phase(start, sync, to(Rest))]
    Work,
    #[phase(sync, to(Done, Rest), on(Go), within = "1m", late)]
    Rest,
    #[phase(end)]
    Done,
}

enum Go {
    Go,
}

impl WorkingTransitions for Job {
    fn work(&mut self, _: &mut Cx<'_, Go>) -> Result<(), BoxError> {
        self.clock.advance(self.takes);
        Ok(())
    }

    fn rest(&mut self, _: &mut Cx<'_, Go>, _: Go) -> Result<WorkingAfterRest, BoxError> {
        Ok(WorkingAfterRest::Done)
    }

    fn rest_late(&mut self, _: &mut Cx<'_, Go>) -> Result<WorkingAfterRest, BoxError> {
        Ok(WorkingAfterRest::Rest)
    }
}

fn job(clock: &TestClock, takes: u64) -> Job {
    Job {
        clock: clock.clone(),
        takes: secs(takes),
    }
}

/// Returns a time within an eighth above this one.
fn about(time: Option<Duration>, expected: Duration) -> bool {
    time.is_some_and(|time| time >= expected && time <= expected + expected / 8)
}

/// OB-02: a locality reports its longest run, how long it was busy, and how long foms were ready before they ran.
#[test]
fn a_locality_measures_its_runs() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).observe().build().unwrap();
        clock.advance(secs(1));
        runtime.quiet().await;
        let both = [5, 1].map(|takes| runtime.submit(job(&clock, takes)));
        let both = both.map(|job| job.start().unwrap());
        runtime.quiet().await;
        let load = runtime.inspect().loads().remove(0);
        assert_eq!((load.foms, load.ready, load.has_mail), (2, 0, false));
        let measured = load.measured.unwrap();
        assert_eq!((measured.longest_run, measured.running), (secs(5), None));
        assert_eq!(measured.busy, secs(6));
        // A long step uses up the budget of a run, so each fom ran twice.
        assert_eq!(measured.ready.count(), 4);
        assert!(measured.ready.quantile(1.0) >= Some(secs(5)));
        // Two runs took no time.
        assert_eq!(measured.run_times.count(), 4);
        assert_eq!(measured.run_times.sum(), secs(6));
        assert!(about(measured.run_times.quantile(1.0), secs(5)));
        assert_eq!(measured.sections.count(), 0);
        drop(both);
    });
}

/// OB-02: a run is counted with the foms that were in the queue when it began.
#[test]
fn a_locality_measures_its_queue() {
    limited(|| async {
        let runtime = one(&TestClock::new()).observe().build().unwrap();
        let starts = quick(|cx| {
            for _ in 0..3 {
                let _ = cx.submit(quick(|_| ())).detach();
            }
        });
        runtime.submit(starts).await.unwrap();
        runtime.quiet().await;
        let measured = runtime.inspect().loads().remove(0).measured.unwrap();
        assert_eq!(measured.queued.steps(), [(1, 2), (2, 1), (3, 1)]);
        assert_eq!(measured.queued.sum(), 7);
    });
}

/// Blocks for some time, and fails at first.
struct Fetch {
    clock: TestClock,
    takes: Duration,
    failures: u32,
}

#[fom(operation(Fetch), transient)]
enum Fetching {
    #[phase(start, sync, to(Done), retry = "3, 1s..1s")]
    Fetch,
    #[phase(end)]
    Done,
}

impl FetchingTransitions for Fetch {
    fn fetch(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.blocking(|_| self.clock.advance(self.takes));
        if self.failures > 0 {
            self.failures -= 1;
            return Err("no answer".into());
        }
        Ok(())
    }
}

/// OB-02 and OB-10: blocking sections are measured, and attempts that are followed by another are counted.
#[test]
fn blocking_sections_and_retries_are_counted() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).observe().build().unwrap();
        for (takes, failures) in [(7, 0), (1, 2)] {
            let fetch = Fetch {
                clock: clock.clone(),
                takes: secs(takes),
                failures,
            };
            let fetch = runtime.submit(fetch).start().unwrap();
            for _ in 0..failures {
                runtime.quiet().await;
                clock.advance(secs(1));
            }
            fetch.await.unwrap();
        }
        runtime.quiet().await;
        let measured = runtime.inspect().loads().remove(0).measured.unwrap();
        assert_eq!(measured.sections.count(), 4);
        assert_eq!(measured.sections.sum(), secs(10));
        assert!(about(measured.sections.quantile(1.0), secs(7)));
        let counters = runtime.inspect().counters();
        let phases = &counters.operations[0].phases;
        assert_eq!((phases[0].phase, phases[0].retries), ("Fetch", 2));
        assert_eq!(phases[1].retries, 0);
    });
}

/// Notes how many foms its locality found in the inbox.
struct Look {
    held: Option<mpsc::Receiver<()>>,
    runtime: Runtime,
    tell: mpsc::Sender<usize>,
}

#[fom(operation(Look), transient)]
enum Looking {
    #[phase(start, sync, to(Done))]
    Look,
    #[phase(end)]
    Done,
}

impl LookingTransitions for Look {
    fn look(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        if let Some(held) = self.held.take() {
            held.recv().expect("the test sends");
        }
        let load = self.runtime.inspect().loads().remove(0);
        self.tell.send(load.inbox)?;
        Ok(())
    }
}

/// OB-02: a locality reports what its last look found in the inbox.
#[test]
fn a_locality_tells_what_its_inbox_held() {
    limited(|| async {
        let runtime = one(&TestClock::new()).observe().build().unwrap();
        let (tell, told) = mpsc::channel();
        let look = |held| Look {
            held,
            runtime: runtime.clone(),
            tell: tell.clone(),
        };
        let (release, held) = mpsc::channel();
        runtime.submit(look(Some(held))).detach().unwrap();
        while runtime.inspect().loads()[0]
            .measured
            .as_ref()
            .unwrap()
            .running
            .is_none()
        {
            thread::yield_now();
        }
        for _ in 0..3 {
            runtime.submit(look(None)).detach().unwrap();
        }
        release.send(()).unwrap();
        // The locality reports after each run. So the second fom of the three sees the look that found them.
        let seen: Vec<_> = told.iter().take(4).collect();
        assert_eq!(seen[2..], [3, 3]);
        runtime.quiet().await;
        assert_eq!(runtime.inspect().loads()[0].inbox, 0);
    });
}

/// Without counters, nothing is measured.
#[test]
fn nothing_is_measured_unless_it_is_asked_for() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let resting = runtime.submit(job(&clock, 1)).start().unwrap();
        runtime.quiet().await;
        assert!(runtime.inspect().counters().operations.is_empty());
        assert!(runtime.inspect().loads()[0].measured.is_none());
        runtime.observe();
        runtime.quiet().await;
        let counters = runtime.inspect().counters();
        let phases = &counters.operations[0].phases;
        let foms: Vec<_> = phases
            .iter()
            .map(|phase| (phase.phase, phase.foms))
            .collect();
        assert_eq!(foms, [("Work", 0), ("Rest", 1), ("Done", 0)]);
        clock.advance(secs(30));
        resting.send(Go::Go).ok().unwrap();
        resting.await.unwrap();
        let rest = &runtime.inspect().counters().operations[0].phases[1];
        assert_eq!((rest.foms, rest.times.count()), (0, 1));
        assert!(about(rest.times.quantile(0.5), secs(30)));
        assert_eq!(rest.times.sum(), secs(30));
    });
}

/// OB-01: the quantiles of the times, and the causes of the edges.
#[test]
fn times_and_causes() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).observe().build().unwrap();
        for seconds in 1..=100 {
            let job = runtime.submit(job(&clock, 0)).start().unwrap();
            runtime.quiet().await;
            clock.advance(secs(seconds));
            runtime.quiet().await;
            job.send(Go::Go).ok().unwrap();
            job.await.unwrap();
        }
        let counters = runtime.inspect().counters();
        let of = &counters.operations[0];
        let taken = |from, to, cause: &str| {
            let mut edges = of.edges.iter();
            let found = edges
                .find(|edge| (edge.from, edge.to) == (from, to) && edge.cause.to_string() == cause);
            found.map_or((0, secs(0)), |edge| (edge.count, edge.time))
        };
        let count = |from, to, cause| taken(from, to, cause).0;
        assert_eq!(count(None, Some("Work"), "started"), 100);
        assert_eq!(count(Some("Work"), Some("Rest"), "returned"), 100);
        assert_eq!(count(Some("Rest"), Some("Rest"), "late"), 41);
        assert_eq!(count(Some("Rest"), Some("Done"), "returned"), 100);
        // The time until each exit: the clock jumps over the deadline of one minute.
        let rest = |to, cause| taken(Some("Rest"), Some(to), cause).1;
        assert_eq!(rest("Done", "returned"), secs((1..60).sum()));
        assert_eq!(rest("Rest", "late"), secs((60..=100).sum()));
        assert_eq!(taken(None, Some("Work"), "started").1, secs(0));
        let times = &of.phases[1].times;
        assert_eq!(times.count(), 141);
        assert!(times.steps().is_sorted());
        assert!(about(times.quantile(1.0), secs(100)));
        assert_eq!(
            times.quantile(0.0),
            times.steps().first().map(|step| step.0)
        );
    });
}
