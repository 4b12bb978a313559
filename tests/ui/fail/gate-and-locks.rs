//! A gate of a phase with locks, which are a gate.
use fom_runtime::prelude::*;
use fom_runtime::extension::Gate;

struct Call;

#[fom(operation(Call), transient)]
enum Route {
    #[phase(start, to(Ring))]
    Locate,
    #[phase(to(Answered), locks, gate)]
    Ring { endpoint: u64 },
    #[phase(end)]
    Answered,
}

impl RouteTransitions for Call {
    async fn locate(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterLocate, BoxError> {
        Ok(RouteAfterLocate::Ring { endpoint: 1 })
    }
    fn ring_locks(&self, _: &Cx<'_>, _: &u64) -> fom_patterns::lock::LockSet {
        fom_patterns::lock::LockSet::new()
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
