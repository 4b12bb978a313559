//! A quarantine never mixes kinds.

use fom_durable::prelude::*;
use fom_runtime::snapshot::QuarantineKind;
use serde::{Deserialize, Serialize};

use crate::{
    kit::limited,
    order::{Answer, Order, Shop, order},
};

/// Sends an event to an order that is not there.
#[derive(Serialize, Deserialize)]
struct Shout;

#[fom(operation(Shout))]
enum Shouting {
    #[phase(start, sync, to(Said))]
    Say,
    #[phase(end)]
    Said,
}

impl ShoutingTransitions for Shout {
    fn say(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.outbox()
            .send::<crate::events::Stock>("shelf", crate::events::Goods::Put(1))?;
        Ok(())
    }
}

/// Each kind is listed, counted and discarded alone.
#[test]
fn kinds_are_listed_and_discarded_alone() {
    limited(|| async {
        let shop = Shop::that(Answer::Declined);
        let runtime = shop.open();
        let id = runtime.submit(order(7)).start().unwrap().id();
        shop.wait(&runtime).await;
        runtime.submit(Shout).await.unwrap();
        runtime.quiet().await;
        let quarantine = runtime.quarantine();
        assert_eq!(quarantine.list().len(), 2);
        assert_eq!(quarantine.list_of(QuarantineKind::Failed)[0].id, id);
        assert_eq!(quarantine.count(QuarantineKind::Failed), 1);
        assert_eq!(quarantine.count(QuarantineKind::NoReceiver), 1);
        assert_eq!(quarantine.count(QuarantineKind::Damaged), 0);
        let gone = quarantine
            .discard_all(QuarantineKind::NoReceiver)
            .await
            .unwrap();
        assert_eq!(gone.len(), 1);
        assert_eq!(gone[0].kind(), QuarantineKind::NoReceiver);
        assert_eq!(quarantine.list().len(), 1);
        let done = quarantine.retry_failed::<Shout>();
        assert!(done.retried.is_empty());
        assert_eq!(quarantine.retry_failed::<Order>().retried, [id]);
    });
}
