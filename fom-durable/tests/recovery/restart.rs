//! Recovery after a restart: what comes back, with what, in which order, and when.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use fom_durable::{
    RecoveryProgress,
    journal::{
        Batch, EntryId, FileJournal, Journal, JournalError, JournalStats, MemoryJournal, Recover,
        Recovery,
    },
    prelude::*,
};
use fom_runtime::{
    error::RefusedReason,
    submission::{Placement, Priority},
    time::TestClock,
};
use serde::{Deserialize, Serialize};

use crate::{
    kit::{Log, limited, many, millis, one, secs},
    parked::{Bench, Job, JobEvent, WorkKind, job},
};

/// A deadline runs on with the time that passes, whether or not the program runs; a deadline that passed meanwhile
/// fires at once.
#[test]
fn deadlines_go_on_over_a_restart() {
    limited(async || {
        let bench = Bench::new();
        bench.park(1, Some(|| JobEvent::Wait)).await;
        bench.clock.advance(secs(20));
        {
            let runtime = bench.build();
            runtime.quiet().await;
            let fom = runtime.operations().foms.remove(0);
            assert_eq!(
                (fom.phase, fom.times.deadline_in),
                ("Timed", Some(secs(40)))
            );
            bench.clock.advance(secs(30));
            runtime.quiet().await;
        }
        assert!(bench.log.lines().is_empty());
        {
            let runtime = bench.build();
            bench.clock.advance(millis(9_999));
            runtime.quiet().await;
            assert!(bench.log.lines().is_empty());
        }
        // While no program runs.
        bench.clock.advance(secs(5));
        let runtime = bench.build();
        runtime.quiet().await;
        assert_eq!(bench.log.lines(), ["late 0"]);
        assert_eq!(runtime.in_flight(), 0);
    });
}

/// A deadline that an earlier phase keeps runs on, too, and says which phase set it.
#[test]
fn kept_deadlines_go_on_over_a_restart() {
    limited(async || {
        let bench = Bench::new();
        bench.park(1, Some(|| JobEvent::Keep)).await;
        bench.clock.advance(secs(30));
        {
            let runtime = bench.build();
            let fom = runtime.find::<Job>(0u64).unwrap();
            let second = fom.reached([WorkKind::Second]);
            fom.send(JobEvent::Go).unwrap();
            second.await;
            runtime.quiet().await;
        }
        bench.clock.advance(secs(69));
        let failures = Arc::new(Mutex::new(Vec::new()));
        let runtime = bench.build();
        let told = Arc::clone(&failures);
        let _listening = runtime.listen(move |transition| {
            told.lock()
                .unwrap()
                .push(format!("{:?}", transition.cause()));
        });
        runtime.quiet().await;
        assert_eq!(runtime.find::<Job>(0u64).unwrap().phase(), "Second");
        bench.clock.advance(secs(1));
        runtime.quiet().await;
        assert_eq!(runtime.in_flight(), 0);
        assert!(
            failures
                .lock()
                .unwrap()
                .iter()
                .any(|cause| cause.contains("late")),
            "{failures:?}"
        );
    });
}

/// Attempts are counted over a restart, and the wait before the next one goes on.
#[test]
fn attempts_are_counted_over_a_restart() {
    limited(async || {
        let bench = Bench::new();
        bench.park(1, Some(|| JobEvent::Try)).await;
        {
            let runtime = bench.build();
            runtime.quiet().await;
            bench.clock.advance(secs(10));
            runtime.quiet().await;
        }
        let runtime = bench.build();
        for _ in 0..5 {
            runtime.quiet().await;
            bench.clock.advance(secs(10));
        }
        runtime.quiet().await;
        let attempts = bench.log.lines();
        // Effects at least once: a restart may repeat an attempt, but never counts it back.
        assert_eq!(attempts.first().unwrap(), "0 0");
        assert_eq!(attempts.last().unwrap(), "0 4");
        assert!(attempts.is_sorted(), "{attempts:?}");
        assert!(attempts.len() <= 7, "{attempts:?}");
        assert_eq!(runtime.in_flight(), 0, "it is exhausted");
    });
}

/// Key, home and priority are what they were.
#[test]
fn key_home_and_priority_are_kept() {
    limited(async || {
        let bench = Bench::new();
        let build = || {
            many(3, &bench.clock)
                .journal_with(bench.journal.clone())
                .resource(bench.log.clone())
                .build()
                .unwrap()
        };
        let submitted = {
            let runtime = build();
            for home in 0..3 {
                for (name, priority) in [("low", Priority::Low), ("high", Priority::High)] {
                    let key = (name, home as u64);
                    let submission = runtime.submit(job(name)).key(key);
                    let placement = Placement::Locality(home);
                    submission
                        .place(placement)
                        .priority(priority)
                        .detach()
                        .unwrap();
                }
            }
            runtime.quiet().await;
            let foms = runtime.operations().foms.into_iter();
            foms.map(|fom| (fom.id, fom.key, fom.home.locality))
                .collect::<Vec<_>>()
        };
        let runtime = build();
        let foms = runtime.operations().foms.into_iter();
        let back: Vec<_> = foms
            .map(|fom| (fom.id, fom.key, fom.home.locality))
            .collect();
        assert_eq!(back, submitted);
        let refused = runtime
            .submit(job("x"))
            .key(("low", 1u64))
            .start()
            .unwrap_err();
        assert_eq!(refused.reason(), RefusedReason::KeyInUse);
    });
}

/// Looks round when it comes back: no fom runs before all are there.
#[derive(Serialize, Deserialize)]
struct Look {
    others: u64,
}

#[fom(operation(Look))]
enum Looking {
    #[phase(start, to(Seen))]
    Wait,
    #[phase(end)]
    Seen,
}

/// Whether looking is on.
#[derive(Default)]
struct Looks(AtomicBool);

impl LookingTransitions for Look {
    async fn wait(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        if !cx.resource::<Arc<Looks>>().0.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        let (missing, order) = (cx.resource::<Arc<AtomicUsize>>(), cx.resource::<Log>());
        for other in 0..self.others {
            if cx.runtime().find::<Job>(other).is_none() {
                missing.fetch_add(1, Ordering::SeqCst);
            }
        }
        order.put(cx.id());
        Ok(())
    }
}

/// All foms are back before any runs, and the older ones run first, in whatever order the journal has them.
#[test]
fn all_are_back_before_anybody_runs_and_the_oldest_run_first() {
    limited(async || {
        let bench = Bench::new();
        let (looks, missing) = (Arc::new(Looks::default()), Arc::new(AtomicUsize::new(0)));
        let builder = |journal: Backwards| {
            one(&bench.clock)
                .journal_with(journal)
                .resource(bench.log.clone())
                .resource(Arc::clone(&looks))
                .resource(Arc::clone(&missing))
        };
        let mut ids = Vec::new();
        {
            let runtime = builder(Backwards(bench.journal.clone())).build().unwrap();
            for _ in 0..10 {
                ids.push(
                    runtime
                        .submit(Look { others: 50 })
                        .detach()
                        .unwrap()
                        .to_string(),
                );
            }
            for key in 0..50u64 {
                runtime.submit(job(key)).key(key).detach().unwrap();
            }
            runtime.quiet().await;
        }
        looks.0.store(true, Ordering::SeqCst);
        let runtime = builder(Backwards(bench.journal.clone())).build().unwrap();
        runtime.quiet().await;
        assert_eq!(missing.load(Ordering::SeqCst), 0);
        assert_eq!(bench.log.lines(), ids);
    });
}

/// Returns its entries in reverse order, the head first.
struct Backwards(MemoryJournal);

impl Journal for Backwards {
    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError> {
        let (heads, mut foms): (Vec<_>, Vec<_>) =
            self.0.ids().into_iter().partition(|id| *id < EntryId::HEAD);
        foms.reverse();
        for id in heads.into_iter().chain(foms) {
            to.entry(id, &self.0.entry(id).unwrap());
        }
        Ok(Recovery::default())
    }
    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        self.0.commit(batch)
    }
    fn stats(&self) -> JournalStats {
        self.0.stats()
    }
}

/// Progress is reported: at the beginning the total, at the end the number of foms that are back.
#[test]
fn progress_is_told() {
    limited(async || {
        let bench = Bench::new();
        bench.park(11_000, None).await;
        for most in [usize::MAX, 10] {
            let told = Arc::new(Mutex::new(Vec::new()));
            let hears = Arc::clone(&told);
            let runtime = bench
                .builder()
                .resident(most)
                .on_recovery(move |progress: &RecoveryProgress| {
                    hears.lock().unwrap().push(*progress)
                })
                .build()
                .unwrap();
            let told = told.lock().unwrap();
            assert!(told.len() >= 3, "beginning, one on the way, end: {told:?}");
            assert_eq!((told[0].read, told[0].foms), (0, 0));
            assert!(told[0].entries >= 11_000);
            let last = told.last().unwrap();
            assert_eq!((last.foms, last.quarantined), (11_000, 0));
            assert_eq!(last.to_string(), "100 % read, 11000 foms back");
            drop(runtime);
        }
    });
}

/// An id is used once, also when its fom is long gone from the journal.
#[test]
fn ids_are_never_used_again() {
    limited(async || {
        let path = std::env::temp_dir().join(format!("fom-ids-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        let mut last = 0;
        for _ in 0..4 {
            let journal = FileJournal::options()
                .segment_bytes(1 << 14)
                .open(&path)
                .unwrap();
            let runtime = many(2, &TestClock::new())
                .journal_with(journal)
                .build()
                .unwrap();
            let mut ids = Vec::new();
            for name in 0..200 {
                let handle = runtime.submit(job(name)).start().unwrap();
                handle.send(JobEvent::Go).unwrap();
                ids.push(handle.id().get());
                handle.await.unwrap();
            }
            assert!(ids.iter().all(|id| *id > last), "{ids:?} after {last}");
            last = *ids.iter().max().unwrap();
        }
        std::fs::remove_dir_all(&path).unwrap();
    });
}

/// A journal that breaks off in the middle of the recovery.
struct BreaksOff(MemoryJournal);

impl Journal for BreaksOff {
    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError> {
        for id in self.0.ids().into_iter().take(20) {
            to.entry(id, &self.0.entry(id).unwrap());
        }
        Err(JournalError::Other(
            BoxError::from("the cable is out").into(),
        ))
    }
    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        self.0.commit(batch)
    }
    fn stats(&self) -> JournalStats {
        self.0.stats()
    }
}

/// A recovery that fails leaves nothing running, and the journal as it was.
#[test]
fn a_recovery_that_fails_leaves_nothing_behind() {
    limited(async || {
        let bench = Bench::new();
        bench.park(50, Some(|| JobEvent::Wait)).await;
        bench.clock.advance(secs(100));
        let before: Vec<_> = bench
            .journal
            .ids()
            .into_iter()
            .map(|id| bench.journal.entry(id))
            .collect();
        for most in [usize::MAX, 5] {
            let alive = Arc::new(());
            let error = one(&bench.clock)
                .journal_with(BreaksOff(bench.journal.clone()))
                .resource(bench.log.clone())
                .resource(Arc::clone(&alive))
                .resident(most)
                .build()
                .unwrap_err();
            assert!(error.to_string().contains("the cable is out"), "{error}");
            // The runtime is gone, with all that belongs to it.
            let begun = std::time::Instant::now();
            while Arc::strong_count(&alive) > 1 {
                assert!(
                    begun.elapsed() < Duration::from_secs(10),
                    "something is left"
                );
                std::thread::yield_now();
            }
        }
        assert!(bench.log.lines().is_empty(), "no fom ran");
        let after: Vec<_> = bench
            .journal
            .ids()
            .into_iter()
            .map(|id| bench.journal.entry(id))
            .collect();
        assert_eq!(before, after);
        let runtime = bench.build();
        runtime.quiet().await;
        assert_eq!(bench.log.lines().len(), 50);
    });
}

/// PR-08: a record holds the state of a fom and no settings of the runtime. With a smaller capacity all foms come back,
/// and the runtime admits no new one.
#[test]
fn a_smaller_capacity_lets_all_come_back_and_nothing_new_in() {
    limited(async || {
        let bench = Bench::new();
        bench.park(10, None).await;
        let runtime = bench.builder().capacity(9).build().unwrap();
        assert_eq!(runtime.in_flight(), 10);
        let full = || {
            runtime
                .submit(job("new"))
                .start()
                .map(drop)
                .unwrap_err()
                .reason()
        };
        assert_eq!(full(), RefusedReason::Full);
        for key in 0..2u64 {
            let fom = runtime.find::<Job>(key).unwrap();
            let done = fom.reached([WorkKind::Done]);
            assert_eq!(full(), RefusedReason::Full);
            fom.send(JobEvent::Go).unwrap();
            done.await;
            runtime.quiet().await;
        }
        drop(runtime.submit(job("new")).start().unwrap());
    });
}

/// Waits for 3 s in one phase, and then for ever in the next.
#[derive(Serialize, Deserialize)]
struct Rest;

#[fom(operation(Rest))]
enum Resting {
    #[phase(start, to(Hold))]
    Doze,
    #[phase(to(Awake))]
    Hold,
    #[phase(end)]
    Awake,
}

impl RestingTransitions for Rest {
    async fn doze(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.sleep(secs(3)).await;
        Ok(())
    }
    async fn hold(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        std::future::pending().await
    }
}

/// The age of a fom, and its time in the phase, go on over any number of restarts. The listing and the transition print
/// the key.
#[test]
fn ages_go_on_over_a_restart() {
    limited(async || {
        let (clock, journal) = (TestClock::new(), MemoryJournal::new());
        let build = |clock: &TestClock, log: &Log| {
            let heard = log.clone();
            one(clock)
                .journal_with(journal.clone())
                .listen(move |transition| {
                    heard.put(format_args!("{transition}, {:?}", transition.stayed()));
                })
                .build()
                .unwrap()
        };
        let ages = async |runtime: &Runtime| {
            runtime.quiet().await;
            let listed = runtime.operations();
            assert!(listed.to_string().contains(" Rest bed 7 "), "{listed}");
            let [fom] = listed.foms.as_slice() else {
                panic!("{listed}")
            };
            (
                fom.phase,
                fom.times.age.as_millis(),
                fom.times.in_phase.as_millis(),
            )
        };
        let log = Log::default();
        clock.advance(secs(1));
        let id = {
            let runtime = build(&clock, &log);
            clock.advance(secs(1));
            let handle = runtime.submit(Rest).key("bed 7").start().unwrap();
            runtime.quiet().await;
            clock.advance(secs(3));
            runtime.quiet().await;
            clock.advance(secs(2));
            assert_eq!(ages(&runtime).await, ("Hold", 5000, 2000));
            handle.id()
        };
        log.take();
        // A record has the times in units of about a millisecond.
        let about = |is: (&str, u128, u128), age, in_phase| {
            assert!(is.1.abs_diff(age) <= 2, "{is:?}");
            assert!(is.2.abs_diff(in_phase) <= 2, "{is:?}");
        };
        for age in [6000, 7000] {
            clock.advance(secs(1));
            let runtime = build(&clock, &log);
            about(ages(&runtime).await, age, age - 3000);
            let lines = log.take();
            let resumed = format!("Rest {id} bed 7: Hold (resumed), ");
            let is_told = lines.iter().any(|line| line.starts_with(&resumed));
            assert!(is_told, "{lines:?}");
        }
        // The clock of another process begins at zero, so the submission is before its start. The journal knows only the
        // time that it has seen.
        let clock = TestClock::new();
        let runtime = build(&clock, &log);
        clock.advance(secs(10));
        let listed = ages(&runtime).await;
        assert!(listed.1 > 12_990 && listed.2 > 9990, "{listed:?}");
        assert!((listed.1 - listed.2).abs_diff(3000) <= 2, "{listed:?}");
    });
}
