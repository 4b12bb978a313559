//! A machine, or its operation, has another name in the next release. Parked foms go on under the new name, with all
//! that refers to the old names (PR-05).

use fom_durable::{journal::MemoryJournal, prelude::*};
use fom_patterns::lock::LongLocks;
use fom_runtime::{
    Builder, Cause,
    error::{BoxError, BuildError, RefusedReason},
    snapshot::{QuarantineKind, RestoreError},
    time::TestClock,
};
use serde::{Deserialize, Serialize};

use crate::{
    kit::{self, Log, limited, secs},
    orders::{Word, after, before, between, order, purchase},
    parcels::careless,
};

/// Posts two orders for the key, and a note for the fom that has it.
#[derive(Serialize, Deserialize)]
struct Post;

#[fom(operation(Post))]
enum Posting {
    #[phase(sync, start, to(Posted))]
    Write,
    #[phase(end)]
    Posted,
}

impl PostingTransitions for Post {
    fn write(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        for name in ["second", "third"] {
            let order = order(name);
            cx.outbox().submit(order).key("k").queue().post()?;
        }
        Ok(cx.outbox().send::<before::Order>("k", Word::Note(7))?)
    }
}

/// A runtime must be told which of the parcel's releases in this program it runs.
fn one(clock: &TestClock) -> Builder {
    kit::one(clock).operation::<careless::Delivery>()
}

fn on(journal: &MemoryJournal, log: &Log, locks: &LongLocks) -> Builder {
    let builder = one(&TestClock::new()).journal_with(journal.clone());
    builder.resource(log.clone()).resource(locks.clone())
}

/// All places that have the names: keys and the foms that wait for them; events that came through an outbox; ids of
/// operations in flight and ended; and locks that are taken again.
#[test]
fn all_that_knows_the_old_names_goes_on_under_the_new_ones() {
    limited(async || {
        let (journal, log) = (MemoryJournal::new(), Log::default());
        {
            let locks = LongLocks::new("shelves");
            let builder = on(&journal, &log, &locks).operation::<before::Order>();
            let runtime = builder.build().unwrap();
            drop(runtime.submit(order("first")).key("k").start().unwrap());
            runtime.quiet().await;
            runtime.submit(Post).await.unwrap();
            drop(runtime.submit(order("live")).once("live").start().unwrap());
            let ended = runtime
                .submit(order("ended"))
                .once("ended")
                .start()
                .unwrap();
            ended.send(Word::Go).unwrap();
            ended.send(Word::Note(1)).unwrap();
            ended.await.unwrap();
            let broken = runtime.submit(order("broken")).once("broken");
            broken.await.unwrap_err();
            runtime.quiet().await;
            assert_eq!(locks.of("shelf").stats().holders, 2, "first and live");
        }
        assert_eq!(
            log.take(),
            [
                "first begins",
                "live begins",
                "ended begins",
                "ended has note 1",
                "broken begins"
            ]
        );

        let locks = LongLocks::new("shelves");
        let builder = on(&journal, &log, &locks).operation::<after::Purchase>();
        let runtime = builder.build().unwrap();
        let quarantined = runtime.quarantine().list();
        assert!(
            matches!(&quarantined[..], [one] if one.kind() == QuarantineKind::Failed),
            "only the one that failed: {quarantined:?}"
        );
        runtime.quiet().await;
        assert_eq!(locks.of("shelf").stats().holders, 2, "first and live");

        // Ids: one in flight, one that ended, one that failed.
        let live = runtime.submit(purchase("live again")).once("live");
        let live = live.start().unwrap();
        let ended = runtime.submit(purchase("ended again")).once("ended").await;
        let ended = ended.unwrap();
        assert!(matches!(ended.end, after::TillEnd::Done));
        assert_eq!(ended.operation.name, "ended");
        let failure = runtime
            .submit(purchase("broken again"))
            .once("broken")
            .await;
        let failure = failure.unwrap_err();
        assert!(matches!(&failure.cause, Cause::Remembered { cause } if cause == "it is broken"));
        assert_eq!(failure.phase_name(), "Begin");
        live.send(Word::Go).unwrap();
        live.send(Word::Note(2)).unwrap();
        assert_eq!(live.await.unwrap().operation.name, "live");
        assert_eq!(log.take(), ["live has note 2"], "none of them ran again");

        // The key, the fom that waits for it, and the note, which is not for a later fom.
        let first = runtime.find::<after::Purchase>("k").unwrap();
        first.send(Word::Go).unwrap();
        first.reached([]).wait();
        runtime.quiet().await;
        assert_eq!(log.take(), ["first has note 7", "second begins"]);
        for next in ["second has note 8", "third has note 8"] {
            let fom = runtime.find::<after::Purchase>("k").unwrap();
            fom.send(Word::Go).unwrap();
            fom.send(Word::Note(8)).unwrap();
            fom.reached([]).wait();
            runtime.quiet().await;
            assert_eq!(log.take()[0], next);
        }
        runtime.idle().await;
        assert!(runtime.operations().incidents.is_empty());
    });
}

/// After two renames in two releases, what was saved before and between both is read.
#[test]
fn one_name_after_the_other() {
    let saved = |snapshot: Result<Snapshot, _>| snapshot.unwrap();
    let between_order = between::Order { name: "b".into() };
    for snapshot in [
        saved(order("a").snapshot(&before::Shop::Pack)),
        saved(between_order.snapshot(&between::Till::Pack)),
        saved(purchase("c").snapshot(&after::Till::Pack)),
    ] {
        let (_, phase) = after::Purchase::restore(&snapshot).unwrap();
        assert!(matches!(phase, after::Till::Pack));
    }
    let newer = saved(purchase("c").snapshot(&after::Till::Pack));
    let refused = before::Order::restore(&newer).unwrap_err();
    assert!(
        matches!(&refused, RestoreError::OtherMachine { found, wanted: "Shop" } if found == "Till"),
        "{refused}"
    );
    let refused = between::Order::restore(&newer).unwrap_err();
    let message = "the snapshot is of operation `Purchase`, not of `Order`; if that was its name, write `operation(Order, was = \"Purchase\")`";
    assert_eq!(refused.to_string(), message);
}

/// An old name of one type is the current name of another: nothing is guessed, and `build` fails.
#[test]
fn a_name_that_is_anothers_is_refused_when_the_runtime_is_built() {
    let (log, locks) = (Log::default(), LongLocks::new("shelves"));
    let builder = on(&MemoryJournal::new(), &log, &locks);
    let refused = builder.build().unwrap_err();
    let BuildError::NameTaken {
        machine,
        operation,
        was,
        other,
    } = &refused
    else {
        panic!("{refused}");
    };
    let mut both = [*was, *other];
    both.sort_unstable();
    assert_eq!((machine.as_str(), operation.as_str()), ("Shop", "Order"));
    assert!(
        was.ends_with("::Purchase") || *was == "renamed::orders::between::Order",
        "{was}"
    );
    assert_ne!(was, other);
    let message = refused.to_string();
    assert!(
        message.contains(was) && message.contains(other),
        "{message}"
    );
    // Without a journal no name matters.
    drop(one(&TestClock::new()).build().unwrap());
    // Nor do two that the user names.
    let builder = on(&MemoryJournal::new(), &log, &locks);
    let builder = builder
        .operation::<before::Order>()
        .operation::<after::Purchase>();
    let refused = builder.build().unwrap_err();
    assert!(
        matches!(
            &refused,
            BuildError::NameTaken {
                was: "renamed::orders::after::Purchase",
                other: "renamed::orders::before::Order",
                ..
            }
        ),
        "{refused}"
    );
}

/// A deadline that a renamed phase keeps is still there after the rename. If that phase is gone, the deadline belongs
/// to the phase that the fom is in.
#[test]
fn a_deadline_follows_the_phase_that_keeps_it() {
    macro_rules! timed {
        (mod $module:ident, $first:ident, $first_fn:ident, [$($key:tt)*], [$($was:tt)*]) => {
            mod $module {
                use super::*;

                #[derive(Debug, Serialize, Deserialize)]
                pub(super) struct Trip;

                #[fom(operation(Trip), event(Word) $($key)*)]
                #[derive(Debug)]
                pub(super) enum Travel {
                    #[phase(start, sync, to(Ride), within = "10s", keep(Ride) $($was)*)]
                    $first,
                    #[phase(to(Over), on(Go, Note))]
                    Ride,
                    #[phase(end)]
                    Over,
                }

                impl TravelTransitions for Trip {
                    fn $first_fn(&mut self, _: &mut Cx<'_, Word>) -> Result<(), BoxError> {
                        Ok(())
                    }
                    async fn ride(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
                        cx.event().await;
                        Ok(())
                    }
                }
            }
        };
    }
    timed!(mod first, Wait, wait, [], []);
    timed!(mod renamed, Queue, queue, [], [, was = "Wait"]);
    timed!(mod gone, Queue, queue, [, retired("Wait")], []);

    async fn passes<O: Persistent>(journal: MemoryJournal) {
        let clock = TestClock::new();
        let builder = one(&clock).journal_with(journal).operation::<O>();
        let runtime = builder.operation::<after::Purchase>().build().unwrap();
        runtime.quiet().await;
        assert_eq!(runtime.in_flight(), 1);
        clock.advance(secs(11));
        runtime.idle().await;
    }

    limited(async || {
        let journal = MemoryJournal::new();
        {
            let builder = one(&TestClock::new()).journal_with(journal.clone());
            let builder = builder.operation::<first::Trip>();
            let runtime = builder.operation::<after::Purchase>().build().unwrap();
            drop(runtime.submit(first::Trip).start().unwrap());
            runtime.quiet().await;
        }
        passes::<first::Trip>(journal.fork()).await;
        passes::<renamed::Trip>(journal.fork()).await;
        passes::<gone::Trip>(journal.fork()).await;
    });
}

/// The name of an inner machine stands in the name of its layer: renames of both are followed.
#[test]
fn a_layer_follows_the_names_of_what_is_inside() {
    macro_rules! layered {
        (mod $module:ident, $inner:ident, $reading:ident, $inside:ident, [$($of_inner:tt)*], $outer:ident, [$($of_outer:tt)*]) => {
            mod $module {
                use super::*;

                #[derive(Debug, PartialEq, Serialize, Deserialize)]
                pub(super) struct $inner;

                #[fom($($of_inner)*)]
                #[derive(Debug, PartialEq)]
                pub(super) enum $reading {
                    #[phase(start, to(Found))]
                    Look,
                    #[phase(end)]
                    Found,
                }

                impl $inside for $inner {
                    async fn look(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
                        std::future::pending().await
                    }
                }

                #[derive(Debug, PartialEq, Serialize, Deserialize)]
                pub(super) struct $outer<R> {
                    pub(super) request: R,
                }

                #[fom($($of_outer)*, around(R))]
                #[derive(Debug, PartialEq)]
                pub(super) enum Standard<R: Persistent> {
                    #[phase(start, to(Serve))]
                    Check,
                    #[phase(inner(request))]
                    Serve { phase: R::Phase },
                }

                impl<R: Persistent> StandardTransitions<R> for $outer<R> {
                    async fn check(&mut self, _: &mut Cx<'_, R::Event>) -> Result<(), BoxError> {
                        Ok(())
                    }
                }
            }
        };
    }
    layered!(mod then, Read, Reading, ReadingTransitions, [operation(Read), durability = "none"], Guarded, [operation(Guarded<R>)]);
    layered!(
        mod now, Fetch, Fetching, FetchingTransitions, [operation(Fetch, was = "Read", was = "Look<Up, ()>"), was = "Reading", durability = "none"],
        Shielded, [operation(Shielded<R>, was = "Guarded<R>"), was = "Plain"]
    );
    type Now = now::Shielded<now::Fetch>;
    let request = then::Read;
    let snapshot = then::Guarded { request };
    let phase = then::Reading::Look;
    let snapshot = snapshot.snapshot(&then::Standard::Serve { phase }).unwrap();
    let (operation, phase) = Now::restore(&snapshot).unwrap();
    assert_eq!(
        operation,
        now::Shielded {
            request: now::Fetch
        }
    );
    let look = now::Fetching::Look;
    assert_eq!(phase, now::Standard::Serve { phase: look });
    for name in [
        "Guarded<Read>",
        "Shielded<Read>",
        "Guarded<Fetch>",
        "Guarded<Look<Up,()>>",
    ] {
        assert!(Now::GRAPH.is_operation(name), "{name}");
    }
    assert!(!Now::GRAPH.is_operation("Guarded<Write>"));
    assert!(Now::GRAPH.is_machine("Plain") && !Now::GRAPH.is_machine("Reading"));

    limited(async || {
        let journal = MemoryJournal::new();
        {
            let builder = one(&TestClock::new()).journal_with(journal.clone());
            let builder = builder.operation::<then::Guarded<then::Read>>();
            let runtime = builder.operation::<after::Purchase>().build().unwrap();
            let request = then::Read;
            let guarded = runtime.submit(then::Guarded { request }).key("k");
            drop(guarded.start().unwrap());
            runtime.quiet().await;
        }
        let builder = one(&TestClock::new()).journal_with(journal);
        let builder = builder.operation::<Now>().operation::<after::Purchase>();
        let runtime = builder.build().unwrap();
        assert!(
            runtime.quarantine().list().is_empty(),
            "{:?}",
            runtime.quarantine().list()
        );
        assert_eq!(runtime.find::<Now>("k").unwrap().phase(), "Serve.Look");
    });
}

/// Two types that a user names have one name (a generic operation has the name of its declaration): neither is read as
/// the other.
#[test]
fn two_of_a_generic_operation_are_never_read_as_each_other() {
    #[derive(Debug, Serialize, Deserialize)]
    struct Job<T> {
        value: T,
    }

    #[fom(
        operation("Job<T>"),
        generics("T: Serialize + serde::de::DeserializeOwned + Send + 'static"),
        event(Word)
    )]
    enum Work {
        #[phase(start, to(Done), on(Go, Note))]
        Wait,
        #[phase(end)]
        Done,
    }

    impl<T: Serialize + serde::de::DeserializeOwned + Send + 'static> WorkTransitions for Job<T> {
        async fn wait(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
            cx.event().await;
            Ok(())
        }
    }

    limited(async || {
        let journal = MemoryJournal::new();
        let build = || {
            let builder = one(&TestClock::new()).journal_with(journal.clone());
            builder.operation::<after::Purchase>()
        };
        {
            let runtime = build().build().unwrap();
            drop(runtime.submit(Job { value: 7u8 }).start().unwrap());
            runtime.quiet().await;
        }
        {
            let builder = build().operation::<Job<u8>>().operation::<Job<u64>>();
            let runtime = builder.build().unwrap();
            let quarantined = runtime.quarantine().list();
            assert!(
                matches!(&quarantined[..], [one] if matches!(one.reason, RestoreError::Ambiguous { .. })),
                "{quarantined:?}"
            );
        }
        let runtime = build().operation::<Job<u8>>().build().unwrap();
        assert_eq!(
            (runtime.in_flight(), runtime.quarantine().list().len()),
            (1, 0)
        );
    });
    // A remembered outcome is not lost either: the operation does not run again under the other type.
    limited(async || {
        let journal = MemoryJournal::new();
        let build = || {
            let builder = one(&TestClock::new()).journal_with(journal.clone());
            builder.operation::<after::Purchase>()
        };
        {
            let runtime = build().build().unwrap();
            let done = runtime.submit(Job { value: 7u8 }).once("paid");
            let done = done.start().unwrap();
            done.send(Word::Go).unwrap();
            done.await.unwrap();
        }
        {
            let builder = build().operation::<Job<u8>>().operation::<Job<u64>>();
            let runtime = builder.build().unwrap();
            assert_eq!(runtime.quarantine().list().len(), 1);
            let again = runtime.submit(Job { value: 7u8 }).once("paid").start();
            assert_eq!(again.unwrap_err().reason(), RefusedReason::Quarantined);
        }
        let runtime = build().operation::<Job<u8>>().build().unwrap();
        let answer = runtime.submit(Job { value: 9u8 }).once("paid").await;
        assert_eq!(
            (
                answer.unwrap().operation.value,
                runtime.quarantine().list().len()
            ),
            (7, 0)
        );
    });
}
