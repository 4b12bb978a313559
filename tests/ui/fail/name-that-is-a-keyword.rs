//! Keywords that are names in no edition.
use fom_runtime::prelude::*;

struct Call;

#[fom(operation(Call), transient)]
enum Route {
    #[phase(start, to(Done, self, Super), keep(crate), within = "2s")]
    Ring,
    #[phase(to(Done))]
    Super,
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
