//! Other values of `cancelled`, and on an end.
use fom_runtime::prelude::*;

struct Call;

#[fom(operation(Call), transient)]
enum Route {
    #[phase(start, cancelled = "never", to(Ring))]
    Locate,
    #[phase(to(Answered), cancelled(Rejected))]
    Ring,
    #[phase(end, cancelled = "later")]
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

fn main() {}
