//! Data in saved phases that borrow.
use fom_runtime::prelude::*;

#[derive(serde::Serialize, serde::Deserialize)]
struct Call;

#[fom(operation(Call))]
enum Route {
    #[phase(start, to(Ring, Rejected))]
    Locate,
    #[phase(to(Answered))]
    Ring { endpoint: &'static str, parts: Vec<&'static [u8]> },
    #[phase(end)]
    Answered,
    #[phase(end, failure)]
    Rejected { why: Option<&'static str> },
}

impl RouteTransitions for Call {
    async fn locate(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterLocate, BoxError> {
        Ok(RouteAfterLocate::Rejected { why: Some("gone") })
    }
    async fn ring(
        &mut self,
        _: &mut Cx<'_>,
        _: RouteInRing<'_>,
    ) -> Result<(), BoxError> {
        Ok(())
    }
}

fn start(_: impl Operation) {}

fn main() {
    start(Call);
}
