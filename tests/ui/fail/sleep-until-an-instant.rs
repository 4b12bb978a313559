//! Sleep until an instant.
use fom_runtime::prelude::*;

struct Call;

#[fom(operation(Call), transient)]
enum Route {
    #[phase(start, to(Ring, Rejected))]
    Locate,
    #[phase(to(Answered, Rejected))]
    Ring { endpoint: u32 },
    #[phase(end)]
    Answered,
    #[phase(end, failure)]
    Rejected { status: u16 },
}

impl RouteTransitions for Call {
    async fn locate(&mut self, cx: &mut Cx<'_>) -> Result<RouteAfterLocate, BoxError> {
        cx.sleep(cx.now()).await;
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
