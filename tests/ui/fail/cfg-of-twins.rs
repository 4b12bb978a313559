//! One phase, declared once for each of two configurations.
use fom_runtime::prelude::*;

struct Call;

#[fom(operation(Call), transient)]
enum Route {
    #[phase(start, to(Ring))]
    Locate,
    #[cfg(any())]
    #[phase(to(Answered), within = "2s")]
    Ring,
    #[cfg(not(any()))]
    #[phase(to(Answered), within = "4s")]
    Ring,
    #[phase(end)]
    Answered,
}

impl RouteTransitions for Call {
    async fn locate(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
    async fn ring(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

fn start(_: impl Operation) {}

fn main() {
    start(Call);
}
