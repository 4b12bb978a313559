//! `events` instead of `event`.
use fom_runtime::prelude::*;

struct Call;

enum Signal {
    Ack,
    Bye,
}

#[fom(operation(Call), events(Signal), transient)]
enum Route {
    #[phase(start, sync, on(Ack, Bye), to(Answered))]
    Ring,
    #[phase(end)]
    Answered,
}

impl RouteTransitions for Call {
    fn ring(&mut self, _: &mut Cx<'_, Signal>, event: Signal) -> Result<RouteAfterRing, BoxError> {
        Ok(match event {
            Signal::Ack => RouteAfterRing::Stay,
            Signal::Bye => RouteAfterRing::Answered,
        })
    }
}

fn start(_: impl Operation<Event = Signal>) {}

fn main() {
    start(Call);
}
