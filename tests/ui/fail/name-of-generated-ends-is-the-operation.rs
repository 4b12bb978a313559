//! An operation with the name of the generated enum of ends.
use fom_runtime::prelude::*;

struct RouteEnd;

#[fom(operation(RouteEnd), transient)]
enum Route {
    #[phase(start, to(Answered, Rejected))]
    Ring,
    #[phase(end)]
    Answered,
    #[phase(end, failure)]
    Rejected { status: u16 },
}

impl RouteTransitions for RouteEnd {
    async fn ring(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterRing, BoxError> {
        Ok(RouteAfterRing::Answered)
    }
}

fn start(_: impl Operation) {}

fn main() {
    start(RouteEnd);
}
