//! Data in a saved operation that borrow.
use fom_runtime::prelude::*;

#[derive(serde::Serialize, serde::Deserialize)]
struct Call {
    caller: &'static str,
}

#[fom(operation(Call))]
enum Route {
    #[phase(start, to(Answered))]
    Ring,
    #[phase(end)]
    Answered,
}

impl RouteTransitions for Call {
    async fn ring(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        let _ = self.caller;
        Ok(())
    }
}

fn start(_: impl Operation) {}

fn main() {
    start(Call { caller: "me" });
}
