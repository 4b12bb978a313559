//! A gate of an end.
use fom_runtime::prelude::*;
use fom_runtime::extension::Gate;

struct Call;

#[fom(operation(Call), transient)]
enum Route {
    #[phase(start, to(Ring))]
    Locate,
    #[phase(to(Answered), gate)]
    Ring { endpoint: u64 },
    #[phase(end, gate)]
    Answered,
}

impl RouteTransitions for Call {
    async fn locate(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterLocate, BoxError> {
        Ok(RouteAfterLocate::Ring { endpoint: 1 })
    }
    fn ring_gate(&self, _: &Cx<'_>, _: &u64) -> impl Gate {}
    async fn ring(&mut self, _: &mut Cx<'_>, _: &mut u64) -> Result<(), BoxError> {
        Ok(())
    }
}

fn start(_: impl Operation) {}

fn main() {
    start(Call);
}
