//! User code that panics around a commit: the worker goes on, and so does everything else.

use std::fmt;

use fom_durable::{journal::MemoryJournal, prelude::*};
use fom_runtime::{
    Cause,
    error::{BoxError, BuildError},
    snapshot::QuarantineKind,
    time::TestClock,
};
use serde::{Deserialize, Serialize};

use crate::kit::{Log, limited, one};

fn runtime(journaled: bool, log: &Log) -> Runtime {
    let builder = one(&TestClock::new()).resource(log.clone());
    match journaled {
        true => builder.journal_with(MemoryJournal::new()),
        false => builder,
    }
    .build()
    .unwrap()
}

/// Panics when displayed.
#[derive(Debug)]
struct Shy;

impl fmt::Display for Shy {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("it is not to be looked at")
    }
}

impl std::error::Error for Shy {}

#[derive(Serialize, Deserialize)]
struct Try {
    fails: bool,
}

#[fom(operation(Try))]
enum Trying {
    #[phase(sync, start, to(Done))]
    Attempt,
    #[phase(end)]
    Done,
}

impl TryingTransitions for Try {
    fn attempt(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.resource::<Log>().put("attempt");
        if self.fails {
            return Err(Box::new(Shy));
        }
        Ok(())
    }
}

/// An error that panics when displayed fails only its own fom, and is remembered like any failure.
#[test]
fn an_error_that_cannot_be_shown_is_remembered() {
    for journaled in [false, true] {
        limited(move || async move {
            let log = Log::default();
            let runtime = runtime(journaled, &log);
            let submit = |fails| runtime.submit(Try { fails });
            let failed = submit(true).once("a").start().unwrap().wait();
            assert!(matches!(failed.err().unwrap().cause, Cause::Error(_)));
            let again = submit(true).once("a").start().unwrap().wait();
            assert!(matches!(
                again.err().unwrap().cause,
                Cause::Remembered { .. }
            ));
            assert!(submit(false).start().unwrap().wait().is_ok());
            assert_eq!(log.lines(), ["attempt", "attempt"]);
        });
    }
}

/// Panics when dropped before it has run.
#[derive(Serialize, Deserialize)]
struct Fragile {
    was_run: bool,
}

impl Drop for Fragile {
    fn drop(&mut self) {
        assert!(self.was_run, "it was never run");
    }
}

#[fom(operation(Fragile))]
enum Breaking {
    #[phase(start, to(Broken))]
    Wait,
    #[phase(end)]
    Broken,
}

impl BreakingTransitions for Fragile {
    async fn wait(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        self.was_run = true;
        std::future::pending().await
    }
}

#[derive(Serialize, Deserialize)]
struct Parent;

#[fom(operation(Parent))]
enum Raising {
    #[phase(sync, start, to(Raised))]
    Raise,
    #[phase(end)]
    Raised,
}

impl RaisingTransitions for Parent {
    fn raise(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let fragile = Fragile { was_run: false };
        cx.outbox().submit(fragile).key("taken").post()?;
        cx.outbox().submit(Try { fails: false }).post()?;
        Ok(())
    }
}

/// A child that cannot start, and panics when dropped, harms neither its sender nor what was sent after it.
#[test]
fn a_child_that_panics_when_it_is_refused_stops_nothing() {
    for journaled in [false, true] {
        limited(move || async move {
            let log = Log::default();
            let runtime = runtime(journaled, &log);
            let fragile = Fragile { was_run: false };
            let first = runtime.submit(fragile).key("taken").start().unwrap();
            first.reached([BreakingKind::Wait]).await;
            let parent = runtime.submit(Parent).start().unwrap().wait();
            assert!(parent.is_ok(), "{:?}", parent.err().unwrap().cause);
            runtime.quiet().await;
            assert_eq!(log.lines(), ["attempt"]);
        });
    }
}

/// Panics when serialized, once `panics` is set.
#[derive(Deserialize)]
struct Unwritable {
    panics: bool,
}

impl Serialize for Unwritable {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        assert!(!self.panics, "not in writing");
        out.serialize_bool(self.panics)
    }
}

#[fom(operation(Unwritable))]
enum Writing {
    #[phase(sync, start, to(Second))]
    First,
    #[phase(sync, to(Last))]
    Second,
    #[phase(end)]
    Last,
}

impl WritingTransitions for Unwritable {
    fn first(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        self.panics = true;
        Ok(())
    }

    fn second(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.resource::<Log>().put("second");
        Ok(())
    }
}

/// An operation that cannot be serialized fails, and only its failure is in the journal after that. Others are
/// committed as before.
#[test]
fn an_operation_that_panics_when_it_is_written_down_fails_alone() {
    limited(|| async {
        let (journal, log) = (MemoryJournal::new(), Log::default());
        let builder = one(&TestClock::new()).resource(log.clone());
        let runtime = builder.journal_with(journal.clone()).build().unwrap();
        let fom = runtime.submit(Unwritable { panics: false });
        let failed = fom.start().unwrap().wait();
        assert!(matches!(failed.err().unwrap().cause, Cause::NotSaved(_)));
        assert!(
            runtime
                .submit(Try { fails: false })
                .start()
                .unwrap()
                .wait()
                .is_ok()
        );
        assert_eq!(log.lines(), ["attempt"]);
        let kept = runtime.quarantine().list_of(QuarantineKind::Failed);
        assert_eq!(kept.len(), 1);
        assert!(kept[0].snapshot().is_none());
        drop(runtime);
        assert_eq!(journal.ids().len(), 4, "the head, two schemas, the failure");
    });
}

/// Panics when dropped.
#[derive(Serialize, Deserialize)]
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("it went off")
    }
}

#[derive(Serialize, Deserialize)]
struct Fuse;

#[fom(operation(Fuse))]
enum Burning {
    #[phase(start, to(Burn))]
    Light,
    #[phase(to(Burnt))]
    Burn { bomb: Bomb },
    #[phase(end)]
    Burnt,
}

impl BurningTransitions for Fuse {
    async fn light(&mut self, _: &mut Cx<'_>) -> Result<BurningAfterLight, BoxError> {
        Ok(BurningAfterLight::Burn { bomb: Bomb })
    }

    async fn burn(&mut self, cx: &mut Cx<'_>, _: &mut Bomb) -> Result<(), BoxError> {
        cx.resource::<Log>().put("burn");
        Ok(())
    }
}

/// What a phase leaves behind may panic when dropped. The panic fails the fom, in the journal as well: the fom does not
/// come back to burn once more. With an operation id the failure is remembered.
#[test]
fn a_panic_in_a_drop_ends_the_fom_in_the_journal_too() {
    limited(|| async {
        let (journal, log) = (MemoryJournal::new(), Log::default());
        let build = |journal| {
            let builder = one(&TestClock::new()).resource(log.clone());
            builder.journal_with(journal).build().unwrap()
        };
        let runtime = build(journal.clone());
        let plain = runtime.submit(Fuse).key("plain").start().unwrap();
        let once = runtime.submit(Fuse).once("once").start().unwrap();
        for fom in [plain, once] {
            assert!(matches!(fom.await.unwrap_err().cause, Cause::Panicked(_)));
        }
        assert_eq!(log.take(), ["burn", "burn"]);
        let runtime = build(journal.fork());
        runtime.quiet().await;
        let kept = runtime.quarantine().list_of(QuarantineKind::Failed);
        assert_eq!(kept.len(), 2);
        assert_eq!(runtime.quarantine().list().len(), 2);
        assert_eq!(runtime.in_flight(), 0);
        let again = runtime.submit(Fuse).once("once").start().unwrap();
        let cause = again.await.unwrap_err().cause;
        assert!(matches!(cause, Cause::Remembered { .. }));
        assert!(log.lines().is_empty());
    });
}

/// The function that hears of the recovery panics, at the beginning or when foms are already back. Then there is no
/// runtime, and nothing is left running. The next runtime has the journal and all that is in it.
#[test]
fn a_panic_while_it_recovers_fails_the_build() {
    limited(async || {
        let (log, journal) = (Log::default(), MemoryJournal::new());
        let builder = || one(&TestClock::new()).resource(log.clone());
        let ear = || builder().journal_with(journal.clone());
        {
            let runtime = ear().build().unwrap();
            runtime.submit(Catcher).key("ear").detach().unwrap();
            runtime.quiet().await;
        }
        for nth in [1, 2] {
            let mut heard = 0;
            let building = ear().on_recovery(move |_| {
                heard += 1;
                assert_ne!(heard, nth, "it is too much");
            });
            let error = building.build().unwrap_err();
            assert!(matches!(error, BuildError::Journal(_)), "{error}");
            assert!(error.to_string().contains("it is too much"), "{error}");
        }
        let runtime = ear().build().unwrap();
        assert!(runtime.find::<Catcher>("ear").is_some());
    });
}

/// Parked forever.
#[derive(Serialize, Deserialize)]
struct Catcher;

#[derive(Serialize, Deserialize)]
enum Word {
    Close,
}

#[fom(operation(Catcher), event(Word))]
enum Hearing {
    #[phase(start, sync, on(Close), to(Closed))]
    Open,
    #[phase(end)]
    Closed,
}

impl HearingTransitions for Catcher {
    fn open(&mut self, _: &mut Cx<'_, Word>, _: Word) -> Result<HearingAfterOpen, BoxError> {
        Ok(HearingAfterOpen::Closed)
    }
}
