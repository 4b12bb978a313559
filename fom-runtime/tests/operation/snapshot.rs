//! Snapshots: every phase of a machine there and back, and hostile bytes.

use std::collections::BTreeMap;

use fom_runtime::{
    prelude::*,
    snapshot::{RestoreError, SnapshotError},
    time::TestClock,
};
use proptest::{collection, prelude::*};
use serde::{Deserialize, Serialize, Serializer};

use crate::kit::{Log, limited, one};
use crate::record::{Bin, Record, encode, frame, inner};
use crate::shop::{Oops, Order, Shop, each_phase, order, orders, phases};

fn round_trip(order: &Order, phase: &Shop) {
    let saved = order.snapshot(phase).unwrap();
    let read = Snapshot::from_bytes(saved.as_bytes()).unwrap();
    assert_eq!(read, saved);
    assert_eq!(read.machine().unwrap(), "Shop");
    assert_eq!(read.phase().unwrap(), format!("{:?}", Order::kind(phase)));
    let (restored, again) = Order::restore(&read).unwrap();
    assert_eq!((&restored, &again), (order, phase));
}

/// PR-03: an operation with its phase and the phase's data goes to bytes and back, in every phase. (The bytes do not
/// have what the fom waits for: the phase's function is entered again, and asks again.)
#[test]
fn every_phase_goes_there_and_back() {
    assert_eq!(each_phase().len(), Order::GRAPH.phases().len());
    for (index, phase) in each_phase().iter().enumerate() {
        assert_eq!(Order::index(Order::kind(phase)), index);
        round_trip(&order(), phase);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// PR-03: the same with any data.
    #[test]
    fn any_data_goes_there_and_back(order in orders(), phase in phases()) {
        round_trip(&order, &phase);
    }

    /// Bytes that are no snapshot, or that only begin like one, are refused and never panic.
    #[test]
    fn any_bytes_are_refused(bytes in collection::vec(any::<u8>(), 0..200), framed in any::<bool>()) {
        if framed {
            // The checksum is right, so that the structure is tested.
            let snapshot = Snapshot::from_bytes(frame(b"FOM2", &bytes)).unwrap();
            prop_assert!(Order::restore(&snapshot).is_err());
            prop_assert!(snapshot.phase().is_err() && snapshot.machine().is_err());
        } else {
            prop_assert!(Snapshot::from_bytes(bytes).is_err());
        }
    }
}

/// The error for a record that was changed but framed well.
fn refusal(phase: &Shop, change: impl FnOnce(&mut Record)) -> RestoreError {
    let mut record = Record::of(&order().snapshot(phase).unwrap());
    change(&mut record);
    let snapshot = Snapshot::from_bytes(record.second(1)).unwrap();
    Order::restore(&snapshot).unwrap_err()
}

/// Every truncation and every single flipped bit of a snapshot, in every phase, is an error.
#[test]
fn every_damage_is_seen() {
    for phase in each_phase() {
        let saved = order().snapshot(&phase).unwrap();
        let bytes = saved.as_bytes();
        for length in 0..bytes.len() {
            assert!(
                Snapshot::from_bytes(&bytes[..length]).is_err(),
                "cut at {length}"
            );
        }
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Snapshot::from_bytes(bytes).is_err(), "bit {bit}");
        }
        let error = Snapshot::from_bytes(&bytes[..bytes.len() - 1]).unwrap_err();
        assert_eq!(error, RestoreError::Damaged);
        assert_eq!(
            Snapshot::from_bytes(&bytes[1..]).unwrap_err(),
            RestoreError::NotASnapshot
        );
        assert_eq!(
            Snapshot::from_bytes(Vec::new()).unwrap_err(),
            RestoreError::NotASnapshot
        );
    }
}

/// The same with a corrected checksum: the bytes may be a snapshot of something else, but never cause a panic.
/// Truncated bytes, or bytes with a suffix, are an error.
#[test]
fn damage_under_a_right_checksum_is_never_a_panic() {
    for phase in each_phase() {
        let saved = order().snapshot(&phase).unwrap();
        let body = inner(&saved);
        for length in 0..body.len() {
            let snapshot = Snapshot::from_bytes(frame(b"FOM2", &body[..length])).unwrap();
            assert!(Order::restore(&snapshot).is_err(), "cut at {length}");
        }
        for bit in 0..body.len() * 8 {
            let mut body = body.to_vec();
            body[bit / 8] ^= 1 << (bit % 8);
            let snapshot = Snapshot::from_bytes(frame(b"FOM2", &body)).unwrap();
            let _ = (
                Order::restore(&snapshot),
                snapshot.phase(),
                snapshot.machine(),
            );
        }
        let longer = [body, &[0xc0]].concat();
        let snapshot = Snapshot::from_bytes(frame(b"FOM2", &longer)).unwrap();
        assert_eq!(
            Order::restore(&snapshot).unwrap_err(),
            RestoreError::Damaged
        );
    }
}

/// A mismatch is refused, and the error names both sides.
#[test]
fn what_does_not_fit_is_refused() {
    let paying = &each_phase()[2];
    assert_eq!(
        refusal(paying, |record| record.phase = "Waiting".into()),
        RestoreError::UnknownPhase {
            phase: "Waiting".into(),
            machine: "Shop"
        }
    );
    assert_eq!(
        refusal(paying, |record| record.machine = "Bank".into()),
        RestoreError::OtherMachine {
            found: "Bank".into(),
            wanted: "Shop"
        }
    );
    let gone = refusal(paying, |record| drop(record.fields.remove("tries")));
    assert_eq!(gone, RestoreError::MissingField { field: "tries" });
    let more = refusal(paying, |record| {
        drop(record.fields.insert("colour".into(), Bin(encode(&1))))
    });
    assert_eq!(
        more,
        RestoreError::UnknownField {
            phase: "Paying".into(),
            field: "colour".into()
        }
    );
    // A field of another phase is no field of this one, and its data is not used.
    let other = refusal(paying, |record| record.phase = "Delivered".into());
    assert!(
        matches!(other, RestoreError::MissingField { field: "at" }),
        "{other:?}"
    );
    for wrong in [
        encode(&"text"),
        encode(&vec!["a"]),
        Vec::new(),
        vec![0xc1],
        [encode(&vec![1i64]), vec![0]].concat(),
    ] {
        let error = refusal(paying, |record| {
            drop(record.fields.insert("tries".into(), Bin(wrong.clone())))
        });
        assert!(
            matches!(&error, RestoreError::Field { field: "tries", .. }),
            "{wrong:?}: {error:?}"
        );
    }
    for wrong in [
        encode(&7),
        encode(&BTreeMap::from([("number", 7)])),
        Vec::new(),
    ] {
        let error = refusal(paying, |record| record.operation = Bin(wrong));
        assert!(
            matches!(
                error,
                RestoreError::Operation {
                    operation: "Order",
                    ..
                }
            ),
            "{error:?}"
        );
    }
}

/// Two machines may have the same names for their phases; the operation's type tells them apart.
#[test]
fn a_snapshot_of_another_operation_is_refused() {
    mod other {
        use fom_runtime::prelude::*;
        use serde::{Deserialize, Serialize};

        use super::Oops;

        #[derive(Debug, Serialize, Deserialize)]
        pub(super) struct Parcel {
            pub(super) number: u64,
        }

        #[fom(operation(Parcel), error(Oops))]
        #[derive(Debug)]
        pub(super) enum Shop {
            #[phase(start, to(Done), sync)]
            Received,
            #[phase(end)]
            Done,
        }

        impl ShopTransitions for Parcel {
            fn received(&mut self, _: &mut Cx<'_>) -> Result<(), Oops> {
                Ok(())
            }
        }
    }
    let saved = order().snapshot(&Shop::Received).unwrap();
    let error = other::Parcel::restore(&saved).unwrap_err();
    assert!(!matches!(error, RestoreError::Damaged), "{error:?}");
    assert!(
        error.to_string().contains("Order") && error.to_string().contains("Parcel"),
        "{error}"
    );
}

/// Lengths beyond the data, and endless nesting, are errors too, in little time and memory.
#[test]
fn hostile_lengths_and_depths_are_errors() {
    let packing = &each_phase()[3];
    // A string, bytes, a list and a map of four gigabytes.
    for kind in [0xdb, 0xc6, 0xdd, 0xdf] {
        let huge = vec![kind, 0xff, 0xff, 0xff, 0xff];
        let snapshot = Snapshot::from_bytes(frame(b"FOM2", &huge)).unwrap();
        assert_eq!(
            Order::restore(&snapshot).unwrap_err(),
            RestoreError::Damaged
        );
        for field in ["parcel", "boxes"] {
            let error = refusal(packing, |record| {
                drop(record.fields.insert(field.into(), Bin(huge.clone())))
            });
            assert!(matches!(error, RestoreError::Field { .. }), "{error:?}");
        }
        let error = refusal(packing, |record| record.operation = Bin(huge.clone()));
        assert!(matches!(error, RestoreError::Operation { .. }), "{error:?}");
    }
    // A parcel in a parcel, a million deep: [grams, [grams, [...]]].
    let mut deep = Vec::new();
    for _ in 0..1_000_000 {
        deep.extend([0x92, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    let error = refusal(packing, |record| {
        drop(record.fields.insert("parcel".into(), Bin(deep)))
    });
    assert!(
        matches!(
            error,
            RestoreError::Field {
                field: "parcel",
                ..
            }
        ),
        "{error:?}"
    );
}

/// A transient machine cannot be saved, and neither can the failed outcome, which is no phase. A `Serialize` that fails
/// says which field failed.
#[test]
fn what_cannot_be_saved_says_so() {
    struct Passing;
    #[fom(operation(Passing), error(Oops), transient)]
    enum Going {
        #[phase(start, to(Gone), sync)]
        Go,
        #[phase(end)]
        Gone,
    }
    impl GoingTransitions for Passing {
        fn go(&mut self, _: &mut Cx<'_>) -> Result<(), Oops> {
            Ok(())
        }
    }

    #[derive(Debug, Deserialize)]
    struct Shy;
    impl Serialize for Shy {
        fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("too shy"))
        }
    }
    #[derive(Serialize, Deserialize)]
    struct Failing;
    #[fom(operation(Failing), error(Oops))]
    enum Fails {
        #[phase(start, to(Held), sync)]
        Begin,
        #[phase(to(End), sync)]
        Held { fine: u8, shy: Shy },
        #[phase(end)]
        End,
    }
    impl FailsTransitions for Failing {
        fn begin(&mut self, _: &mut Cx<'_>) -> Result<FailsAfterBegin, Oops> {
            Ok(FailsAfterBegin::Held { fine: 1, shy: Shy })
        }
        fn held(&mut self, _: &mut Cx<'_>, _: FailsInHeld<'_>) -> Result<(), Oops> {
            Err(Oops)
        }
    }
    let error = Failing
        .snapshot(&Fails::Held { fine: 1, shy: Shy })
        .unwrap_err();
    assert!(
        matches!(&error, SnapshotError::Field { field, reason } if field == "shy" && reason.contains("too shy")),
        "{error:?}"
    );

    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let (a, b) = (log.clone(), log.clone());
        runtime
            .listen_to::<Passing>(move |step| a.put(step.snapshot().unwrap_err()))
            .forever();
        runtime
            .listen_to::<Failing>(move |step| {
                b.put(match step.snapshot() {
                    Ok(saved) => saved.phase().unwrap(),
                    Err(error) => error.to_string(),
                });
            })
            .forever();
        runtime.submit(Passing).await.unwrap();
        let transient = SnapshotError::Transient.to_string();
        assert_eq!(log.take(), [transient.clone(), transient]);
        assert!(runtime.submit(Failing).await.is_err());
        let log = log.take();
        assert_eq!((log.len(), log[0].as_str()), (3, "Begin"));
        assert!(log[1].contains("too shy"), "{log:?}");
    });
}
