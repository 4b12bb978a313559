//! Snapshots of every earlier release are kept in `tests/golden`, and read as what they are.

use std::{fs, path::Path};

use fom_runtime::prelude::*;
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

    #[derive(Clone, Debug, PartialEq)]
    #[fom(operation(Order))]
    pub(super) enum Shop {
        #[phase(start, to(Paying, Refused))]
        Received,
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
            _: &mut Method,
            _: &mut Vec<i64>,
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

fn golden(name: &str) -> Snapshot {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let bytes = fs::read(folder.join(name)).unwrap();
    Snapshot::from_bytes(bytes).unwrap()
}

/// Snapshots in the first format, which were made by the release that wrote it, are still what they were: version 1, with
/// every name and value.
#[test]
fn snapshots_in_the_first_format_are_still_read() {
    for phase in first::phases() {
        let kind = first::Order::kind(&phase);
        let snapshot = golden(&format!("format-1.Shop.v1.{kind:?}.fom"));
        assert!(snapshot.as_bytes().starts_with(b"FOM1"));
        assert_eq!(snapshot.machine().unwrap(), "Shop");
        assert_eq!(snapshot.version().unwrap(), 1);
        assert_eq!(snapshot.phase().unwrap(), format!("{kind:?}"));
        let (order, again) = first::Order::restore(&snapshot).unwrap();
        assert_eq!((order, again), (first::order(), phase));
    }
}
