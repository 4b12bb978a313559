//! Operations that the program holds back when it starts: they are in quarantine, and keep their names.

use fom_durable::{End, Lookup, Sent, prelude::*};
use fom_runtime::{error::RefusedReason, snapshot::RestoreError};

use crate::{
    kit::{limited, one},
    order::{News, Order, Shop},
};

#[test]
fn an_operation_that_is_held_back_keeps_its_names_and_comes_back_by_a_retry() {
    limited(async || {
        let shop = Shop::default();
        let runtime = shop.builder().build().unwrap();
        let held = runtime
            .submit(Order::default())
            .key("7")
            .once("cart 7")
            .start()
            .unwrap();
        let other = runtime.submit(Order::default()).key("8").start().unwrap();
        held.committed().await.unwrap();
        other.committed().await.unwrap();
        let (held, other) = (held.id(), other.id());
        drop(runtime);

        let runtime = shop.builder().hold_back([held]).build().unwrap();
        runtime.quiet().await;
        let listed = runtime.quarantine().list();
        assert_eq!(listed.len(), 1);
        assert!(
            matches!(listed[0].reason, RestoreError::HeldBack),
            "{}",
            listed[0]
        );
        assert!(matches!(runtime.outcome::<Order>("7"), Lookup::Quarantined(id) if id == held));
        assert!(
            runtime.find_id::<Order>(other).is_some(),
            "the other one runs"
        );
        // Its operation id stays taken, and callers behind its key wait.
        let again = runtime.submit(Order::default()).once("cart 7").start();
        assert_eq!(again.unwrap_err().reason(), RefusedReason::Quarantined);
        assert_eq!(runtime.ended::<Order>("cart 7").await, End::Quarantined);
        // An event waits for it.
        let sent = runtime.send_durably::<Order>("7", News::Paid(5), "w").await;
        assert_eq!(sent.unwrap(), Sent::Now);

        runtime.quarantine().retry(held).unwrap();
        runtime.quiet().await;
        let order = runtime.find::<Order>("7").unwrap();
        assert_eq!(order.id(), held);
        order.send(News::Close).unwrap();
        runtime.quiet().await;
        let End::Saved(end) = runtime.ended::<Order>("cart 7").await else {
            panic!("it has ended")
        };
        assert_eq!(end.outcome::<Order>().unwrap().operation.cents, [5]);
    });
}

/// Without a journal and without operations, there is nothing to hold back.
#[test]
fn unknown_operations_are_not_held_back() {
    limited(async || {
        let shop = Shop::default();
        let runtime = one(&shop.clock).hold_back([]).build().unwrap();
        assert!(runtime.quarantine().list().is_empty());
        assert_eq!(runtime.ended::<Order>("cart 7").await, End::Unknown);
    });
}
