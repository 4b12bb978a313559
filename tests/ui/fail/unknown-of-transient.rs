//! A transient operation has no field of another release.
use fom_runtime::prelude::*;

struct Call;

#[fom(operation(Call), transient, unknown = "keep")]
enum Route {
    #[phase(start, sync, to(Over))]
    Locate,
    #[phase(end)]
    Over,
}

impl RouteTransitions for Call {
    fn locate(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

fn main() {}
