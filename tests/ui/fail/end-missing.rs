//! End missing.
use fom_runtime::prelude::*;

struct Call;

#[fom(operation(Call), transient)]
enum Route {
    #[phase(start, to(Ring))]
    Locate,
    #[phase(to(Locate))]
    Ring,
}

impl RouteTransitions for Call {
    async fn locate(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
    async fn ring(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

fn start(_: impl Operation) {}

fn main() {
    start(Call);
}
