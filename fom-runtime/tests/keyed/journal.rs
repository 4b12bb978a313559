//! Order per key with a journal: foms with failed commits, foms that come back, and foms in an outbox.

use std::sync::{Mutex, mpsc};

use fom_durable::{
    journal::{Journal, MemoryJournal},
    prelude::*,
};
use fom_runtime::{Builder, Cause, error::RefusedReason, observe::FomInfo, time::TestClock};
use serde::{Deserialize, Serialize};

use crate::kit::{
    Log,
    held::Held,
    limited, many, one, secs,
    task::{found, until},
};

/// Holds its key until it is told to go on.
#[derive(Serialize, Deserialize)]
struct Step {
    name: String,
}

#[derive(Clone, Serialize, Deserialize)]
enum Go {
    On,
}

#[fom(operation(Step), event(Go))]
enum Stepping {
    #[phase(sync, start, to(Holds))]
    Begin,
    #[phase(sync, to(Ends), on(On))]
    Holds,
    #[phase(sync, to(Over))]
    Ends,
    #[phase(end)]
    Over,
}

impl SteppingTransitions for Step {
    fn begin(&mut self, cx: &mut Cx<'_, Go>) -> Result<(), BoxError> {
        let log = cx.resource::<Log>();
        log.put(format_args!("{} begins", self.name));
        Ok(())
    }

    fn holds(&mut self, _: &mut Cx<'_, Go>, _: Go) -> Result<SteppingAfterHolds, BoxError> {
        Ok(SteppingAfterHolds::Ends)
    }

    fn ends(&mut self, cx: &mut Cx<'_, Go>) -> Result<(), BoxError> {
        let log = cx.resource::<Log>();
        log.put(format_args!("{} ends", self.name));
        Ok(())
    }
}

fn step(name: impl Into<String>) -> Step {
    Step { name: name.into() }
}

/// Posts steps when it is told to.
#[derive(Serialize, Deserialize)]
struct Post {
    names: Vec<String>,
}

#[fom(operation(Post))]
enum Posts {
    #[phase(sync, start, to(Posted))]
    Write,
    #[phase(end)]
    Posted,
}

impl PostsTransitions for Post {
    fn write(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        for name in &self.names {
            cx.outbox().submit(step(name)).key("k").queue().post()?;
        }
        Ok(())
    }
}

fn builder(journal: impl Journal, log: &Log) -> Builder {
    let builder = one(&TestClock::new()).resource(log.clone());
    builder.journal_with(journal)
}

fn begun(log: &Log) -> Vec<String> {
    let lines = log.lines();
    let begun = lines.iter().filter_map(|line| line.strip_suffix(" begins"));
    begun.map(str::to_owned).collect()
}

/// Lets these foms go on when they have the key, one after the other.
fn go_through(runtime: &Runtime, log: &Log, names: &[&str]) {
    for name in names {
        until("it has begun", || {
            begun(log).last().is_some_and(|last| last == name)
        });
        let fom = found("it is back", || runtime.find::<Step>("k"));
        fom.send(Go::On).unwrap();
        fom.reached([]).wait();
    }
}

/// KY-01: requests from a loop keep the order of each key, also with a journal, which commits their steps together.
/// KY-13: foms that are submitted as one batch keep the order of each key.
#[test]
fn a_batch_keeps_the_order_of_each_key() {
    limited(|| async {
        let log = Log::default();
        let runtime = many(2, &TestClock::new())
            .resource(log.clone())
            .journal_with(MemoryJournal::new())
            .build()
            .unwrap();
        let all: Vec<_> = (0..300)
            .map(|n| {
                let submission = runtime.submit(step(format!("{} {n}", n % 7)));
                let handle = submission.key(n % 7).queue().start().unwrap();
                handle.send(Go::On).unwrap();
                handle
            })
            .collect();
        for handle in all {
            handle.await.unwrap();
        }
        let lines = log.lines();
        for key in 0..7 {
            let of_key: Vec<_> = lines
                .iter()
                .filter_map(|line| line.strip_prefix(&format!("{key} ")))
                .collect();
            let wanted: Vec<_> = (0..300)
                .filter(|n| n % 7 == key)
                .flat_map(|n| [format!("{n} begins"), format!("{n} ends")])
                .collect();
            assert_eq!(of_key, wanted);
        }
    });
}

/// KY-01: after a restart the fom that had the key has it again, the fom that waited for it waits again, and new
/// submissions wait behind both.
#[test]
fn what_waits_is_in_the_journal() {
    limited(|| async {
        let (journal, log) = (MemoryJournal::new(), Log::default());
        {
            let runtime = builder(journal.clone(), &log).build().unwrap();
            let submit = |name| runtime.submit(step(name)).key("k").queue().start().unwrap();
            let (a, b) = (submit("a"), submit("b"));
            a.reached([SteppingKind::Holds]).await;
            runtime.quiet().await;
            drop(runtime.shutdown(Shutdown::Now, secs(10)).await);
            assert!(matches!(b.await.unwrap_err().cause, Cause::Shutdown));
            drop(a);
        }
        let runtime = builder(journal, &log).build().unwrap();
        assert_eq!(runtime.in_flight(), 2);
        let c = runtime.submit(step("c")).key("k").queue().start().unwrap();
        c.send(Go::On).unwrap();
        runtime.quiet().await;
        assert_eq!(begun(&log), ["a"]);
        let a = runtime.find::<Step>("k").unwrap();
        a.send(Go::On).unwrap();
        a.reached([]).await;
        runtime.quiet().await;
        assert_eq!(begun(&log), ["a", "b"]);
        runtime.find::<Step>("k").unwrap().send(Go::On).unwrap();
        c.await.unwrap();
        let all = [
            "a begins", "a ends", "b begins", "b ends", "c begins", "c ends",
        ];
        assert_eq!(log.lines(), all);
    });
}

/// KY-01: after a failed commit a fom keeps its key until it goes on and ends; the foms behind it wait.
#[test]
fn no_fom_overtakes_one_that_the_journal_holds_up() {
    limited(|| async {
        let (journal, log) = (Held::default(), Log::default());
        let runtime = builder(journal.clone(), &log).build().unwrap();
        let submit = |name| runtime.submit(step(name)).key("k").queue().start().unwrap();
        let a = submit("a");
        a.reached([SteppingKind::Holds]).await;
        let b = submit("b");
        b.send(Go::On).unwrap();
        b.committed().await.unwrap();
        journal.fail(true);
        a.send(Go::On).unwrap();
        assert!(matches!(a.await.unwrap_err().cause, Cause::Journal(_)));
        runtime.quiet().await;
        assert_eq!(begun(&log), ["a"]);
        let refused = runtime.submit(step("c")).key("k").start().unwrap_err();
        assert_eq!(refused.reason(), RefusedReason::KeyInUse);
        journal.fail(false);
        // The next commit shows that the journal works.
        runtime.submit(Post { names: Vec::new() }).await.unwrap();
        b.await.unwrap();
        assert_eq!(log.lines(), ["a begins", "a ends", "b begins", "b ends"]);
    });
}

/// KY-01: a fom posted through an outbox keeps its place behind the key over restarts, also where recovered foms rest.
#[test]
fn what_is_posted_keeps_its_place_over_a_restart() {
    for resident in [1, usize::MAX] {
        limited(move || async move {
            let (journal, log) = (MemoryJournal::new(), Log::default());
            let names = |names: &[&str]| Post {
                names: names.iter().map(|name| (*name).to_owned()).collect(),
            };
            let build = || {
                let builder = builder(journal.clone(), &log).resident(resident);
                // Posted foms wait even where the queue has no room.
                builder.key_queue(0).build().unwrap()
            };
            {
                let runtime = build();
                let holder = runtime.submit(step("holder")).key("k").start().unwrap();
                holder.reached([SteppingKind::Holds]).await;
                runtime.submit(names(&["a", "b"])).await.unwrap();
                runtime.submit(names(&["c"])).await.unwrap();
                runtime.quiet().await;
                assert_eq!(runtime.operations().keys[0].waiting.len(), 3);
                assert_eq!(begun(&log), ["holder"]);
                drop(holder);
            }
            for _ in 0..2 {
                let runtime = build();
                runtime.quiet().await;
                assert_eq!(runtime.in_flight(), 4);
                assert_eq!(begun(&log), ["holder"]);
                assert_eq!(runtime.quarantine().list().len(), 0);
            }
            {
                let runtime = build();
                runtime.submit(names(&["d"])).await.unwrap();
                let fom = runtime.find::<Step>("k").unwrap();
                fom.send(Go::On).unwrap();
                fom.reached([]).await;
                until("two have begun", || begun(&log).len() == 2);
                let a = runtime.find::<Step>("k").unwrap();
                a.reached([SteppingKind::Holds]).await;
            }
            let runtime = build();
            let fom = found("it is back", || runtime.find::<Step>("k"));
            fom.send(Go::On).unwrap();
            fom.reached([]).await;
            go_through(&runtime, &log, &["b", "c", "d"]);
            runtime.idle().await;
            assert_eq!(begun(&log), ["holder", "a", "b", "c", "d"]);
            drop(runtime);
            assert_eq!(journal.ids().len(), 3, "the head and two schemas");
        });
    }
}

/// Like [`Step`], but waits for no commit, not even of its end.
#[derive(Serialize, Deserialize)]
struct Light {
    name: String,
}

#[fom(operation(Light), event(Go), durability = "lazy")]
enum Lightly {
    #[phase(sync, start, to(Glows))]
    Kindle,
    #[phase(sync, to(Out), on(On))]
    Glows,
    #[phase(end)]
    Out,
}

impl LightlyTransitions for Light {
    fn kindle(&mut self, cx: &mut Cx<'_, Go>) -> Result<(), BoxError> {
        let log = cx.resource::<Log>();
        log.put(format_args!("{} begins", self.name));
        Ok(())
    }

    fn glows(&mut self, _: &mut Cx<'_, Go>, _: Go) -> Result<LightlyAfterGlows, BoxError> {
        Ok(LightlyAfterGlows::Out)
    }
}

/// Posts two `Light` foms when it is told to.
#[derive(Serialize, Deserialize)]
struct PostLight;

#[fom(operation(PostLight))]
enum PostsLight {
    #[phase(sync, start, to(Sent))]
    Send,
    #[phase(end)]
    Sent,
}

impl PostsLightTransitions for PostLight {
    fn send(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        for name in ["a", "b"] {
            let light = Light { name: name.into() };
            cx.outbox().submit(light).key("k").queue().post()?;
        }
        Ok(())
    }
}

/// KY-01: while the fom that has the key rests, a waiting fom is cancelled before it has run. The cancel gives the key
/// to no fom.
#[test]
fn a_fom_that_gives_up_its_place_gives_no_fom_the_key_of_one_that_rests() {
    limited(|| async {
        let (journal, log) = (MemoryJournal::new(), Log::default());
        {
            let runtime = builder(journal.clone(), &log).build().unwrap();
            let name = "holder".to_owned();
            let holder = runtime.submit(Light { name }).key("k").start().unwrap();
            holder.reached([LightlyKind::Glows]).await;
            runtime.submit(PostLight).await.unwrap();
            runtime.quiet().await;
        }
        // The locality is held up from the end of the recovery: no fom runs before the first waiting one is cancelled.
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let (holds, held) = mpsc::channel();
        let (open, opened) = mpsc::channel::<()>();
        let task = Mutex::new(Some((stopped, holds, opened)));
        let mut stop = Some(stop);
        let runtime = builder(journal, &log)
            .resident(1)
            .locality_data(move |_| {
                let task = task.lock().unwrap().take();
                if let Some((stopped, holds, opened)) = task {
                    tokio::spawn(async move {
                        let _ = stopped.await;
                        let _ = holds.send(());
                        let _ = opened.recv();
                    });
                }
                Ok::<_, BoxError>(())
            })
            .on_recovery(move |progress| {
                if progress.read == progress.entries
                    && let Some(stop) = stop.take()
                {
                    stop.send(()).unwrap();
                    held.recv().unwrap();
                }
            })
            .build()
            .unwrap();
        let waits = |fom: &&FomInfo| fom.phase == "Kindle";
        let first = runtime.operations().foms.iter().find(waits).unwrap().id;
        assert!(runtime.cancel(first));
        drop(open);
        runtime.quiet().await;
        assert_eq!(begun(&log), ["holder"]);
        runtime.find::<Light>("k").unwrap().send(Go::On).unwrap();
        let b = found("b has begun", || {
            let b = runtime.find::<Light>("k");
            b.filter(|_| begun(&log).len() == 2)
        });
        b.send(Go::On).unwrap();
        runtime.idle().await;
        assert_eq!(begun(&log), ["holder", "b"]);
    });
}

/// KY-14: foms that shared a key share it again after a restart, also where recovered foms rest.
#[test]
fn those_that_share_a_key_come_back_together() {
    for resident in [1, 2, usize::MAX] {
        limited(move || async move {
            let (journal, log) = (MemoryJournal::new(), Log::default());
            {
                let runtime = builder(journal.clone(), &log).build().unwrap();
                for name in ["a", "b", "c"] {
                    let submission = runtime.submit(step(name)).key("k").queue().shared();
                    let fom = submission.start().unwrap();
                    fom.reached([SteppingKind::Holds]).await;
                }
            }
            let builder = builder(journal, &log).resident(resident);
            let runtime = builder.build().unwrap();
            assert_eq!(
                (runtime.in_flight(), runtime.quarantine().list().len()),
                (3, 0)
            );
            let write = runtime.submit(step("w")).key("k").queue().start().unwrap();
            write.send(Go::On).unwrap();
            for _ in 0..3 {
                runtime.quiet().await;
                assert_eq!(begun(&log), ["a", "b", "c"]);
                let fom = runtime.find::<Step>("k").unwrap();
                fom.send(Go::On).unwrap();
                fom.reached([]).await;
            }
            write.await.unwrap();
            assert_eq!(begun(&log), ["a", "b", "c", "w"]);
            assert_eq!(runtime.quarantine().list().len(), 0);
        });
    }
}

/// KY-01: a delayed fom comes after the foms that have the key by then, also if they rest.
#[test]
fn a_fom_that_begins_later_comes_after_one_that_rests_with_its_key() {
    limited(|| async {
        let (journal, log) = (MemoryJournal::new(), Log::default());
        let clock = TestClock::new();
        let build = || {
            let builder = one(&clock).resource(log.clone()).resident(1);
            builder.journal_with(journal.clone()).build().unwrap()
        };
        {
            let runtime = build();
            for name in ["first", "k"] {
                let fom = runtime.submit(step(name)).key(name).start().unwrap();
                fom.reached([SteppingKind::Holds]).await;
            }
        }
        let runtime = build();
        let later = runtime.submit(step("later")).key("k").queue();
        let later = later.after(secs(1)).start().unwrap();
        later.send(Go::On).unwrap();
        runtime.quiet().await;
        clock.advance(secs(1));
        runtime.quiet().await;
        assert_eq!(begun(&log), ["first", "k"]);
        for name in ["first", "k"] {
            runtime.find::<Step>(name).unwrap().send(Go::On).unwrap();
        }
        later.await.unwrap();
        assert_eq!(begun(&log), ["first", "k", "later"]);
    });
}

/// KY-01: with an operation id, too: a second submission with the id waits for the fom that waits for the key.
#[test]
fn one_that_runs_once_waits_for_its_key() {
    limited(|| async {
        let (journal, log) = (MemoryJournal::new(), Log::default());
        let runtime = builder(journal, &log).build().unwrap();
        let a = runtime.submit(step("a")).key("k").queue().start().unwrap();
        let submit = |name: &str| {
            let submission = runtime.submit(step(name)).key("k").queue();
            submission.once("order 7").start().unwrap()
        };
        let (b, again) = (submit("b"), submit("again"));
        assert_eq!(b.id(), again.id());
        for fom in [a.fom(), b.fom()] {
            fom.send(Go::On).unwrap();
        }
        again.await.unwrap();
        b.await.unwrap();
        submit("later").await.unwrap();
        a.await.unwrap();
        assert_eq!(begun(&log), ["a", "b"]);
    });
}
