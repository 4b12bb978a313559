//! An operation with fields of every kind.

use std::collections::BTreeMap;

use fom_durable::prelude::*;
use fom_runtime::snapshot::Saved;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    pub number: u64,
    pub items: Vec<Item>,
    pub notes: BTreeMap<String, Vec<[u64; 4]>>,
    pub parcel: Parcel,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Item {
    pub name: String,
    pub count: Option<i32>,
    pub way: Way,
    pub weight: (f32, f64, char, bool),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Way {
    Post,
    Courier { name: String, price: f32 },
    Both(u8, Box<Way>),
}

/// A parcel, as deep and as wide as the data say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parcel {
    pub inner: Vec<Parcel>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Bill {
    Paid { cents: i64, from: Option<String> },
    Returned,
}

#[fom(
    operation(Order),
    event(Bill),
    version = 2,
    migrate(v1(counted)),
    retired("Old")
)]
#[derive(Clone, Debug, PartialEq)]
pub enum Shop {
    #[phase(start, sync, to(Paying, Sent), within = "1h")]
    Received,
    #[allow(dead_code)]
    #[phase(
        sync,
        on(Returned),
        to(Packing, Sent),
        was = "Owing",
        retry = "3, 50ms..2s"
    )]
    Paying {
        tries: Vec<u128>,
        #[phase(default)]
        way: Option<Way>,
    },
    #[phase(sync, on(Paid), to(Sent))]
    Packing,
    #[phase(end)]
    Sent { label: String, parcels: Vec<Parcel> },
}

impl ShopTransitions for Order {
    fn received(&mut self, _: &mut Cx<'_, Bill>) -> Result<ShopAfterReceived, BoxError> {
        match self.number % 2 {
            0 => Ok(ShopAfterReceived::Paying {
                tries: vec![1, u128::from(u64::MAX)],
                way: Some(Way::Post),
            }),
            _ => Err("an odd number".into()),
        }
    }

    fn paying(
        &mut self,
        _: &mut Cx<'_, Bill>,
        ShopInPaying { tries, .. }: ShopInPaying<'_>,
        _: Bill,
    ) -> Result<ShopAfterPaying, BoxError> {
        Ok(ShopAfterPaying::Sent {
            label: format!("after {} tries", tries.len()),
            parcels: vec![self.parcel.clone()],
        })
    }

    fn packing(&mut self, _: &mut Cx<'_, Bill>, _: Bill) -> Result<ShopAfterPacking, BoxError> {
        Err("no packer is here".into())
    }
}

/// Uses everything that a migration can use.
fn counted(saved: &mut Saved) -> Result<(), BoxError> {
    if saved.phase() == "Paying" {
        let tries: Vec<u64> = saved.take("tries")?;
        saved.put("tries", &tries)?;
    }
    let order: Order = saved.operation()?;
    saved.set_operation(&order)?;
    Ok(())
}

/// Sends an event to an order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Payment {
    pub order: String,
}

#[fom(operation(Payment))]
#[derive(Clone, Debug, PartialEq)]
pub enum Pay {
    #[phase(start, sync, to(Done))]
    Begin,
    #[phase(end)]
    Done,
}

impl PayTransitions for Payment {
    fn begin(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let bill = Bill::Paid {
            cents: -1,
            from: Some("ada".into()),
        };
        Ok(cx.outbox().send::<Order>(self.order.as_str(), bill)?)
    }
}

/// Returns an order with a value of each kind.
pub(super) fn order(number: u64) -> Order {
    let item = |name: &str, way| Item {
        name: name.into(),
        count: Some(-2),
        way,
        weight: (0.5, 1e300, 'ß', true),
    };
    let courier = Way::Courier {
        name: "x".repeat(40),
        price: 1.5,
    };
    Order {
        number,
        items: vec![
            item("pen", Way::Post),
            item("ink", Way::Both(1, Box::new(courier))),
        ],
        notes: BTreeMap::from([("a".into(), vec![[1, 2, 3, 4]; 2])]),
        parcel: Parcel {
            inner: vec![Parcel { inner: vec![] }; 3],
        },
    }
}
