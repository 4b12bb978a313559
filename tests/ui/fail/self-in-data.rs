//! Self in data.
use fom_runtime::prelude::*;

struct Call;

#[fom(operation(Call), transient)]
enum Route {
    #[phase(start, to(Ring, Rejected))]
    Locate,
    #[phase(to(Answered, Rejected))]
    Ring { endpoint: Box<Self> },
    #[phase(end)]
    Answered,
    #[phase(end, failure)]
    Rejected { status: u16 },
}

impl RouteTransitions for Call {
    async fn locate(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterLocate, BoxError> {
        Ok(RouteAfterLocate::Ring { endpoint: todo!() })
    }
    async fn ring(&mut self, _: &mut Cx<'_>, endpoint: &mut Box<Route>) -> Result<RouteAfterRing, BoxError> {
        Ok(if matches!(**endpoint, Route::Locate) { RouteAfterRing::Answered } else { RouteAfterRing::Rejected { status: 404 } })
    }
}

fn start(_: impl Operation) {}

fn main() {
    start(Call);
}
