//! A record in the journal that cannot run is quarantined with the reason and its bytes, and the rest runs.

use std::cell::Cell;

use fom_durable::{
    DiscardError, RetryError,
    journal::{EntryId, JournalError, MemoryJournal},
    prelude::*,
};
use fom_runtime::{
    Cause, config::Shutdown, error::RefusedReason, snapshot::RestoreError, time::TestClock,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::jobs::{Go, Job, PANICS, first, of_first, of_second, order, parked, second, shop};
use crate::kit::{limited, one, secs};

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

/// An event for a fom that is quarantined waits for it.
#[test]
fn an_event_waits_for_a_receiver_that_is_quarantined() {
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
            let quarantined = runtime.quarantine().list();
            assert_eq!(
                quarantined.len(),
                2,
                "the receiver and the event: {quarantined:?}"
            );
            assert_eq!(
                quarantined[1].reason,
                RestoreError::ReceiverQuarantined(quarantined[0].id)
            );
        }
        {
            // The receiver is still quarantined.
            let runtime = of_second(&journal).build().unwrap();
            assert_eq!(runtime.quarantine().list().len(), 2);
        }
        for journal in [journal, before] {
            let runtime = of_first(&journal).build().unwrap();
            runtime.idle().await;
            assert!(runtime.quarantine().list().is_empty());
            assert!(runtime.operations().incidents.is_empty());
            drop(runtime);
            let left = journal.ids().into_iter().filter(|id| *id >= EntryId::HEAD);
            assert_eq!(left.count(), 0, "it took the event, and ended");
        }
    });
}

/// Panics when it is read, if `PANICS` is set.
#[derive(Debug)]
struct Touchy;

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

/// The program lists an operation that it does not have and an operation with data that it cannot read, and runs the
/// rest. A program that can read both lets them go on.
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
            let quarantined = runtime.quarantine().list();
            let ids: Vec<_> = quarantined.iter().map(|one| one.id).collect();
            assert_eq!(ids, [job, shop]);
            assert!(matches!(
                quarantined[0].reason,
                RestoreError::UnknownOperation { .. }
            ));
            assert!(matches!(
                quarantined[1].reason,
                RestoreError::Operation { .. }
            ));
            for (one, key) in quarantined.iter().zip(["j", "s"]) {
                assert_eq!(one.key, Some(key.into()));
                assert_eq!(one.phase.as_deref(), Some("Park"));
                assert_eq!(one.version, Some(1));
                assert!(!one.bytes.is_empty());
            }
            assert_eq!(quarantined[1].operation.as_deref(), Some("Order"));
            assert_eq!(quarantined[1].machine.as_deref(), Some("Shop"));
            // The bytes are complete by themselves.
            let snapshot = quarantined[1].snapshot().unwrap();
            let (order, phase) = first::Order::restore(&snapshot).unwrap();
            assert_eq!(order.pieces, "three");
            assert!(matches!(phase, first::Shop::Park { shelf: 3 }));
            let listing = runtime.operations().to_string();
            assert!(listing.contains("2 in quarantine:"), "{listing}");
            assert!(listing.contains("Order s"), "{listing}");
            assert!(matches!(
                runtime.quarantine().retry(shop),
                Err(RetryError::Still(RestoreError::Operation { .. }))
            ));
            assert_eq!(runtime.quarantine().list().len(), 2);
        }
        let runtime = of_first(&journal).build().unwrap();
        assert!(runtime.quarantine().list().is_empty());
        for id in [job, shop] {
            assert_eq!(runtime.operation(id).unwrap().phase, "Park");
        }
        let order = runtime.find::<first::Order>("s").unwrap();
        let done = order.reached([first::ShopKind::Done]);
        order.send(Go::On).unwrap();
        done.await;
    });
}

/// A panic in the user's `Deserialize` concerns that fom alone.
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
        let quarantined = runtime.quarantine().list();
        assert!(
            matches!(&quarantined[0].reason, RestoreError::Panicked(what) if what == "do not touch me")
        );
        assert_eq!(quarantined.len(), 1);
        runtime.quarantine().retry(quarantined[0].id).unwrap();
        assert!(runtime.find::<Touchy>("t").is_some());
        assert!(runtime.quarantine().list().is_empty());
        assert!(matches!(
            runtime.quarantine().retry(quarantined[0].id),
            Err(RetryError::NotQuarantined(id)) if id == quarantined[0].id
        ));
    });
}

/// While a fom is quarantined another takes its key: the first waits until the key is free.
#[test]
fn a_key_in_use_can_be_waited_for() {
    limited(async || {
        let journal = MemoryJournal::new();
        {
            let runtime = of_first(&journal).build().unwrap();
            parked(&runtime, order("old"), "s");
        }
        {
            // In a release that cannot read the record, another fom takes its key.
            let runtime = of_second(&journal).build().unwrap();
            assert_eq!(runtime.quarantine().list().len(), 1);
            parked(&runtime, second::Order { pieces: 1 }, "s");
        }
        let runtime = of_first(&journal).build().unwrap();
        let quarantined = runtime.quarantine().list();
        assert_eq!(quarantined.len(), 1, "{quarantined:?}");
        // The older of the two has the key; the other cannot be read by this release.
        assert_eq!(quarantined[0].key, Some("s".into()));
        let old = runtime.find::<first::Order>("s").unwrap();
        assert!(old.id() < quarantined[0].id);
        drop(runtime);
        // A release that reads both: two foms with one key.
        let both = one(&TestClock::new())
            .journal_with(journal.clone())
            .operation::<Either>()
            .build()
            .unwrap();
        let quarantined = both.quarantine().list();
        assert_eq!(quarantined.len(), 1, "{quarantined:?}");
        assert!(
            matches!(&quarantined[0].reason, RestoreError::KeyInUse(key) if *key == "s".into())
        );
        let still = both.quarantine().retry(quarantined[0].id).unwrap_err();
        assert_eq!(still, RetryError::Still(RestoreError::KeyInUse("s".into())));
        both.find::<Either>("s").unwrap().cancel();
        both.idle().await;
        both.quarantine().retry(quarantined[0].id).unwrap();
        assert_eq!(both.find::<Either>("s").unwrap().id(), quarantined[0].id);
    });
}

/// Reads what either release wrote.
type Either = either::Order;

mod either {
    use super::*;

    #[derive(Debug, Serialize, Deserialize)]
    #[serde(untagged)]
    pub(crate) enum Pieces {
        Text(String),
        Number(u32),
    }

    shop!(Pieces);
}

/// A discarded record is gone from the journal, and the caller has it.
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
        let (runtime, quarantined);
        {
            runtime = of_second(&journal).build().unwrap();
            quarantined = runtime.quarantine().list().remove(0);
            // Its operation id stays taken as long as the record is there.
            let submit = || {
                runtime
                    .submit(second::Order { pieces: 2 })
                    .once("id")
                    .start()
            };
            assert_eq!(submit().unwrap_err().reason(), RefusedReason::Quarantined);
            let discarded = runtime.quarantine().discard(quarantined.id).await.unwrap();
            assert_eq!(discarded.bytes, quarantined.bytes);
            let (order, _) = first::Order::restore(&discarded.snapshot().unwrap()).unwrap();
            assert_eq!(order.pieces, "x");
            assert!(runtime.quarantine().list().is_empty());
            assert!(matches!(
                runtime.quarantine().discard(quarantined.id).await,
                Err(DiscardError::NotQuarantined(_))
            ));
            let handle = submit().unwrap();
            handle.cancel();
            assert!(matches!(handle.await.unwrap_err().cause, Cause::Cancelled));
        }
        drop(runtime);
        let runtime = of_first(&journal).build().unwrap();
        assert_eq!(runtime.in_flight(), 0);
        assert!(runtime.quarantine().list().is_empty());
        assert!(
            matches!(
                runtime.quarantine().discard(quarantined.id).await,
                Err(DiscardError::NotQuarantined(_))
            ),
            "it is known by its id alone"
        );
    });
}

/// Nothing is retried while the runtime ends.
#[test]
fn a_shutdown_tries_nothing() {
    limited(async || {
        let journal = MemoryJournal::new();
        {
            let runtime = of_first(&journal).build().unwrap();
            parked(&runtime, order("x"), "s");
        }
        let runtime = of_second(&journal).build().unwrap();
        let id = runtime.quarantine().list()[0].id;
        runtime.shutdown(Shutdown::Now, secs(5)).await;
        assert_eq!(
            runtime.quarantine().retry(id),
            Err(RetryError::ShuttingDown)
        );
        assert!(matches!(
            runtime.quarantine().discard(id).await,
            Err(DiscardError::Journal(JournalError::Closed))
        ));
        assert_eq!(runtime.quarantine().list().len(), 1);
        drop(runtime);
        assert!(journal.entry(EntryId(EntryId::HEAD.0 + id.get())).is_some());
    });
}
