//! An operation, an error and an event with the names of generated types.
use fom_runtime::prelude::*;

struct RouteKind;

#[fom(operation(RouteKind), transient)]
enum Route {
    #[phase(start, to(Answered, Rejected))]
    Ring,
    #[phase(end)]
    Answered,
    #[phase(end, failure)]
    Rejected { status: u16 },
}

impl RouteTransitions for RouteKind {
    async fn ring(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterRing, BoxError> {
        Ok(RouteAfterRing::Answered)
    }
}

fn start(_: impl Operation) {}

fn main() {
    start(RouteKind);
}
