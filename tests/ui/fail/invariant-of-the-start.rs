//! An invariant of the start.
use fom_runtime::prelude::*;

struct Call;

#[fom(operation(Call), transient)]
enum Route {
    #[phase(start, invariant, to(Answered))]
    Locate,
    #[phase(end)]
    Answered,
}

impl RouteTransitions for Call {
    fn locate_invariant(&self) -> bool {
        true
    }
    async fn locate(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

fn start(_: impl Operation) {}

fn main() {
    start(Call);
}
