//! The operation of these tests: an order that counts payments, and ends or fails when it is told to.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fom_durable::{Lookup, journal::MemoryJournal, prelude::*};
use fom_runtime::{Builder, FomId, time::TestClock};
use serde::{Deserialize, Serialize};

use crate::kit::one;

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) cents: Vec<u32>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum News {
    Paid(u32),
    Close,
    Fault,
}

#[fom(operation(Order), event(News))]
#[derive(Debug, PartialEq)]
pub(crate) enum Sale {
    #[phase(start, sync, to(Closed), on(Paid, Close, Fault))]
    Open,
    #[phase(end)]
    Closed { payments: usize },
}

/// Whether the bug of the order is fixed.
#[derive(Clone, Default)]
pub(crate) struct Fixed(pub(crate) Arc<AtomicBool>);

impl SaleTransitions for Order {
    fn open(&mut self, cx: &mut Cx<'_, News>, news: News) -> Result<SaleAfterOpen, BoxError> {
        match news {
            News::Paid(cents) => {
                self.cents.push(cents);
                Ok(SaleAfterOpen::Stay)
            }
            News::Fault if !cx.resource::<Fixed>().0.load(Ordering::SeqCst) => Err("a bug".into()),
            News::Close | News::Fault => Ok(SaleAfterOpen::Closed {
                payments: self.cents.len(),
            }),
        }
    }
}

/// An operation of another type that ends at once.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Ping(pub(crate) u32);

#[fom(operation(Ping))]
pub(crate) enum Pinging {
    #[phase(start, sync, to(Pong))]
    Go,
    #[phase(end)]
    Pong,
}

impl PingingTransitions for Ping {
    fn go(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// A shop with a journal that outlives its runtimes.
#[derive(Default)]
pub(crate) struct Shop {
    pub(crate) journal: MemoryJournal,
    pub(crate) clock: TestClock,
    pub(crate) fixed: Fixed,
}

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

impl Shop {
    pub(crate) fn builder(&self) -> Builder {
        let builder = one(&self.clock).resource(self.fixed.clone());
        builder.journal_with(self.journal.clone())
    }

    pub(crate) fn open(&self) -> Runtime {
        self.builder().build().unwrap()
    }

    /// Opens a runtime on what a crash leaves of the journal now.
    pub(crate) fn crashed(self) -> Self {
        Self {
            journal: self.journal.fork(),
            ..self
        }
    }

    pub(crate) fn fix(&self) {
        self.fixed.0.store(true, Ordering::SeqCst);
    }
}

/// Submits an order with this key. It is on disk.
pub(crate) async fn order(runtime: &Runtime, key: &str) -> Handle<Order> {
    let order = runtime.submit(Order::default()).key(key).start().unwrap();
    order.committed().await.unwrap();
    order
}

/// Returns the number of payments with which an order has ended.
pub(crate) fn payments(found: &Lookup<Order>) -> Option<usize> {
    match found {
        Lookup::Ended {
            outcome: Ok(ended), ..
        } => {
            let SaleEnd::Closed { payments } = ended.end;
            Some(payments)
        }
        _ => None,
    }
}

/// Returns why an order has failed.
pub(crate) fn failure(found: &Lookup<Order>) -> Option<String> {
    match found {
        Lookup::Ended {
            outcome: Err(failure),
            ..
        } => Some(failure.to_string()),
        _ => None,
    }
}

pub(crate) fn id_of(found: &Lookup<Order>) -> Option<FomId> {
    match found {
        Lookup::Ended { id, .. } | Lookup::InFlight(id) | Lookup::Quarantined(id) => Some(*id),
        _ => None,
    }
}
