//! Mistyped names beside the right ones, in each list.
use fom_runtime::prelude::*;

struct Call;

enum Signal {
    Ack,
}

#[fom(operation(Call), event(Signal), transient)]
enum Route {
    #[phase(start, to(Wiat, Wait), failed(Rejected, Rejcted))]
    Ring,
    #[phase(to(Answered), on(Ack), within = "2s", keep(Wait, Wati))]
    Wait { times: u32 },
    #[phase(end)]
    Answered,
    #[phase(end, failure)]
    Rejected { status: u16 },
}

impl RouteTransitions for Call {
    async fn ring(&mut self, _: &mut Cx<'_, Signal>) -> Result<RouteAfterRing, BoxError> {
        Ok(RouteAfterRing::Wait { times: 1 })
    }
    async fn ring_failed(
        &mut self,
        _: &mut Cx<'_, Signal>,
        _: Cause<BoxError>,
    ) -> Result<RouteAfterRingFailed, BoxError> {
        Ok(RouteAfterRingFailed::Rejected { status: 404 })
    }
    async fn wait(&mut self, _: &mut Cx<'_, Signal>, _: &mut u32) -> Result<(), BoxError> {
        Ok(())
    }
}

fn start(_: impl Operation) {}

fn main() {
    start(Call);
}
