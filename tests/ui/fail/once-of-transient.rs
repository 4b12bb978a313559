//! An operation id for an operation that cannot be saved.
use fom_durable::prelude::*;

struct Call;

#[fom(operation(Call), transient)]
enum Route {
    #[phase(start, to(Answered))]
    Locate,
    #[phase(end)]
    Answered,
}

impl RouteTransitions for Call {
    async fn locate(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

fn submit(runtime: &Runtime) {
    let _ = runtime.submit(Call).once("order 7").start();
}

fn main() {}
