//! Two phases with one name.
use fom_runtime::prelude::*;

struct Call;

#[fom(operation(Call), transient)]
enum Route {
    #[phase(start, to(Done, Failed))]
    Ring,
    #[phase(end)]
    Done,
    #[phase(end)]
    Failed,
    #[phase(end)]
    Done,
}

impl RouteTransitions for Call {
    async fn ring(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterRing, BoxError> {
        Ok(RouteAfterRing::Done)
    }
}

fn start(_: impl Operation) {}

fn main() {
    start(Call);
}
