//! Unknown text of `failed`.
use fom_runtime::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Call;

#[fom(operation(Call), failed = "keep")]
enum Route {
    #[phase(start, to(Answered, Rejected))]
    Locate,
    #[phase(end)]
    Answered,
    #[phase(end, failure)]
    Rejected { status: u16 },
}

impl RouteTransitions for Call {
    async fn locate(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterLocate, BoxError> {
        Ok(RouteAfterLocate::Answered)
    }
}

fn start(_: impl Operation) {}

fn main() {
    start(Call);
}
