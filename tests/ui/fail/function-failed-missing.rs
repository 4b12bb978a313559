//! The function for `failed(..)` is missing.
use fom_runtime::prelude::*;

struct Call;

#[fom(operation(Call), transient)]
enum Route {
    #[phase(start, to(Answered), failed(Rejected))]
    Locate,
    #[phase(end)]
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
