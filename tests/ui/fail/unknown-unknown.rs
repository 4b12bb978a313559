//! Unknown text of `unknown`.
use fom_runtime::prelude::*;

#[derive(serde::Serialize, serde::Deserialize)]
struct Call;

#[fom(operation(Call), unknown = "ignore")]
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
