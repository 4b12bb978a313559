//! A shop whose orders have all kinds of data in their phases.

use std::collections::BTreeMap;

use fom_runtime::prelude::*;
use proptest::{collection, prelude::*};
use serde::{Deserialize, Serialize};

use crate::kit::{Log, secs};

#[derive(Debug)]
pub(crate) struct Oops;

/// An order of a shop, as a user would write it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) number: u64,
    pub(crate) items: Vec<Item>,
    pub(crate) note: Option<String>,
    #[serde(skip)]
    pub(crate) log: Unsaved,
}

/// A value that is not saved, and that a restored order gets again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unsaved(pub(crate) Log);

impl PartialEq for Unsaved {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Item {
    name: String,
    count: u32,
    cents: i64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Method {
    Cash,
    Card { digits: [u8; 4], name: String },
    Voucher(Vec<u64>),
}

/// Nests as deep as its data says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Parcel {
    grams: f64,
    inner: Option<Box<Parcel>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum News {
    Paid,
}

#[fom(operation(Order), error(Oops), event(News))]
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shop {
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
        ShopInReserved { shelf, until }: ShopInReserved<'_>,
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
        ShopInPaying { method, tries }: ShopInPaying<'_>,
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
        ShopInPacking { parcel, boxes }: ShopInPacking<'_>,
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
        ShopInShipping { label, mark, .. }: ShopInShipping<'_>,
    ) -> Result<ShopAfterShipping, Oops> {
        self.log.0.put(format_args!("shipping {label:?} {mark}"));
        Ok(ShopAfterShipping::Delivered { at: "noon".into() })
    }
}

pub(crate) fn order() -> Order {
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

pub(crate) fn orders() -> impl Strategy<Value = Order> {
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

pub(crate) fn parcels() -> impl Strategy<Value = Parcel> {
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

pub(crate) fn phases() -> impl Strategy<Value = Shop> {
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

/// Returns one value of each phase.
pub(crate) fn each_phase() -> Vec<Shop> {
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
