//! An `inner` phase has no time, attempts or events of its own.
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
    #[phase(start, to(Serve), on(Ack))]
    Authorise,
    #[phase(inner(request), within = "2s", hung = "1s", late, retry = "1, 1s..1s", exhausted, on(Ack), was = "Run", sync)]
    Serve { phase: Reading },
}

impl StandardTransitions for Guarded {
    async fn authorise(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

fn main() {}
