//! An `inner` phase without `around(..)`.
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

#[fom(operation(Guarded), transient)]
enum Standard {
    #[phase(start, to(Serve))]
    Authorise,
    #[phase(inner(request), to(Done))]
    Serve { phase: Reading },
    #[phase(end)]
    Done,
}

impl StandardTransitions for Guarded {
    async fn authorise(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    async fn serve(&mut self, _: &mut Cx<'_>, _: &mut Reading) -> Result<(), BoxError> {
        Ok(())
    }
}

fn main() {}
