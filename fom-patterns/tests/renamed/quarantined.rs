//! A release renames an operation, and cannot read the parked fom: the fom is quarantined under its old names, and found
//! by them.

use fom_durable::{journal::MemoryJournal, prelude::*};
use fom_runtime::{Builder, error::BoxError, snapshot::RestoreError, time::TestClock};
use serde::{Deserialize, Serialize};

use crate::{
    kit::{Log, limited, one},
    orders::after,
    parcels::{Word, before, careless},
};

/// Tells something to the fom with the key, by the name in the running release.
#[derive(Serialize, Deserialize)]
struct Postcard {
    today: bool,
}

#[fom(operation(Postcard))]
enum Posting {
    #[phase(sync, start, to(Posted))]
    Write,
    #[phase(end)]
    Posted,
}

impl PostingTransitions for Postcard {
    fn write(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let outbox = cx.outbox();
        match self.today {
            false => outbox.send::<before::Parcel>("k", Word::Note(7))?,
            true => outbox.send::<careless::Delivery>("k", Word::Note(8))?,
        }
        Ok(())
    }
}

fn on(journal: &MemoryJournal, log: &Log) -> Builder {
    let builder = one(&TestClock::new()).journal_with(journal.clone());
    // A runtime must be told which of the order's releases in this program it runs.
    builder.operation::<after::Purchase>().resource(log.clone())
}

#[test]
fn what_is_quarantined_is_known_by_its_old_names() {
    limited(async || {
        let (journal, log) = (MemoryJournal::new(), Log::default());
        {
            let runtime = on(&journal, &log).operation::<before::Parcel>();
            let runtime = runtime.build().unwrap();
            let name = "first".to_owned();
            let order = before::Parcel { name };
            drop(runtime.submit(order).key("k").start().unwrap());
            runtime.quiet().await;
            runtime.submit(Postcard { today: false }).await.unwrap();
            runtime.quiet().await;
        }
        {
            let runtime = on(&journal, &log).operation::<careless::Delivery>();
            let runtime = runtime.build().unwrap();
            // A new event is for the same receiver.
            runtime.submit(Postcard { today: true }).await.unwrap();
            runtime.quiet().await;
            let quarantined = runtime.quarantine().list();
            assert_eq!(
                quarantined.len(),
                3,
                "the order and two notes: {quarantined:?}"
            );
            let (order, notes) = quarantined.split_first().unwrap();
            assert_eq!(order.machine.as_deref(), Some("Depot"));
            assert_eq!(order.operation.as_deref(), Some("Parcel"));
            assert_eq!(order.key, Some("k".into()));
            assert!(
                matches!(order.reason, RestoreError::UnknownOperationField { .. }),
                "{}",
                order.reason
            );
            for note in notes {
                assert_eq!(note.reason, RestoreError::ReceiverQuarantined(order.id));
            }
            assert!(runtime.operations().incidents.is_empty());
        }
        // The previous release reads the order.
        let runtime = on(&journal, &log).operation::<before::Parcel>();
        let runtime = runtime.build().unwrap();
        let first = runtime.find::<before::Parcel>("k").unwrap();
        first.send(Word::Go).unwrap();
        runtime.idle().await;
        assert_eq!(
            log.take(),
            ["first is packed", "first is packed", "first has Note(7)"]
        );
    });
}
