//! Snapshots of every earlier release are kept in `tests/golden`, and are read as what they are.

use std::{fs, path::Path};

use fom_durable::testing::check_release;
use fom_runtime::{prelude::*, snapshot::Saved};
use serde::{Deserialize, Serialize};

/// The first release of a shop.
mod first {
    use super::*;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub(super) struct Order {
        pub(super) number: u64,
        pub(super) items: Vec<Item>,
        pub(super) note: Option<String>,
    }

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub(super) struct Item {
        pub(super) name: String,
        pub(super) count: u32,
    }

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub(super) enum Method {
        Cash,
        Card { digits: [u8; 4] },
    }

    #[fom(operation(Order))]
    #[derive(Clone, Debug, PartialEq)]
    pub(super) enum Shop {
        #[allow(dead_code)]
        #[phase(start, to(Paying, Refused))]
        Received,
        #[allow(dead_code)]
        #[phase(to(Packing, Refused))]
        Paying { method: Method, tries: Vec<i64> },
        #[phase(to(Sent))]
        Packing { shelf: u16 },
        #[phase(end)]
        Sent { label: String },
        #[phase(end, failure)]
        Refused,
    }

    impl ShopTransitions for Order {
        async fn received(&mut self, _: &mut Cx<'_>) -> Result<ShopAfterReceived, BoxError> {
            let method = Method::Cash;
            let tries = Vec::new();
            Ok(ShopAfterReceived::Paying { method, tries })
        }

        async fn paying(
            &mut self,
            _: &mut Cx<'_>,
            _: ShopInPaying<'_>,
        ) -> Result<ShopAfterPaying, BoxError> {
            Ok(ShopAfterPaying::Packing { shelf: 1 })
        }

        async fn packing(
            &mut self,
            _: &mut Cx<'_>,
            _: &mut u16,
        ) -> Result<ShopAfterPacking, BoxError> {
            let label = String::new();
            Ok(ShopAfterPacking::Sent { label })
        }
    }

    pub(super) fn order() -> Order {
        let item = |name: &str, count| Item {
            name: name.into(),
            count,
        };
        Order {
            number: 4711,
            items: vec![item("pen", 2), item("ink, blue", 1)],
            note: Some("ring twice".into()),
        }
    }

    pub(super) fn phases() -> Vec<Shop> {
        let method = Method::Card {
            digits: [4, 7, 1, 1],
        };
        vec![
            Shop::Received,
            Shop::Paying {
                method,
                tries: vec![-1, 300],
            },
            Shop::Packing { shelf: 12 },
            Shop::Sent {
                label: "DE-0815".into(),
            },
            Shop::Refused,
        ]
    }
}

/// Today's release: the third.
mod today {
    use super::*;
    pub(super) use first::{Item, Method};

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub(super) struct Order {
        pub(super) number: u64,
        pub(super) items: Vec<Item>,
        /// The first two releases had one note or none.
        pub(super) notes: Vec<String>,
        #[serde(default)]
        pub(super) gift: bool,
    }

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub(super) struct Shelf {
        pub(super) row: u16,
        pub(super) place: u16,
    }

    #[fom(
        operation(Order),
        version = 3,
        migrate(v1(rows), v2(notes)),
        retired("Refused")
    )]
    #[derive(Clone, Debug, PartialEq)]
    pub(super) enum Shop {
        #[phase(start, sync, to(Paying, Packing, Sent, Ended), was = "Received")]
        Accepted,
        #[phase(end)]
        Paying {
            method: Method,
            tries: Vec<i64>,
            #[phase(default)]
            until: Option<u64>,
        },
        #[phase(end)]
        Packing { shelf: Shelf },
        #[phase(end)]
        Sent { label: String },
        #[phase(end, failure)]
        Ended { why: String },
    }

    impl ShopTransitions for Order {
        fn accepted(&mut self, _: &mut Cx<'_>) -> Result<ShopAfterAccepted, BoxError> {
            Err("it is never run".into())
        }
    }

    /// The second release has shelves with rows of ten.
    fn rows(saved: &mut Saved) -> Result<(), BoxError> {
        if saved.phase() == "Packing" {
            let shelf: u16 = saved.take("shelf")?;
            let (row, place) = (shelf / 10, shelf % 10);
            saved.put("shelf", &Shelf { row, place })?;
        }
        Ok(())
    }

    /// The third release has any number of notes, and says why an order ended.
    fn notes(saved: &mut Saved) -> Result<(), BoxError> {
        let first::Order {
            number,
            items,
            note,
        } = saved.operation()?;
        let (notes, gift) = (note.into_iter().collect(), false);
        saved.set_operation(&Order {
            number,
            items,
            notes,
            gift,
        })?;
        if saved.phase() == "Refused" {
            saved.set_phase("Ended");
            saved.put("why", &"refused")?;
        }
        Ok(())
    }

    /// The order of [`first::order`].
    pub(super) fn order(gift: bool) -> Order {
        let first::Order {
            number,
            items,
            note,
        } = first::order();
        let notes = note.into_iter().collect();
        Order {
            number,
            items,
            notes,
            gift,
        }
    }

    /// The phases of [`first::phases`], in their order. The data that those lack are as `until` and `why` say.
    pub(super) fn phases(until: Option<u64>, why: &str) -> Vec<Shop> {
        let method = Method::Card {
            digits: [4, 7, 1, 1],
        };
        let (tries, shelf) = (vec![-1, 300], Shelf { row: 1, place: 2 });
        let (label, why) = ("DE-0815".into(), why.into());
        vec![
            Shop::Accepted,
            Shop::Paying {
                method,
                tries,
                until,
            },
            Shop::Packing { shelf },
            Shop::Sent { label },
            Shop::Ended { why },
        ]
    }
}

fn golden(name: &str) -> Snapshot {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let bytes = fs::read(folder.join(name)).unwrap();
    Snapshot::from_bytes(bytes).unwrap()
}

/// Snapshots that the first release made are still what they were, with every name and value.
#[test]
fn what_the_first_release_saved_is_what_it_was() {
    for phase in first::phases() {
        let kind = first::Order::kind(&phase);
        let snapshot = golden(&of_version(1, &format!("{kind:?}")));
        assert_eq!(snapshot.machine().unwrap(), "Shop");
        assert_eq!(snapshot.version().unwrap(), 1);
        assert_eq!(snapshot.phase().unwrap(), format!("{kind:?}"));
        let (order, again) = first::Order::restore(&snapshot).unwrap();
        assert_eq!((order, again), (first::order(), phase));
    }
}

/// What the first and the second release saved is today the same order in the same phase. Data that
/// were added since have their default.
#[test]
fn what_any_release_saved_is_read_today() {
    let then = ["Received", "Paying", "Packing", "Sent", "Refused"];
    for (then, now) in then.iter().zip(today::phases(None, "refused")) {
        for name in [of_version(1, then), of_version(2, then)] {
            let (order, phase) = today::Order::restore(&golden(&name)).unwrap();
            assert_eq!((order, &phase), (today::order(false), &now), "{name}");
        }
        let name = of_version(3, &format!("{:?}", today::Order::kind(&now)));
        let (order, phase) = today::Order::restore(&golden(&name)).unwrap();
        let phases = today::phases(Some(7), "paid twice");
        assert!(
            phases.contains(&phase) && order == today::order(true),
            "{name}"
        );
    }
}

/// The next release must read what this release saves.
#[test]
fn no_parked_order_is_stranded() {
    let phases = today::phases(Some(7), "paid twice").into_iter();
    check_release(
        "tests/golden",
        phases.map(|phase| (today::order(true), phase)),
    );
}

/// Returns the file of this version and phase.
fn of_version(version: u32, phase: &str) -> String {
    let begin = format!("Shop.v{version}.{phase}.");
    let of_it = |name: &String| name.starts_with(&begin);
    names().into_iter().find(of_it).unwrap()
}

fn names() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let names = fs::read_dir(folder).unwrap().map(|entry| {
        let name = entry.unwrap().file_name();
        name.into_string().unwrap()
    });
    names.collect()
}
