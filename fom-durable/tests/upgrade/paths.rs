//! The path of an operation over releases: phases that were renamed or removed, and records of a release that kept no
//! path.

use fom_durable::{
    journal::{Batch, EntryId, Journal as _, MemoryJournal},
    prelude::*,
};
use fom_runtime::{Persistent, snapshot::QuarantineKind, time::TestClock};
use serde::{Deserialize, Serialize};

use crate::kit::{limited, one};

#[derive(Debug, Serialize, Deserialize)]
enum Order {
    Next,
    Lose,
}

/// Goes on, or fails.
fn next<T>(order: Order, to: T) -> Result<T, BoxError> {
    match order {
        Order::Next => Ok(to),
        Order::Lose => Err("it is lost".into()),
    }
}

/// A release: a parcel goes from phase to phase. In each phase but the first it waits for an order.
macro_rules! release {
    ($name:ident: $second:ident, $($phase:ident($($was:tt)*) $function:ident to $next:ident in $after:ident),*) => {
        mod $name {
            use super::*;

            #[derive(Debug, Serialize, Deserialize)]
            pub(super) struct Parcel;

            #[fom(operation(Parcel), event(Order))]
            pub(super) enum Carrying {
                #[phase(start, sync, to($second))]
                Shop,
                $(
                    #[phase(sync, on(Next, Lose), to($next) $($was)*)]
                    $phase,
                )*
                #[phase(end)]
                Done,
            }

            impl CarryingTransitions for Parcel {
                fn shop(&mut self, _: &mut Cx<'_, Order>) -> Result<(), BoxError> {
                    Ok(())
                }
                $(
                    fn $function(
                        &mut self,
                        _: &mut Cx<'_, Order>,
                        order: Order,
                    ) -> Result<$after, BoxError> {
                        next(order, $after::$next)
                    }
                )*
            }
        }
    };
}

release!(first: Train,
    Train() train to Bus in CarryingAfterTrain,
    Bus() bus to Door in CarryingAfterBus,
    Door() door to Done in CarryingAfterDoor
);

// The train has another name, there is no bus, and a new phase is before them.
release!(second: Taxi,
    Taxi() taxi to Rail in CarryingAfterTaxi,
    Rail(, was = "Train") rail to Door in CarryingAfterRail,
    Door() door to Done in CarryingAfterDoor
);

fn open<O: Persistent>(journal: &MemoryJournal) -> Runtime {
    let builder = one(&TestClock::new()).journal_with(journal.clone());
    builder.operation::<O>().build().unwrap()
}

async fn send<O: Persistent + Operation<Event = Order>>(runtime: &Runtime, order: Order) {
    let parcel = runtime.find::<O>("parcel").unwrap();
    parcel.send(order).unwrap();
    runtime.quiet().await;
}

/// Loses the parcel, and returns its path.
async fn lost<O: Persistent + Operation<Event = Order>>(runtime: &Runtime) -> Vec<String> {
    send::<O>(runtime, Order::Lose).await;
    let mut failed = runtime.quarantine().list_of(QuarantineKind::Failed);
    assert_eq!(failed.len(), 1, "{failed:?}");
    failed.remove(0).failure.unwrap().path
}

/// Returns the journal of a parcel that the first release left after so many orders.
async fn left_by_first(orders: usize) -> MemoryJournal {
    let journal = MemoryJournal::new();
    let runtime = open::<first::Parcel>(&journal);
    let parcel = runtime.submit(first::Parcel).key("parcel");
    drop(parcel.start().unwrap());
    runtime.quiet().await;
    for _ in 0..orders {
        send::<first::Parcel>(&runtime, Order::Next).await;
    }
    journal.fork()
}

/// A phase that was renamed has its new name, and one that was removed is left out.
#[test]
fn a_path_has_the_names_of_this_release() {
    limited(|| async {
        let journal = left_by_first(2).await;
        let runtime = open::<second::Parcel>(&journal);
        assert_eq!(lost::<second::Parcel>(&runtime).await, ["Shop", "Rail"]);
    });
}

/// The next release goes on with the path, and so does a release after it.
#[test]
fn a_path_goes_on_in_the_next_release() {
    limited(|| async {
        let journal = left_by_first(0).await;
        let runtime = open::<second::Parcel>(&journal);
        send::<second::Parcel>(&runtime, Order::Next).await;
        let journal = journal.fork();
        drop(runtime);
        let runtime = open::<second::Parcel>(&journal);
        assert_eq!(lost::<second::Parcel>(&runtime).await, ["Shop", "Rail"]);
    });
}

/// A record without a path is read. The path begins with the phase that the fom was in.
#[test]
fn a_record_without_a_path_is_read() {
    limited(|| async {
        let mut journal = left_by_first(1).await;
        let id = journal.ids().into_iter().max().unwrap();
        assert!(id >= EntryId::HEAD);
        let mut record = journal.entry(id).unwrap();
        // The kind; step and home, of a byte each, are between it and the path.
        assert_eq!(record[0], 9);
        record[0] = 6;
        record.remove(4);
        let mut batch = Batch::new();
        batch.put(id, &record);
        batch.end_group();
        journal.commit(&batch).unwrap();

        let runtime = open::<first::Parcel>(&journal);
        assert!(runtime.quarantine().list().is_empty());
        send::<first::Parcel>(&runtime, Order::Next).await;
        assert_eq!(lost::<first::Parcel>(&runtime).await, ["Bus"]);
    });
}
