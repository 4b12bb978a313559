//! Two `inner` phases in one layer.
use fom_runtime::prelude::*;

struct Read;

#[fom(operation(Read), transient)]
enum Reading {
    #[phase(start, to(Found))]
    Look,
    #[phase(end)]
    Found,
}

impl ReadingTransitions for Read {
    async fn look(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

struct Guarded {
    request: Read,
}

#[fom(operation(Guarded), around(Read), transient)]
enum Standard {
    #[phase(start, inner(request), to(Again))]
    Serve { phase: Reading },
    #[phase(inner(request))]
    Again { phase: Reading },
}

impl StandardTransitions for Guarded {
    async fn serve(&mut self, _: &mut Cx<'_, NoEvent>, _: &mut Reading) -> Result<(), BoxError> {
        Ok(())
    }
}

use fom_runtime::machine::NoEvent;

fn main() {}
