//! Names of earlier of the operation, written wrongly.
use fom_runtime::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Call;

#[fom(operation(Call, was("Ruf")), was("Way"))]
enum Route {
    #[phase(start, to(Ring))]
    Locate,
    #[phase(to(Answered))]
    Ring { endpoint: u32 },
    #[phase(end)]
    Answered,
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
    let _ = Call::GRAPH;
}
