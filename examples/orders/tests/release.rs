//! What the first release parks. The second release has the same test, with these files and its own: see `src/bin/second.rs`.

use fom_durable::testing::check_release;
use orders::order::{Fulfil, Order};

#[test]
fn no_order_is_stranded() {
    let why = || "too late".to_owned();
    let phases = [
        Fulfil::Reserve,
        Fulfil::Charge,
        Fulfil::AwaitPayment,
        Fulfil::Ship,
        Fulfil::Refund { why: why() },
        Fulfil::Release { why: why() },
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
    };
    check_release("tests/parked/first", phases.map(|phase| (order(), phase)));
}
