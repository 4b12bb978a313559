//! The words of other systems.
use fom_runtime::prelude::*;

struct Call;

#[fom(operation(Call), transient, initial(Ring), states(Ring, Wait), final(Done), transitions(Ring))]
enum Route {
    #[phase(initial, next(Wait), timeout = "2s")]
    Ring,
    #[phase(transitions(Done), guard)]
    Wait,
    #[phase(terminal)]
    Done,
    #[phase(final)]
    Over,
}

impl RouteTransitions for Call {
    async fn ring(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
    async fn wait(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

fn start(_: impl Operation) {}

fn main() {
    start(Call);
}
