//! Three releases of an operation, each with other names.

use fom_patterns::{
    lock::{LockSet, LongLocks},
    prelude::*,
};
use fom_runtime::error::BoxError;
use serde::{Deserialize, Serialize};

use crate::kit::Log;

/// What an order is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Word {
    /// The order may go on.
    Go,
    /// A number to remember.
    Note(u32),
}

/// One release: an order is packed, then takes a note, then ends.
macro_rules! release {
    (mod $module:ident, $operation:ident, $machine:ident, $transitions:ident, [$($key:tt)*]) => {
        pub(crate) mod $module {
            use super::*;

            #[derive(Debug, Serialize, Deserialize)]
            pub(crate) struct $operation {
                pub(crate) name: String,
            }

            #[fom($($key)*, event(Word))]
            #[derive(Debug)]
            pub(crate) enum $machine {
                #[phase(start, to(Pack))]
                Begin,
                #[phase(to(Check), on(Go), locks)]
                Pack,
                #[phase(to(Done), on(Note))]
                Check,
                #[phase(end)]
                Done,
            }

            impl $transitions for $operation {
                async fn begin(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
                    cx.resource::<Log>().put(format_args!("{} begins", self.name));
                    if self.name == "broken" {
                        return Err("it is broken".into());
                    }
                    Ok(())
                }
                fn pack_locks(&self, cx: &Cx<'_, Word>) -> LockSet {
                    let lock = cx.resource::<LongLocks>().of("shelf");
                    LockSet::new().read(&lock)
                }
                async fn pack(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
                    cx.event().await;
                    Ok(())
                }
                async fn check(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
                    let note = match cx.event().await {
                        Word::Note(number) => number,
                        Word::Go => return Err("a word that the phase does not take".into()),
                    };
                    cx.resource::<Log>().put(format_args!("{} has note {note}", self.name));
                    Ok(())
                }
            }
        }
    };
}

release!(mod before, Order, Shop, ShopTransitions, [operation(Order)]);
// Only the enum was renamed, and something was saved then, too. This release is in no journal of these tests, where two
// types would have its names.
release!(mod between, Order, Till, TillTransitions, [operation(Order), was = "Shop", durability = "none"]);
release!(mod after, Purchase, Till, TillTransitions, [operation(Purchase, was = "Order"), was = "Shop"]);

pub(crate) fn order(name: &str) -> before::Order {
    let name = name.to_owned();
    before::Order { name }
}

pub(crate) fn purchase(name: &str) -> after::Purchase {
    let name = name.to_owned();
    after::Purchase { name }
}
