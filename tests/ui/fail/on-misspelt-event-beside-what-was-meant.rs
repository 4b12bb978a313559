//! A mistyped event beside the right one.
use fom_runtime::prelude::*;

struct Call;

enum Signal {
    Ack,
}

#[fom(operation(Call), event(Signal), transient)]
enum Route {
    #[phase(start, on(Ack, Akc), to(Answered))]
    Ring,
    #[phase(end)]
    Answered,
}

impl RouteTransitions for Call {
    async fn ring(&mut self, cx: &mut Cx<'_, Signal>) -> Result<(), BoxError> {
        let Signal::Ack = cx.event().await;
        Ok(())
    }
}

fn start(_: impl Operation) {}

fn main() {
    start(Call);
}
