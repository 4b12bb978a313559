//! Two releases of a shop. The second release cannot read what the first release saved.

use std::cell::Cell;

use fom_durable::{journal::MemoryJournal, prelude::*};
use fom_runtime::{Builder, FomRef, time::TestClock};
use serde::{Deserialize, Serialize};

use crate::kit::one;

/// The event that makes an operation go on.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Go {
    /// To the end.
    On,
}

/// An operation that begins, and parks until it is told to go on. Each release has its own kind of pieces, and may have
/// further keys of `#[fom]`.
macro_rules! shop {
    ($pieces:ty $(, $($key:tt)*)?) => {
        #[derive(Debug, Serialize, Deserialize)]
        pub(crate) struct Order {
            pub(crate) pieces: $pieces,
        }

        #[fom(operation(Order), event(Go) $(, $($key)*)?)]
        pub(crate) enum Shop {
            #[phase(start, sync, to(Park))]
            Begin,
            #[phase(sync, to(Done), on(On))]
            Park { shelf: u32 },
            #[phase(end)]
            Done,
        }

        impl ShopTransitions for Order {
            fn begin(&mut self, _: &mut Cx<'_, Go>) -> Result<ShopAfterBegin, BoxError> {
                Ok(ShopAfterBegin::Park { shelf: 3 })
            }
            fn park(
                &mut self,
                _: &mut Cx<'_, Go>,
                _: &mut u32,
                _: Go,
            ) -> Result<ShopAfterPark, BoxError> {
                Ok(ShopAfterPark::Done)
            }
        }
    };
}
pub(crate) use shop;

/// The first release of the program.
pub(crate) mod first {
    use super::*;

    shop!(String);
}

/// The second release, which does not know the operation of the first.
pub(crate) mod second {
    use super::*;

    shop!(u32);
}

thread_local! {
    /// Set on the test's thread, which builds the runtime.
    pub(crate) static PANICS: Cell<bool> = const { Cell::new(false) };
}

/// A generic operation: its type is known only to a program that names it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job<T> {
    pub(crate) what: T,
}

#[fom(operation(Job<T>), event(Go))]
pub(crate) enum Work<T: Send + Serialize + for<'a> Deserialize<'a> + 'static> {
    #[phase(start, sync, to(Park))]
    Begin,
    #[phase(sync, to(Done), on(On))]
    Park { of: Option<T> },
    #[phase(end)]
    Done,
}

impl<T: Send + Serialize + for<'a> Deserialize<'a> + 'static> WorkTransitions<T> for Job<T> {
    fn begin(&mut self, _: &mut Cx<'_, Go>) -> Result<WorkAfterBegin<T>, BoxError> {
        Ok(WorkAfterBegin::Park { of: None })
    }
    fn park(
        &mut self,
        _: &mut Cx<'_, Go>,
        _: &mut Option<T>,
        _: Go,
    ) -> Result<WorkAfterPark, BoxError> {
        Ok(WorkAfterPark::Done)
    }
}

pub(crate) fn order(pieces: &str) -> first::Order {
    first::Order {
        pieces: pieces.into(),
    }
}

pub(crate) fn parked<O: Operation<Event = Go>>(
    runtime: &Runtime,
    operation: O,
    key: &str,
) -> FomRef<O> {
    let handle = runtime.submit(operation).key(key).start().unwrap();
    let fom = handle.fom().clone();
    drop(handle);
    futures::executor::block_on(runtime.quiet());
    assert_eq!(fom.phase(), "Park");
    fom
}

pub(crate) fn of_first(journal: &MemoryJournal) -> Builder {
    one(&TestClock::new())
        .journal_with(journal.clone())
        .operation::<first::Order>()
        .operation::<Job<u32>>()
}

pub(crate) fn of_second(journal: &MemoryJournal) -> Builder {
    one(&TestClock::new())
        .journal_with(journal.clone())
        .operation::<second::Order>()
}
