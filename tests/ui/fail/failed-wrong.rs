//! A way for failures that leads nowhere, one on an end, and a function for it that is not there.
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
