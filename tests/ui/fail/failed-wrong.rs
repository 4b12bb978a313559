//! `failed(..)` with an unknown target and on an end, and a missing function for it.
use fom_runtime::prelude::*;

struct Call;

#[fom(operation(Call), transient)]
enum Route {
    #[phase(start, to(Answered), failed(Rejectd))]
    Locate,
    #[phase(end, failed(Rejected))]
    Answered,
    #[phase(end, failure)]
    Rejected,
}

impl RouteTransitions for Call {
    async fn locate(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

fn main() {}
