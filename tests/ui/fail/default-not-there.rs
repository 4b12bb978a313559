//! Default of a type that has no default.
use fom_runtime::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Call;

#[derive(Serialize, Deserialize)]
struct Endpoint;

#[fom(operation(Call))]
enum Route {
    #[phase(start, to(Ring))]
    Locate,
    #[phase(to(Answered))]
    Ring {
        #[phase(default)]
        endpoint: Endpoint,
    },
    #[phase(end)]
    Answered,
}

impl RouteTransitions for Call {
    async fn locate(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterLocate, BoxError> {
        Ok(RouteAfterLocate::Ring { endpoint: Endpoint })
    }
    async fn ring(&mut self, _: &mut Cx<'_>, _: &mut Endpoint) -> Result<(), BoxError> {
        Ok(())
    }
}

fn main() {
    let _ = Call::GRAPH;
}
