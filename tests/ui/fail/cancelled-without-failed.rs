//! `cancelled` on a phase without `failed(..)`.
use fom_runtime::prelude::*;

struct Call;

#[fom(operation(Call), transient)]
enum Route {
    #[phase(start, cancelled, to(Ring, Rejected))]
    Locate,
    #[phase(to(Answered, Rejected))]
    Ring { endpoint: u32 },
    #[phase(end)]
    Answered,
    #[phase(end, failure)]
    Rejected { status: u16 },
}

impl RouteTransitions for Call {
    async fn locate(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterLocate, BoxError> {
        Ok(RouteAfterLocate::Ring { endpoint: 1 })
    }
    async fn ring(
        &mut self,
        _: &mut Cx<'_>,
        endpoint: &mut u32,
    ) -> Result<RouteAfterRing, BoxError> {
        Ok(if *endpoint > 0 {
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
