//! An order, from the reservation of the goods to the parcel.

use fom_durable::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{
    provider::{Charge, Provider},
    shop::Shop,
};

/// What a customer orders.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// The client's name for the order. A repeated request has the same one.
    pub reference: String,
    /// The orders of one customer run one after the other.
    pub customer: String,
    /// What the customer wants.
    pub item: String,
    /// How many pieces.
    pub pieces: u32,
    /// The price of all of them.
    pub cents: u32,
}

/// What happens to an order from outside.
#[derive(Debug, Serialize, Deserialize)]
pub enum News {
    /// The provider has the money.
    Paid,
    /// The provider does not get the money.
    Declined,
}

/// Where an order is. Until it is paid, a failure or a cancel takes all of it back.
#[fom(
    operation(Order),
    event(News),
    group(Saga, phases(Reserve, Charge, AwaitPayment), failed(Refund), cancelled)
)]
#[derive(Debug, Serialize)]
#[serde(tag = "end")]
pub enum Fulfil {
    /// Takes the goods from stock.
    #[phase(start, blocking, to(Charge, SoldOut))]
    Reserve,
    /// Asks the provider for the money, for as many orders at once as the provider allows.
    #[phase(to(AwaitPayment), retry = "8, 20ms..1s", limit = "charges")]
    Charge,
    /// Waits until the provider calls back.
    #[phase(sync, on(Paid, Declined), to(Ship, Release), within = "10m")]
    AwaitPayment,
    /// Sends the parcel. From here on there is no way back.
    #[phase(blocking, to(Shipped), retry = "5, 50ms..5s", cancelled = "later")]
    Ship,
    /// Gives the money back.
    #[phase(to(Release), retry = "20, 50ms..1m")]
    Refund {
        /// For the customer.
        why: String,
    },
    /// Puts the goods back, also after a declined payment.
    #[phase(blocking, to(Cancelled), retry = "5, 50ms..5s", cancelled = "later")]
    Release {
        /// For the customer.
        why: String,
    },
    /// The parcel is on its way.
    #[phase(end)]
    Shipped {
        /// The number of the parcel.
        parcel: i64,
    },
    /// There were too few pieces.
    #[phase(end, failure)]
    SoldOut,
    /// All of it was taken back, and the customer has the money.
    #[phase(end, failure)]
    Cancelled {
        /// For the customer.
        why: String,
    },
}

impl FulfilTransitions for Order {
    fn reserve(&mut self, cx: &mut BlockingCx<'_>) -> Result<FulfilAfterReserve, BoxError> {
        let shop = cx.resource::<Shop>();
        let step = cx.step_key();
        Ok(
            match shop.reserve(step, &self.reference, &self.item, self.pieces)? {
                true => FulfilAfterReserve::Charge,
                false => FulfilAfterReserve::SoldOut,
            },
        )
    }

    async fn charge(&mut self, cx: &mut Paying<'_>) -> Result<(), BoxError> {
        let charge = Charge {
            reference: self.reference.clone(),
            cents: self.cents,
            webhook: cx.resource::<Site>().webhook.clone(),
        };
        let provider = cx.resource::<Provider>();
        provider.charge(cx.step_key(), &charge).await
    }

    fn await_payment(
        &mut self,
        _: &mut Paying<'_>,
        news: News,
    ) -> Result<FulfilAfterAwaitPayment, BoxError> {
        Ok(match news {
            News::Paid => FulfilAfterAwaitPayment::Ship,
            News::Declined => {
                let why = "the payment was declined".to_owned();
                FulfilAfterAwaitPayment::Release { why }
            }
        })
    }

    // The money may have been taken although the charge failed: the last answer may have been lost.
    async fn saga_failed(
        &mut self,
        _: &mut Paying<'_>,
        cause: Cause<BoxError>,
    ) -> Result<FulfilAfterSagaFailed, BoxError> {
        let why = match cause {
            Cause::Cancelled => "the customer gave the order up".to_owned(),
            Cause::Late { .. } => "no payment within ten minutes".to_owned(),
            cause => cause.to_string(),
        };
        Ok(FulfilAfterSagaFailed::Refund { why })
    }

    fn ship(&mut self, cx: &mut BlockingCx<'_>) -> Result<FulfilAfterShip, BoxError> {
        let parcel = cx.resource::<Shop>().send(&self.reference)?;
        Ok(FulfilAfterShip::Shipped { parcel })
    }

    async fn refund(
        &mut self,
        cx: &mut Paying<'_>,
        why: &mut String,
    ) -> Result<FulfilAfterRefund, BoxError> {
        let provider = cx.resource::<Provider>();
        provider.refund(&self.reference).await?;
        let why = why.clone();
        Ok(FulfilAfterRefund::Release { why })
    }

    fn release(
        &mut self,
        cx: &mut BlockingCx<'_>,
        why: &mut String,
    ) -> Result<FulfilAfterRelease, BoxError> {
        cx.resource::<Shop>().release(&self.reference)?;
        let why = why.clone();
        Ok(FulfilAfterRelease::Cancelled { why })
    }
}

type Paying<'a> = Cx<'a, News>;

/// What this service knows of itself.
#[derive(Debug)]
pub struct Site {
    /// Where the provider calls back.
    pub webhook: String,
}
