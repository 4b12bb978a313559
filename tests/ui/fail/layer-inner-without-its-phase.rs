//! An `inner` phase without a field for the phase of the inner operation.
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
    #[phase(start, to(Serve))]
    Authorise,
    #[phase(inner(request))]
    Serve,
}

impl StandardTransitions for Guarded {
    async fn authorise(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

fn main() {}
