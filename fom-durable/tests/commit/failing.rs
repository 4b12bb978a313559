//! A journal that fails for a while: nothing acknowledged is lost, and everything goes on when the journal works again.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use fom_durable::{
    journal::{
        Batch, Change, EntryId, Journal, JournalError, JournalStats, MemoryJournal, Recover,
        Recovery,
    },
    prelude::*,
};
use fom_runtime::{
    Cause, error::BoxError, observe::FomInfo, snapshot::SnapshotError, time::TestClock,
};
use serde::{Deserialize, Serialize};

use crate::kit::{
    Gate, Log,
    held::Held,
    limited, one,
    task::{found, until},
};

fn runtime(journal: impl Journal, log: &Log) -> Runtime {
    let builder = one(&TestClock::new()).resource(log.clone());
    builder.journal_with(journal).build().unwrap()
}

#[derive(Clone, Serialize, Deserialize)]
enum Go {
    On,
}

#[derive(Serialize, Deserialize)]
struct Trip {
    child: bool,
}

#[fom(operation(Trip), event(Go))]
enum Travel {
    #[phase(sync, start, to(There), on(On))]
    Here,
    #[phase(sync, to(Home), on(On))]
    There,
    #[phase(end)]
    Home,
}

impl TravelTransitions for Trip {
    fn here(&mut self, cx: &mut Cx<'_, Go>, _: Go) -> Result<TravelAfterHere, BoxError> {
        if self.child {
            cx.outbox().submit(Card).post()?;
        }
        Ok(TravelAfterHere::There)
    }

    fn there(&mut self, _: &mut Cx<'_, Go>, _: Go) -> Result<TravelAfterThere, BoxError> {
        Ok(TravelAfterThere::Home)
    }
}

#[derive(Serialize, Deserialize)]
struct Card;

#[fom(operation(Card))]
enum Carding {
    #[phase(sync, start, to(Posted))]
    Post,
    #[phase(end)]
    Posted,
}

impl CardingTransitions for Card {
    fn post(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.resource::<Log>().put("card");
        Ok(())
    }
}

/// A failed step is tried again by itself, also if its fom learned of the failure only after the journal had come to
/// rest.
#[test]
fn a_failed_step_is_tried_again_although_nothing_else_is_committed() {
    limited(|| async {
        let (journal, log) = (Held::default(), Log::default());
        let runtime = runtime(journal.clone(), &log);
        let trip = Trip { child: false };
        let handle = runtime.submit(trip).key("a").start().unwrap();
        journal.wait_for_done(1);
        handle.reached([TravelKind::Here]).await;
        runtime.quiet().await;
        journal.hold_commits(true);
        handle.send(Go::On).unwrap();
        journal.wait_for_asked(2);
        let gate = Gate::close(&runtime, 0);
        let tidied = journal.tidied();
        journal.fail(true);
        journal.hold_commits(false);
        journal.wait_for_tidied(tidied + 1);
        // The journal goes to rest now, which no thread can observe.
        thread::sleep(Duration::from_millis(100));
        journal.fail(false);
        gate.open();
        assert!(matches!(
            handle.wait().err().unwrap().cause,
            Cause::Journal(_)
        ));
        let fom = found("it is back", || runtime.find::<Trip>("a"));
        until("nothing is in quarantine", || {
            runtime.quarantine().list().is_empty()
        });
        let home = fom.reached([TravelKind::Home]);
        fom.send(Go::On).unwrap();
        home.await;
    });
}

/// If a step starts an operation type for the first time, the later commit of the step brings the schema of that type.
#[test]
fn a_step_that_is_committed_later_brings_the_schemas_that_it_needs() {
    limited(|| async {
        let (journal, log) = (Held::default(), Log::default());
        let runtime = runtime(journal.clone(), &log);
        let trip = Trip { child: true };
        let handle = runtime.submit(trip).key("a").start().unwrap();
        journal.wait_for_done(1);
        handle.reached([TravelKind::Here]).await;
        journal.fail(true);
        handle.send(Go::On).unwrap();
        assert!(matches!(
            handle.wait().err().unwrap().cause,
            Cause::Journal(_)
        ));
        journal.fail(false);
        found("it is back", || runtime.find::<Trip>("a"));
        until("nothing is in quarantine", || {
            runtime.quarantine().list().is_empty()
        });
        until("the card is posted", || log.lines() == ["card"]);
    });
}

/// If the step of a fom is committed again while the fom still ends, the fom comes back only after it has gone.
#[test]
fn a_fom_does_not_come_back_before_it_has_gone() {
    limited(|| async {
        let (journal, log) = (Held::default(), Log::default());
        let slow = journal.clone();
        let builder = one(&TestClock::new()).resource(log.clone());
        let runtime = builder
            .journal_with(journal.clone())
            .listen(move |transition| {
                if transition.to().is_none() {
                    slow.fail(false);
                    // Longer than the time until the journal is tried again.
                    slow.has_done(usize::MAX, Duration::from_millis(1200));
                }
            })
            .build()
            .unwrap();
        let trip = Trip { child: false };
        let handle = runtime.submit(trip).key("a").once("a").start().unwrap();
        journal.wait_for_done(1);
        handle.reached([TravelKind::Here]).await;
        journal.fail(true);
        handle.send(Go::On).unwrap();
        assert!(matches!(
            handle.wait().err().unwrap().cause,
            Cause::Journal(_)
        ));
        let fom = found("it is back", || runtime.find::<Trip>("a"));
        until("nothing is in quarantine", || {
            runtime.quarantine().list().is_empty()
        });
        let again = runtime
            .submit(Trip { child: false })
            .once("a")
            .start()
            .unwrap();
        assert_eq!(again.id(), fom.id());
        fom.send(Go::On).unwrap();
        assert!(again.wait().is_ok());
    });
}

#[derive(Serialize, Deserialize)]
struct Idler;

#[fom(operation(Idler), event(Go), durability = "lazy")]
enum Idling {
    #[phase(sync, start, to(Up), on(On))]
    Idle,
    #[phase(end)]
    Up,
}

impl IdlingTransitions for Idler {
    fn idle(&mut self, cx: &mut Cx<'_, Go>, _: Go) -> Result<IdlingAfterIdle, BoxError> {
        cx.resource::<Log>().put(cx.step_key());
        Ok(IdlingAfterIdle::Up)
    }
}

/// A lazy step that failed with the journal is committed when the journal works again, although the fom does nothing
/// more.
#[test]
fn a_lazy_step_that_failed_is_committed_later() {
    limited(|| async {
        let (journal, log) = (Held::default(), Log::default());
        journal.fail(true);
        let runtime = self::runtime(journal.clone(), &log);
        let one = runtime.submit(Idler).key("a").start().unwrap();
        one.reached([IdlingKind::Idle]).await;
        journal.wait_for_failed(1);
        journal.fail(false);
        journal.wait_for_done(1);
        let runtime = self::runtime(journal.journal.fork(), &log);
        assert!(runtime.find::<Idler>("a").is_some());
        drop(one);
    });
}

/// Lazy and other foms share a batch: the failure of the other fom does not lose the lazy fom.
#[test]
fn a_lazy_step_beside_one_that_failed_is_committed_later() {
    limited(|| async {
        let (journal, log) = (Held::default(), Log::default());
        journal.fail(true);
        let runtime = self::runtime(journal.clone(), &log);
        let gate = Gate::close(&runtime, 0);
        let lazy = runtime.submit(Idler).key("a").start().unwrap();
        let other = runtime
            .submit(Trip { child: false })
            .key("b")
            .start()
            .unwrap();
        gate.open();
        assert!(matches!(
            other.wait().err().unwrap().cause,
            Cause::Journal(_)
        ));
        journal.fail(false);
        journal.wait_for_done(1);
        let runtime = self::runtime(journal.journal.fork(), &log);
        assert!(runtime.find::<Idler>("a").is_some());
        assert!(runtime.find::<Trip>("b").is_none(), "it was given back");
        drop(lazy);
    });
}

/// A lazy fom that ended while the journal failed does not come back.
#[test]
fn a_lazy_end_that_failed_is_committed_later() {
    limited(|| async {
        let (journal, log) = (Held::default(), Log::default());
        let runtime = self::runtime(journal.clone(), &log);
        journal.hold_commits(true);
        let lazy = runtime.submit(Idler).key("a").start().unwrap();
        journal.wait_for_asked(1);
        let tidied = journal.tidied();
        journal.hold_commits(false);
        // From here on the journal is not behind.
        journal.wait_for_tidied(tidied + 1);
        journal.fail(true);
        lazy.send(Go::On).unwrap();
        assert!(lazy.wait().is_ok());
        journal.wait_for_failed(1);
        journal.fail(false);
        journal.wait_for_done(2);
        let runtime = self::runtime(journal.journal.fork(), &log);
        assert!(runtime.find::<Idler>("a").is_none());
    });
}

/// A step key names one visit of one fom, also if that fom was lost because it was not committed.
#[test]
fn a_step_key_of_a_lost_fom_is_not_given_again() {
    limited(|| async {
        let (journal, log) = (Held::default(), Log::default());
        drop(self::runtime(journal.clone(), &log));
        let warm = self::runtime(journal.clone(), &log);
        let trip = warm.submit(Trip { child: false }).key("b").start().unwrap();
        trip.reached([TravelKind::Here]).await;
        journal.hold_commits(true);
        let lost = warm.submit(Idler).start().unwrap();
        lost.send(Go::On).unwrap();
        assert!(lost.wait().is_ok());
        let crashed = journal.journal.fork();
        let runtime = self::runtime(crashed, &log);
        let other = runtime.submit(Idler).start().unwrap();
        other.send(Go::On).unwrap();
        assert!(other.wait().is_ok());
        let keys = log.lines();
        assert_ne!(keys[0], keys[1], "two foms");
        journal.hold_commits(false);
    });
}

/// Panics on demand in `stats` and in its drop, or fails to recover.
#[derive(Clone, Default)]
struct Rude {
    journal: MemoryJournal,
    panics: Arc<AtomicBool>,
    fails_to_recover: bool,
}

impl Journal for Rude {
    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError> {
        if self.fails_to_recover {
            to.entry(EntryId::HEAD, b"what is that");
            let cause = std::io::ErrorKind::Other.into();
            return Err(JournalError::io("read", "here", cause));
        }
        self.journal.recover(to)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        self.journal.commit(batch)
    }

    fn stats(&self) -> JournalStats {
        assert!(!self.panics.load(Ordering::SeqCst), "what a question");
        self.journal.stats()
    }
}

impl Drop for Rude {
    fn drop(&mut self) {
        let panics = self.panics.load(Ordering::SeqCst) && !thread::panicking();
        assert!(!panics, "and in its drop");
    }
}

/// A panic in the journal ends no fom, and a dropped runtime does not wait for the journal.
#[test]
fn a_journal_that_panics_ends_no_fom() {
    limited(|| async {
        let journal = Rude::default();
        let panics = Arc::clone(&journal.panics);
        let log = Log::default();
        let runtime = runtime(journal, &log);
        panics.store(true, Ordering::SeqCst);
        for _ in 0..3 {
            assert!(runtime.submit(Card).start().unwrap().wait().is_ok());
        }
        let begun = Instant::now();
        drop(runtime);
        assert!(begun.elapsed() < Duration::from_millis(1500), "it waited");
    });
}

/// A runtime that could not be built is gone at once.
#[test]
fn a_recovery_that_fails_waits_for_no_fom() {
    limited(|| async {
        let mut journal = Rude::default();
        journal.fails_to_recover = true;
        let begun = Instant::now();
        let built = one(&TestClock::new()).journal_with(journal).build();
        assert!(built.is_err());
        assert!(begun.elapsed() < Duration::from_millis(1500), "it waited");
    });
}

/// Takes only short entries, and reports the limit.
#[derive(Clone, Default)]
struct Short(MemoryJournal);

const LONGEST: usize = 2_000;

impl Journal for Short {
    fn recover(&mut self, to: &mut dyn Recover) -> Result<Recovery, JournalError> {
        self.0.recover(to)
    }
    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        for change in batch.groups().flat_map(|group| group.changes()) {
            if let Change::Put { bytes, .. } = change
                && bytes.len() > LONGEST
            {
                let (length, most) = (bytes.len(), LONGEST);
                return Err(JournalError::TooLong { length, most });
            }
        }
        self.0.commit(batch)
    }
    fn longest(&self) -> usize {
        LONGEST
    }
    fn stats(&self) -> JournalStats {
        self.0.stats()
    }
}

/// Grows with each event.
#[derive(Serialize, Deserialize)]
struct Diary(String);

#[fom(operation(Diary), event(Go), durability = "lazy")]
enum Writing {
    #[allow(dead_code)]
    #[phase(start, sync, to(Full), on(On))]
    Write,
    #[phase(end)]
    Full,
}

impl WritingTransitions for Diary {
    fn write(&mut self, _: &mut Cx<'_, Go>, _: Go) -> Result<WritingAfterWrite, BoxError> {
        self.0.push_str(&"dear diary, ".repeat(100));
        Ok(WritingAfterWrite::Stay)
    }
}

/// A record that is too long for the journal fails only its own fom. A lazy step that is refused would otherwise be
/// tried before all later steps, forever.
#[test]
fn a_record_that_is_too_long_harms_no_other_fom() {
    limited(|| async {
        let (begin, begun) = mpsc::channel();
        let begun = Mutex::new(Some(begun));
        // The thread that commits starts late.
        let spawn = move |name: String, main: Box<dyn FnOnce() + Send>| {
            let waits = match name.as_str() {
                "fom-journal" => begun.lock().unwrap().take(),
                _ => None,
            };
            let thread = thread::Builder::new().name(name);
            let spawned = thread.spawn(move || {
                // An error means that the test is over.
                let _ = waits.map(|begun| begun.recv());
                main();
            });
            spawned.map(drop)
        };
        let builder = one(&TestClock::new()).resource(Log::default());
        let builder = builder.spawn_with(spawn).journal_with(Short::default());
        let runtime = builder.build().unwrap();
        let diary = runtime.submit(Diary(String::new())).start().unwrap();
        diary.send(Go::On).unwrap();
        diary.send(Go::On).unwrap();
        // The fom has failed, or waits because the journal is behind by now.
        let waits = |fom: &FomInfo| fom.waiting_for().as_deref() == Some("the journal");
        until("all wait", || runtime.operations().foms.iter().all(waits));
        begin.send(()).unwrap();
        let failure = diary.await.unwrap_err();
        let cause = &failure.cause;
        let is_told = matches!(cause, Cause::NotSaved(SnapshotError::TooLong { most, .. }) if *most == LONGEST);
        assert!(is_told, "{cause}");
        assert_eq!(
            failure.operation.unwrap().into_inner().0.len(),
            2_400,
            "it is given back"
        );
        let trip = runtime.submit(Trip { child: false }).start().unwrap();
        trip.reached([TravelKind::Here]).await;
        for _ in 0..2 {
            trip.send(Go::On).unwrap();
        }
        assert!(trip.await.is_ok());
    });
}
