//! Version of a transient operation.
use fom_runtime::{prelude::*, snapshot::Saved};

struct Call;

#[fom(operation(Call), transient, version = 2, migrate(v1(one)), retired("Old"))]
enum Route {
    #[phase(start, to(Ring))]
    Locate,
    #[phase(to(Answered), was = "Ringing")]
    Ring { #[phase(default)] endpoint: u32 },
    #[phase(end)]
    Answered,
}

fn one(_: &mut Saved) -> Result<(), BoxError> {
    Ok(())
}

impl RouteTransitions for Call {
    async fn locate(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterLocate, BoxError> {
        Ok(RouteAfterLocate::Ring { endpoint: 1 })
    }
    async fn ring(&mut self, _: &mut Cx<'_>, _: &mut u32) -> Result<(), BoxError> {
        Ok(())
    }
}

fn main() {
    let _ = (one, Call::GRAPH);
}
