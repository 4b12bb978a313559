//! Keys of a phase under a condition.
use fom_runtime::prelude::*;

#[derive(serde::Serialize, serde::Deserialize)]
struct Call;

#[fom(operation(Call))]
enum Route {
    #[phase(start, to(Ring))]
    Locate,
    #[cfg_attr(not(any()), phase(to(Answered, Rejected), within = "2s"))]
    #[cfg_attr(any(), phase(to(Answered, Rejected)))]
    Ring,
    #[phase(end)]
    Answered,
    #[phase(end, failure)]
    Rejected {
        #[cfg_attr(all(), phase(default))]
        status: u16,
    },
}

impl RouteTransitions for Call {
    async fn locate(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
    async fn ring(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterRing, BoxError> {
        Ok(RouteAfterRing::Rejected { status: 404 })
    }
}

fn start(_: impl Operation) {}

fn main() {
    start(Call);
}
