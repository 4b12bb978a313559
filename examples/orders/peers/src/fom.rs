//! An order on fom: the machine of `examples/orders`, without its database.

use std::{path::Path, sync::Arc};

use fom_durable::{NotSent, NotSentReason, prelude::*};

use crate::world::{News, Order, Peer, Webhook, World};

#[fom(operation(Order), event(News))]
enum Fulfil {
    #[phase(start, to(Charge))]
    Reserve,
    #[phase(to(AwaitPayment, Refund), retry = "8, 20ms..1s", exhausted)]
    Charge,
    #[phase(
        sync,
        on(Paid, Declined, GivenUp),
        to(Ship, Refund, Release),
        within = "10m",
        late
    )]
    AwaitPayment,
    #[phase(to(Shipped), retry = "8, 20ms..1s")]
    Ship,
    #[phase(to(Release), retry = "8, 20ms..1s")]
    Refund,
    #[phase(to(Cancelled), retry = "8, 20ms..1s")]
    Release,
    #[phase(end)]
    Shipped,
    #[phase(end, failure)]
    Cancelled,
}

type Paying<'a> = Cx<'a, News>;

impl FulfilTransitions for Order {
    async fn reserve(&mut self, cx: &mut Paying<'_>) -> Result<(), BoxError> {
        cx.resource::<Arc<World>>().reserve(self)
    }

    async fn charge(&mut self, cx: &mut Paying<'_>) -> Result<FulfilAfterCharge, BoxError> {
        cx.resource::<Arc<World>>().charge(self)?;
        Ok(FulfilAfterCharge::AwaitPayment)
    }

    async fn charge_exhausted(
        &mut self,
        _: &mut Paying<'_>,
    ) -> Result<FulfilAfterCharge, BoxError> {
        Ok(FulfilAfterCharge::Refund)
    }

    fn await_payment(
        &mut self,
        _: &mut Paying<'_>,
        news: News,
    ) -> Result<FulfilAfterAwaitPayment, BoxError> {
        Ok(match news {
            News::Paid => FulfilAfterAwaitPayment::Ship,
            News::Declined => FulfilAfterAwaitPayment::Release,
            News::GivenUp => FulfilAfterAwaitPayment::Refund,
        })
    }

    fn await_payment_late(
        &mut self,
        _: &mut Paying<'_>,
    ) -> Result<FulfilAfterAwaitPayment, BoxError> {
        Ok(FulfilAfterAwaitPayment::Refund)
    }

    async fn ship(&mut self, cx: &mut Paying<'_>) -> Result<(), BoxError> {
        cx.resource::<Arc<World>>().ship(self)
    }

    async fn refund(&mut self, cx: &mut Paying<'_>) -> Result<(), BoxError> {
        cx.resource::<Arc<World>>().refund(self)
    }

    async fn release(&mut self, cx: &mut Paying<'_>) -> Result<(), BoxError> {
        cx.resource::<Arc<World>>().release(self)
    }
}

#[derive(Clone)]
pub struct Fom(Runtime);

impl Peer for Fom {
    async fn open(world: Arc<World>, directory: &Path) -> Result<Self, BoxError> {
        let builder = Runtime::builder().resource(world);
        Ok(Self(builder.journal(directory.join("journal")).build()?))
    }

    async fn order(&self, order: Order) -> Result<(), BoxError> {
        let reference = order.reference.clone();
        let order = self.0.submit(order).key(&*reference).once(&*reference);
        order.start()?.committed().await?;
        Ok(())
    }

    async fn news(&self, webhook: Webhook) -> Result<(), BoxError> {
        let Webhook {
            id,
            reference,
            news,
        } = webhook;
        match self.0.send_durably::<Order>(&*reference, news, &*id).await {
            // The order has ended.
            Err(NotSent {
                reason: NotSentReason::NoReceiver { .. },
                ..
            }) => Ok(()),
            sent => Ok(sent.map(drop)?),
        }
    }
}
