//! The second release of the order service: the same files, but for [`order`].

#[path = "../second/order.rs"]
pub mod order;
#[path = "../progress.rs"]
pub mod progress;
#[path = "../provider.rs"]
pub mod provider;
#[path = "../serve.rs"]
pub mod serve;
#[path = "../shop.rs"]
pub mod shop;
#[path = "../web.rs"]
pub mod web;

#[tokio::main]
async fn main() -> Result<(), fom_runtime::prelude::BoxError> {
    serve::serve().await
}

#[cfg(test)]
mod tests {
    use fom_durable::testing::check_release;

    use crate::order::{Fulfil, Order};

    /// The orders that the first release has parked go on in this one.
    #[test]
    fn no_order_is_stranded() {
        let why = || "too late".to_owned();
        let phases = [
            Fulfil::Reserve,
            Fulfil::Charge,
            Fulfil::AwaitPayment,
            Fulfil::Wrap,
            Fulfil::Ship,
            Fulfil::Refund { why: why() },
            Fulfil::Restock { why: why() },
            Fulfil::Shipped { parcel: 7 },
            Fulfil::SoldOut,
            Fulfil::Cancelled { why: why() },
        ];
        let order = || Order {
            reference: "1".into(),
            customer: "ada".into(),
            item: "tea".into(),
            pieces: 2,
            cents: 900,
            gift: true,
        };
        check_release("tests/parked/second", phases.map(|phase| (order(), phase)));
    }
}
