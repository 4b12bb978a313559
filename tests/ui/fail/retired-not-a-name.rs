//! Retired name that is none.
use fom_runtime::{prelude::*, snapshot::Saved};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Call;

#[fom(operation(Call), retired("no name"))]
enum Route {
    #[phase(start, to(Ring))]
    Locate,
    #[phase(to(Answered))]
    Ring { endpoint: u32 },
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
