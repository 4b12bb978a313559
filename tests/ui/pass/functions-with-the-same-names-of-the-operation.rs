//! The operation has functions of its own that are called like its phases.
use fom_runtime::prelude::*;

struct Call;

impl Call {
    fn locate(&self) -> u8 {
        1
    }
    fn step(&self) -> u8 {
        2
    }
    fn start() -> u8 {
        3
    }
}

#[fom(operation(Call), transient)]
enum Route {
    #[phase(start, to(Done), sync)]
    Locate,
    #[phase(end)]
    Done,
}

impl RouteTransitions for Call {
    fn locate(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

fn main() {
    assert_eq!(Call.locate() + Call.step() + Call::start(), 6);
}
