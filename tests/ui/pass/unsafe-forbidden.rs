//! No unsafe code is generated.
#![forbid(unsafe_code)]
#![deny(warnings)]

use fom_runtime::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Call;

#[fom(operation(Call))]
enum Route {
    #[phase(start, to(Ring, Done))]
    Locate,
    #[phase(to(Done), blocking)]
    Ring { times: u8 },
    #[phase(end)]
    Done,
}

impl RouteTransitions for Call {
    async fn locate(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterLocate, BoxError> {
        Ok(RouteAfterLocate::Ring { times: 1 })
    }
    fn ring(&mut self, _: &mut BlockingCx<'_>, times: &mut u8) -> Result<(), BoxError> {
        *times += 1;
        Ok(())
    }
}

fn main() {
    assert!(Call::CODEC.is_some());
}
