//! Snapshots: every phase of a machine there and back, hostile bytes, and foms that are resumed.

mod kit;
mod record;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use fom_runtime::{RestoreError, SnapshotError, TestClock, TransitionCause, prelude::*};
use kit::{Log, limited, one, secs};
use proptest::{collection, prelude::*};
use record::{Bin, Record, encode, frame, inner};
use serde::{Deserialize, Serialize, Serializer};

#[derive(Debug)]
struct Oops;

/// An order of a shop, as one would write it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    number: u64,
    items: Vec<Item>,
    note: Option<String>,
    #[serde(skip)]
    log: Unsaved,
}

/// What is not the order's own and is given to it again after it was restored.
#[derive(Clone, Debug, Default)]
struct Unsaved(Log);

impl PartialEq for Unsaved {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Item {
    name: String,
    count: u32,
    cents: i64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Method {
    Cash,
    Card { digits: [u8; 4], name: String },
    Voucher(Vec<u64>),
}

/// Nests as deep as its data says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Parcel {
    grams: f64,
    inner: Option<Box<Parcel>>,
}

#[derive(Clone, Debug, PartialEq)]
enum News {
    Paid,
}

#[derive(Clone, Debug, PartialEq)]
#[fom(operation(Order), error(Oops), event(News))]
enum Shop {
    #[phase(start, to(Reserved, Refused), sync)]
    Received,
    #[phase(to(Paying, Refused), within = "10s", keep(Paying))]
    Reserved {
        shelf: BTreeMap<String, u32>,
        until: Option<u64>,
    },
    #[phase(to(Packing, Refused), on(Paid))]
    Paying { method: Method, tries: Vec<i64> },
    #[phase(to(Shipping), sync)]
    Packing {
        parcel: Parcel,
        boxes: (u8, i8, bool),
    },
    #[phase(to(Delivered), blocking)]
    Shipping {
        label: Vec<u8>,
        mark: char,
        nothing: (),
    },
    #[phase(end)]
    Delivered { at: String },
    #[phase(end, failure)]
    Refused { why: Result<u16, String> },
}

impl ShopTransitions for Order {
    fn received(&mut self, _: &mut Cx<'_, News>) -> Result<ShopAfterReceived, Oops> {
        self.log.0.put("received");
        let shelf = BTreeMap::from([("pen".to_owned(), 2)]);
        Ok(ShopAfterReceived::Reserved {
            shelf,
            until: Some(7),
        })
    }

    async fn reserved(
        &mut self,
        cx: &mut Cx<'_, News>,
        shelf: &mut BTreeMap<String, u32>,
        until: &mut Option<u64>,
    ) -> Result<ShopAfterReserved, Oops> {
        self.log.0.put(format_args!("reserved {shelf:?} {until:?}"));
        cx.sleep(secs(3)).await;
        let method = Method::Card {
            digits: [1, 2, 3, 4],
            name: "Ada".into(),
        };
        Ok(ShopAfterReserved::Paying {
            method,
            tries: vec![-1, 1],
        })
    }

    async fn paying(
        &mut self,
        cx: &mut Cx<'_, News>,
        method: &mut Method,
        tries: &mut Vec<i64>,
    ) -> Result<ShopAfterPaying, Oops> {
        self.log.0.put(format_args!(
            "paying {method:?} {tries:?} due {:?}",
            cx.deadline()
        ));
        cx.event().await;
        let parcel = Parcel {
            grams: 0.5,
            inner: None,
        };
        Ok(ShopAfterPaying::Packing {
            parcel,
            boxes: (1, -1, true),
        })
    }

    fn packing(
        &mut self,
        _: &mut Cx<'_, News>,
        parcel: &mut Parcel,
        boxes: &mut (u8, i8, bool),
    ) -> Result<ShopAfterPacking, Oops> {
        self.log
            .0
            .put(format_args!("packing {} {boxes:?}", parcel.grams));
        Ok(ShopAfterPacking::Shipping {
            label: vec![0, 255],
            mark: 'ß',
            nothing: (),
        })
    }

    fn shipping(
        &mut self,
        _: &mut BlockingCx<'_>,
        label: &mut Vec<u8>,
        mark: &mut char,
        (): &mut (),
    ) -> Result<ShopAfterShipping, Oops> {
        self.log.0.put(format_args!("shipping {label:?} {mark}"));
        Ok(ShopAfterShipping::Delivered { at: "noon".into() })
    }
}

fn order() -> Order {
    Order {
        number: 7,
        items: vec![Item {
            name: "pen".into(),
            count: 2,
            cents: -150,
        }],
        note: Some("ring twice".into()),
        log: Unsaved::default(),
    }
}

fn orders() -> impl Strategy<Value = Order> {
    let item = ("\\PC*", any::<u32>(), any::<i64>()).prop_map(|(name, count, cents)| Item {
        name,
        count,
        cents,
    });
    (
        any::<u64>(),
        collection::vec(item, 0..4),
        any::<Option<String>>(),
    )
        .prop_map(|(number, items, note)| Order {
            number,
            items,
            note,
            log: Unsaved::default(),
        })
}

fn parcels() -> impl Strategy<Value = Parcel> {
    let grams = any::<f64>().prop_filter("equal to itself", |grams| !grams.is_nan());
    let leaf = grams
        .clone()
        .prop_map(|grams| Parcel { grams, inner: None });
    leaf.prop_recursive(8, 8, 1, move |inner| {
        (grams.clone(), inner).prop_map(|(grams, inner)| Parcel {
            grams,
            inner: Some(Box::new(inner)),
        })
    })
}

fn phases() -> impl Strategy<Value = Shop> {
    let method = prop_oneof![
        Just(Method::Cash),
        (any::<[u8; 4]>(), any::<String>())
            .prop_map(|(digits, name)| Method::Card { digits, name }),
        collection::vec(any::<u64>(), 0..5).prop_map(Method::Voucher),
    ];
    prop_oneof![
        Just(Shop::Received),
        (
            collection::btree_map(any::<String>(), any::<u32>(), 0..4),
            any::<Option<u64>>()
        )
            .prop_map(|(shelf, until)| Shop::Reserved { shelf, until }),
        (method, collection::vec(any::<i64>(), 0..5))
            .prop_map(|(method, tries)| Shop::Paying { method, tries }),
        (parcels(), any::<(u8, i8, bool)>())
            .prop_map(|(parcel, boxes)| Shop::Packing { parcel, boxes }),
        (collection::vec(any::<u8>(), 0..300), any::<char>()).prop_map(|(label, mark)| {
            Shop::Shipping {
                label,
                mark,
                nothing: (),
            }
        }),
        any::<String>().prop_map(|at| Shop::Delivered { at }),
        any::<Result<u16, String>>().prop_map(|why| Shop::Refused { why }),
    ]
}

/// One of each phase.
fn each_phase() -> Vec<Shop> {
    vec![
        Shop::Received,
        Shop::Reserved {
            shelf: BTreeMap::from([("pen".into(), 2)]),
            until: None,
        },
        Shop::Paying {
            method: Method::Voucher(vec![1, u64::MAX]),
            tries: vec![0],
        },
        Shop::Packing {
            parcel: Parcel {
                grams: 1.5,
                inner: Some(Box::new(Parcel {
                    grams: -0.0,
                    inner: None,
                })),
            },
            boxes: (255, -128, false),
        },
        Shop::Shipping {
            label: (0..=255).collect(),
            mark: '\u{10ffff}',
            nothing: (),
        },
        Shop::Delivered { at: String::new() },
        Shop::Refused {
            why: Err("no".into()),
        },
    ]
}

fn round_trip(order: &Order, phase: &Shop) {
    let saved = order.snapshot(phase).unwrap();
    let read = Snapshot::from_bytes(saved.as_bytes()).unwrap();
    assert_eq!(read, saved);
    assert_eq!(read.machine().unwrap(), "Shop");
    assert_eq!(read.phase().unwrap(), format!("{:?}", Order::kind(phase)));
    let (restored, again) = Order::restore(&read).unwrap();
    assert_eq!((&restored, &again), (order, phase));
}

/// PR-03: an operation with its phase and the phase's data goes to bytes and back, in every phase. (What it waits for is
/// not in them: it enters its phase's function again, which asks again.)
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

    /// PR-03: and with any data.
    #[test]
    fn any_data_goes_there_and_back(order in orders(), phase in phases()) {
        round_trip(&order, &phase);
    }

    /// Bytes that are no snapshot, or that only begin like one, are refused and never panic.
    #[test]
    fn any_bytes_are_refused(bytes in collection::vec(any::<u8>(), 0..200), framed in any::<bool>()) {
        if framed {
            // The checksum is right, so that it is the structure that must hold.
            for magic in [b"FOM1", b"FOM2"] {
                let snapshot = Snapshot::from_bytes(frame(magic, &bytes)).unwrap();
                prop_assert!(Order::restore(&snapshot).is_err());
                prop_assert!(snapshot.phase().is_err() && snapshot.machine().is_err());
            }
        } else {
            prop_assert!(Snapshot::from_bytes(bytes).is_err());
        }
    }
}

/// The error that a record gives after a change, although it is framed well; the same in both formats.
fn refusal(phase: &Shop, change: impl FnOnce(&mut Record)) -> RestoreError {
    let mut record = Record::of(&order().snapshot(phase).unwrap());
    change(&mut record);
    let [first, second] = [record.first(), record.second(1)]
        .map(|bytes| Order::restore(&Snapshot::from_bytes(bytes).unwrap()).unwrap_err());
    assert_eq!(first, second);
    second
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

/// The same with a checksum that was made right again: it may be a snapshot of something else, but it is never a panic,
/// and what is cut short or has something behind it is an error.
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

/// What does not fit is refused, and the error names both sides.
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
    // A field of another phase is no field of this one, and its data is not taken for anything.
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

/// Two machines may have the same name for their phases; the operation's type tells them apart.
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

        #[derive(Debug)]
        #[fom(operation(Parcel), error(Oops))]
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

/// Lengths that promise more than there is, and nesting without end, are errors too, in no time and memory.
#[test]
fn hostile_lengths_and_depths_are_errors() {
    let packing = &each_phase()[3];
    // A string, bytes, a list and a map of four gigabytes.
    for kind in [0xdb, 0xc6, 0xdd, 0xdf] {
        let huge = vec![kind, 0xff, 0xff, 0xff, 0xff];
        for magic in [b"FOM1", b"FOM2"] {
            let snapshot = Snapshot::from_bytes(frame(magic, &huge)).unwrap();
            assert_eq!(
                Order::restore(&snapshot).unwrap_err(),
                RestoreError::Damaged
            );
        }
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

/// Every snapshot that a run takes, resumed in a new runtime, comes to the same end; and what is entered again is the
/// function of the phase that it was saved in, with what the phase held, and nothing before.
#[test]
fn a_resumed_fom_goes_on_where_it_was() {
    type Saved = Arc<Mutex<Vec<Snapshot>>>;

    async fn to_the_end(
        runtime: &Runtime,
        clock: &TestClock,
        handle: Handle<Order>,
    ) -> (Shop, Order) {
        while !handle.state().eq(&fom_runtime::FomState::Finished) {
            runtime.quiet().await;
            match handle.phase() {
                "Reserved" => clock.advance(secs(3)),
                // An error: it has ended meanwhile.
                _ => drop(handle.send(News::Paid)),
            }
            runtime.quiet().await;
        }
        let ended = handle.await.unwrap();
        (ended.phase, ended.operation)
    }

    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let saved = Saved::default();
        let all = Arc::clone(&saved);
        runtime
            .listen_to::<Order>(move |step| all.lock().unwrap().push(step.snapshot().unwrap()))
            .forever();
        let first = order();
        let log = first.log.0.clone();
        let handle = runtime.submit(first).start().unwrap();
        let (end, _) = to_the_end(&runtime, &clock, handle).await;
        assert_eq!(end, Shop::Delivered { at: "noon".into() });
        let lines = log.take();
        let names = ["received", "reserved", "paying", "packing", "shipping"];
        assert_eq!(lines.len(), names.len());
        let saved = std::mem::take(&mut *saved.lock().unwrap());
        assert_eq!(saved.len(), names.len() + 1);

        for (done, snapshot) in saved.iter().enumerate() {
            let clock = TestClock::new();
            let runtime = one(&clock).build().unwrap();
            clock.advance(secs(1_000));
            let causes = Log::default();
            let seen = causes.clone();
            runtime
                .listen(move |step| {
                    seen.put(format_args!("{:?} {}", step.to().unwrap(), step.cause()))
                })
                .forever();
            // Through bytes, as after a restart. The log is given to it again on its way in.
            let snapshot = Snapshot::from_bytes(snapshot.as_bytes()).unwrap();
            let (_, phase) = Order::restore(&snapshot).unwrap();
            let relog = runtime.interpose::<Order>(Relog(log.clone()));
            let handle = runtime.resume::<Order>(&snapshot).unwrap().start().unwrap();
            let (end, operation) = to_the_end(&runtime, &clock, handle).await;
            assert_eq!(
                (end, &operation),
                (Shop::Delivered { at: "noon".into() }, &order())
            );
            relog.remove().unwrap();
            let again: Vec<_> = log
                .take()
                .iter()
                .map(|line| line.split(' ').next().unwrap().to_owned())
                .collect();
            assert_eq!(again, names[done.min(names.len())..]);
            let first = format!(
                "{:?} {}",
                format!("{:?}", Order::kind(&phase)),
                TransitionCause::Resumed
            );
            let causes = causes.take();
            assert_eq!(causes[0], first);
            assert_eq!(causes.len(), saved.len() - done);
        }
    });
}

/// Gives a restored order its log back.
struct Relog(Log);

impl fom_runtime::Interpose<Order> for Relog {
    fn before(&self, operation: &mut Order, _: &mut Shop) -> Option<Result<Shop, Oops>> {
        operation.log.0 = self.0.clone();
        None
    }
}

/// What was left of a deadline when it was saved is what is left of it after: also of one that an earlier phase keeps.
/// Saved outside of a runtime, a phase has its whole deadline.
#[test]
fn a_resumed_fom_has_what_was_left_of_its_deadline() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = one(&clock).build().unwrap();
        let saved = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&saved);
        runtime
            .listen_to::<Order>(move |step| all.lock().unwrap().push(step.snapshot().unwrap()))
            .forever();
        let handle = runtime.submit(order()).start().unwrap();
        runtime.quiet().await;
        clock.advance(secs(3));
        runtime.quiet().await;
        assert_eq!(handle.phase(), "Paying");
        drop(handle);
        let saved = std::mem::take(&mut *saved.lock().unwrap());
        let left: Vec<_> = saved
            .iter()
            .map(|saved| Record::of(saved).meta.left)
            .collect();
        assert_eq!(left, [None, Some(10_000_000_000), Some(7_000_000_000)]);

        let reserved = order().snapshot(&each_phase()[1]).unwrap();
        for (snapshot, due) in [(&saved[2], 7), (&reserved, 10)] {
            let clock = TestClock::new();
            clock.advance(secs(1_000));
            let runtime = one(&clock).build().unwrap();
            let handle = runtime.resume::<Order>(snapshot).unwrap().start().unwrap();
            runtime.quiet().await;
            let listed = runtime.operation(handle.id()).unwrap();
            assert_eq!(listed.deadline_in, Some(secs(due)));
            if due == 7 {
                clock.advance(secs(7) - std::time::Duration::from_nanos(1));
                runtime.quiet().await;
                assert_eq!(handle.phase(), "Paying");
                clock.advance(std::time::Duration::from_nanos(1));
                let failure = handle.await.unwrap_err();
                assert_eq!((failure.cause.name(), failure.phase), ("late", "Paying"));
            }
        }
    });
}

/// A fom that was saved in an end phase ends there at once, and one whose bytes do not fit is not submitted at all.
#[test]
fn resume_at_the_end_and_resume_of_nothing() {
    limited(|| async {
        let runtime = one(&TestClock::new()).build().unwrap();
        let refused = Shop::Refused { why: Ok(4) };
        let snapshot = order().snapshot(&refused).unwrap();
        let ended = runtime.resume::<Order>(&snapshot).unwrap().await.unwrap();
        assert_eq!((ended.phase, ended.operation), (refused, order()));
        let mut record = Record::of(&snapshot);
        record.phase = "Gone".into();
        let snapshot = Snapshot::from_bytes(record.second(1)).unwrap();
        assert!(matches!(
            runtime.resume::<Order>(&snapshot).unwrap_err(),
            RestoreError::UnknownPhase { .. }
        ));
        runtime.idle().await;
        assert_eq!(runtime.operations().types[0].started, 1);
    });
}

/// A transient machine cannot be saved, and neither can the failed outcome, which is no phase; a `Serialize` that fails
/// says which field it was.
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
        fn held(&mut self, _: &mut Cx<'_>, _: &mut u8, _: &mut Shy) -> Result<(), Oops> {
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
