//! A layer without a phase of its own. No transition reaches its inner phase.
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
    #[phase(inner(request))]
    Serve { phase: Reading },
}

impl StandardTransitions for Guarded {}

fn main() {}
