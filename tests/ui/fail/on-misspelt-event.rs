//! A mistyped event beside the right one.
use fom_runtime::prelude::*;

struct Call;

enum Signal {
    Ack,
}

#[fom(operation(Call), event(Signal), transient)]
enum Route {
    #[phase(start, to(Done), on(Ack, Akc))]
    Ring,
    #[phase(end)]
    Done,
}

impl RouteTransitions for Call {
    async fn ring(&mut self, _: &mut Cx<'_, Signal>) -> Result<(), BoxError> {
        Ok(())
    }
}

fn start(_: impl Operation) {}

fn main() {
    start(Call);
}
