//! A layer that does not say where the phases of the inner operation stand.
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
    #[phase(start, to(Done))]
    Authorise,
    #[phase(end)]
    Done,
}

impl StandardTransitions for Guarded {
    async fn authorise(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

fn main() {}
