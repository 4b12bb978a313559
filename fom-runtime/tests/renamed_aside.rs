//! A release renames an operation, and cannot read the parked fom: the fom is set aside under its old names, and found
//! by them.

mod kit;

use fom_runtime::{BoxError, Builder, RestoreError, TestClock, journal::MemoryJournal, prelude::*};
use serde::{Deserialize, Serialize};

use crate::kit::{Log, limited, one};

/// What an order is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Word {
    /// The order may go on.
    Go,
    /// A number to remember.
    Note(u32),
}

mod before {
    use super::*;

    #[derive(Debug, Serialize, Deserialize)]
    pub(super) struct Order {
        pub(super) name: String,
    }

    #[fom(operation(Order), event(Word))]
    pub(super) enum Shop {
        #[phase(start, to(Check), on(Go))]
        Pack,
        #[phase(to(Done), on(Note))]
        Check,
        #[phase(end)]
        Done,
    }

    impl ShopTransitions for Order {
        async fn pack(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
            cx.resource::<Log>()
                .put(format_args!("{} is packed", self.name));
            cx.event().await;
            Ok(())
        }
        async fn check(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
            let event = cx.event().await;
            cx.resource::<Log>()
                .put(format_args!("{} has {event:?}", self.name));
            Ok(())
        }
    }
}

/// A release that forgot that an order has a name.
mod careless {
    use super::*;

    #[derive(Debug, Serialize, Deserialize)]
    pub(super) struct Purchase {
        number: u32,
    }

    #[fom(operation(Purchase, was = "Order"), was = "Shop", event(Word))]
    pub(super) enum Till {
        #[phase(start, to(Check), on(Go))]
        Pack,
        #[phase(to(Done), on(Note))]
        Check,
        #[phase(end)]
        Done,
    }

    impl TillTransitions for Purchase {
        async fn pack(&mut self, _: &mut Cx<'_, Word>) -> Result<(), BoxError> {
            Ok(())
        }
        async fn check(&mut self, _: &mut Cx<'_, Word>) -> Result<(), BoxError> {
            Ok(())
        }
    }
}

/// Tells something to the fom with the key, by the name in the running release.
#[derive(Serialize, Deserialize)]
struct Post {
    today: bool,
}

#[fom(operation(Post))]
enum Posting {
    #[phase(sync, start, to(Posted))]
    Write,
    #[phase(end)]
    Posted,
}

impl PostingTransitions for Post {
    fn write(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let outbox = cx.outbox();
        match self.today {
            false => outbox.send::<before::Order>("k", Word::Note(7))?,
            true => outbox.send::<careless::Purchase>("k", Word::Note(8))?,
        }
        Ok(())
    }
}

fn on(journal: &MemoryJournal, log: &Log) -> Builder {
    let builder = one(&TestClock::new()).journal_with(journal.clone());
    builder.resource(log.clone())
}

#[test]
fn what_is_set_aside_is_known_by_its_old_names() {
    limited(async || {
        let (journal, log) = (MemoryJournal::new(), Log::default());
        {
            let runtime = on(&journal, &log).operation::<before::Order>();
            let runtime = runtime.build().unwrap();
            let name = "first".to_owned();
            let order = before::Order { name };
            drop(runtime.submit(order).key("k").start().unwrap());
            runtime.quiet().await;
            runtime.submit(Post { today: false }).await.unwrap();
            runtime.quiet().await;
        }
        {
            let runtime = on(&journal, &log).operation::<careless::Purchase>();
            let runtime = runtime.build().unwrap();
            // A new event is for the same receiver.
            runtime.submit(Post { today: true }).await.unwrap();
            runtime.quiet().await;
            let aside = runtime.set_aside();
            assert_eq!(aside.len(), 3, "the order and two notes: {aside:?}");
            let (order, notes) = aside.split_first().unwrap();
            assert_eq!(order.machine.as_deref(), Some("Shop"));
            assert_eq!(order.operation.as_deref(), Some("Order"));
            assert_eq!(order.key, Some("k".into()));
            assert!(
                matches!(order.reason, RestoreError::UnknownOperationField { .. }),
                "{}",
                order.reason
            );
            for note in notes {
                assert_eq!(note.reason, RestoreError::ReceiverSetAside(order.id));
            }
            assert!(runtime.operations().incidents.is_empty());
        }
        // The previous release reads the order.
        let runtime = on(&journal, &log).operation::<before::Order>();
        let runtime = runtime.build().unwrap();
        let first = runtime.find::<before::Order>("k").unwrap();
        first.send(Word::Go).unwrap();
        runtime.idle().await;
        assert_eq!(
            log.take(),
            ["first is packed", "first is packed", "first has Note(7)"]
        );
    });
}
