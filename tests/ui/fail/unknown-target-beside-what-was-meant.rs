//! A mistyped target beside the right phase: the compiler does not report the correct declaration.
use fom_runtime::prelude::*;

struct Call;

#[fom(operation(Call), transient)]
enum Route {
    #[phase(start, to(Done, Doen))]
    Ring,
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
