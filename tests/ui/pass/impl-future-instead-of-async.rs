//! A function that makes its future by hand.
use std::future::{Ready, ready};

use fom_runtime::prelude::*;

struct Call;

#[fom(operation(Call), transient)]
enum Route {
    #[phase(start, to(Done))]
    Locate,
    #[phase(end)]
    Done,
}

impl RouteTransitions for Call {
    #[allow(refining_impl_trait)]
    fn locate(&mut self, _: &mut Cx<'_>) -> Ready<Result<(), BoxError>> {
        ready(Ok(()))
    }
}

fn main() {}
