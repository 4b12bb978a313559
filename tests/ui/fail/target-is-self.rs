//! `Self` for the phase itself.
use fom_runtime::prelude::*;

struct Call;

#[fom(operation(Call), transient)]
enum Route {
    #[phase(start, to(Self, Answered), failed(Self, Answered))]
    Ring,
    #[phase(end)]
    Answered,
}

impl RouteTransitions for Call {
    async fn ring(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterRing, BoxError> {
        Ok(RouteAfterRing::Ring)
    }
    async fn ring_failed(
        &mut self,
        _: &mut Cx<'_>,
        _: Cause<BoxError>,
    ) -> Result<RouteAfterRingFailed, BoxError> {
        Ok(RouteAfterRingFailed::Ring)
    }
}

fn start(_: impl Operation) {}

fn main() {
    start(Call);
}
