//! Two phases with exits of the same name.
use fom_runtime::prelude::*;

struct Call;

#[fom(operation(Call), transient)]
enum Route {
    #[phase(start, to(RingFailed, Rejected), failed(Answered, Rejected))]
    Ring,
    #[phase(to(Answered, Rejected))]
    RingFailed,
    #[phase(end)]
    Answered,
    #[phase(end, failure)]
    Rejected { status: u16 },
}

impl RouteTransitions for Call {
    async fn ring(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterRing, BoxError> {
        Ok(RouteAfterRing::RingFailed)
    }
    async fn ring_failed(
        &mut self,
        _: &mut Cx<'_>,
        _: Cause<BoxError>,
    ) -> Result<RouteAfterRingFailed, BoxError> {
        Ok(RouteAfterRingFailed::Answered)
    }
}

fn start(_: impl Operation) {}

fn main() {
    start(Call);
}
