//! A mistake in a saved machine: the compiler does not also report the code that uses the record.
use fom_runtime::prelude::*;

#[derive(serde::Serialize, serde::Deserialize)]
struct Call;

#[fom(operation(Call))]
enum Route {
    #[phase(start, to(Ring, Rejectd))]
    Locate,
    #[phase(to(Rejected))]
    Ring { endpoint: u32 },
    #[phase(end, failure)]
    Rejected,
}

impl RouteTransitions for Call {
    async fn locate(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterLocate, BoxError> {
        Ok(RouteAfterLocate::Rejected)
    }
    async fn ring(&mut self, _: &mut Cx<'_>, _: &mut u32) -> Result<(), BoxError> {
        Ok(())
    }
}

fn main() {
    let _ = Call.snapshot(&Route::Locate);
    let _ = Call::kind(&Route::Rejected) == RouteKind::Rejected;
}
