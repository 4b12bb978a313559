//! Foms that outboxes send to one key, over a crash. A fom that had its turn goes on before any other begins, whatever
//! the order in which the senders were committed and got their answers.

use std::sync::{Arc, Mutex, mpsc};

use fom_durable::{
    journal::{Journal, MemoryJournal},
    prelude::*,
};
use fom_runtime::{Cause, snapshot::RestoreError, submission::Placement, time::TestClock};
use serde::{Deserialize, Serialize};

use crate::kit::{Log, held::Held, limited, many, task::until};

#[derive(Serialize, Deserialize)]
enum Go {
    On,
}

/// An operation that begins, waits for an event, and ends.
macro_rules! turn {
    ($operation:ident, $machine:ident, $transitions:ident, $durability:literal) => {
        #[derive(Serialize, Deserialize)]
        struct $operation {
            name: String,
        }

        #[fom(operation($operation), event(Go), durability = $durability)]
        enum $machine {
            #[phase(start, to(Last), on(On))]
            First,
            #[phase(sync, to(Over))]
            Last,
            #[phase(end)]
            Over,
        }

        impl $transitions for $operation {
            async fn first(&mut self, cx: &mut Cx<'_, Go>) -> Result<(), BoxError> {
                cx.resource::<Log>()
                    .put(format_args!("{} begins", self.name));
                cx.event().await;
                Ok(())
            }

            fn last(&mut self, cx: &mut Cx<'_, Go>) -> Result<(), BoxError> {
                cx.resource::<Log>().put(format_args!("{} ends", self.name));
                if let Some((_, opened)) = cx.resource::<Stop>().0.lock().unwrap().take() {
                    drop(cx.submit(Block(opened)).detach());
                }
                Ok(())
            }
        }
    };
}

turn!(Strict, Strictly, StrictlyTransitions, "sync");
turn!(Light, Lightly, LightlyTransitions, "lazy");

/// Holds its locality.
struct Block(mpsc::Receiver<()>);

#[fom(operation(Block), transient)]
enum Blocking {
    #[phase(start, sync, to(Blocked))]
    Block,
    #[phase(end)]
    Blocked,
}

impl BlockingTransitions for Block {
    fn block(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        // The drop of the sender releases it, too.
        let _ = self.0.recv();
        Ok(())
    }
}

/// The fom that a [`Post`] submits for the key `k`.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
enum What {
    Queues,
    /// It does not queue for its key.
    Alone,
    /// It queues, and does not wait for commits.
    Lazy,
}

/// Submits one fom. The child lives in the same locality.
#[derive(Serialize, Deserialize)]
struct Post {
    name: String,
    what: What,
}

#[fom(operation(Post))]
enum Posting {
    #[phase(sync, start, to(Posted))]
    Write,
    #[phase(end)]
    Posted,
}

/// Holds locality 0 after the return of the function that takes this.
#[derive(Clone, Default)]
struct Stop(Arc<Mutex<Option<Stopping>>>);

/// The runtime, and a channel that releases its locality 0.
type Stopping = (Runtime, mpsc::Receiver<()>);

impl PostingTransitions for Post {
    fn write(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let (name, here) = (self.name.clone(), Placement::Locality(cx.locality()));
        let (outbox, strict) = (cx.outbox(), |name| Strict { name });
        match self.what {
            What::Queues => outbox
                .submit(strict(name))
                .key("k")
                .queue()
                .place(here)
                .post()?,
            What::Alone => outbox.submit(strict(name)).key("k").place(here).post()?,
            What::Lazy => outbox
                .submit(Light { name })
                .key("k")
                .queue()
                .place(here)
                .post()?,
        };
        if let Some((runtime, opened)) = cx.resource::<Stop>().0.lock().unwrap().take() {
            runtime.post(0, move |_| {
                // The drop of the sender releases it, too.
                let _ = opened.recv();
            })?;
        }
        Ok(())
    }
}

fn post(name: &str, what: What) -> Post {
    Post {
        name: name.into(),
        what,
    }
}

fn build(journal: impl Journal, log: &Log, stop: &Stop, resident: usize) -> Runtime {
    let builder = many(2, &TestClock::new()).resource(log.clone());
    let builder = builder.resource(stop.clone()).resident(resident);
    builder.journal_with(journal).build().unwrap()
}

fn until_log(log: &Log, lines: &[&str]) {
    until("the log", || log.lines().len() >= lines.len());
    assert_eq!(log.lines(), lines);
}

/// The number of entries that contain a name. The record of a name begins with its length.
fn records(journal: &MemoryJournal, name: [u8; 2]) -> usize {
    let ids = journal.ids().into_iter();
    let entries = ids.filter_map(|id| journal.entry(id));
    let has = |bytes: &Vec<u8>| bytes.windows(2).any(|pair| pair == name);
    entries.filter(has).count()
}

/// Sends the fom with the key its event, and waits for its end.
fn go_on<O: Operation<Event = Go>>(runtime: &Runtime) {
    let fom = runtime.find::<O>("k").unwrap();
    fom.send(Go::On).unwrap();
    fom.reached([]).wait();
}

fn go_on_as(what: What, runtime: &Runtime) {
    match what {
        What::Lazy => go_on::<Light>(runtime),
        _ => go_on::<Strict>(runtime),
    }
}

/// The sender of `x` in locality 0 commits its step first. The sender of `y` in locality 1 gets its answer first, and
/// `y` has its turn. Returns the journal of that moment, and the runtime, which goes on.
fn overtaken(x: What, y: What, log: &Log) -> (MemoryJournal, Runtime) {
    let (journal, stop) = (MemoryJournal::new(), Stop::default());
    let runtime = build(journal.clone(), log, &stop, usize::MAX);
    let (open, opened) = mpsc::channel();
    *stop.0.lock().unwrap() = Some((runtime.clone(), opened));
    let submit = |post: Post, at| {
        let submission = runtime.submit(post).place(Placement::Locality(at));
        submission.detach().unwrap();
    };
    submit(post("x", x), 0);
    until("x is in the journal, without its sender", || {
        stop.0.lock().unwrap().is_none() && records(&journal, *b"\xa1x") == 1
    });
    submit(post("y", y), 1);
    until_log(log, &["y begins"]);
    let crashed = journal.fork();
    drop(open);
    (crashed, runtime)
}

/// KY-01: both foms queue. Their types wait for commits or do not, and some foms rest.
#[test]
fn a_turn_that_was_granted_goes_on_first_after_a_crash() {
    for what in [What::Queues, What::Lazy] {
        for resident in [1, usize::MAX] {
            limited(move || async move {
                let log = Log::default();
                let (crashed, runtime) = overtaken(what, what, &log);
                until("x waits", || runtime.in_flight() == 2);
                go_on_as(what, &runtime);
                until_log(&log, &["y begins", "y ends", "x begins"]);
                drop(runtime);

                let log = Log::default();
                let runtime = build(crashed, &log, &Stop::default(), resident);
                until_log(&log, &["y begins"]);
                runtime.quiet().await;
                go_on_as(what, &runtime);
                until_log(&log, &["y begins", "y ends", "x begins"]);
                go_on_as(what, &runtime);
                until_log(&log, &["y begins", "y ends", "x begins", "x ends"]);
                assert_eq!(runtime.quarantine().list().len(), 0);
            });
        }
    }
}

/// KY-01: the same where one fom does not queue. It has its key at once, or is quarantined.
#[test]
fn one_that_does_not_queue_keeps_the_turn_that_it_was_granted() {
    limited(|| async {
        let log = Log::default();
        let (crashed, runtime) = overtaken(What::Queues, What::Alone, &log);
        drop(runtime);
        let log = Log::default();
        let runtime = build(crashed, &log, &Stop::default(), usize::MAX);
        until_log(&log, &["y begins"]);
        runtime.quiet().await;
        go_on::<Strict>(&runtime);
        until_log(&log, &["y begins", "y ends", "x begins"]);
        assert_eq!(runtime.quarantine().list().len(), 0);
    });
    limited(|| async {
        for resident in [1, usize::MAX] {
            let log = Log::default();
            let (crashed, runtime) = overtaken(What::Alone, What::Queues, &log);
            until("x is quarantined", || {
                runtime.quarantine().list().len() == 1
            });
            drop(runtime);
            let log = Log::default();
            let runtime = build(crashed, &log, &Stop::default(), resident);
            until_log(&log, &["y begins"]);
            let quarantined = runtime.quarantine().list();
            assert!(
                matches!(quarantined[0].reason, RestoreError::KeyInUse(_)),
                "{quarantined:?}"
            );
            go_on::<Strict>(&runtime);
            runtime.quarantine().retry(quarantined[0].id).unwrap();
            until_log(&log, &["y begins", "y ends", "x begins"]);
        }
    });
}

/// KY-01: a fom that is quarantined because its key is in use may run at the next start. It does not come before a fom
/// that got the key later.
#[test]
fn what_is_quarantined_does_not_come_before_a_turn_that_was_granted_later() {
    limited(|| async {
        let (journal, log) = (MemoryJournal::new(), Log::default());
        let runtime = build(journal.clone(), &log, &Stop::default(), usize::MAX);
        let holder = runtime.submit(Strict { name: "h".into() }).key("k");
        let holder = holder.start().unwrap();
        until_log(&log, &["h begins"]);
        runtime.submit(post("x", What::Alone)).await.unwrap();
        until("x is quarantined", || {
            runtime.quarantine().list().len() == 1
        });
        runtime.submit(post("y", What::Queues)).await.unwrap();
        holder.send(Go::On).unwrap();
        holder.await.unwrap();
        until_log(&log, &["h begins", "h ends", "y begins"]);
        let crashed = journal.fork();
        drop(runtime);
        let log = Log::default();
        let runtime = build(crashed, &log, &Stop::default(), usize::MAX);
        until_log(&log, &["y begins"]);
        assert_eq!(runtime.quarantine().list().len(), 1);
    });
}

/// KY-01: a fom with a failed first commit passes its key on, and may be in the journal all the same. Until another
/// commit succeeds, no other fom begins.
#[test]
fn no_fom_begins_while_it_is_open_whether_the_one_before_has() {
    limited(|| async {
        let (journal, log) = (Held::default(), Log::default());
        let runtime = build(journal.clone(), &log, &Stop::default(), usize::MAX);
        let direct = |name: &str| {
            let submission = runtime.submit(Strict { name: name.into() });
            submission.key("k").queue().start().unwrap()
        };
        let done = journal.done();
        journal.hold_commits(true);
        let sender = runtime.submit(post("y", What::Queues)).start().unwrap();
        journal.wait_for_asked(done + 1);
        journal.hold_tidying(true);
        journal.hold_commits(false);
        // The sender has begun.
        journal.wait_for_done(done + 1);
        journal.hold_commits(true);
        journal.hold_tidying(false);
        // `y` is on its way, and `b` has the key before it.
        journal.wait_for_asked(done + 2);
        let before = direct("b");
        journal.hold_tidying(true);
        journal.hold_commits(false);
        journal.wait_for_done(done + 2);
        journal.fail(true);
        journal.hold_tidying(false);
        sender.await.unwrap();
        assert!(matches!(before.await.unwrap_err().cause, Cause::Journal(_)));
        journal.wait_for_failed(2);
        until_log(&log, &[]);
        journal.fail(false);
        // Any next commit shows that the journal works.
        runtime.submit(post("z", What::Queues)).await.unwrap();
        until_log(&log, &["y begins"]);
    });
}

/// KY-05: a waiting fom that is cancelled while the journal fails leaves the queue in the end.
#[test]
fn a_fom_that_gives_up_while_the_journal_fails_keeps_no_other_waiting() {
    limited(|| async {
        let (journal, log) = (Held::default(), Log::default());
        let runtime = build(journal.clone(), &log, &Stop::default(), usize::MAX);
        let holder = runtime.submit(Strict { name: "h".into() }).key("k");
        let holder = holder.start().unwrap();
        until_log(&log, &["h begins"]);
        for name in ["x", "y"] {
            runtime.submit(post(name, What::Queues)).await.unwrap();
        }
        until("both wait", || {
            runtime
                .operations()
                .keys
                .first()
                .is_some_and(|key| key.waiting.len() == 2)
        });
        journal.fail(true);
        assert!(runtime.cancel(runtime.operations().keys[0].waiting[0]));
        journal.wait_for_failed(1);
        until("it has ended", || runtime.in_flight() == 2);
        journal.fail(false);
        runtime.submit(post("z", What::Queues)).await.unwrap();
        until("it is gone", || runtime.quarantine().list().is_empty());
        holder.send(Go::On).unwrap();
        until_log(&log, &["h begins", "h ends", "y begins"]);
    });
}

/// KY-01: a fom that does not wait for commits ends in the journal, too, before another fom of any locality has its
/// key.
#[test]
fn one_that_is_lazy_has_given_its_key_back_before_another_begins() {
    limited(|| async {
        let (journal, log, stop) = (MemoryJournal::new(), Log::default(), Stop::default());
        let runtime = build(journal.clone(), &log, &stop, usize::MAX);
        let start = |name: &str, at| {
            let light = Light { name: name.into() };
            let submission = runtime.submit(light).key("k");
            submission.place(Placement::Locality(at)).start().unwrap()
        };
        let first = start("a", 0);
        until_log(&log, &["a begins"]);
        until("a is in the journal", || records(&journal, *b"\xa1a") == 1);
        let (open, opened) = mpsc::channel();
        *stop.0.lock().unwrap() = Some((runtime.clone(), opened));
        first.send(Go::On).unwrap();
        first.await.unwrap();
        let second = start("b", 1);
        until("b is in the journal", || records(&journal, *b"\xa1b") == 1);
        let crashed = journal.fork();
        drop((open, second));
        let log = Log::default();
        let runtime = build(crashed, &log, &Stop::default(), usize::MAX);
        until_log(&log, &["b begins"]);
        assert_eq!(
            (runtime.in_flight(), runtime.quarantine().list().len()),
            (1, 0)
        );
    });
}
