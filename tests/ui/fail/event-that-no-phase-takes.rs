//! Event that no phase takes.
use fom_runtime::prelude::*;

struct Call;

enum Signal {
    Ack,
    Bye,
}

#[fom(operation(Call), transient, event(Signal))]
enum Route {
    #[phase(start, on(Ack), to(Ring, Rejected))]
    Locate,
    #[phase(to(Answered, Rejected))]
    Ring { endpoint: u32 },
    #[phase(end)]
    Answered,
    #[phase(end, failure)]
    Rejected { status: u16 },
}

impl RouteTransitions for Call {
    async fn locate(&mut self, _: &mut Cx<'_, Signal>) -> Result<RouteAfterLocate, BoxError> {
        Ok(RouteAfterLocate::Ring { endpoint: 1 })
    }
    async fn ring(
        &mut self,
        _: &mut Cx<'_, Signal>,
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
