//! A mistyped name beside the right one, in each list that names phases.
use fom_runtime::prelude::*;

struct Call;

enum Signal {
    Ack,
}

#[fom(operation(Call), event(Signal), transient)]
enum Route {
    #[phase(start, to(Talk, Tlak), within = "2s", keep(Talk, Tlak))]
    Ring,
    #[phase(to(Done), on(Ack), failed(Done, Doen))]
    Talk,
    #[phase(end)]
    Done,
}

impl RouteTransitions for Call {
    async fn ring(&mut self, _: &mut Cx<'_, Signal>) -> Result<RouteAfterRing, BoxError> {
        Ok(RouteAfterRing::Talk)
    }
    async fn talk(&mut self, _: &mut Cx<'_, Signal>) -> Result<(), BoxError> {
        Ok(())
    }
    async fn talk_failed(
        &mut self,
        _: &mut Cx<'_, Signal>,
        _: Cause<BoxError>,
    ) -> Result<RouteAfterTalkFailed, BoxError> {
        Ok(RouteAfterTalkFailed::Done)
    }
}

fn start(_: impl Operation) {}

fn main() {
    start(Call);
}
