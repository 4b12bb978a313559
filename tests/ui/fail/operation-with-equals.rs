//! `=` where the operation is in parentheses.
use fom_runtime::prelude::*;

struct Call;

enum Signal {
    Ack,
}

#[fom(operation = Call, event = Signal, transient)]
enum Route {
    #[phase(start, on(Ack), to(Answered, Rejected))]
    Ring,
    #[phase(end)]
    Answered,
    #[phase(end, failure)]
    Rejected { status: u16 },
}

impl RouteTransitions for Call {
    async fn ring(&mut self, cx: &mut Cx<'_, Signal>) -> Result<RouteAfterRing, BoxError> {
        let Signal::Ack = cx.event().await;
        Ok(RouteAfterRing::Answered)
    }
}

fn start(_: impl Operation) {}

fn main() {
    start(Call);
}
