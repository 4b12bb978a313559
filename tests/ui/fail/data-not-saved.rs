//! Data not saved.
use fom_runtime::prelude::*;

#[derive(serde::Serialize, serde::Deserialize)]
struct Call;

struct Endpoint;

#[fom(operation(Call))]
enum Route {
    #[phase(start, to(Ring, Rejected))]
    Locate,
    #[phase(to(Answered, Rejected))]
    Ring { endpoint: Endpoint },
    #[phase(end)]
    Answered,
    #[phase(end, failure)]
    Rejected { status: u16 },
}

impl RouteTransitions for Call {
    async fn locate(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterLocate, BoxError> {
        Ok(RouteAfterLocate::Ring { endpoint: Endpoint })
    }
    async fn ring(
        &mut self,
        _: &mut Cx<'_>,
        endpoint: &mut Endpoint,
    ) -> Result<RouteAfterRing, BoxError> {
        Ok(if matches!(endpoint, Endpoint) {
            RouteAfterRing::Answered
        } else {
            RouteAfterRing::Rejected { status: 404 }
        })
    }
}

fn start(_: impl Operation) {}

fn main() {
    start(Call);
}
