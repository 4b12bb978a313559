//! Start twice.
use fom_runtime::prelude::*;

struct Call;

#[fom(operation(Call), transient)]
enum Route {
    #[phase(start, to(Ring, Rejected))]
    Locate,
    #[phase(start, to(Answered, Rejected))]
    Ring,
    #[phase(end)]
    Answered,
    #[phase(end, failure)]
    Rejected { status: u16 },
}

impl RouteTransitions for Call {
    async fn locate(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterLocate, BoxError> {
        Ok(RouteAfterLocate::Ring)
    }
    async fn ring(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterRing, BoxError> {
        Ok(if self.good() > 0 {
            RouteAfterRing::Answered
        } else {
            RouteAfterRing::Rejected { status: 404 }
        })
    }
}

impl Call {
    fn good(&self) -> u32 {
        1
    }
}

fn start(_: impl Operation) {}

fn main() {
    start(Call);
}
