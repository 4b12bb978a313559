//! Limits without a name, beside a gate, and of an end.
use fom_runtime::prelude::*;
use fom_runtime::extension::Gate;

struct Call;

#[fom(operation(Call), transient)]
enum Route {
    #[phase(start, limit = "", to(Ring))]
    Locate,
    #[phase(gate, limit = "rings", to(Answered))]
    Ring,
    #[phase(end, limit = "ends")]
    Answered,
}

impl RouteTransitions for Call {
    async fn locate(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
    fn ring_gate(&self, _: &Cx<'_>) -> impl Gate {}
    async fn ring(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

fn start(_: impl Operation) {}

fn main() {
    start(Call);
}
