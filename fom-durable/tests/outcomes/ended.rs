//! How an operation ended, as bytes for a caller in another process.

use fom_durable::{Address, End, Lookup, SavedEnd, prelude::*};
use fom_runtime::{Cause, config::Shutdown, snapshot::RestoreError};

use crate::{
    kit::{limited, secs},
    order::{News, Order, SaleEnd, Shop},
};

/// Submits an order, tells it this news, and returns how it ended as bytes.
async fn end_of(news: News) -> Vec<u8> {
    let shop = Shop::default();
    let runtime = shop.builder().build().unwrap();
    let order = Order { cents: vec![5] };
    let submission = runtime.submit(order).key("7").once("cart 7");
    let order = submission.start().unwrap();
    order.send(news).unwrap();
    let _ = order.await;
    let End::Saved(end) = runtime.ended::<Order>("cart 7").await else {
        panic!("it has ended");
    };
    end.to_bytes()
}

#[test]
fn an_end_is_read_from_its_bytes() {
    limited(async || {
        let bytes = end_of(News::Close).await;
        let ended = SavedEnd::from_bytes(&bytes).unwrap();
        assert_eq!(ended.to_bytes(), bytes);
        let ended = ended.outcome::<Order>().unwrap();
        assert_eq!(ended.operation.cents, [5]);
        assert_eq!(ended.end, SaleEnd::Closed { payments: 1 });
    });
}

#[test]
fn a_failure_is_read_from_its_bytes() {
    limited(async || {
        let shop = Shop::default();
        let runtime = shop.builder().build().unwrap();
        let submission = runtime.submit(Order::default()).key("7").once("cart 7");
        let order = submission.start().unwrap();
        order.cancel();
        let _ = order.await;
        let End::Saved(end) = runtime.ended::<Order>("cart 7").await else {
            panic!("it has ended");
        };
        let read = SavedEnd::from_bytes(&end.to_bytes()).unwrap();
        assert_eq!(read, end);
        let failure = read.outcome::<Order>().unwrap_err();
        assert!(matches!(failure.cause, Cause::Remembered { .. }));
        assert!(failure.to_string().contains("cancelled"), "{failure}");
    });
}

/// The operation goes on in another process, so that there is none would be wrong.
#[test]
fn a_runtime_that_has_ended_does_not_know() {
    limited(async || {
        let shop = Shop::default();
        let runtime = shop.builder().build().unwrap();
        let submission = runtime.submit(Order::default()).key("7").once("cart 7");
        let order = submission.start().unwrap();
        order.committed().await.unwrap();
        let id = order.id();
        runtime.shutdown(Shutdown::Now, secs(10)).await;
        for address in [Address::once("cart 7"), "7".into(), id.into()] {
            let found = runtime.outcome::<Order>(address);
            assert!(matches!(found, Lookup::Interrupted), "{found:?}");
        }
        assert_eq!(runtime.ended::<Order>("cart 7").await, End::Interrupted);
    });
}

#[test]
fn damaged_bytes_are_refused() {
    limited(async || {
        let bytes = end_of(News::Close).await;
        for damaged in [&[][..], &[0], &[1], &[7, 1, 2], &[1, 0xff, 0xff]] {
            let read = SavedEnd::from_bytes(damaged);
            let refused = [RestoreError::Damaged, RestoreError::NotASnapshot];
            assert!(
                read.as_ref().is_err_and(|error| refused.contains(error)),
                "{read:?}"
            );
        }
        for length in 0..bytes.len() {
            // A prefix that is read must not become an outcome.
            let read = SavedEnd::from_bytes(&bytes[..length]);
            let outcome = read.ok().and_then(|end| end.outcome::<Order>().ok());
            assert!(outcome.is_none(), "{length} of {} bytes", bytes.len());
        }
    });
}
