//! No secret.
use fom_runtime::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Call {
    card: String,
}

#[fom(operation(Call), secret())]
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
