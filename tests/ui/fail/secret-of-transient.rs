//! No tool shows a field of a transient operation.
use fom_runtime::prelude::*;

struct Call {
    card: String,
}

#[fom(operation(Call), transient, secret(card))]
enum Route {
    #[phase(start, sync, to(Over))]
    Locate,
    #[phase(end)]
    Over,
}

impl RouteTransitions for Call {
    fn locate(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

fn main() {}
