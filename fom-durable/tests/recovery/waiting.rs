//! Foms that have not begun: they wait for their turn, or for their time. They are on disk while they wait, and wait
//! again after a kill, in their order.

use std::{future::IntoFuture, pin::pin};

use fom_durable::{NotCommitted, journal::MemoryJournal, prelude::*};
use fom_runtime::{error::RefusedReason, time::TestClock};
use serde::{Deserialize, Serialize};

use crate::kit::{Log, held::Held, limited, one, poll_once, secs};

#[derive(Serialize, Deserialize)]
struct Job {
    name: String,
}

#[derive(Serialize, Deserialize)]
enum Go {
    On,
    Fail,
}

#[fom(operation(Job), event(Go))]
enum Working {
    #[phase(start, on(On, Fail), to(Last))]
    Work,
    #[phase(sync, to(Done))]
    Last,
    #[phase(end)]
    Done,
}

impl WorkingTransitions for Job {
    async fn work(&mut self, cx: &mut Cx<'_, Go>) -> Result<(), BoxError> {
        cx.resource::<Log>()
            .put(format_args!("{} begins", self.name));
        match cx.event().await {
            Go::On => Ok(()),
            Go::Fail => Err("told to".into()),
        }
    }

    fn last(&mut self, cx: &mut Cx<'_, Go>) -> Result<(), BoxError> {
        cx.resource::<Log>().put(format_args!("{} ends", self.name));
        Ok(())
    }
}

/// Posts jobs of one series, each with its name as its key.
#[derive(Serialize, Deserialize)]
struct Post(Vec<String>);

#[fom(operation(Post))]
enum Posting {
    #[phase(start, sync, to(Posted))]
    Write,
    #[phase(end)]
    Posted,
}

impl PostingTransitions for Post {
    fn write(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        for name in &self.0 {
            let job = cx.outbox().submit(job(name)).key(name);
            job.serial("customer 7").post()?;
        }
        Ok(())
    }
}

/// What outlives the kills of a test.
#[derive(Default)]
struct Site {
    clock: TestClock,
    journal: MemoryJournal,
    log: Log,
    /// The most foms that are back at once.
    resident: Option<usize>,
}

impl Site {
    fn open(&self) -> Runtime {
        let builder = one(&self.clock).resource(self.log.clone());
        let builder = builder.resident(self.resident.unwrap_or(usize::MAX));
        builder.journal_with(self.journal.clone()).build().unwrap()
    }

    /// Ends the process, as a kill does, and begins another one.
    fn reopen(&mut self, runtime: Runtime) -> Runtime {
        self.journal = self.journal.fork();
        drop(runtime);
        self.open()
    }
}

fn job(name: &str) -> Job {
    Job { name: name.into() }
}

/// Tells the fom with this key to go on, and waits for its end.
async fn end(runtime: &Runtime, key: &'static str) {
    let fom = runtime.find::<Job>(key).unwrap();
    fom.send(Go::On).unwrap();
    fom.reached([]).await;
    runtime.quiet().await;
}

/// Each fom of a series is accepted while it waits. After a kill the series goes on in its order, each fom has its key,
/// and a new one comes last.
#[test]
fn a_series_goes_on_in_its_order() {
    for resident in [None, Some(1)] {
        limited(move || async move {
            let mut site = Site {
                resident,
                ..Site::default()
            };
            let runtime = site.open();
            for name in ["a", "b", "c"] {
                let job = runtime.submit(job(name)).key(name).serial("customer 7");
                job.start().unwrap().committed().await.unwrap();
            }
            runtime.quiet().await;
            assert_eq!(site.log.take(), ["a begins"]);

            let runtime = site.reopen(runtime);
            runtime.quiet().await;
            assert_eq!(site.log.take(), ["a begins"]);
            let taken = runtime.submit(job("b")).key("b").serial(8).start();
            assert_eq!(taken.unwrap_err().reason(), RefusedReason::KeyInUse);
            let last = runtime.submit(job("d")).key("d").serial("customer 7");
            let last = last.start().unwrap();
            last.committed().await.unwrap();
            let apart = runtime.submit(job("x")).key("x").serial(8).start().unwrap();
            runtime.quiet().await;
            assert_eq!(site.log.take(), ["x begins"]);
            drop(apart);
            end(&runtime, "x").await;
            end(&runtime, "a").await;
            assert_eq!(site.log.take(), ["x ends", "a ends", "b begins"]);

            // The turn of the second is not in the journal, and yet it is the first to begin.
            let runtime = site.reopen(runtime);
            runtime.quiet().await;
            assert_eq!(site.log.take(), ["b begins"]);
            for key in ["b", "c", "d"] {
                end(&runtime, key).await;
            }
            let rest = ["b ends", "c begins", "c ends", "d begins", "d ends"];
            assert_eq!(site.log.take(), rest);
            runtime.idle().await;
            assert_eq!(site.reopen(runtime).in_flight(), 0);
        });
    }
}

/// What an outbox posts to a series has its place there, with what is submitted, and over a kill.
#[test]
fn an_outbox_posts_to_a_series() {
    limited(|| async {
        let mut site = Site::default();
        let runtime = site.open();
        let submit = |runtime: &Runtime, name: &'static str| {
            let job = runtime.submit(job(name)).key(name).serial("customer 7");
            job.start().unwrap()
        };
        submit(&runtime, "a").committed().await.unwrap();
        let names = ["b", "c"].map(str::to_owned);
        runtime.submit(Post(names.into())).await.unwrap();
        runtime.quiet().await;
        submit(&runtime, "d").committed().await.unwrap();
        assert_eq!(site.log.take(), ["a begins"]);
        let runtime = site.reopen(runtime);
        for key in ["a", "b", "c", "d"] {
            end(&runtime, key).await;
        }
        let begun = site.log.take().into_iter();
        let begun: Vec<_> = begun.filter(|line| line.ends_with("begins")).collect();
        assert_eq!(begun, ["a begins", "b begins", "c begins", "d begins"]);
        assert!(runtime.quarantine().list().is_empty());
        runtime.idle().await;
    });
}

/// A fom that waits for its turn takes no more commits than one that does not.
#[test]
fn a_wait_is_one_commit_and_the_begin_after_it_none() {
    limited(|| async {
        let (site, journal) = (Site::default(), Held::default());
        let builder = one(&site.clock).resource(site.log.clone());
        let runtime = builder.journal_with(journal.clone()).build().unwrap();
        let submit = |name| runtime.submit(job(name)).key("k").queue().start().unwrap();
        let first = submit("a");
        first.committed().await.unwrap();
        let before = journal.done();
        let second = submit("b");
        second.committed().await.unwrap();
        assert_eq!(journal.done(), before + 1);
        first.cancel();
        assert!(first.await.is_err());
        runtime.quiet().await;
        assert_eq!(site.log.take(), ["a begins", "b begins"]);
        // The end of the first.
        assert_eq!(journal.done(), before + 2);
        drop(second);
    });
}

/// A delayed fom is accepted at once. After a kill it begins at its time, and at once if that has passed.
#[test]
fn a_delay_goes_on() {
    for resident in [None, Some(1)] {
        limited(move || async move {
            let mut site = Site {
                resident,
                ..Site::default()
            };
            let runtime = site.open();
            for (name, time) in [("soon", 10), ("late", 20)] {
                let job = runtime.submit(job(name)).key(name).after(secs(time));
                job.start().unwrap().committed().await.unwrap();
            }
            site.clock.advance(secs(4));
            let runtime = site.reopen(runtime);
            site.clock.advance(secs(5));
            runtime.quiet().await;
            assert_eq!(site.log.take(), [""; 0]);
            let taken = runtime.submit(job("soon")).key("soon").start();
            assert_eq!(taken.unwrap_err().reason(), RefusedReason::KeyInUse);
            site.clock.advance(secs(2));
            runtime.find::<Job>("soon").unwrap();
            runtime.quiet().await;
            assert_eq!(site.log.take(), ["soon begins"]);
            site.journal = site.journal.fork();
            drop(runtime);
            site.clock.advance(secs(30));
            let runtime = site.open();
            for key in ["soon", "late"] {
                runtime.find::<Job>(key).unwrap();
            }
            runtime.quiet().await;
            let mut begun = site.log.take();
            begun.sort();
            assert_eq!(begun, ["late begins", "soon begins"]);
        });
    }
}

/// A delayed fom takes its place in the queue when its delay is over, also after a kill, and keeps it over the next one.
#[test]
fn a_delayed_fom_keeps_the_place_that_it_took() {
    for serial in [false, true] {
        limited(move || async move {
            let mut site = Site::default();
            let runtime = site.open();
            let submit = |runtime: &Runtime, name: &'static str, time| {
                let submission = runtime.submit(job(name)).after(secs(time));
                let submission = match serial {
                    true => submission.key(name).serial("s"),
                    false => submission.key("s").queue(),
                };
                submission.start().unwrap()
            };
            submit(&runtime, "late", 10).committed().await.unwrap();
            submit(&runtime, "a", 0).committed().await.unwrap();
            runtime.quiet().await;
            assert_eq!(site.log.take(), ["a begins"]);
            let runtime = site.reopen(runtime);
            submit(&runtime, "b", 0).committed().await.unwrap();
            runtime.quiet().await;
            assert_eq!(site.log.take(), ["a begins"]);
            site.clock.advance(secs(10));
            runtime.quiet().await;
            submit(&runtime, "c", 0).committed().await.unwrap();
            // What came before is on disk with it.
            let runtime = site.reopen(runtime);
            runtime.quiet().await;
            let keys = match serial {
                true => ["a", "b", "late", "c"],
                false => ["s"; 4],
            };
            for key in keys {
                end(&runtime, key).await;
            }
            let begun = site.log.take().into_iter();
            let begun: Vec<_> = begun.filter(|line| line.ends_with("begins")).collect();
            assert_eq!(begun, ["a begins", "b begins", "late begins", "c begins"]);
        });
    }
}

/// A fom that is cancelled while it waits is gone from the journal, and the ones behind it keep their order.
#[test]
fn a_cancelled_one_does_not_come_back() {
    limited(|| async {
        let mut site = Site::default();
        let runtime = site.open();
        let submit = |name| {
            let submission = runtime.submit(job(name)).key(name);
            submission.serial(7).start().unwrap()
        };
        let (a, b, c) = (submit("a"), submit("b"), submit("c"));
        let delayed = runtime.submit(job("d")).after(secs(60)).start().unwrap();
        for fom in [&a, &b, &c, &delayed] {
            fom.committed().await.unwrap();
        }
        for fom in [b, delayed] {
            fom.cancel();
            assert_eq!(fom.await.unwrap_err().cause.name(), "cancelled");
        }
        let runtime = site.reopen(runtime);
        assert_eq!(runtime.in_flight(), 2);
        assert!(runtime.find::<Job>("b").is_none());
        end(&runtime, "a").await;
        assert_eq!(site.log.take().last().unwrap(), "c begins");
        drop((a, c));
    });
}

/// A fom that is cancelled while its wait is being written down ends when that is committed, and leaves nothing behind.
#[test]
fn a_cancel_waits_for_the_commit_of_the_wait() {
    limited(|| async {
        let (site, journal) = (Site::default(), Held::default());
        let builder = one(&site.clock).resource(site.log.clone());
        let runtime = builder.journal_with(journal.clone()).build().unwrap();
        let submit = |name| {
            runtime
                .submit(job(name))
                .key(name)
                .serial(7)
                .start()
                .unwrap()
        };
        let first = submit("a");
        first.committed().await.unwrap();
        let done = journal.done();
        journal.hold_commits(true);
        let second = submit("b");
        journal.wait_for_asked(done + 1);
        second.cancel();
        first.cancel();
        let mut second = pin!(second.into_future());
        assert!(poll_once(second.as_mut()).await.is_pending());
        journal.hold_commits(false);
        assert_eq!(second.await.unwrap_err().cause.name(), "cancelled");
        assert!(first.await.is_err());
        runtime.idle().await;
        assert_eq!(site.log.take(), ["a begins"]);
        let again = one(&site.clock).resource(site.log.clone());
        let again = again.journal_with(journal.journal.fork()).build().unwrap();
        assert_eq!(again.in_flight(), 0);
    });
}

/// An operation that ends before it is in the journal was never accepted.
#[test]
fn one_that_ends_before_is_not_committed() {
    limited(|| async {
        let site = Site::default();
        let runtime = site.open();
        runtime
            .shutdown(fom_runtime::config::Shutdown::Now, secs(1))
            .await;
        let refused = runtime.submit(job("a")).start().unwrap_err();
        assert_eq!(refused.reason(), RefusedReason::ShuttingDown);
        let plain = one(&site.clock).resource(site.log.clone()).build().unwrap();
        let waits = plain.submit(job("a")).after(secs(60)).start().unwrap();
        let error = waits.committed().await.unwrap_err();
        assert!(matches!(error, NotCommitted::NotKept), "{error}");
    });
}

/// A failed fom leaves its series, and its retry goes to the tail, also over a kill.
#[test]
fn a_retry_goes_to_the_tail_of_its_series() {
    limited(|| async {
        let mut site = Site::default();
        let runtime = site.open();
        let submit = |runtime: &Runtime, name: &'static str| {
            let submission = runtime.submit(job(name)).key(name);
            submission.serial(7).start().unwrap()
        };
        let (a, b) = (submit(&runtime, "a"), submit(&runtime, "b"));
        b.committed().await.unwrap();
        let id = a.id();
        a.send(Go::Fail).unwrap();
        assert!(a.await.is_err());
        runtime.quiet().await;
        assert_eq!(site.log.take(), ["a begins", "b begins"]);
        runtime.quarantine().retry(id).unwrap();
        let c = submit(&runtime, "c");
        c.committed().await.unwrap();
        runtime.quiet().await;
        let taken = runtime.submit(job("a")).key("a").serial(9).start();
        assert_eq!(taken.unwrap_err().reason(), RefusedReason::KeyInUse);
        assert_eq!(site.log.take(), [""; 0]);
        let runtime = site.reopen(runtime);
        assert!(runtime.quarantine().list().is_empty());
        for key in ["b", "a", "c"] {
            end(&runtime, key).await;
        }
        let rest = [
            "b begins", "b ends", "a begins", "a ends", "c begins", "c ends",
        ];
        assert_eq!(site.log.take(), rest);
        drop((b, c));
    });
}
