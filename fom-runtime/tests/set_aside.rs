//! What is in the journal and cannot run is set aside with the reason and its bytes, and the rest runs.

mod kit;

use std::{
    cell::Cell,
    fs,
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
};

use fom_runtime::{
    Builder, Cause, DiscardError, FomRef, RefusedReason, RestoreError, RetryError, Shutdown,
    TestClock,
    journal::{EntryId, FileJournal, JournalError, MemoryJournal},
    prelude::*,
};
use kit::{limited, one, secs};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Goes on with an operation.
#[derive(Debug, Serialize, Deserialize)]
pub enum Go {
    /// To the end.
    On,
}

/// One release of the program.
mod first {
    use super::*;

    #[derive(Debug, Serialize, Deserialize)]
    pub(super) struct Order {
        pub(super) pieces: String,
    }

    #[fom(operation(Order), event(Go))]
    pub(super) enum Shop {
        #[phase(start, sync, to(Park))]
        Begin,
        #[phase(sync, to(Done), on(On))]
        Park { shelf: u32 },
        #[phase(end)]
        Done,
    }

    impl ShopTransitions for Order {
        fn begin(&mut self, _: &mut Cx<'_, Go>) -> Result<ShopAfterBegin, BoxError> {
            Ok(ShopAfterBegin::Park { shelf: 3 })
        }
        fn park(
            &mut self,
            _: &mut Cx<'_, Go>,
            _: &mut u32,
            _: Go,
        ) -> Result<ShopAfterPark, BoxError> {
            Ok(ShopAfterPark::Done)
        }
    }
}

/// The next one, which has forgotten about the first.
mod second {
    use super::*;

    #[derive(Debug, Serialize, Deserialize)]
    pub(super) struct Order {
        pub(super) pieces: u32,
    }

    #[fom(operation(Order), event(Go))]
    pub(super) enum Shop {
        #[phase(start, sync, to(Park))]
        Begin,
        #[phase(sync, to(Done), on(On))]
        Park { shelf: u32 },
        #[phase(end)]
        Done,
    }

    impl ShopTransitions for Order {
        fn begin(&mut self, _: &mut Cx<'_, Go>) -> Result<ShopAfterBegin, BoxError> {
            Ok(ShopAfterBegin::Park { shelf: 3 })
        }
        fn park(
            &mut self,
            _: &mut Cx<'_, Go>,
            _: &mut u32,
            _: Go,
        ) -> Result<ShopAfterPark, BoxError> {
            Ok(ShopAfterPark::Done)
        }
    }
}

/// A release whose migration panics, if that is so, and one that has forgotten the first version.
mod later {
    use super::*;

    /// Pieces are numbers now.
    pub(super) fn to_second(saved: &mut fom_runtime::Saved) -> Result<(), BoxError> {
        assert!(!PANICS.with(Cell::get), "cannot migrate");
        let old: first::Order = saved.operation()?;
        let pieces = old.pieces.parse()?;
        saved.set_operation(&migrating::Order { pieces })?;
        Ok(())
    }

    pub(super) fn to_third(_: &mut fom_runtime::Saved) -> Result<(), BoxError> {
        Ok(())
    }
}

macro_rules! numbered {
    ($name:ident, $($version:tt)*) => {
        mod $name {
            use super::*;

            #[derive(Debug, Serialize, Deserialize)]
            pub(super) struct Order {
                pub(super) pieces: u32,
            }

            #[fom(operation(Order), event(Go), $($version)*)]
            pub(super) enum Shop {
                #[phase(start, sync, to(Park))]
                Begin,
                #[phase(sync, to(Done), on(On))]
                Park { shelf: u32 },
                #[phase(end)]
                Done,
            }

            impl ShopTransitions for Order {
                fn begin(&mut self, _: &mut Cx<'_, Go>) -> Result<ShopAfterBegin, BoxError> {
                    Ok(ShopAfterBegin::Park { shelf: 3 })
                }
                fn park(
                    &mut self,
                    _: &mut Cx<'_, Go>,
                    _: &mut u32,
                    _: Go,
                ) -> Result<ShopAfterPark, BoxError> {
                    Ok(ShopAfterPark::Done)
                }
            }
        }
    };
}

numbered!(migrating, version = 2, migrate(v1(super::later::to_second)));
numbered!(forgetful, version = 3, migrate(v2(super::later::to_third)));

/// A newer version than the program's, a version that it has forgotten, a migration that refuses and one that panics: each sets
/// aside the one fom, and a release that can takes it in.
#[test]
fn versions_that_do_not_fit_are_set_aside() {
    limited(async || {
        let journal = MemoryJournal::new();
        {
            let runtime = of_first(&journal).build().unwrap();
            parked(&runtime, order("3"), "good");
            parked(&runtime, order("three"), "odd");
        }
        let with = |builder: Builder| builder.build().unwrap();
        let fresh = || one(&TestClock::new()).journal_with(journal.clone());
        let reasons = |runtime: &Runtime| -> Vec<RestoreError> {
            runtime
                .set_aside()
                .into_iter()
                .map(|aside| aside.reason)
                .collect()
        };
        {
            let runtime = with(fresh().operation::<forgetful::Order>());
            let reasons = reasons(&runtime);
            assert_eq!(reasons.len(), 2, "{reasons:?}");
            assert!(
                reasons[0].to_string().contains("version 1"),
                "{}",
                reasons[0]
            );
        }
        {
            PANICS.with(|panics| panics.set(true));
            let runtime = with(fresh().operation::<migrating::Order>());
            PANICS.with(|panics| panics.set(false));
            let reasons = reasons(&runtime);
            assert_eq!(reasons.len(), 2, "{reasons:?}");
            assert!(
                reasons[0].to_string().contains("cannot migrate"),
                "{}",
                reasons[0]
            );
        }
        {
            let runtime = with(fresh().operation::<migrating::Order>());
            assert_eq!(
                runtime.find::<migrating::Order>("good").unwrap().phase(),
                "Park"
            );
            let reasons = reasons(&runtime);
            assert_eq!(reasons.len(), 1, "{reasons:?}");
            assert!(
                reasons[0].to_string().contains("invalid digit"),
                "{}",
                reasons[0]
            );
            parked(&runtime, migrating::Order { pieces: 9 }, "new");
        }
        let runtime = of_first(&journal).build().unwrap();
        assert!(runtime.find::<first::Order>("odd").is_some());
        let aside = runtime.set_aside();
        let newer = aside
            .iter()
            .find(|aside| aside.key == Some("new".into()))
            .unwrap();
        assert_eq!(newer.version, Some(2));
        assert!(
            newer.reason.to_string().contains("version 2"),
            "{}",
            newer.reason
        );
    });
}

/// Tells the shop something through its outbox.
#[derive(Debug, Serialize, Deserialize)]
struct Tell;

#[fom(operation(Tell))]
enum Telling {
    #[phase(start, sync, to(Told))]
    Send,
    #[phase(end)]
    Told,
}

impl TellingTransitions for Tell {
    fn send(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.outbox().send::<first::Order>("s", Go::On)?;
        Ok(())
    }
}

/// An event for a fom that is set aside waits for it.
#[test]
fn an_event_waits_for_a_receiver_that_is_set_aside() {
    limited(async || {
        let journal = MemoryJournal::new();
        {
            let runtime = of_first(&journal).build().unwrap();
            parked(&runtime, order("x"), "s");
        }
        let before;
        {
            let runtime = of_second(&journal).build().unwrap();
            runtime.submit(Tell).await.unwrap();
            runtime.quiet().await;
            before = journal.fork();
            let aside = runtime.set_aside();
            assert_eq!(aside.len(), 2, "the receiver and the event: {aside:?}");
            assert_eq!(aside[1].reason, RestoreError::ReceiverSetAside(aside[0].id));
        }
        {
            // Still not.
            let runtime = of_second(&journal).build().unwrap();
            assert_eq!(runtime.set_aside().len(), 2);
        }
        for journal in [journal, before] {
            let runtime = of_first(&journal).build().unwrap();
            runtime.idle().await;
            assert!(runtime.set_aside().is_empty());
            assert!(runtime.operations().incidents.is_empty());
            drop(runtime);
            let left = journal.ids().into_iter().filter(|id| *id >= EntryId::HEAD);
            assert_eq!(left.count(), 0, "it took the event, and ended");
        }
    });
}

/// Its type is known to a program that names it.
#[derive(Debug, Serialize, Deserialize)]
struct Job<T> {
    what: T,
}

#[fom(operation(Job<T>), event(Go))]
enum Work<T: Send + Serialize + for<'a> Deserialize<'a> + 'static> {
    #[phase(start, sync, to(Park))]
    Begin,
    #[phase(sync, to(Done), on(On))]
    Park { of: Option<T> },
    #[phase(end)]
    Done,
}

impl<T: Send + Serialize + for<'a> Deserialize<'a> + 'static> WorkTransitions<T> for Job<T> {
    fn begin(&mut self, _: &mut Cx<'_, Go>) -> Result<WorkAfterBegin<T>, BoxError> {
        Ok(WorkAfterBegin::Park { of: None })
    }
    fn park(
        &mut self,
        _: &mut Cx<'_, Go>,
        _: &mut Option<T>,
        _: Go,
    ) -> Result<WorkAfterPark, BoxError> {
        Ok(WorkAfterPark::Done)
    }
}

/// One that panics when it is read, if that is so.
#[derive(Debug)]
struct Touchy;

thread_local! {
    /// Of the test's thread, which builds the runtime.
    static PANICS: Cell<bool> = const { Cell::new(false) };
}

impl Serialize for Touchy {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_unit()
    }
}

impl<'de> Deserialize<'de> for Touchy {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        assert!(!PANICS.with(Cell::get), "do not touch me");
        <()>::deserialize(input)?;
        Ok(Self)
    }
}

#[fom(operation(Touchy), event(Go))]
enum Touch {
    #[phase(start, sync, to(Park))]
    Begin,
    #[phase(sync, to(Done), on(On))]
    Park,
    #[phase(end)]
    Done,
}

impl TouchTransitions for Touchy {
    fn begin(&mut self, _: &mut Cx<'_, Go>) -> Result<(), BoxError> {
        Ok(())
    }
    fn park(&mut self, _: &mut Cx<'_, Go>, _: Go) -> Result<TouchAfterPark, BoxError> {
        Ok(TouchAfterPark::Done)
    }
}

fn order(pieces: &str) -> first::Order {
    first::Order {
        pieces: pieces.into(),
    }
}

fn parked<O: Operation<Event = Go>>(runtime: &Runtime, operation: O, key: &str) -> FomRef<O> {
    let handle = runtime.submit(operation).key(key).start().unwrap();
    let fom = handle.fom().clone();
    drop(handle);
    futures::executor::block_on(runtime.quiet());
    assert_eq!(fom.phase(), "Park");
    fom
}

fn of_first(journal: &MemoryJournal) -> Builder {
    one(&TestClock::new())
        .journal_with(journal.clone())
        .operation::<first::Order>()
        .operation::<Job<u32>>()
}

fn of_second(journal: &MemoryJournal) -> Builder {
    one(&TestClock::new())
        .journal_with(journal.clone())
        .operation::<second::Order>()
}

/// An operation that the program does not have, and one whose data it cannot read: both are listed, the rest runs, and a program
/// that can read them lets them go on.
#[test]
fn what_a_release_cannot_read_waits_for_one_that_can() {
    limited(async || {
        let journal = MemoryJournal::new();
        let (job, shop);
        {
            let runtime = of_first(&journal).build().unwrap();
            job = parked(&runtime, Job { what: 7u32 }, "j").id();
            shop = parked(&runtime, order("three"), "s").id();
            parked(&runtime, Touchy, "t");
        }
        {
            let runtime = of_second(&journal).build().unwrap();
            assert!(runtime.find::<Touchy>("t").is_some(), "the rest runs");
            let aside = runtime.set_aside();
            let ids: Vec<_> = aside.iter().map(|one| one.id).collect();
            assert_eq!(ids, [job, shop]);
            assert!(matches!(
                aside[0].reason,
                RestoreError::UnknownOperation { .. }
            ));
            assert!(matches!(aside[1].reason, RestoreError::Operation { .. }));
            for (one, key) in aside.iter().zip(["j", "s"]) {
                assert_eq!(one.key, Some(key.into()));
                assert_eq!(one.phase.as_deref(), Some("Park"));
                assert_eq!(one.version, Some(1));
                assert!(!one.bytes.is_empty());
            }
            assert_eq!(aside[1].operation.as_deref(), Some("Order"));
            assert_eq!(aside[1].machine.as_deref(), Some("Shop"));
            // Its bytes stand for themselves.
            let snapshot = aside[1].snapshot().unwrap();
            let (order, phase) = first::Order::restore(&snapshot).unwrap();
            assert_eq!(order.pieces, "three");
            assert!(matches!(phase, first::Shop::Park { shelf: 3 }));
            let listing = runtime.operations().to_string();
            assert!(
                listing.contains("2 in the journal cannot run:"),
                "{listing}"
            );
            assert!(listing.contains("Order s"), "{listing}");
            assert!(matches!(
                runtime.retry_set_aside(shop),
                Err(RetryError::Still(RestoreError::Operation { .. }))
            ));
            assert_eq!(runtime.set_aside().len(), 2);
        }
        let runtime = of_first(&journal).build().unwrap();
        assert!(runtime.set_aside().is_empty());
        for id in [job, shop] {
            assert_eq!(runtime.operation(id).unwrap().phase, "Park");
        }
        let order = runtime.find::<first::Order>("s").unwrap();
        let done = order.reached([first::ShopKind::Done]);
        order.send(Go::On).unwrap();
        done.await;
    });
}

/// A panic in the user's `Deserialize` is that fom's alone.
#[test]
fn a_panic_while_it_is_read_sets_one_aside() {
    limited(async || {
        let journal = MemoryJournal::new();
        {
            let runtime = of_first(&journal).build().unwrap();
            parked(&runtime, Touchy, "t");
            parked(&runtime, order("1"), "s");
        }
        PANICS.with(|panics| panics.set(true));
        let runtime = of_first(&journal).build().unwrap();
        PANICS.with(|panics| panics.set(false));
        assert!(runtime.find::<first::Order>("s").is_some());
        let aside = runtime.set_aside();
        assert!(
            matches!(&aside[0].reason, RestoreError::Panicked(what) if what == "do not touch me")
        );
        assert_eq!(aside.len(), 1);
        runtime.retry_set_aside(aside[0].id).unwrap();
        assert!(runtime.find::<Touchy>("t").is_some());
        assert!(runtime.set_aside().is_empty());
        assert!(matches!(
            runtime.retry_set_aside(aside[0].id),
            Err(RetryError::NotSetAside(id)) if id == aside[0].id
        ));
    });
}

/// While it was set aside somebody took its key: it waits until that is free.
#[test]
fn a_key_in_use_can_be_waited_for() {
    limited(async || {
        let journal = MemoryJournal::new();
        {
            let runtime = of_first(&journal).build().unwrap();
            parked(&runtime, order("old"), "s");
        }
        {
            // In a release that does not know it, somebody takes its key.
            let runtime = of_second(&journal).build().unwrap();
            assert_eq!(runtime.set_aside().len(), 1);
            parked(&runtime, second::Order { pieces: 1 }, "s");
        }
        let runtime = of_first(&journal).build().unwrap();
        let aside = runtime.set_aside();
        assert_eq!(aside.len(), 1, "{aside:?}");
        // The older of the two has the key; the other cannot be read by this release.
        assert_eq!(aside[0].key, Some("s".into()));
        let old = runtime.find::<first::Order>("s").unwrap();
        assert!(old.id() < aside[0].id);
        drop(runtime);
        // A release that reads both: two of one key.
        let both = one(&TestClock::new())
            .journal_with(journal.clone())
            .operation::<Either>()
            .build()
            .unwrap();
        let aside = both.set_aside();
        assert_eq!(aside.len(), 1, "{aside:?}");
        assert!(matches!(&aside[0].reason, RestoreError::KeyInUse(key) if *key == "s".into()));
        let still = both.retry_set_aside(aside[0].id).unwrap_err();
        assert_eq!(still, RetryError::Still(RestoreError::KeyInUse("s".into())));
        both.find::<Either>("s").unwrap().cancel();
        both.idle().await;
        both.retry_set_aside(aside[0].id).unwrap();
        assert_eq!(both.find::<Either>("s").unwrap().id(), aside[0].id);
    });
}

/// Reads what either release wrote.
type Either = either::Order;

mod either {
    use super::*;

    #[derive(Debug, Serialize, Deserialize)]
    pub(super) struct Order {
        pieces: Pieces,
    }

    #[derive(Debug, Serialize, Deserialize)]
    #[serde(untagged)]
    enum Pieces {
        Text(String),
        Number(u32),
    }

    #[fom(operation(Order), event(Go))]
    pub(super) enum Shop {
        #[phase(start, sync, to(Park))]
        Begin,
        #[phase(sync, to(Done), on(On))]
        Park { shelf: u32 },
        #[phase(end)]
        Done,
    }

    impl ShopTransitions for Order {
        fn begin(&mut self, _: &mut Cx<'_, Go>) -> Result<ShopAfterBegin, BoxError> {
            Ok(ShopAfterBegin::Park { shelf: 3 })
        }
        fn park(
            &mut self,
            _: &mut Cx<'_, Go>,
            _: &mut u32,
            _: Go,
        ) -> Result<ShopAfterPark, BoxError> {
            Ok(ShopAfterPark::Done)
        }
    }
}

/// What is discarded is gone from the journal, and the caller has it.
#[test]
fn what_is_discarded_is_given_back() {
    limited(async || {
        let journal = MemoryJournal::new();
        {
            let runtime = of_first(&journal).build().unwrap();
            let handle = runtime.submit(order("x")).once("id").start().unwrap();
            runtime.quiet().await;
            drop(handle);
        }
        let (runtime, aside);
        {
            runtime = of_second(&journal).build().unwrap();
            aside = runtime.set_aside().remove(0);
            // Its operation id is taken as long as it is there.
            let submit = || {
                runtime
                    .submit(second::Order { pieces: 2 })
                    .once("id")
                    .start()
            };
            assert_eq!(submit().unwrap_err().reason(), RefusedReason::SetAside);
            let discarded = runtime.discard_set_aside(aside.id).await.unwrap();
            assert_eq!(discarded.bytes, aside.bytes);
            let (order, _) = first::Order::restore(&discarded.snapshot().unwrap()).unwrap();
            assert_eq!(order.pieces, "x");
            assert!(runtime.set_aside().is_empty());
            assert!(matches!(
                runtime.discard_set_aside(aside.id).await,
                Err(DiscardError::NotSetAside(_))
            ));
            let handle = submit().unwrap();
            handle.cancel();
            assert!(matches!(handle.await.unwrap_err().cause, Cause::Cancelled));
        }
        drop(runtime);
        let runtime = of_first(&journal).build().unwrap();
        assert_eq!(runtime.in_flight(), 0);
        assert!(runtime.set_aside().is_empty());
        assert!(
            matches!(
                runtime.discard_set_aside(aside.id).await,
                Err(DiscardError::NotSetAside(_))
            ),
            "it is known by its id alone"
        );
    });
}

/// Nothing is tried while the runtime ends.
#[test]
fn a_shutdown_tries_nothing() {
    limited(async || {
        let journal = MemoryJournal::new();
        {
            let runtime = of_first(&journal).build().unwrap();
            parked(&runtime, order("x"), "s");
        }
        let runtime = of_second(&journal).build().unwrap();
        let id = runtime.set_aside()[0].id;
        runtime.shutdown(Shutdown::Now, secs(5)).await;
        assert_eq!(runtime.retry_set_aside(id), Err(RetryError::ShuttingDown));
        assert!(matches!(
            runtime.discard_set_aside(id).await,
            Err(DiscardError::Journal(JournalError::Closed))
        ));
        assert_eq!(runtime.set_aside().len(), 1);
        drop(runtime);
        assert!(journal.entry(EntryId(EntryId::HEAD.0 + id.get())).is_some());
    });
}

/// A directory that goes when the test ends.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("fom-aside-{}-{next}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Every file with its bytes.
    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files: Vec<_> = fs::read_dir(&self.0)
            .unwrap()
            .map(|file| file.unwrap().path())
            .map(|path| (path.clone(), fs::read(path).unwrap()))
            .collect();
        files.sort();
        files
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A flipped bit in what is kept of one fom: that one is set aside, named by file and offset, and the rest runs. A check of the
/// directory says the same before, and changes nothing.
#[test]
fn damage_is_named_by_its_place() {
    limited(async || {
        let place = Place::new();
        let build = || {
            one(&TestClock::new())
                .journal_with(
                    FileJournal::options()
                        .segment_bytes(1 << 16)
                        .open(&place.0)
                        .unwrap(),
                )
                .operation::<first::Order>()
                .build()
                .unwrap()
        };
        let damaged;
        {
            let runtime = build();
            damaged = parked(&runtime, order("needle in the journal"), "a").id();
            parked(&runtime, order("other"), "b");
        }
        let needle = b"needle in the journal";
        for (path, mut bytes) in place.files() {
            let at: Vec<_> = bytes
                .windows(needle.len())
                .enumerate()
                .filter(|(_, window)| window == needle)
                .map(|(at, _)| at)
                .collect();
            for at in &at {
                bytes[*at] ^= 1;
            }
            if !at.is_empty() {
                fs::write(path, bytes).unwrap();
            }
        }
        let before = place.files();
        let builder = one(&TestClock::new()).operation::<first::Order>();
        let check = builder.check_journal(&place.0).unwrap();
        assert_eq!(place.files(), before, "nothing is changed");
        assert!(!check.is_clean());
        assert_eq!(check.foms.values().sum::<u64>(), 1);
        let runtime = build();
        let aside = runtime.set_aside();
        for aside in [&check.set_aside, &aside] {
            assert_eq!(aside.len(), 1);
            assert_eq!(aside[0].id, damaged);
            let RestoreError::InJournal(damage) = &aside[0].reason else {
                panic!("{aside:?}");
            };
            assert!(
                damage.offset > 0 && damage.file.starts_with(&place.0),
                "{damage}"
            );
            assert!(aside[0].bytes.is_empty() && aside[0].snapshot().is_none());
        }
        assert!(runtime.find::<first::Order>("b").is_some());
        assert!(matches!(
            runtime.retry_set_aside(damaged),
            Err(RetryError::Still(RestoreError::InJournal(_)))
        ));
        runtime.discard_set_aside(damaged).await.unwrap();
        drop(runtime);
        assert!(build().set_aside().is_empty());
    });
}

/// What a release would strand is known before it is shipped.
#[test]
fn a_check_says_what_a_release_would_strand() {
    limited(async || {
        let place = Place::new();
        {
            let runtime = one(&TestClock::new())
                .journal(&place.0)
                .operation::<first::Order>()
                .operation::<Job<u32>>()
                .build()
                .unwrap();
            parked(&runtime, order("1"), "a");
            parked(&runtime, Job { what: 1u32 }, "b");
            let done = runtime.submit(order("2")).once("o").start().unwrap();
            done.cancel();
            assert!(done.await.is_err());
        }
        let before = place.files();
        let check = Runtime::builder()
            .operation::<first::Order>()
            .operation::<Job<u32>>()
            .check_journal(&place.0)
            .unwrap();
        assert!(check.is_clean(), "{check}");
        assert_eq!(check.foms.len(), 2);
        assert_eq!(check.outcomes, 1);
        let check = Runtime::builder()
            .operation::<second::Order>()
            .check_journal(&place.0)
            .unwrap();
        assert!(!check.is_clean());
        assert_eq!(check.set_aside.len(), 2);
        let report = check.to_string();
        assert!(report.contains("2 would be set aside"), "{report}");
        assert!(report.contains("Order a in Park (version 1): "), "{report}");
        assert_eq!(place.files(), before, "nothing is changed");
        assert!(
            Runtime::builder()
                .check_journal(place.0.join("nowhere"))
                .is_err()
        );
        assert!(!place.0.join("nowhere").exists());
    });
}
