//! What survives: transitions are committed before any caller hears of them, and foms come back.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use fom_durable::{
    journal::{Journal, JournalError, MemoryJournal},
    prelude::*,
};
use fom_runtime::{
    Cause,
    context::StepKey,
    error::{BoxError, RefusedReason},
};
use serde::{Deserialize, Serialize};

use crate::kit::{
    Log,
    held::Held,
    task::{found, until},
};

#[derive(Serialize, Deserialize)]
struct Call {
    from: String,
    #[serde(skip)]
    line: Option<&'static str>,
}

#[derive(Debug)]
enum CallEvent {
    Answer(u32),
    Bye,
}

#[fom(operation(Call), event(CallEvent))]
enum Route {
    #[phase(start, to(Ring))]
    Locate,
    #[phase(sync, to(Established), on(Answer), within = "32s")]
    Ring { tries: u32 },
    #[phase(sync, to(Closed), on(Bye))]
    Established { session: u32 },
    #[phase(end)]
    Closed { by: String },
}

impl RouteTransitions for Call {
    async fn locate(&mut self, cx: &mut Cx<'_, CallEvent>) -> Result<RouteAfterLocate, BoxError> {
        cx.resource::<Log>().put("locate");
        Ok(RouteAfterLocate::Ring { tries: 0 })
    }

    fn ring(
        &mut self,
        cx: &mut Cx<'_, CallEvent>,
        tries: &mut u32,
        event: CallEvent,
    ) -> Result<RouteAfterRing, BoxError> {
        let CallEvent::Answer(session) = event else {
            return Err("not an answer".into());
        };
        cx.resource::<Log>().put(format_args!("ring {tries}"));
        if session == 0 {
            *tries += 1;
            return Ok(RouteAfterRing::Stay);
        }
        Ok(RouteAfterRing::Established { session })
    }

    fn established(
        &mut self,
        cx: &mut Cx<'_, CallEvent>,
        session: &mut u32,
        _: CallEvent,
    ) -> Result<RouteAfterEstablished, BoxError> {
        cx.resource::<Log>()
            .put(format_args!("bye {:?}", self.line));
        Ok(RouteAfterEstablished::Closed {
            by: format!("{} {session}", self.from),
        })
    }

    fn resume(&mut self, cx: &mut Cx<'_, CallEvent>, phase: &mut Route) -> Result<(), BoxError> {
        let kind = Call::kind(phase);
        cx.resource::<Log>().put(format_args!("resume in {kind:?}"));
        self.line = Some("open");
        Ok(())
    }
}

fn call() -> Call {
    Call {
        from: "ada".into(),
        line: None,
    }
}

fn runtime(journal: impl Journal, log: &Log) -> Runtime {
    Runtime::builder()
        .localities(1)
        .pin(false)
        .resource(log.clone())
        .journal_with(journal)
        .build()
        .unwrap()
}

/// PR-04: a fom comes back with its data, in the phase that it committed last, and makes again what cannot be saved.
/// Nothing of an ended fom stays.
#[test]
fn a_fom_goes_on_from_its_last_committed_phase() {
    let (journal, log) = (MemoryJournal::new(), Log::default());
    {
        let runtime = runtime(journal.clone(), &log);
        let handle = runtime.submit(call()).key("a").start().unwrap();
        handle.reached([RouteKind::Ring]).wait();
        handle.send(CallEvent::Answer(0)).unwrap();
        handle.send(CallEvent::Answer(5)).unwrap();
        handle.reached([RouteKind::Established]).wait();
    }
    assert_eq!(log.lines(), ["locate", "ring 0", "ring 1"]);
    let runtime = runtime(journal.clone(), &log);
    let fom = runtime.find::<Call>("a").expect("it is back");
    let closed = fom.reached([RouteKind::Closed]);
    fom.send(CallEvent::Bye).unwrap();
    closed.wait();
    let lines = log.lines();
    assert_eq!(lines[3..], ["resume in Established", "bye Some(\"open\")"]);
    drop(runtime);
    assert_eq!(journal.ids().len(), 2, "the head and a schema");
}

/// If an event changes data in a phase that stays, the change is on disk before the next event is taken.
#[test]
fn what_an_event_changed_survives() {
    let (journal, log) = (MemoryJournal::new(), Log::default());
    {
        let runtime = runtime(journal.clone(), &log);
        let handle = runtime.submit(call()).key("a").start().unwrap();
        handle.send(CallEvent::Answer(0)).unwrap();
        handle.send(CallEvent::Answer(0)).unwrap();
        futures::executor::block_on(runtime.quiet());
    }
    let runtime = runtime(journal, &log);
    let fom = runtime.find::<Call>("a").expect("it is back");
    let established = fom.reached([RouteKind::Established]);
    fom.send(CallEvent::Answer(1)).unwrap();
    established.wait();
    assert_eq!(log.lines().last().unwrap(), "ring 2");
}

/// A shutdown ends foms in memory; in the journal they stay. A cancel ends them in both.
#[test]
fn a_shutdown_loses_nothing_and_a_cancel_is_an_end() {
    let (journal, log) = (MemoryJournal::new(), Log::default());
    {
        let runtime = runtime(journal.clone(), &log);
        let stays = runtime.submit(call()).key("stays").start().unwrap();
        let goes = runtime.submit(call()).key("goes").start().unwrap();
        stays.reached([RouteKind::Ring]).wait();
        goes.reached([RouteKind::Ring]).wait();
        goes.cancel();
        assert!(matches!(goes.wait().unwrap_err().cause, Cause::Cancelled));
        runtime.shutdown_blocking(Shutdown::Now, Duration::from_secs(10));
        assert!(matches!(stays.wait().unwrap_err().cause, Cause::Shutdown));
    }
    let runtime = runtime(journal, &log);
    assert!(runtime.find::<Call>("stays").is_some());
    assert!(runtime.find::<Call>("goes").is_none());
}

/// A full disk fails the transition that needs it, with a clear error. What was acknowledged stays, and goes on by
/// itself when there is room.
#[test]
fn a_full_disk_fails_transitions_and_then_they_go_on() {
    let (journal, log) = (Held::default(), Log::default());
    let runtime = runtime(journal.clone(), &log);
    let handle = runtime.submit(call()).key("a").start().unwrap();
    handle.reached([RouteKind::Ring]).wait();
    journal.fail(true);
    handle.send(CallEvent::Answer(9)).unwrap();
    let failure = handle.wait().unwrap_err();
    assert!(
        matches!(
            &failure.cause,
            Cause::Journal(error)
                if matches!(error.downcast_ref(), Some(JournalError::Full { .. }))
        ),
        "{failure:?}"
    );
    assert_eq!(runtime.quarantine().list().len(), 1);
    // The fom's key stays in use: no submission overtakes the fom.
    assert!(runtime.find::<Call>("a").is_none());
    let refused = runtime.submit(call()).key("a").start().unwrap_err();
    assert_eq!(refused.reason(), RefusedReason::KeyInUse);
    // A new fom was never committed, and its operation is given back.
    let failure = runtime.submit(call()).start().unwrap().wait().unwrap_err();
    assert!(matches!(&failure.cause, Cause::Journal(_)) && failure.operation.is_some());
    assert_eq!(log.lines(), ["locate", "ring 0"]);
    journal.fail(false);
    // The next commit, of any fom, shows that there is room.
    let next = runtime.submit(call()).start().unwrap();
    next.reached([RouteKind::Ring]).wait();
    let fom = found("it is back", || runtime.find::<Call>("a"));
    until("nothing is in quarantine", || {
        runtime.quarantine().list().is_empty()
    });
    let closed = fom.reached([RouteKind::Closed]);
    fom.send(CallEvent::Bye).unwrap();
    closed.wait();
    assert_eq!(log.lines().last().unwrap(), "bye Some(\"open\")");
}

#[derive(Serialize, Deserialize)]
struct Order {
    number: u32,
    fails: u32,
}

/// Starts a child once, whatever becomes of its first attempts.
#[fom(operation(Order))]
enum Ordering2 {
    #[phase(sync, start, to(Paid), retry = "3, 1ms..1ms")]
    Pay,
    #[phase(sync, to(Shipped))]
    Paid,
    #[phase(end)]
    Shipped,
}

#[derive(Clone, Default)]
struct Keys(Arc<Mutex<Vec<(u32, StepKey)>>>);

impl Ordering2Transitions for Order {
    fn pay(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let keys = cx.resource::<Keys>();
        keys.0.lock().unwrap().push((self.number, cx.step_key()));
        if self.number < 10 {
            let child = Order {
                number: self.number + 10,
                fails: 0,
            };
            cx.outbox()
                .submit(child)
                .key(u64::from(self.number))
                .post()?;
        }
        if cx.attempt() < self.fails {
            return Err("not yet".into());
        }
        Ok(())
    }

    fn paid(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let keys = cx.resource::<Keys>();
        keys.0.lock().unwrap().push((self.number, cx.step_key()));
        Ok(())
    }
}

/// PR-04: the contents of an outbox are started once, when the transition is committed, however often the function ran
/// before. A visit has one key in all its attempts, and no other visit has that key.
#[test]
fn an_outbox_is_sent_once_and_a_visit_has_one_key() {
    for journaled in [true, false] {
        let keys = Keys::default();
        let builder = Runtime::builder().localities(2).pin(false);
        let builder = builder.resource(keys.clone());
        let builder = match journaled {
            true => builder.journal_with(MemoryJournal::new()),
            false => builder,
        };
        let runtime = builder.build().unwrap();
        for number in 0..4 {
            let order = Order { number, fails: 2 };
            runtime.submit(order).start().unwrap().wait().unwrap();
        }
        runtime.shutdown_blocking(Shutdown::Drain, Duration::from_secs(10));
        let mut keys = keys.0.lock().unwrap().clone();
        keys.sort();
        let of = |number: u32| keys.iter().filter(move |key| key.0 == number);
        for number in 0..4 {
            assert_eq!(of(number).count(), 4, "three attempts, and one phase more");
            assert_eq!(of(number + 10).count(), 2, "the child ran once");
        }
        keys.dedup();
        assert_eq!(keys.len(), 4 * 4, "two visits of each, each with its key");
    }
}

/// The directory of one test, removed at its end.
struct Directory(std::path::PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fom-{name}-{}", std::process::id()));
        // Removes what an earlier run left, if anything.
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// `journal(path)` and nothing else.
#[test]
fn a_directory_is_all_that_it_needs() {
    let (directory, log) = (Directory::new("all-it-needs"), Log::default());
    let build = || {
        let builder = Runtime::builder().localities(1).pin(false);
        builder.resource(log.clone()).journal(&directory.0).build()
    };
    {
        let runtime = build().unwrap();
        let handle = runtime.submit(call()).key("a").start().unwrap();
        handle.reached([RouteKind::Ring]).wait();
        assert!(
            matches!(
                build(),
                Err(fom_runtime::error::BuildError::Journal(error))
                    if matches!(error.downcast_ref(), Some(JournalError::Locked(_)))
            ),
            "one runtime at a time"
        );
    }
    let runtime = build().unwrap();
    let fom = runtime.find::<Call>("a").expect("it is back");
    assert_eq!(fom.phase(), "Ring");
    assert_eq!(fom.id().get(), 1);
    let next = runtime.submit(call()).start().unwrap();
    assert!(next.id() > fom.id(), "an id is never used again");
}

#[derive(Clone, Serialize, Deserialize)]
enum Paid {
    Cents(u32),
    Enough,
}

/// Collects what is sent to it.
#[derive(Serialize, Deserialize)]
struct Account {
    sum: u32,
}

#[fom(operation(Account), event(Paid))]
enum Collect {
    #[phase(sync, start, to(Closed), on(Cents, Enough))]
    Open,
    #[phase(end)]
    Closed { sum: u32 },
}

impl CollectTransitions for Account {
    fn open(&mut self, cx: &mut Cx<'_, Paid>, event: Paid) -> Result<CollectAfterOpen, BoxError> {
        Ok(match event {
            Paid::Cents(cents) => {
                self.sum += cents;
                CollectAfterOpen::Stay
            }
            Paid::Enough => {
                cx.resource::<Log>()
                    .put(format_args!("closed with {}", self.sum));
                CollectAfterOpen::Closed { sum: self.sum }
            }
        })
    }
}

/// Pays once into an account, and fails as often as `fails` says before that.
#[derive(Serialize, Deserialize)]
struct Payment {
    to: u64,
    fails: u32,
}

#[fom(operation(Payment))]
enum Pay {
    #[phase(sync, start, to(Done), retry = "9, 1ms..1ms")]
    Send,
    #[phase(end)]
    Done,
}

impl PayTransitions for Payment {
    fn send(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.outbox().send::<Account>(self.to, Paid::Cents(7))?;
        if cx.attempt() < self.fails {
            return Err("not yet".into());
        }
        Ok(())
    }
}

/// An event that is sent through an outbox comes once. This holds also if the process ends between the commit of the
/// sender and the step of the receiver that takes the event.
#[test]
fn an_event_through_an_outbox_comes_once() {
    for crash in [false, true] {
        let (journal, log) = (MemoryJournal::new(), Log::default());
        let first = runtime(journal.clone(), &log);
        let account = first.submit(Account { sum: 0 }).key(5_u64).start().unwrap();
        account.reached([CollectKind::Open]).wait();
        for fails in 0..4 {
            let payment = Payment { to: 5, fails };
            first.submit(payment).start().unwrap().wait().unwrap();
        }
        let second;
        let runtime = if crash {
            // Some events are taken by now, others are not.
            second = runtime(journal.fork(), &log);
            drop((first, account));
            second
        } else {
            first
        };
        let account = runtime.find::<Account>(5_u64).expect("it is there");
        futures::executor::block_on(runtime.quiet());
        let closed = runtime.submit(Watch { account: 5 }).start().unwrap();
        let closing = account.reached([CollectKind::Closed]);
        closed.wait().unwrap();
        closing.wait();
        assert_eq!(runtime.operations().incidents, []);
        assert_eq!(log.lines(), ["closed with 28"]);
    }
}

/// Closes an account, which logs its sum.
#[derive(Serialize, Deserialize)]
struct Watch {
    account: u64,
}

#[fom(operation(Watch))]
enum Look {
    #[phase(sync, start, to(Seen))]
    Close,
    #[phase(end)]
    Seen,
}

impl LookTransitions for Watch {
    fn close(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.outbox().send::<Account>(self.account, Paid::Enough)?;
        Ok(())
    }
}
