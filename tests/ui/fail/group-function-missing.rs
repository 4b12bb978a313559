//! The function of a group is missing.
use fom_runtime::prelude::*;

struct Order;

#[fom(
    operation(Order),
    transient,
    group(Saga, phases(Reserve, Charge), failed(Done))
)]
enum Selling {
    #[phase(start, sync, to(Charge))]
    Reserve,
    #[phase(sync, to(Done))]
    Charge,
    #[phase(end)]
    Done,
}

impl SellingTransitions for Order {
    fn reserve(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
    fn charge(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

fn main() {}
