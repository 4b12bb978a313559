//! Enum less visible than the operation.
use fom_runtime::prelude::*;

pub struct Call;

enum Signal {
    Go,
}

#[fom(operation(Call), event(Signal), transient)]
enum Route {
    #[phase(start, to(Done), on(Go))]
    Locate,
    #[phase(end)]
    Done,
}

impl RouteTransitions for Call {
    async fn locate(&mut self, _: &mut Cx<'_, Signal>) -> Result<(), BoxError> {
        Ok(())
    }
}

fn main() {}
